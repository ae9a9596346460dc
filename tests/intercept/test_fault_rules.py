"""Rules of faults are read from TOML and from one line each; what cannot be used is one clear line."""

from pathlib import Path

import pytest

from mcpproxy.gate.intercept.fault_actions import FaultAction, FaultRuleError
from mcpproxy.gate.intercept.fault_rules import FaultRules, read_faults

FILE = """\
seed = 7

[[rule]]
name = "slow search"
match = "from:server tool:search*"
nth = "2-4"
do = {delay = "2s", jitter = "500ms"}

[[rule]]
match = "method:tools/list"
percentage = 20
limit = 5
do = {set = {"/result/tools/0/description" = "changed"}}
"""


def spec(text: str, transport: str = "stdio") -> FaultRules:
    return read_faults([], [text], transport, 7)


def test_a_file_and_a_line_give_the_same_rule(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(FILE)
    rules = read_faults([str(path)], [], "stdio")
    slow, changed = rules.rules
    assert (rules.seed, slow.name, changed.name) == (7, "slow search", "rule-2")
    assert slow.action == FaultAction("delay", delay_ns=2_000_000_000, jitter_ns=500_000_000)
    line = "from:server tool:search* => delay 2s, jitter 500ms, nth 2-4, name slow search"
    assert spec(line).rules == (slow,)
    line = 'method:tools/list => set {"/result/tools/0/description": "changed"}, 20%, limit 5'
    assert spec(line.replace("20%", "percentage 20%")).rules[0].action == changed.action


def test_the_digest_and_the_seed_are_those_of_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(FILE)
    rules = read_faults([str(path)], [], "stdio")
    assert rules.digest == read_faults([str(path)], [], "stdio").digest != spec("=> drop").digest
    assert read_faults([str(path)], [], "stdio", 8).seed == 8


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("drop everything", "--fault: 'drop everything' has no =>"),
        ("=> dorp", "--fault: there is no action dorp; do you mean drop?"),
        ("=> limit 3", "--fault: it does nothing; name one of delay, drop"),
        ("=> drop, duplicate", "--fault: drop and duplicate contradict each other; make two rules"),
        ("=> pause, delay 1s", '--fault: pause cannot be delayed; leave delay out, or write within = "2s"'),
        ("=> reorder, delay 1s", "--fault: reorder cannot be delayed; leave delay out"),
        ("=> join, delay 1s", "--fault: join cannot be delayed; leave delay out"),
        ("=> stall forever, delay 1s", "--fault: stall cannot be delayed; leave delay out, or write stall"),
        ("=> drop, jitter 1s", "--fault: jitter belongs to delay; leave it out"),
        ("=> delay 5", "--fault: delay = 5 is not a duration"),
        ("=> error -32000 no", "--fault: error -32000 no is a code and a text; write {code = "),
        ("=> drop, nth 3, every 2", "--fault: nth and every contradict each other"),
        ("=> drop, nth 0", "--fault: nth = '0': 0 names no message"),
        ("=> drop, percentage 120", "--fault: percentage = 120 is not in range"),
        ("=> drop, drop", "--fault: drop twice"),
        ("latency:>2s => drop", "--fault: match: latency: is about a whole call, not about one message"),
        ("kind:stderr => drop", "--fault: match: kind:stderr is no message"),
        ("from:clinet => drop", "--fault: match, column 6: 'clinet' is no from; do you mean client?"),
        ('=> set {"id": 1}', '--fault: "id" is not a JSON Pointer'),
        ('=> replace {"(": ""}', "--fault: replace: '(' cannot be read"),
        ("=> status 404", "faults: rule rule-1: status does not exist on stdio"),
        ("=> disconnect reset", "faults: rule rule-1: disconnect reset does not exist on stdio"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused(line: str, fact: str) -> None:
    with pytest.raises(FaultRuleError) as caught:
        spec(line)
    assert str(caught.value).startswith(fact)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "no rules; begin each with [[rule]]"),
        (b"rule = 3", "no rules; begin each with [[rule]]"),
        (b"\xff", "the file is not UTF-8"),
        (b"[[rule]", "not TOML ("),
        (b"seed = 'x'\n[[rule]]", 'seed = "x" is not a number'),
        (b"speed = 1", "there is no speed; a file has about, seed and [[rule]]"),
        (b"\n[[rule]]\nname = 'a'\nmtch = 'x'\n", ":2: rule a: a rule has no mtch; do you mean match?"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, content: bytes, fact: str
) -> None:
    path = tmp_path / "faults.toml"
    path.write_bytes(content)
    with pytest.raises(FaultRuleError) as caught:
        read_faults([str(path)], [], "stdio")
    assert str(caught.value).removeprefix(str(path)).removeprefix(": ").startswith(fact)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FaultRuleError, match=r"none.toml: cannot be read \(No such file or directory\)"):
        read_faults([str(tmp_path / "none.toml")], [], "stdio")


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("=> kill", "rule rule-1: kill does not exist on http"),
        ("=> disconnect half-close", "rule rule-1: disconnect half-close does not exist on http"),
        ("from:server => lose-session", "rule rule-1: lose-session is not for what the server sends"),
        ("from:client => cut", "rule rule-1: cut is not for what the client sends"),
        ("kind:http => error", "rule rule-1: error needs a message, and kind:http has none"),
        ('=> set-header {"A": 1}', "set-header: A is not a header"),
        ("=> drop-header 7", "drop-header = \\[7\\] names no header"),
        ("=> drop-header Accept, of both", 'of = "both" is not known'),
    ],
)
def test_what_http_does_not_have_is_refused(line: str, fact: str) -> None:
    with pytest.raises(FaultRuleError, match=fact):
        spec(line, "http")


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(FaultRuleError, match="two rules have the name a"):
        read_faults([], ["=> drop, name a", "=> drop, name a"], "stdio")
