"""``mcpproxy replay client`` and ``mcpproxy diff`` as commands, against servers that have changed."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from tests.relay.hosts import until_recorded
from tests.replay.scripts import HELLO, ask, call, tell, trace

DEADLINE_S: Final = 60
MCPPROXY: Final = (sys.executable, "-m", "mcpproxy")
SERVER: Final = (sys.executable, "-m", "tests.replay.changing_server")

META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}

OPENING: Final = (HELLO[0][1], HELLO[2][1])
PLAIN: Final = (*OPENING, ask(1, "tools/list"), call(2, "echo", value="hi"), call(3, "fail"), call(4, "add"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL
    )


def replay(trace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(*MCPPROXY, "replay", "client", str(trace), *arguments)


def record(folder: Path, messages: Sequence[Any], *changes: str, answers: Sequence[Any] = ()) -> Path:
    """What a client that says ``messages`` and answers with ``answers`` makes of the server."""
    path = folder / f"{'-'.join(['plain', *changes])}.jsonl"
    command = [*MCPPROXY, "run", "--trace", str(path), "--quiet", "--", *SERVER, *changes]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        left = list(answers)
        for message in messages:
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            while "id" in message and "method" in (said := json.loads(server.stdout.readline())):
                server.stdin.write(json.dumps(left.pop(0) | {"id": said["id"]}) + "\n")
                server.stdin.flush()
        server.stdin.close()
        assert server.stdout.read() == ""
    assert server.returncode == 0
    until_recorded(path)
    return path


def test_the_same_server_is_the_same(tmp_path: Path) -> None:
    done = replay(record(tmp_path, PLAIN), "--", *SERVER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5 same, 0 changed, 0 missing, 0 new\n", "")


def test_only_calls_that_pass_a_filter_are_played(tmp_path: Path) -> None:
    path = record(tmp_path, PLAIN)
    done = replay(path, "--filter", "tool:fail", "--", *SERVER, "renamed", "failing")
    assert done.returncode == 1
    changed, why, summary = done.stdout.splitlines()
    assert changed == 'changed  tools/call "fail" (frame 8)'
    assert why.endswith('is an error (-32603 "boom"), was a result')
    assert summary == "1 same, 1 changed, 0 missing, 0 new"
    assert done.stderr == f"mcpproxy: {path}: trimmed to frames 1-3,8-9 of 11\n"


def test_a_part_never_replaces_the_whole(tmp_path: Path) -> None:
    path = record(tmp_path, PLAIN)
    before = path.read_bytes()
    done = replay(path, "--filter", "tool:fail", "--update", "--", *SERVER)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mcpproxy: --filter: is not for --update, which replaces all")
    assert path.read_bytes() == before


CHANGED: Final = (
    "changed  tools/list (frame 4)",
    '           tool "add" is gone',
    '           tool "sum" is new',
    '           tool "echo": /inputSchema/properties/value/type is "number", was "string"',
    'same     tools/call "echo" (frame 6; slower: ',
    'changed  tools/call "fail" (frame 8)',
    '           is an error (-32603 "boom"), was a result',
    "3 same, 2 changed, 0 missing, 0 new",
)


def test_a_server_that_changed_has_exactly_these_changes(tmp_path: Path) -> None:
    done = replay(record(tmp_path, PLAIN), "--", *SERVER, "renamed", "schema", "slow", "failing")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line[: len(expected)] for line, expected in zip(lines, CHANGED, strict=True)] == list(CHANGED)


def test_two_recordings_differ_in_the_same(tmp_path: Path) -> None:
    before = record(tmp_path, PLAIN)
    after = record(tmp_path, PLAIN, "renamed", "schema", "slow", "failing")
    done = run(*MCPPROXY, "diff", str(before), str(after))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line[: len(expected)] for line, expected in zip(lines, CHANGED, strict=True)] == list(CHANGED)
    assert run(*MCPPROXY, "diff", str(before), str(before)).returncode == 0


def test_programs_and_build_servers_are_told_too(tmp_path: Path) -> None:
    recorded = record(tmp_path, PLAIN)
    report = json.loads(replay(recorded, "--format", "json", "--", *SERVER, "failing").stdout)
    assert report["counts"] == {"same": 4, "changed": 1, "missing": 0, "new": 0}
    assert [change["kind"] for item in report["items"] for change in item["changes"]] == ["status"]

    suites = ElementTree.fromstring(replay(recorded, "--format", "junit", "--", *SERVER, "failing").stdout)
    failed = suites.findall(".//testcase[failure]")
    assert [case.get("name") for case in failed] == ['tools/call "fail" (frame 8)']
    assert len(suites.findall(".//testcase")) == 5


def test_sampling_and_elicitation_are_answered_from_the_recording(tmp_path: Path) -> None:
    answers = [
        {
            "jsonrpc": "2.0",
            "result": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}},
        },
        {"jsonrpc": "2.0", "result": {"action": "accept", "content": {"name": "Ada"}}},
    ]
    recorded = record(tmp_path, (*OPENING, call(1, "ask")), answers=answers)
    done = replay(recorded, "--", *SERVER)
    assert (done.returncode, done.stdout) == (0, "4 same, 0 changed, 0 missing, 0 new\n")


def test_a_retry_of_the_stateless_revision_goes_to_the_server_that_asked(tmp_path: Path) -> None:
    first = ask(1, "tools/call", name="twice", arguments={}, _meta=META)
    state = json.loads(_said_to(first))["result"]["requestState"]
    responses = {"q": {"action": "accept", "content": {"name": "Ada"}}}
    retry = ask(
        2, "tools/call", name="twice", arguments={}, _meta=META, requestState=state, inputResponses=responses
    )
    question = {"method": "elicitation/create", "params": {"mode": "form", "message": "Name?"}}
    required = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": state}
    lines = (
        ("client", first),
        ("server", {"jsonrpc": "2.0", "id": 1, "result": required}),
        ("client", retry),
        ("server", {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "Ada"}]}}),
    )
    # The recorded answers took longer than the test may take, so none is remarked to be slower now.
    recorded = trace(tmp_path / "t.jsonl", lines, ms_apart=1000 * DEADLINE_S)
    done = replay(recorded, "--", *SERVER)
    assert (done.returncode, done.stdout) == (0, "2 same, 0 changed, 0 missing, 0 new\n")


def _said_to(message: Any) -> str:
    """The first line that the server says to one message."""
    done = subprocess.run(
        SERVER, input=json.dumps(message) + "\n", capture_output=True, text=True, timeout=DEADLINE_S
    )
    return done.stdout.splitlines()[0]


def test_an_update_takes_the_place_of_the_recording(tmp_path: Path) -> None:
    recorded = record(tmp_path, PLAIN)
    done = replay(recorded, "--update", "--", *SERVER, "renamed")
    assert done.returncode == 0
    assert "was replaced by the new recording" in done.stderr
    assert replay(recorded, "--", *SERVER, "renamed").returncode == 0
    assert replay(recorded, "--", *SERVER).returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == [recorded.name]


def test_a_server_that_does_not_come_to_the_end_updates_nothing(tmp_path: Path) -> None:
    recorded = record(tmp_path, PLAIN)
    before = recorded.read_bytes()
    done = replay(recorded, "--update", "--", *SERVER, "dies")
    assert done.returncode == 1
    assert "is unchanged" in done.stderr
    assert recorded.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [recorded.name]


@pytest.mark.parametrize(
    ("how", "told", "missing"),
    [
        ("hangs", "the server does not answer any more", 3),
        ("dies", "the server ended with exit code 3", 3),
        ("babbles", "", 0),
    ],
)
def test_a_server_that_misbehaves_ends_the_play_and_nothing_is_left(
    tmp_path: Path, how: str, told: str, missing: int
) -> None:
    recorded = record(tmp_path, PLAIN)
    done = replay(recorded, "--timeout", "5", "--format", "json", "--", *SERVER, how, str(tmp_path))
    assert done.returncode == 1
    assert told in done.stderr
    assert json.loads(done.stdout)["counts"]["missing"] == missing
    assert processes_with(str(tmp_path)) == []


def test_why_nothing_could_be_compared_is_told_with_what_came_before(tmp_path: Path) -> None:
    gap = {"type": "gap", "t": 50, "reason": "the disk was full", "client": 0, "server": 5, "stderr": 0}
    recorded = trace(tmp_path / "t.jsonl", HELLO)
    lines = recorded.read_text(encoding="utf-8").splitlines()
    lines.insert(len(lines) - 1, json.dumps(gap))
    recorded.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = replay(recorded, "--", "false")
    assert (done.returncode, done.stdout) == (2, "")
    *earlier, last = done.stderr.splitlines()
    assert "the server ended with exit code 1; no answer to initialize" in last
    assert any("the disk was full" in line for line in earlier)


def processes_with(word: str) -> list[str]:
    """The command lines of running processes that hold ``word``."""
    found: list[str] = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and pid != str(os.getpid()):
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "one of -- COMMAND and URL is needed"),
        (("--", "no-such-command"), "no-such-command: no such command; "),
        (("--", "false"), "the server ended with exit code 1; no answer to initialize"),
        (("--timeout", "1", "--", "sleep", "600"), "the server says nothing; no answer to initialize"),
        (("http://127.0.0.1:1/mcp",), "the server cannot be reached"),
        (("ftp://x",), "is not a URL"),
        (("http://[",), "http://["),
        (("--alike", "dates", "--", "true"), "is none of timestamps, uuids, paths"),
        (("--ignore", "x", "--", "true"), "is neither a JSON Pointer"),
        (("--timeout", "0", "--", "true"), "is not a number of seconds"),
        (("--header", "A: b", "--", "true"), "goes together with a URL"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_exit_code_2(
    tmp_path: Path, arguments: Sequence[str], told: str
) -> None:
    recorded = trace(tmp_path / "t.jsonl", HELLO)
    done = replay(recorded, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("mcpproxy: ")
    assert told in line


def test_an_empty_recording_is_refused(tmp_path: Path) -> None:
    empty = trace(tmp_path / "t.jsonl", ())
    for command in (("replay", "client", str(empty), "--", "true"), ("diff", str(empty), str(empty))):
        done = run(*MCPPROXY, *command)
        assert (done.returncode, done.stdout) == (2, "")
        assert "holds no message" in done.stderr


def test_methods_and_places_can_be_left_out(tmp_path: Path) -> None:
    one = trace(tmp_path / "a.jsonl", (*HELLO, ("server", tell("notifications/message", data=1))))
    two = trace(tmp_path / "b.jsonl", (*HELLO, ("server", tell("notifications/message", data=2))))
    assert run(*MCPPROXY, "diff", str(one), str(two)).returncode == 1
    assert run(*MCPPROXY, "diff", str(one), str(two), "--ignore", "notifications/message").returncode == 0
    assert run(*MCPPROXY, "diff", str(one), str(two), "--ignore", "/params/data").returncode == 0
