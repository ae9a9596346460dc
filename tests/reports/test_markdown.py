"""The table of a summary page."""

from typing import Final

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding
from mcpproxy.read.reports import markdown
from mcpproxy.read.reports.located import Located, Remark

KNOWN: Final = catalogue.load()
SOURCE: Final = "https://example.test/spec(1)#ids"


def a(frame: int, rule: str = "PROTO-007", message: str = "wrong id", *, known: bool = False) -> Located:
    severity = "warning" if rule == "PROTO-006" else "error"
    finding = Finding(rule, severity, "server", message, frame, source=SOURCE)
    return Located(finding, "t.jsonl", frame + 1, is_known=known)


def table(*found: Located) -> list[str]:
    return [line for line in markdown.lines("h", found, (), KNOWN) if line.startswith("|")]


def test_a_row_for_each_rule_the_worst_first() -> None:
    assert table(a(3, "PROTO-006", "unknown"), a(5), a(9), a(11, known=True)) == [
        "| severity | rule | who | count | first | what |",
        "| --- | --- | --- | ---: | --- | --- |",
        r"| error | [PROTO\-007 mismatched\-response\-id](https://example.test/spec%281%29#ids) | server | 2 "
        r"| frame 5\, t\.jsonl\:6 | wrong id |",
        r"| warning | [PROTO\-006 unknown\-notification](https://example.test/spec%281%29#ids) | server | 1 "
        r"| frame 3\, t\.jsonl\:4 | unknown |",
    ]


def test_a_path_of_this_machine_is_not_told() -> None:
    finding = Finding("PROTO-007", "error", "server", "wrong id", 7, source=SOURCE)
    (row,) = table(Located(finding, "/home/me/state/session-2.jsonl", 0))[2:]
    assert r"| frame 7\, session\-2 |" in row
    remark = Remark("/home/me/state/session-2.jsonl", "cut off")
    assert r"- session\-2: **incomplete recording**: cut off" in list(
        markdown.lines("h", (), (remark,), KNOWN)
    )


def test_what_a_peer_wrote_stays_text() -> None:
    said = "|x| <img src=y> [a](http://b) `c` **d**\n# e \x1b[2J"
    (row,) = table(a(1, message=said))[2:]
    cell = row.rpartition(" | ")[2].removesuffix(" |")
    assert cell == (r"\|x\| \<img src\=y\> \[a\]\(http\:\/\/b\) \`c\` \*\*d\*\*\\n\# e \\u001b\[2J")


def test_a_long_message_is_cut() -> None:
    (row,) = table(a(1, message="x" * 5000))[2:]
    assert len(row) < 400


def test_what_else_there_is_to_say() -> None:
    remarks = (Remark("t.jsonl", "cut off"), Remark("u.jsonl", "no such file", "not judged"))
    assert list(markdown.lines("2 errors", (a(1, known=True),), remarks, KNOWN)) == [
        "## 2 errors",
        "",
        r"- t\.jsonl: **incomplete recording**: cut off",
        r"- u\.jsonl: **not judged**: no such file",
        "",
        "1 finding of the baseline is not listed.",
        "",
    ]
