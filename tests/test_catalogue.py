"""The rule tables that ship with mcpproxy: complete, consistent, and in step with the checks."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

import mcpproxy
from mcpproxy.cli.main import main
from mcpproxy.judge.checks.acp import turns
from mcpproxy.judge.checks.basic import unanswered, unanswered_initialize
from mcpproxy.judge.checks.engine.context import GRACE_NS
from mcpproxy.judge.checks.hosts.facts import HostChoice
from mcpproxy.judge.checks.hosts.family import host_checks
from mcpproxy.judge.checks.opt_in.implementations import range_checks
from mcpproxy.judge.checks.opt_in.pins import Approved, pin_checks
from mcpproxy.judge.checks.server import tools
from mcpproxy.judge.checks.transports import sessions, stdio, streams
from mcpproxy.judge.checks.utilities import after_cancellation, progress, task_polls
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue, host_facts
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.session.frame import Close, Finding, Frame
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL
from mcpproxy.protocol.rules import Catalogue, Requirement, Rule, RuleError
from mcpproxy.read.reports.version_ranges import compiled
from tests.every import every
from tests.rules.runner import decided_rules

BUILT_IN: Final = catalogue.load()
HOSTS: Final = host_facts.load(date(2026, 11, 29))
RULES: Final = [pytest.param(rule, id=code) for code, rule in BUILT_IN.rules.items()]
REQUIREMENTS: Final = [pytest.param(row, id=key) for key, row in BUILT_IN.requirements.items()]

WIRE_ALONE: Final = [
    pytest.param(rule, id=code) for code, rule in BUILT_IN.rules.items() if ": (" not in rule.example
]
"""Rules whose example is messages and nothing else: no passing time, no signal."""

CODE: Final = re.compile(r"([A-Z]+)-\d{3}")
REQUIREMENT_ID: Final = re.compile(r"[ADRX]-\d{3}")
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SOURCE: Final = re.compile(
    r"https://(modelcontextprotocol\.io/specification/(?P<revision>[\d-]+)/"
    r"|github\.com/modelcontextprotocol/|www\.jsonrpc\.org/|(html|fetch)\.spec\.whatwg\.org/|www\.rfc-editor\.org/"
    r"|agentclientprotocol\.com/protocol/v\d/|www\.unicode\.org/reports/|cwe\.mitre\.org/data/)\S+"
)

NOT_JSON: Final = {"RPC-001", "RPC-021", "STDIO-001", "STDIO-002", "STDIO-003"}
"""Rules about lines that are no JSON; their examples show one."""

Table = dict[str, Any]


def is_permission(rule: Rule) -> bool:
    return all(word == "MAY" for row in rule.requirements for word in row.keywords.values())


# The tables by themselves


def test_every_file_holds_its_own_family_in_order() -> None:
    for file in Path(catalogue.rules_folder()).glob("*.toml"):
        codes = list(tomllib.loads(file.read_text(encoding="utf-8")))
        families = {found[1] for code in codes if (found := CODE.fullmatch(code))}
        assert families == {file.stem.upper()}, file.name
        assert codes == sorted(codes), file.name
        assert all(CODE.fullmatch(code) for code in codes), file.name


def test_names_are_unique() -> None:
    names = [rule.name for rule in BUILT_IN.rules.values()]
    assert sorted(names) == sorted(set(names))


@every("rule", RULES)
def test_a_name_says_what_goes_wrong(rule: Rule) -> None:
    """It is read after the word "allow", so it denies nothing."""
    assert NAME.fullmatch(rule.name)
    assert not rule.name.startswith(("no-", "not-", "must-", "never-", "disallow-"))


@every("rule", RULES)
def test_prose_is_whole_sentences_on_one_line(rule: Rule) -> None:
    for prose in (rule.summary, rule.why, rule.instead, *(row.text for row in rule.requirements)):
        assert prose.endswith("."), prose
        assert "\n" not in prose, prose
        assert "  " not in prose, prose


@every("row", REQUIREMENTS)
def test_a_requirement_holds_somewhere_and_says_where_it_stands(row: Requirement) -> None:
    assert REQUIREMENT_ID.fullmatch(row.id)
    assert row.keywords
    assert row.sources.keys() == row.keywords.keys()
    for url in row.sources.values():
        found = SOURCE.fullmatch(url)
        assert found, url
        assert found["revision"] in (None, *REVISIONS), url


def test_a_repeated_requirement_is_the_same_everywhere() -> None:
    first: dict[str, Requirement] = {}
    for row in BUILT_IN.requirements.values():
        other = first.setdefault(row.id, row)
        assert (row.text, row.blame) == (other.text, other.blame), row.id
        assert (row.keywords, row.sources) == (other.keywords, other.sources), row.id


# The examples


def wire(rule: Rule) -> Iterator[tuple[str, str]]:
    """Who sends what, line by line. A text in parentheses tells what happens instead of a message."""
    for line in rule.example.splitlines():
        sender, found, text = line.partition(": ")
        assert found, line
        assert sender in ("client", "server"), line
        yield sender, text


def refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


@every("rule", RULES)
def test_an_example_is_json_unless_the_rule_is_about_json(rule: Rule) -> None:
    messages = [text for _, text in wire(rule) if not text.startswith("(")]
    assert all(map(is_json, messages)) == (rule.code not in NOT_JSON)


def judged(rule: Rule, revision: str | None) -> list[Finding]:
    """What the judge says about the example, alone or in a session that speaks ``revision``."""
    read: JSONObject = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}
    families = {
        "VER": range_checks(compiled("", {"any": {"files": ">=1"}})),
        "HOST": host_checks(HostChoice(tuple((host, "") for host in HOSTS), HOSTS, "thread")),
        "PIN": pin_checks({"files": Approved(("2025-11-25",), None, {"read": read})}),
    }
    more = [family for name, family in families.items() if rule.code.startswith(name)]
    observer = Observer(BUILT_IN, Ruleset(BUILT_IN).extended({rule.code}, more).dispatch, revision=revision)
    found: list[Finding] = []
    for seq, (sender, text) in enumerate(wire(rule), start=1):
        raw = text.replace(r"\xEF\xBB\xBF", "\N{ZERO WIDTH NO-BREAK SPACE}").encode()
        found += observer.observe(Frame(seq, "client" if sender == "client" else "server", raw, seq))
    return found + observer.observe(Close("exited", 0, observed_at_ns=1_000))


@every("rule", WIRE_ALONE)
def test_an_example_breaks_its_rule(rule: Rule) -> None:
    alone, within = judged(rule, None), judged(rule, STATEFUL[-1])
    if is_permission(rule):
        assert alone == []
    else:
        assert rule.code in {finding.rule for finding in alone + within}


# The tables and the checks


def sources_of_checks() -> Iterator[ast.Module]:
    package = Path(mcpproxy.__file__).parent
    tables = (package / "protocol/lifecycle.py", package / "protocol/task_lifecycle.py")
    for file in (*package.glob("judge/checks/**/*.py"), *tables):
        yield ast.parse(file.read_text(encoding="utf-8"), str(file))


def texts(nodes: list[ast.expr]) -> tuple[str, ...]:
    """The leading string constants among ``nodes``."""
    found: list[str] = []
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            break
        found.append(node.value)
    return tuple(found)


def pairs_in(module: ast.Module) -> set[tuple[str, str]]:
    """Every (rule, requirement) that a module of checks can report.

    Written as ``Violation("RPC-001", "R-001", ...)`` or as a tuple. Where only the rule is written into
    the call, each requirement that stands loose in the module is taken for one of that rule.
    """
    pairs: set[tuple[str, str]] = set()
    open_rules: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Tuple):
            found = texts(node.elts)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Violation":
            found = texts(node.args)
        else:
            continue
        match found:
            case (rule, requirement, *_) if CODE.fullmatch(rule) and REQUIREMENT_ID.fullmatch(requirement):
                pairs.add((rule, requirement))
            case (rule,) if isinstance(node, ast.Call):
                open_rules.add(rule)
            case _:
                pass
    constants = {node.value for node in ast.walk(module) if isinstance(node, ast.Constant)}
    loose = {text for text in constants if isinstance(text, str) and REQUIREMENT_ID.fullmatch(text)}
    loose -= {requirement for _, requirement in pairs}
    return pairs | {(rule, requirement) for rule in open_rules for requirement in loose}


@cache
def reported() -> frozenset[tuple[str, str]]:
    """What all checks can report; read by the worker that asks, not by each that collects."""
    return frozenset(pair for module in sources_of_checks() for pair in pairs_in(module))


def test_the_checks_report_only_what_the_tables_hold() -> None:
    assert len(reported()) > 50
    assert {f"{rule}/{requirement}" for rule, requirement in reported()} <= BUILT_IN.requirements.keys()


def test_every_rule_that_a_check_decides_is_in_the_catalogue() -> None:
    assert decided_rules() <= BUILT_IN.rules.keys()


def test_an_opt_in_rule_that_is_wanted_alone_has_its_checks() -> None:
    opt_in = {code for code in decided_rules() if BUILT_IN.rules[code].opt_in}
    assert opt_in == {code for code in opt_in if code in Ruleset(BUILT_IN).extended({code}).dispatch.rules}


@every("rule", RULES)
def test_a_rule_without_a_check_is_a_permission_or_says_why(rule: Rule) -> None:
    unobservable = all(row.unobservable for row in rule.requirements)
    assert (rule.code in decided_rules()) != (is_permission(rule) or unobservable)


@every("row", REQUIREMENTS)
def test_a_requirement_is_reported_or_permits_or_says_why_not(row: Requirement) -> None:
    permits = set(row.keywords.values()) == {"MAY"}
    assert ((row.rule, row.id) in reported()) != (permits or bool(row.unobservable))


# What a table may look like

GOOD: Final[Table] = {
    "name": "loud-peer",
    "summary": "A peer shouts.",
    "why": "It wakes the others.",
    "example": 'client: {"jsonrpc": "2.0", "method": "SHOUT"}',
    "instead": "Speak.",
    "requirements": {
        "R-900": {
            "text": "Peers speak softly.",
            "blame": "either",
            "keyword": {"2025-03-26": "SHOULD", "2025-11-25": "MUST"},
            "until": "2026-07-28",
            "source": {
                "2024-11-05": "basic/voice#volume",
                "2025-06-18": "https://www.jsonrpc.org/{revision}",
            },
        }
    },
}


def test_steps_reach_from_their_revision_to_the_next() -> None:
    (row,) = Catalogue.from_tables({"LOUD-001": GOOD}).rules["LOUD-001"].requirements
    assert row.keywords == {"2025-03-26": "SHOULD", "2025-06-18": "SHOULD", "2025-11-25": "MUST"}
    assert row.sources == {
        "2025-03-26": "https://modelcontextprotocol.io/specification/2025-03-26/basic/voice#volume",
        "2025-06-18": "https://www.jsonrpc.org/2025-06-18",
        "2025-11-25": "https://www.jsonrpc.org/2025-11-25",
    }


@pytest.mark.parametrize(
    ("candidates", "level"),
    [
        (("2025-06-18",), "warning"),
        (("2025-11-25",), "error"),
        (("2025-06-18", "2025-11-25"), "warning"),  # the mildest that may be meant
        (("2024-11-05", "2025-11-25"), None),  # one of them asks nothing
        (("2026-07-28",), None),
        ((), None),
    ],
)
def test_severity_follows_the_keyword_and_the_revision(
    candidates: tuple[str, ...], level: str | None
) -> None:
    (row,) = Catalogue.from_tables({"LOUD-001": GOOD}).rules["LOUD-001"].requirements
    assert row.severity(candidates) == level


def rule_with(**members: object) -> Table:
    return {**deepcopy(GOOD), **members}


def requirement_with(**members: object) -> Table:
    table = deepcopy(GOOD)
    table["requirements"]["R-900"].update(members)
    return table


BROKEN: Final = [
    ("LOUD-001: a table is needed", "no table"),
    ("LOUD-001: unknown member 'colour'", rule_with(colour="red")),
    ("LOUD-001: name is missing or empty", rule_with(name=None)),
    ("LOUD-001: why is missing or empty", rule_with(why="  ")),
    ("LOUD-001: example is missing or empty", rule_with(example=3)),
    ("LOUD-001: a table is needed", rule_with(requirements=["R-900"])),
    ("LOUD-001: no requirements", rule_with(requirements={})),
    ("R-900: a table is needed", rule_with(requirements={"R-900": "softly"})),
    ("LOUD-001 R-900: unknown member 'colour'", requirement_with(colour="red")),
    ("LOUD-001 R-900: text is missing or empty", requirement_with(text="")),
    ("LOUD-001 R-900: blame is client, server or either, not 'proxy'", requirement_with(blame="proxy")),
    ("LOUD-001 R-900: keyword: a table is needed", requirement_with(keyword=["MUST"])),
    ("LOUD-001 R-900: keyword is one of MUST, ", requirement_with(keyword="SHALL")),
    ("LOUD-001 R-900: keyword is one of MUST, ", requirement_with(keyword={"2024-11-05": "must"})),
    (
        "LOUD-001 R-900: '2025-01-01' is not a published revision",
        requirement_with(keyword={"2025-01-01": "MUST"}),
    ),
    ("LOUD-001 R-900: '2025' is not a published revision", requirement_with(keyword="MUST", since="2025")),
    ("LOUD-001 R-900: until is not a published revision", requirement_with(until="draft")),
    (
        "LOUD-001 R-900: '2025-01-01' is not a published revision",
        requirement_with(source={"2025-01-01": "basic"}),
    ),
    ("LOUD-001 R-900: '2024-11-05' is not a published revision", requirement_with(source={"2024-11-05": 3})),
    ("LOUD-001 R-900: no source for 2025-03-26", requirement_with(source={"2025-06-18": "schema#tool"})),
    ("LOUD-001 R-900: source: a table is needed", requirement_with(source=None)),
]


@pytest.mark.parametrize(("complaint", "table"), BROKEN)
def test_a_broken_table_is_refused_and_named(complaint: str, table: object) -> None:
    with pytest.raises(RuleError, match=f"^{re.escape(complaint)}"):
        Catalogue.from_tables({"LOUD-001": table})


def test_a_rule_stands_in_the_table_of_its_family(tmp_path: Path) -> None:
    (tmp_path / "noise.toml").write_text("[LOUD-001]\n", encoding="utf-8")
    with pytest.raises(RuleError, match=r"^noise\.toml: rule LOUD-001 belongs in another table$"):
        list(catalogue.read(str(tmp_path)).rules)


def test_a_table_is_read_when_its_family_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "proto.toml").write_text(
        Path(catalogue.rules_folder(), "proto.toml").read_text("utf-8"), "utf-8"
    )
    (tmp_path / "loud.toml").write_text("[", encoding="utf-8")
    found = catalogue.read(str(tmp_path))
    assert found.rules["PROTO-007"].name == BUILT_IN.rules["PROTO-007"].name
    assert "QUIET-001" not in found.rules
    with pytest.raises(RuleError, match=r"loud\.toml: not readable as TOML: .*; .* install it again$"):
        found.rules["LOUD-001"]


def test_a_folder_without_tables_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"gone: No such file or directory; .* install it again$"):
        list(catalogue.read(str(tmp_path / "gone")).rules)


@pytest.mark.parametrize("command", [["rules"], ["explain", "PROTO-007"]])
def test_a_damaged_table_is_one_line_on_stderr(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proto.toml").write_text('["PROTO-007"]\nname = "half"\n', encoding="utf-8")
    broken = catalogue.read(str(tmp_path))
    monkeypatch.setattr(catalogue, "load", lambda: broken)
    assert main(command) == 2
    assert capsys.readouterr().err == "mcpproxy: PROTO-007: summary is missing or empty\n"


def test_the_catalogue_says_what_the_tables_say() -> None:
    assert dict(BUILT_IN.rules) == {
        code: rule
        for file in Path(catalogue.rules_folder()).glob("*.toml")
        for code, rule in parsed(file).rules.items()
    }


def test_a_table_in_another_form_is_read(tmp_path: Path) -> None:
    text = Path(catalogue.rules_folder(), "ver.toml").read_text("utf-8")
    (tmp_path / "ver.toml").write_bytes(text.replace("\n", "\r\n").replace(" = ", "\t=\t").encode())
    assert dict(catalogue.read(str(tmp_path)).rules).keys() == {r for r in BUILT_IN.rules if r[:4] == "VER-"}


def parsed(file: Path) -> Catalogue:
    with file.open("rb") as opened:
        return Catalogue.from_tables(tomllib.load(opened))


# Where they ship


def test_a_wheel_has_the_tables_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((Path(catalogue.rules_folder()).parent / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "hooks" not in wheel  # they would run, and fail, before pip can say which Python is needed
    monkeypatch.setattr(catalogue, "_PACKAGE", str(tmp_path / "mcpproxy"))
    assert catalogue.rules_folder() == str(tmp_path / "rules")
    installed = tmp_path / wheel["force-include"]["rules"]
    installed.mkdir(parents=True)
    assert catalogue.rules_folder() == str(installed)


GRACE: Final = (
    ("ACP-008", turns.CROSSING_NS, "within a second"),
    ("CANC-002", GRACE_NS, "within 5 seconds"),
    ("CANC-005", GRACE_NS, "within 5 seconds"),
    ("CANC-010", after_cancellation.READ_NS, "a tenth of a second"),
    ("HTTP-014", streams.LINGERING_NS, "10 seconds"),
    ("LIFE-004", unanswered.ANSWER_TIMEOUT_NS, "30 seconds"),
    ("PROG-005", progress.RACE_NS, "within 1 second"),
    ("PROTO-010", sessions.MIN_ID_BYTES, "fewer than 8 bytes"),
    ("PROTO-010", sessions.IN_FLIGHT_NS, "within 1 second"),
    ("PROTO-010", sessions.ABANDONED_NS, "after 10 minutes"),
    ("RES-006", GRACE_NS, "within 5 seconds"),
    ("RPC-008", after_cancellation.GIVEN_UP_NS, "30 seconds"),
    ("SEQ-001", unanswered_initialize.INITIALIZE_TIMEOUT_NS, "10 seconds"),
    ("SEQ-001", unanswered_initialize.IMPATIENCE_NS, "2 seconds"),
    ("SSE-006", streams.EARLY_NS, "50 milliseconds"),
    ("STDIO-005", stdio.PROMPT_EXIT_NS, "within 5 seconds"),
    ("SUB-003", unanswered.ANSWER_TIMEOUT_NS, "30 seconds"),
    ("SUB-010", GRACE_NS, "within 5 seconds"),
    ("TASK-014", task_polls.EARLY_NS, "50 milliseconds"),
    ("TOOL-011", tools.SOON_NS, "5 seconds"),
)
"""How much each rule tolerates, mostly in nanoseconds, and how its text says so."""


UNITS: Final = {
    "byte": 1, "millisecond": 1_000_000, "second": 1_000_000_000, "minute": 60_000_000_000,
}  # fmt: skip


@pytest.mark.parametrize(("code", "tolerance", "words"), GRACE)
def test_a_rule_that_tolerates_something_says_how_much(code: str, tolerance: int, words: str) -> None:
    assert words in BUILT_IN.rules[code].why
    *_, number, unit = words.replace("tenth of a", "0.1").replace("within a ", "within 1 ").split()
    assert tolerance == float(number) * UNITS[unit.removesuffix("s")]
