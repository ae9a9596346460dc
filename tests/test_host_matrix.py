"""In which hosts a server works, in every format of check and validate."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from tests.cli import recordings
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.peers.fixtures import Peers
from tests.reports.test_sarif import faults
from tests.test_host_facts import recorded, same_day, tool
from tests.test_pins import SERVER

__all__ = ["mcpproxy", "same_day", "state_dir"]

HOSTS: Final = ("--hosts", "vscode,gemini-cli,opencode,cursor")

BARE: Final = tool("list", inputSchema={"type": "object", "properties": {"of": {"type": "array"}}})
TOOLS: Final = ([tool("files.read"), BARE], [tool("move")])

STATES: Final = {"vscode": "blocked", "gemini-cli": "degraded", "opencode": "works", "cursor": "unknown"}

TABLE: Final = """\
| host | works | degraded | blocked |
| --- | :---: | :---: | :---: |
| VS Code |  |  | x |
| Gemini CLI |  | x |  |
| opencode | x |  |  |
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recording of a server that meets facts about several hosts."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return recorded(tmp_path / "a.jsonl", "another", "1", *TOOLS)


@pytest.fixture
def server() -> tuple[str, ...]:
    """The arguments of validate for the same server."""
    said = json.dumps({"stateful": True, "pages": TOOLS})
    tested = ("-q", "--only", "tools", "--revision", "2025-11-25")
    return ("validate", *HOSTS, *tested, "--", sys.executable, "-c", SERVER, said)


def states(hosts: list[Mapping[str, Any]]) -> dict[str, str]:
    return {host["id"]: host["state"] for host in hosts}


def case(document: str, name: str) -> ElementTree.Element:
    [suite] = [each for each in ElementTree.fromstring(document) if each.get("name") == "hosts"]
    [found] = [each for each in suite.iter("testcase") if each.get("name") == name]
    return found


def formatted(command: tuple[str, ...], *options: str) -> tuple[str, ...]:
    return (command[0], *options, *command[1:])


@pytest.fixture(params=["check", "validate"])
def command(request: pytest.FixtureRequest, trace: str, server: tuple[str, ...]) -> tuple[str, ...]:
    return server if request.param == "validate" else ("check", *HOSTS, trace)


def test_json_has_the_matrix(mcpproxy: Mcpproxy, command: tuple[str, ...]) -> None:
    said = json.loads(mcpproxy(*formatted(command, "--format", "json")).out)
    assert states(said["hosts"]) == STATES


def test_sarif_has_the_matrix_and_a_result_for_each_reason(
    mcpproxy: Mcpproxy, command: tuple[str, ...], peers: Peers
) -> None:
    log = json.loads(mcpproxy(*formatted(command, "--format", "sarif")).out)
    assert faults(peers, log) == []
    [run] = log["runs"]
    assert states(run["properties"]["hosts"]) == STATES
    about = {
        (result["properties"]["host"], result["ruleId"], result["level"], result["properties"]["effect"])
        for result in run["results"]
        if result["ruleId"].startswith("HOST")
    }
    assert about == {
        ("vscode", "HOST-010", "warning", "refused"),
        ("gemini-cli", "HOST-007", "warning", "lost"),
        ("opencode", "HOST-002", "note", "changed"),
    }


def test_markdown_has_a_table_for_a_readme(mcpproxy: Mcpproxy, command: tuple[str, ...]) -> None:
    out = mcpproxy(*formatted(command, "--format", "markdown")).out
    assert TABLE in out
    assert "- **VS Code** blocked: HOST\\-010 refused\\: refuses the tools if an array in a schema" in out
    assert "- **opencode** works: HOST\\-002 changed\\: replaces other characters" in out
    assert "Nothing of this grade is known of Cursor" in out


def test_junit_has_a_case_for_each_host(mcpproxy: Mcpproxy, command: tuple[str, ...]) -> None:
    lenient = mcpproxy(*formatted(command, "--format", "junit"))
    assert [each.tag for each in case(lenient.out, "VS Code")] == []
    assert [each.tag for each in case(lenient.out, "Cursor")] == ["skipped"]
    assert "VS Code blocked: HOST-010 refused" in lenient.out
    strict = mcpproxy(*formatted(command, "--format", "junit", "--strict"))
    [failure] = case(strict.out, "Gemini CLI")
    assert (failure.tag, failure.get("type")) == ("failure", "degraded")
    assert (failure.get("message") or "").startswith("degraded: HOST-007 lost: reads the first page only")
    assert [each.tag for each in case(strict.out, "opencode")] == []
    assert (lenient.code, strict.code) == (0, 1)


def test_github_has_an_annotation_for_each_reason_and_the_table(
    mcpproxy: Mcpproxy, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    out = mcpproxy(*formatted(command, "--format", "github")).out
    assert "title=HOST-007 pages-unread-by-host::" in out
    assert "HOST        WORKS  DEGRADED  BLOCKED" in out
    assert TABLE in summary.read_text(encoding="utf-8")


def test_a_file_of_validate_has_the_matrix_too(
    mcpproxy: Mcpproxy, server: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "report.txt"
    mcpproxy(*formatted(server, "-o", str(path)))
    assert "HOST        WORKS  DEGRADED  BLOCKED\nVS Code                      x\n" in path.read_text()


def test_a_host_still_does_what_a_baseline_accepts(mcpproxy: Mcpproxy, trace: str, tmp_path: Path) -> None:
    accepted = ("--baseline", str(tmp_path / "baseline.json"))
    check = ("check", *HOSTS, trace, *accepted)
    mcpproxy(*check, "--write-baseline")
    said = json.loads(mcpproxy(*check, "--format", "json").out)
    assert states(said["hosts"]) == STATES
    known = {found["host"] for found in said["traces"][0]["known"] if found["rule"].startswith("HOST")}
    assert known == {"vscode", "gemini-cli", "opencode"}
    strict = mcpproxy(*check, "--format", "junit", "--strict")
    assert (strict.code, [each.tag for each in case(strict.out, "VS Code")]) == (0, [])


def test_no_host_works_because_there_are_too_many_findings(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    """A hundred findings of a cause are given in full; the first one about another host is one of them."""
    pages = [[{**BARE, "name": f"list{number}"}] for number in range(120)]
    items = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    schema = {"type": "object", "properties": {"of": {"type": "array", "items": items}}}
    union = tool("find", inputSchema=schema)
    trace = recorded(tmp_path / "a.jsonl", "another", "1", *pages, [union])
    hosts = ("--hosts", "vscode,gemini-api", "--hosts-grade", "thread")
    said = json.loads(mcpproxy("check", trace, *hosts, "--format", "json").out)
    assert states(said["hosts"]) == {"vscode": "blocked", "gemini-api": "blocked"}


def test_a_host_does_not_work_because_no_server_answered(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    silent = (*recordings.HANDSHAKE[:2], recordings.close(1, 0))
    trace = recordings.write(tmp_path / "t.jsonl", silent)
    said = mcpproxy("check", "--hosts", "codex", trace).out
    assert said.endswith(
        "\n\nNo server of MCP has answered in what was judged, so nothing can be said of hosts.\n"
    )
    assert "\n\n\n" not in said
    listed = json.loads(mcpproxy("check", "--hosts", "codex", "--json", trace).out)["hosts"]
    assert states(listed) == {"codex": "unknown"}
