"""``mcpproxy rules`` and ``mcpproxy explain``: the catalogue, as a table and page by page."""

import json
from types import ModuleType

import pytest

from mcpproxy.cli.commands import rules, versions
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.protocol.revisions import REVISIONS, STATELESS, VERSIONS
from tests.cli.catalogues import SMALL
from tests.cli.conftest import Mcpproxy
from tests.peers.processes import ROOT


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "load", lambda: SMALL)


def across(*levels: str) -> str:
    """The cells of a row of the table: a level for each revision, the last one for all that follow."""
    cells = [*levels, *levels[-1:] * (len(REVISIONS) - len(levels))]
    return "  ".join(f"{cell:10}" for cell in cells).rstrip()


@pytest.mark.usefixtures("small")
def test_rules_are_a_table_of_levels(mcpproxy: Mcpproxy) -> None:
    assert mcpproxy("rules").out.splitlines() == [
        f"RULE        NAME                       {'  '.join(REVISIONS)}",
        f"PROTO-007   response-id-mismatch       {across('error')}",
        f"PROTO-009   undeclared-capability      {across('warning', 'warning', 'error', 'error', '-')}",
        f"SCHEMA-003  object-without-properties  {across('info')}",
        "",
        "3 rules. What one means: mcpproxy explain PROTO-007",
    ]


@pytest.mark.usefixtures("small")
def test_rules_of_one_family(mcpproxy: Mcpproxy) -> None:
    listed = mcpproxy("rules", "--family", "schema").out
    assert [line.split()[0] for line in listed.splitlines()[1:2]] == ["SCHEMA-003"]
    assert "1 rule." in listed


@pytest.mark.usefixtures("small")
def test_rules_as_json(mcpproxy: Mcpproxy) -> None:
    rules = json.loads(mcpproxy("rules", "--format", "json").out)["rules"]
    assert [rule["code"] for rule in rules] == ["PROTO-007", "PROTO-009", "SCHEMA-003"]
    levels = {"2024-11-05": "warning", "2025-03-26": "warning", "2025-06-18": "error", "2025-11-25": "error"}
    assert rules[1]["levels"] == dict.fromkeys(VERSIONS) | levels
    assert rules[1]["requirements"][0]["id"] == "R-044"
    assert rules[0]["requirements"][0]["sources"]["2025-11-25"].endswith("/2025-11-25/basic/index#responses")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "named", ["PROTO-009", "proto-009", "undeclared-capability", "Undeclared-Capability"]
)
def test_explain_takes_codes_and_names(mcpproxy: Mcpproxy, named: str) -> None:
    stateless = " to ".join(dict.fromkeys((STATELESS[0], STATELESS[-1])))
    assert mcpproxy("explain", named).out.splitlines() == [
        "PROTO-009 undeclared-capability",
        "",
        "  The summary of undeclared-capability.",
        "",
        "Levels",
        "  2024-11-05 to 2025-03-26  warning  (SHOULD)",
        "  2025-06-18 to 2025-11-25  error    (MUST)",
        f"  {stateless:24}  does not apply",
        "",
        "Why it matters",
        "  The why of undeclared-capability.",
        "",
        "Breaks it",
        '  {"breaks":"undeclared-capability"}',
        "",
        "Do instead",
        "  The instead of undeclared-capability.",
        "",
        "Rests on",
        "  R-044 (binds the client): Only declared features are used.",
        "    https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#operation",
        "    https://modelcontextprotocol.io/specification/2025-06-18/basic/lifecycle#operation",
        "    https://modelcontextprotocol.io/specification/2025-03-26/basic/lifecycle#operation",
        "    https://modelcontextprotocol.io/specification/2024-11-05/basic/lifecycle#operation",
    ]


@pytest.mark.usefixtures("small")
def test_explain_says_what_nobody_can_check(mcpproxy: Mcpproxy) -> None:
    assert mcpproxy("explain", "SCHEMA-003").out.splitlines()[-4:] == [
        "    https://example.test/2024-11-05/tools",
        "  R-999 (binds both peers): Nobody wonders about it.",
        "    Not checked: wondering leaves no trace on the wire",
        "    https://example.test/wonder",
    ]


def test_a_long_message_of_an_example_is_laid_out(
    mcpproxy: Mcpproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = mcpproxy("explain", "ERR-002").out.splitlines()
    example = lines[lines.index("Breaks it") + 1 : lines.index("Do instead") - 1]
    assert max(map(len, example)) <= 96
    first = example.index("  client:")
    end = example.index("    }", first)
    request = json.loads("".join(example[first + 1 : end + 1]))
    assert request["method"] == "ping"


def test_every_rule_that_ships_can_be_explained(mcpproxy: Mcpproxy) -> None:
    codes = sorted(catalogue.load().rules)
    assert codes
    explained = mcpproxy("explain", *codes)
    assert explained.code == 0
    for code in codes:
        assert f"{code} {catalogue.load().rules[code].name}\n" in explained.out


UNKNOWN = {
    "a mistyped code": (
        ["explain", "PROTO-07"],
        "'PROTO-07' is neither a rule nor a family of rules; did you mean PROTO-007?",
    ),
    "a mistyped name": (["explain", "response-id-missmatch"], "did you mean response-id-mismatch?"),
    "nothing near": (["explain", "%%%"], "see mcpproxy rules"),
    "a rule of one's own": (["explain", "HOUSE-001"], "(for a rule of your own: --rules DIR)"),
    "a family": (["explain", "PROTO"], "PROTO is a family of rules; see mcpproxy rules --family PROTO"),
    "an unknown family": (["rules", "--family", "SCHEME"], "did you mean SCHEMA?"),
    "an unknown format": (["rules", "--format", "xml"], "invalid choice: 'xml'"),
    "no rule at all": (["explain"], "nothing recorded yet; name a rule"),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("argv", "expected"), UNKNOWN.values(), ids=UNKNOWN)
def test_refuses_what_is_no_rule(mcpproxy: Mcpproxy, argv: list[str], expected: str) -> None:
    refused = mcpproxy(*argv)
    assert (refused.code, refused.out) == (2, "")
    assert expected in refused.err
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("command", [("rules",), ("versions", "recordings"), ("stats", "recordings")])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_tables_are_as_wide_as_the_terminal(
    mcpproxy: Mcpproxy, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], width: int
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", str(width))
    lines = mcpproxy(*command).out.splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("command", "module"), [(("rules",), rules), (("versions", "recordings"), versions)])
def test_tables_of_more_revisions_are_as_wide_as_the_terminal(
    mcpproxy: Mcpproxy, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], module: ModuleType
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(module, "REVISIONS", (*REVISIONS, "2027-06-30", "2028-06-30"))
    lines = mcpproxy(*command).out.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].endswith("2028-06")
