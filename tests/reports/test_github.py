"""Annotations, letter by letter."""

from pathlib import Path
from typing import Final

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Finding, Severity
from mcpproxy.read.reports import github
from mcpproxy.read.reports.located import Located, Remark
from tests.reports.sessions import located, session

KNOWN: Final = catalogue.load()


def test_each_finding_is_a_command(tmp_path: Path) -> None:
    folder = tmp_path / "a,b: 100%"
    folder.mkdir()
    spec = "https://modelcontextprotocol.io/specification/2025-11-25"
    list_, call = (
        f"::error file=a%2Cb%3A 100%25/t.jsonl,line={line},title={title}::"
        for line, title in ((6, "SCHEMA-004 malformed-required"), (8, "PROTO-007 mismatched-response-id"))
    )
    required = 'required should be an array of strings, is "a"'
    found = located(folder / "t.jsonl", session())
    assert list(github.lines(found, (), KNOWN, base=str(tmp_path))) == [
        f'{list_}frame 5: in the inputSchema of tool "add", {required}%0A{spec}/basic#schema-validation',
        f'{list_}frame 5: in the inputSchema of tool "sub", {required}%0A{spec}/basic#schema-validation',
        f'{call}frame 7: server answered with string "3"; the request in frame 6 (tools/call) used number 3'
        f"%0A{spec}/basic#responses",
    ]


def a(rule: str, severity: Severity, message: str = "m", *, known: bool = False) -> Located:
    return Located(Finding(rule, severity, "server", message, 4), "t.jsonl", 5, (), rule, is_known=known)


def test_the_worst_come_first_for_github_shows_ten_of_a_kind() -> None:
    found = (a("X-1", "info"), a("X-2", "warning"), a("X-3", "error"))
    kinds = [line.split()[0] for line in github.lines(found, (), KNOWN, base="")]
    assert kinds == ["::error", "::warning", "::notice"]


def test_findings_of_rules_come_before_the_checks_that_failed_for_them() -> None:
    found = (a("list-tools", "error"), a("X-1", "warning"), a("PROTO-007", "error"))
    titles = [line.split("title=")[1].split()[0] for line in github.lines(found, (), KNOWN, base="")]
    assert [title.split("::")[0] for title in titles] == ["PROTO-007", "list-tools", "X-1"]


def test_what_comes_up_again_is_one_annotation_and_what_is_known_none() -> None:
    found = (
        a("X-1", "error"),
        a("X-1", "error"),
        a("X-1", "error", known=True),
        a("X-2", "error", known=True),
    )
    assert list(github.lines(found, (), KNOWN, base=str(Path.cwd()))) == [
        "::error file=t.jsonl,line=5,title=X-1::frame 4: m (2 times)"
    ]


def test_nothing_that_a_peer_says_ends_a_command() -> None:
    said = "50%\r\n::error::forged\n##[error]forged"
    (line,) = github.lines((a("X-1", "error", said),), (), KNOWN, base=str(Path.cwd()))
    assert line.endswith("::frame 4: 50%25\\r\\n::error::forged\\n##[error]forged")
    assert "\n" not in line


def test_no_file_is_named_that_is_not_in_the_repository(tmp_path: Path) -> None:
    outside = Located(Finding("X-1", "error", "server", "m", 4), str(tmp_path / "a" / "s-3.jsonl"), 5)
    session = Located(Finding("X-2", "error", "server", "m", 0), str(tmp_path / "b" / "s-4.jsonl"), 1)
    remark = Remark(outside.path, "cut off")
    told = [
        "::error title=X-1::frame 4 of s-3: m",
        "::error title=X-2::s-4: m",
        "::warning title=incomplete recording::cut off",
    ]
    assert list(github.lines((outside, session), (remark,), KNOWN, base=str(tmp_path / "b"))) == [
        told[0],
        "::error file=s-4.jsonl,line=1,title=X-2::m",
        told[2],
    ]
    assert list(github.lines((outside, session), (remark,), KNOWN, base=None)) == told


def test_what_recordings_lack_is_told() -> None:
    remarks = (Remark("t.jsonl", "cut off"), Remark("u.jsonl", "no such file", "not judged"))
    assert list(github.lines((), remarks, KNOWN, base=str(Path.cwd()))) == [
        "::warning file=t.jsonl,title=incomplete recording::cut off",
        "::error file=u.jsonl,title=not judged::no such file",
    ]
