"""What is known of hosts, as tables, and what ``check --hosts`` says of a server by them."""

import json
import re
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.errors import UsageError
from mcpproxy.hosts.host_table import all_hosts
from mcpproxy.judge.checks.hosts.facts import HostChoice
from mcpproxy.judge.ruleset import host_choice, host_facts
from mcpproxy.judge.ruleset.host_choice import chosen
from mcpproxy.protocol.rules import RuleError
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.test_pins import SERVER

__all__ = ["mcpproxy", "state_dir"]

TODAY: Final = date(2026, 11, 29)
HOSTS: Final = {host.id: host for host in host_facts.load(TODAY)}

TABLE: Final = """\
name = "Host"
clients = ["host-client"]

[[fact]]
kind = "pages"
lists = ["tools/list"]
says = "reads the first page only"
effect = "lost"
versions = ">=1.2,<=1.4"
seen = "1.4"
grade = "measured"
source = "a run"
date = 2026-11-27
"""


SCHEMA: Final = {"type": "object", "properties": {"path": {"type": "string"}}}


def tool(name: str, **members: object) -> dict[str, Any]:
    return {"name": name, "description": "Read a file.", "inputSchema": SCHEMA, **members}


def recorded(path: Path, client: str, version: str, *pages: list[dict[str, Any]], reads: int = 0) -> str:
    """Write a recording in which a client reads all pages of tools, or the first ``reads``."""
    opening = json.loads(recordings.INITIALIZE)
    opening["params"]["clientInfo"] = {"name": client, "version": version}
    said: list[tuple[str, dict[str, Any]]] = [
        ("client", opening),
        ("server", json.loads(recordings.INITIALIZED)),
        ("client", json.loads(recordings.READY)),
    ]
    for at, page in enumerate(pages[: reads or len(pages)]):
        params = {"params": {"cursor": str(at)}} if at else {}
        more = {"nextCursor": str(at + 1)} if at + 1 < len(pages) else {}
        said.append(("client", {"jsonrpc": "2.0", "id": 10 + at, "method": "tools/list", **params}))
        said.append(("server", {"jsonrpc": "2.0", "id": 10 + at, "result": {"tools": page, **more}}))
    frames = [recordings.frame(n, who, json.dumps(message)) for n, (who, message) in enumerate(said, start=1)]
    clients = sum(who == "client" for who, _ in said)
    return recordings.write(
        path, (recordings.HEADER, *frames, recordings.close(clients, len(said) - clients))
    )


@pytest.fixture(autouse=True)
def same_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts grow old, and these tests do not."""
    monkeypatch.setattr(host_choice, "today", lambda: TODAY)


PAGES: Final = ([tool("read"), tool("write")], [tool("move")])


# The tables


def test_every_statement_of_the_survey_is_a_fact_or_says_why_not() -> None:
    taken = {number for host in HOSTS.values() for fact in host.facts for number in fact.survey}
    text = (Path(host_facts.hosts_folder()) / "README.md").read_text(encoding="utf-8")
    table = text.partition("## What was not taken")[2]
    left_out = {int(n) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for n in row.split(",")}
    assert taken & left_out == set()
    assert taken | left_out == set(range(1, 111))


def test_a_host_is_named_as_in_the_table_of_hosts() -> None:
    names = {host.id: host.name for host in all_hosts()}
    assert {id: host.name for id, host in HOSTS.items() if id in names} == {
        id: name for id, name in names.items() if id in HOSTS
    }
    assert {"claude-code", "codex", "gemini-cli", "cline", "zed"} <= names.keys() & HOSTS.keys()


def test_a_name_recognises_one_host_at_most() -> None:
    clients = [name for host in HOSTS.values() for name in host.clients]
    assert len(clients) == len(set(clients))
    shared = {name for host in HOSTS.values() for name in host.shared_clients}
    assert not any(host.is_client(name) for name in shared for host in HOSTS.values())


def test_a_range_that_was_not_measured_from_its_beginning_says_what_shows_that() -> None:
    """A run is one of one version. Where a range begins earlier, the source names that, too."""
    for path in sorted(Path(host_facts.hosts_folder()).glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["fact"]:
            first = re.match(r">=([\d.]+)", row["versions"])
            if row["grade"] == "measured" and first is not None and first[1] != row["seen"]:
                assert "; and a run of the host" in row["source"] or first[1] in row["source"], (path, row)


def test_every_kind_has_its_rule_and_its_document() -> None:
    assert host_facts.KINDS.keys() == host_facts.RULES.keys()
    text = (Path(host_facts.hosts_folder()) / "README.md").read_text(encoding="utf-8")
    for kind, (rule, _) in host_facts.RULES.items():
        row = next(line for line in text.splitlines() if line.startswith("|") and f"`{kind}`" in line)
        assert rule in row


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (('name = "Host"\n', ""), "host.toml: name should be a text"),
        (('name = "Host"', 'name = "Host"\nfoo = 1'), "host.toml: unknown member 'foo'"),
        (('["host-client"]', '"host-client"'), "host.toml: clients should be a list of texts"),
        (('"pages"', '"page"'), "host.toml:4: kind should be one of name-length, .*, is 'page'"),
        (
            ('lists = ["tools/list"]\n', ""),
            "host.toml:4: pages: lists should be a list with some of tools/list",
        ),
        (
            ('["tools/list"]', '["tools/call"]'),
            r"host.toml:4: pages: lists should be .*, is \['tools/call'\]",
        ),
        (("seen =", "limit = 3\nseen ="), "host.toml:4: pages: unknown member 'limit'"),
        (('"lost"', '"cut"'), "host.toml:4: pages: effect should be one of refused, lost, changed, is 'cut'"),
        (('"measured"', '"known"'), "host.toml:4: pages: grade should be one of measured, .*, is 'known'"),
        (('seen = "1.4"\n', ""), "host.toml:4: pages: seen should be the version in which it was seen"),
        (('seen = "1.4"', 'seen = "1.5"'), "host.toml:4: pages: 1.5 is not one of the versions >=1.2,<=1.4"),
        ((">=1.2,<=1.4", "1.2 or so"), "host.toml:4: pages: versions should be a range such as .*"),
        (("2026-11-27", '"2026-11-27"'), "host.toml:4: pages: date should be a date: 2026-11-26"),
        (("[[fact]]", "[[fact"), "host.toml: not readable as TOML: .*line 4.*"),
    ],
)
def test_an_invalid_table_is_an_error_with_its_place(
    tmp_path: Path, changed: tuple[str, str], error: str
) -> None:
    text = TABLE.replace(*changed)
    assert text != TABLE
    (tmp_path / "host.toml").write_text(text, encoding="utf-8")
    with pytest.raises(RuleError, match=error):
        host_facts.load(TODAY, str(tmp_path))


# Which facts hold


def facts_for(tmp_path: Path, client: tuple[str, str], table: str = TABLE, **choice: Any) -> list[str]:
    (tmp_path / "host.toml").write_text(table, encoding="utf-8")
    [host] = host_facts.load(TODAY, str(tmp_path))
    chosen = HostChoice(**choice) if choice else HostChoice(known=(host,))
    return [judged.label for judged in chosen.hosts(client) if judged.facts]


@pytest.mark.parametrize(
    ("version", "label"),
    [
        ("1.2", ["Host 1.2"]),
        ("1.4.0-nightly.3", ["Host 1.4.0-nightly.3"]),
        ("1.1.9", []),
        ("1.5", []),
        ("unreleased", []),
        ("9" * 5000, []),
        ("1.3" + ".0" * 5000, []),
    ],
)
def test_a_fact_holds_in_its_versions_alone(tmp_path: Path, version: str, label: list[str]) -> None:
    assert facts_for(tmp_path, ("host-client", version)) == label
    assert facts_for(tmp_path, ("another", version)) == []


def test_a_client_that_does_not_give_the_version_is_said_to_do_so(tmp_path: Path) -> None:
    table = TABLE.replace("clients", "tells-version = false\nclients", 1)
    label = "Host, whose client does not give its version,"
    assert facts_for(tmp_path, ("host-client", "0.0.0"), table) == [label]
    ended = table.replace('seen = "1.4"', 'seen = "1.4"\nended = true')
    assert facts_for(tmp_path, ("host-client", "0.0.0"), ended) == []


def test_what_has_ended_is_for_those_who_ask_about_its_versions(tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_text(
        TABLE.replace('seen = "1.4"', 'seen = "1.4"\nended = true'), encoding="utf-8"
    )
    [host] = host_facts.load(TODAY, str(tmp_path))
    assert [len(judged.facts) for judged in HostChoice(((host, ""),)).hosts(None)] == [0]
    assert [len(judged.facts) for judged in HostChoice(((host, "1.3"),)).hosts(None)] == [1]


def test_facts_of_unknown_versions_are_for_those_who_ask(tmp_path: Path) -> None:
    text = re.sub(
        'versions = .*\nseen = .*\ngrade = "measured"', 'versions = "unknown"\ngrade = "source"', TABLE
    )
    (tmp_path / "host.toml").write_text(text, encoding="utf-8")
    [host] = host_facts.load(TODAY, str(tmp_path))
    client = ("host-client", "1.3")
    assert [len(judged.facts) for judged in HostChoice(known=(host,)).hosts(client)] == [0]
    assert [len(judged.facts) for judged in HostChoice(((host, ""),)).hosts(client)] == [1]


def test_an_old_fact_may_have_changed(tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_text(TABLE, encoding="utf-8")
    for today, evidence in (
        (date(2027, 5, 26), "measured with 1.4, 2026-11-27"),
        (date(2027, 5, 27), "measured with 1.4, 2026-11-27; it may have changed since"),
    ):
        [host] = host_facts.load(today, str(tmp_path))
        assert host.facts[0].evidence == evidence


def test_reports_of_users_are_silent_unless_they_are_asked_for() -> None:
    for grade, least in (("", "source"), ("thread", "thread")):
        [cursor] = chosen(["cursor"], grade).hosts(None)
        assert bool(cursor.facts) == (least == "thread")
    with pytest.raises(UsageError, match="'codx'; did you mean codex"):
        chosen(["codx"])
    with pytest.raises(UsageError, match="'rumour' is not a grade"):
        chosen(["codex"], "rumour")


# The command


def test_seen_is_the_client_that_is_there(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "gemini-cli-mcp-client", "0.61.0", *PAGES, reads=1)
    checked = mcpproxy("check", trace, "--hosts", "seen")
    assert checked.code == 0
    assert (
        "warning HOST-007 frame 5: server: Legal MCP. Gemini CLI 0.61.0 reads the first page only: "
        "what comes after your first 2 tools does not exist for it (measured with 0.61.0, 2026-11-29"
    ) in checked.out
    assert mcpproxy("check", trace).out.startswith("no findings")
    for client, version in (("gemini-cli-mcp-client", "0.70.0"), ("mcp", "0.1.0"), ("another", "1")):
        other = recorded(tmp_path / "b.jsonl", client, version, *PAGES, reads=1)
        assert "HOST" not in mcpproxy("check", other, "--hosts", "seen").out


def test_what_the_session_itself_shows_of_its_client_counts(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "gemini-cli-mcp-client", "0.61.0", *PAGES)
    assert "HOST" not in mcpproxy("check", trace, "--hosts", "seen").out  # it has read the second page
    assert "HOST-007" in mcpproxy("check", trace, "--hosts", "continue").out
    late = tmp_path / "late.jsonl"
    records = (
        Path(trace).read_text().replace("gemini-cli-mcp-client", "opencode").replace("0.61.0", "1.18.33")
    )
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 30,
        "method": "tools/call",
        "params": {"name": "read", "arguments": {}},
    }
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": 30, "result": {"content": []}}
    stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 30}}
    for cancelled, has_finding in ((False, False), (True, True)):
        *head, close = records.splitlines()
        head.append(recordings.frame(8, "client", json.dumps(call), ms=1000))
        if cancelled:
            head.append(recordings.frame(9, "client", json.dumps(stop), ms=61_000))
        head.append(recordings.frame(10, "server", json.dumps(answer), ms=62_000))
        recordings.write(late, (*head, close))
        out = mcpproxy("check", str(late), "--hosts", "seen").out
        assert (
            'opencode 1.18.33 ends a call after 60 seconds without progress: tool "read" took 61 s' in out
        ) is has_finding
        assert "ends a call after 60 seconds" in mcpproxy("check", str(late), "--hosts", "continue").out


def test_a_client_that_is_there_and_is_named_is_said_once(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "gemini-cli-mcp-client", "0.61.0", *PAGES, reads=1)
    for hosts in ("seen", "gemini-cli", "gemini-cli,seen"):
        said = json.loads(mcpproxy("check", trace, "--hosts", hosts, "--format", "json").out)
        assert [found["rule"] for found in said["traces"][0]["findings"]] == ["HOST-007"]


def test_a_client_that_is_there_in_another_version_than_the_one_that_is_named(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    long = tool("read", description="Read a file. " + "It can be any file. " * 110)  # 2.1.197 cuts it
    trace = recorded(tmp_path / "a.jsonl", "claude-code", "2.1.197", [long])
    for named in ("claude-code@2.1.332", "claude-code@2.1.332,seen"):
        out = mcpproxy("check", trace, "--hosts", named, "--select", "HOST").out
        assert "Claude Code 2.1.332  x\n" in out
        assert "Claude Code 2.1.332 works\n" not in out
        assert ("HOST-006 frame 5: server: Legal MCP. Claude Code 2.1.197 cuts" in out) is ("seen" in named)


def test_a_host_that_is_not_there_is_named(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", *PAGES)
    said = json.loads(mcpproxy("check", trace, "--hosts", "gemini-cli,codex", "--format", "json").out)
    [found] = said["traces"][0]["findings"]
    assert (found["rule"], found["severity"], found["frame"]) == ("HOST-007", "warning", 7)
    assert found["message"].startswith(
        "Legal MCP. Gemini CLI reads the first page only: 1 of your 3 tools does not exist for it (measured "
    )


def test_a_version_that_is_asked_about_counts(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    long = tool("read", description="Read a file. " + "It can be any file. " * 110)
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [long])
    for version, has_finding in (("@2.1.197", True), ("@2.1.332", False), ("", False)):
        out = mcpproxy("check", trace, "--hosts", f"claude-code{version}").out
        assert ("Claude Code 2.1.197 works\n  HOST-006 changed: cuts descriptions" in out) is has_finding


def test_two_names_that_become_one_are_told_apart(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    river = "compare_the_readings_of_all_gauges_of_the_river_upstream_of"
    names = [f"{river}_the_{side}_weir_with_the_mean_of_this_season" for side in ("east", "west")]
    trace = recorded(tmp_path / "s.jsonl", "gemini-cli-mcp-client", "0.61.0", [*map(tool, names)])
    checked = mcpproxy("check", trace, "--hosts", "seen", "--select", "HOST-003", "--format", "json")
    told = [finding["message"] for finding in json.loads(checked.out)["traces"][0]["findings"]]
    [_, merged] = told
    assert f'"{names[1]}" (as "{names[0]}")' in merged


def test_a_change_is_an_info(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool("files.read")])
    checked = mcpproxy("check", trace, "--hosts", "opencode", "--select", "HOST", "--format", "json")
    [found] = json.loads(checked.out)["traces"][0]["findings"]
    assert (found["rule"], found["severity"], found["blame"]) == ("HOST-002", "info", "server")
    assert found["message"].startswith("Legal MCP. opencode replaces other characters")


def test_an_unknown_host_is_refused(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool("read")])
    refused = mcpproxy("check", trace, "--hosts", "codx")
    assert (refused.code, refused.err) == (
        2,
        "mcpproxy: --hosts: nothing is known of a host 'codx'; did you mean codex?\n",
    )


@pytest.mark.parametrize("version", ["abc", "", "latest"])
def test_what_is_no_version_is_refused(version: str, mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool("read")])
    refused = mcpproxy("check", trace, "--hosts", f"codex@{version}")
    assert (refused.code, refused.err) == (
        2,
        f"mcpproxy: --hosts: {version!r} is not a version of Codex; "
        "write its numbers: codex@1.2.3, or codex alone\n",
    )


def test_a_grade_is_for_hosts(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool("read")])
    refused = mcpproxy("check", trace, "--hosts-grade", "thread")
    assert (refused.code, "--hosts-grade: goes together with --hosts" in refused.err) == (2, True)


# The matrix


def test_the_matrix_says_where_a_server_works_and_why_not(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    bare = tool("list", inputSchema={"type": "object", "properties": {"of": {"type": "array"}}})
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool("files.read"), bare], [tool("move")])
    hosts = "vscode,gemini-cli,opencode,claude-code,cursor"
    assert mcpproxy("check", trace, "--hosts", hosts, "--select", "HOST").out.splitlines()[2:] == [
        "",
        "HOST         WORKS  DEGRADED  BLOCKED",
        "VS Code                       x",
        "Gemini CLI          x",
        "opencode     x",
        "Claude Code  x",
        "",
        "VS Code blocked",
        '  HOST-010 refused: refuses the tools if an array in a schema has no items: tool "list"',
        "    (/properties/of) (seen in its source of 0.42, 2026-03-29; it may have changed since)",
        "",
        "Gemini CLI degraded",
        "  HOST-007 lost: reads the first page only: 1 of your 3 tools does not exist for it (measured",
        "    with 0.61.0, 2026-11-29)",
        "",
        "opencode works",
        "  HOST-002 changed: replaces other characters than letters, digits, _ and - in names by _: tool",
        '    "files.read" (measured with 1.18.33, 2026-11-29)',
        "",
        "Claude Code works",
        "  HOST-002 changed: replaces other characters than letters, digits, _ and - in names by _: tool",
        '    "files.read" (measured with 2.1.332, 2026-11-29)',
        "",
        "Nothing of this grade is known of Cursor. For all facts: --hosts-grade thread",
    ]


def test_what_the_client_does_stays_beside_a_matrix_of_others(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "gemini-cli-mcp-client", "0.61.0", *PAGES, reads=1)
    out = mcpproxy("check", trace, "--hosts", "seen,codex").out
    assert "Legal MCP. Gemini CLI 0.61.0 reads the first page only" in out


def test_the_matrix_as_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", *PAGES)
    said = json.loads(mcpproxy("check", trace, "--hosts", "codex,gemini-cli,cursor", "--format", "json").out)
    assert [(host["id"], host["state"]) for host in said["hosts"]] == [
        ("gemini-cli", "degraded"),
        ("codex", "works"),
        ("cursor", "unknown"),
    ]
    [reason] = said["hosts"][0]["reasons"]
    assert (reason["rule"], reason["effect"]) == ("HOST-007", "lost")
    assert reason["text"].startswith("reads the first page only: 1 of your 3 tools does not exist for it (")
    assert "hosts" not in json.loads(mcpproxy("check", trace, "--hosts", "seen", "--format", "json").out)


def test_a_matrix_is_of_all_recordings(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    recorded(tmp_path / "a.jsonl", "another", "1", *PAGES)
    recorded(tmp_path / "b.jsonl", "another", "1", [tool("files.read")])
    out = mcpproxy("check", str(tmp_path), "--hosts", "gemini-cli,opencode").out
    assert "HOST        WORKS  DEGRADED  BLOCKED\nGemini CLI         x\nopencode    x\n" in out


def test_a_rule_is_explained_with_the_hosts_that_it_is_about(mcpproxy: Mcpproxy) -> None:
    said = " ".join(mcpproxy("explain", "HOST-007").out.split())
    assert "Meets it client:" in said
    assert "Do instead List all tools on one page." in said
    told = (
        "Gemini CLI (>=0.56,<=0.61.0) reads the first page only: lost, measured with 0.61.0, 2026-11-29 "
        "gemini-cli 5411f113: packages/core/src/tools/mcp-client.ts"
    )
    assert told in said
    assert "Hosts" not in mcpproxy("explain", "PAGE-001").out
    assert "Breaks it" in mcpproxy("explain", "PAGE-001").out


def test_validate_says_where_the_server_works(mcpproxy: Mcpproxy) -> None:
    said = json.dumps({"stateful": True, "pages": PAGES})
    command = ("--", sys.executable, "-c", SERVER, said)
    out = mcpproxy("validate", "-q", "--only", "tools", "--hosts", "gemini-cli,codex", *command).out
    table, _, reasons = out.partition("\nGemini CLI degraded\n")
    assert table.endswith("HOST        WORKS  DEGRADED  BLOCKED\nGemini CLI         x\nCodex       x\n")
    assert "reads the first page only: 1 of your 3 tools does not exist for it" in " ".join(reasons.split())


def test_validate_needs_a_host_that_may_come(mcpproxy: Mcpproxy) -> None:
    refused = mcpproxy("validate", "--hosts", "seen", "--", "server")
    assert (refused.code, "--hosts: the client is mcpproxy itself" in refused.err) == (2, True)
