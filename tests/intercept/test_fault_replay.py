"""``mcpproxy replay`` and other readers of a recording with faults: each plays what its peer was given."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.api import check
from mcpproxy.edit.trim import trimmed
from mcpproxy.opening import open_trace
from mcpproxy.replay.diff.compare_traces import compare_recordings
from mcpproxy.replay.recording import LoadedTrace, load
from mcpproxy.session.frame import CLIENT, SERVER, Sender
from mcpproxy.trace.copy import write_trace
from tests.intercept.test_breakpoints import Held
from tests.intercept.test_fault_http import Streams, Talk, streams
from tests.intercept.test_fault_relay import CALLS, INITIALIZE, INITIALIZED, Played, call
from tests.relay.hosts import DEADLINE_S, HOME
from tests.relay.test_http_enforce import SESSION

__all__ = ["streams"]

Line = dict[str, Any]
SECOND: Final = "tool:search => %s, nth 2"


class Replayed:
    """A client of ``mcpproxy replay server``, whose ids are not those of the recording."""

    def __init__(self, trace: Path | str, *options: str) -> None:
        command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(trace), *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=HOME
        )
        self.say(call(100, "initialize", **INITIALIZE))
        self.say(INITIALIZED)

    def say(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> list[str]:
        """End the session; return the lines that came after the answer to initialize."""
        stdout, _ = self._process.communicate(timeout=DEADLINE_S)
        first, *lines = stdout.decode().splitlines()
        assert json.loads(first)["id"] == 100
        return lines


def replayed(trace: Path | str, *options: str, calls: int = 3) -> list[Line | str]:
    """Make calls; return what comes for them: messages, and what is none as text."""
    client = Replayed(trace, *options)
    for id in range(101, 101 + calls):
        client.say(call(id, name="search", arguments={}))
    return [_parsed(line) for line in client.end()]


def _parsed(line: str) -> Line | str:
    try:
        return json.loads(line)
    except ValueError:
        return line


def answer(id: int, **result: object) -> Line:
    return {"jsonrpc": "2.0", "id": id, "result": result}


REFUSED: Final = {"code": -32001, "message": "Internal error"}
ALL: Final = [answer(101), answer(102), answer(103)]

DELIVERED: Final[dict[str, list[Line | str]]] = {
    "from:server => drop": [answer(101), answer(103)],
    "from:client => drop": [answer(101), answer(103)],
    "from:client => error -32001": [
        answer(101),
        {"jsonrpc": "2.0", "id": 102, "error": REFUSED},
        answer(103),
    ],
    "from:server => error -32001": [
        answer(101),
        {"jsonrpc": "2.0", "id": 102, "error": REFUSED},
        answer(103),
    ],
    "from:server => duplicate": [answer(101), answer(102), answer(102), answer(103)],
    'from:server => set {"/result": {"a": 1}}': [answer(101), answer(102, a=1), answer(103)],
    "from:server => raw hello": [answer(101), "hello", answer(103)],
    "from:server => garbage 5": [answer(101), "#", answer(102), answer(103)],
    "from:server => split 3, gap 1ms": ALL,
    "from:server => delay 5ms": ALL,
    "from:server => join, within 50ms": ALL,
    "from:server => disconnect": [answer(101)],
}
"""What a rule does to the second call or to its answer -> what a client is given for its three calls."""


@pytest.mark.parametrize("rule", DELIVERED)
def test_a_client_gets_what_the_recorded_client_was_given(tmp_path: Path, rule: str) -> None:
    sender, _, action = rule.partition(" => ")
    played = Played(
        tmp_path,
        "--fault",
        f"{sender} tool:search => {action}, nth 2",
        "--fault-seed",
        "7",
        messages=[INITIALIZED, *CALLS],
    )
    was_given = DELIVERED[rule]
    calls = 2 if "disconnect" in rule else 3
    given = replayed(played.trace, calls=calls)
    assert [line[:1] if isinstance(line, str) and line[:1] == "#" else line for line in given] == was_given
    lost = "from:client" in rule  # no server has answered this call
    sent = [each for each in ALL[:calls] if not (lost and each["id"] == 102)]
    assert replayed(played.trace, "--as-sent", calls=calls) == sent


def test_what_somebody_has_edited_at_a_breakpoint_is_played(tmp_path: Path) -> None:
    held = Held(tmp_path, "--break", "tool:search", "--break-timeout", "60s")
    try:
        import base64

        from mcpproxy.intercept.control import ask

        held.call(1)
        (number,) = held.held().values()
        edited = base64.b64encode(json.dumps(call(1, name="search", arguments={"a": 1})).encode()).decode()
        ask(held.trace, {"do": "edit", "number": number, "base64": edited})
        (number,) = held.held().values()
        edited = base64.b64encode(json.dumps(answer(1, content=["new"])).encode()).decode()
        ask(held.trace, {"do": "edit", "number": number, "base64": edited})
        assert held.hear() == answer(1, content=["new"])
        held.end()
    finally:
        held.close()
    assert replayed(held.trace, calls=1) == [answer(101, content=["new"])]
    assert replayed(held.trace, "--as-sent", calls=1) == [answer(101)]
    assert arguments(load(held.trace, CLIENT)) == [{}]
    assert arguments(load(held.trace, SERVER)) == [{"a": 1}]
    assert arguments(load(held.trace)) == [{}]


def arguments(loaded: LoadedTrace) -> list[object]:
    """Return the arguments of all calls."""
    messages = [entry.message.value for session in loaded.sessions for entry in session.messages]
    params = [value["params"] for value in messages if value.get("method") == "tools/call"]  # type: ignore[union-attr]  # all are objects
    return [each["arguments"] for each in params]  # type: ignore[index,call-overload]


@pytest.mark.parametrize("rule", [*DELIVERED])
def test_a_part_of_a_recording_has_both_sides_of_a_fault(tmp_path: Path, rule: str) -> None:
    sender, _, action = rule.partition(" => ")
    played = Played(
        tmp_path,
        "--fault",
        f"{sender} tool:search => {action}, nth 2",
        "--fault-seed",
        "7",
        messages=[INITIALIZED, *CALLS],
    )
    second = {frame.seq for frame in played.frames() if b'"id": 2' in frame.raw and frame.sender == CLIENT}
    part = tmp_path / "part.jsonl"
    write_trace(str(part), *trimmed(open_trace(str(played.trace)), second.__contains__))
    mine = [each for each in DELIVERED[rule] if isinstance(each, str) or each["id"] == 102]
    given = replayed(part, calls=2)[-len(mine) :] if mine else []
    assert [_as_second(line) for line in given] == [line if line != "#" else "#" for line in mine]
    assert {f"{found.rule} {found.blame}" for found in check(part).findings} <= {"TOOL-005 server"}


def _as_second(line: Line | str) -> Line | str:
    """Return a line of a replay in which the second call came first."""
    if isinstance(line, str):
        return "#" if line[:1] == "#" else line
    return {**line, "id": 102}


def test_a_server_is_compared_by_what_it_was_given(tmp_path: Path) -> None:
    """An edit before it reaches the server is an edit of the question; both recordings have its answer."""
    folders = tmp_path / "plain", tmp_path / "edited"
    for folder in folders:
        folder.mkdir()
    plain = Played(folders[0], messages=[INITIALIZED, *CALLS])
    rule = "from:client tool:search => error -32001, nth 2"
    edited = Played(folders[1], "--fault", rule, messages=[INITIALIZED, *CALLS])

    def verdicts(peer: Sender | None) -> list[str]:
        comparison = compare_recordings(load(plain.trace, peer), load(edited.trace, peer))
        return [item.verdict for item in comparison.items]

    assert verdicts(SERVER).count("missing") == 1
    assert set(verdicts(SERVER)) == {"same", "missing"}


# Over HTTP


@contextmanager
def replayed_over_http(trace: Path, *options: str) -> Iterator[HTTPConnection]:
    """Replay a recording, and open its session."""
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(trace), "--http", "127.0.0.1:0"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, env=HOME, text=True) as process:
        assert process.stderr is not None
        line = ""
        while "replaying at" not in line:
            assert (line := process.stderr.readline())
        host = line.strip().removesuffix("/mcp").rpartition("//")[2]
        connection = HTTPConnection(host, timeout=DEADLINE_S)
        try:
            headers = {**TYPES, **SESSION}
            connection.request("POST", "/mcp", json.dumps(call(0, "initialize", **OPENING)), TYPES)
            opened = connection.getresponse()
            opened.read()
            headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"] or ""
            connection.request("POST", "/mcp", json.dumps(INITIALIZED), headers)
            connection.getresponse().read()
            connection.session = headers  # type: ignore[attr-defined]  # for ``post``
            yield connection
        finally:
            connection.close()
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


TYPES: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
OPENING: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a", "version": "1"},
}


def post(connection: HTTPConnection, id: int) -> tuple[int, list[object]]:
    """Call the tool; return the status and the messages that came. The status is 0 if the connection was closed."""
    message = call(id, name="search", arguments={})
    try:
        connection.request("POST", "/mcp", json.dumps(message), connection.session)  # type: ignore[attr-defined]
        response = connection.getresponse()
        body = response.read().decode()
    except (HTTPException, ConnectionError):
        connection.close()
        return 0, []
    lines = [line.removeprefix("data:").strip() for line in body.splitlines()]
    return response.status, [
        _parsed(line) for line in lines if line[:1] not in ("", ":") and not line.startswith("event")
    ]


LOGGED: Final = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "x"},
}
CONTENT: Final[dict[str, object]] = {"content": []}

OVER_HTTP: Final[dict[str, tuple[int, list[object]]]] = {
    "from:client => status 503": (503, [{"jsonrpc": "2.0"}]),
    "from:client => expire-token": (401, [{"jsonrpc": "2.0"}]),
    "from:client => lose-session": (404, [{"jsonrpc": "2.0"}]),
    "from:client => error -32001": (200, [{"jsonrpc": "2.0", "id": 102, "error": REFUSED}]),
    "from:client => drop": (0, []),
    "from:server kind:notification => drop": (200, [answer(102, **CONTENT)]),
    "from:server kind:answer => drop": (200, [LOGGED]),
    "from:server kind:answer => duplicate": (200, [LOGGED, answer(102, **CONTENT), answer(102, **CONTENT)]),
    'from:server kind:answer => set {"/result": {"a": 1}}': (200, [LOGGED, answer(102, a=1)]),
}


@pytest.mark.parametrize("rule", OVER_HTTP)
def test_a_client_over_http_gets_what_the_recorded_client_was_given(
    tmp_path: Path, streams: Streams, rule: str
) -> None:
    wanted, _, action = rule.partition(" => ")
    tool = "" if "notification" in wanted else "tool:search"
    talk = Talk(tmp_path, streams, f"{wanted} {tool} => {action}, nth 2")
    try:
        for id in (1, 2, 3):
            try:
                talk.ask(id, Authorization="Bearer old")
            except (HTTPException, ConnectionError):
                talk.proxied.connection.close()
        talk.proxied.stop()
    finally:
        talk.close()
    with replayed_over_http(talk.proxied.trace) as connection:
        whole = (200, [LOGGED, answer(101, **CONTENT)])
        assert post(connection, 101) == whole
        status, messages = post(connection, 102)
        expected_status, expected = OVER_HTTP[rule]
        assert status == expected_status
        if status in (401, 404, 503):
            assert "error" in str(messages)
        else:
            assert messages == expected
    with replayed_over_http(talk.proxied.trace, "--as-sent") as connection:
        assert post(connection, 101) == whole
        if "from:server" in rule:
            assert post(connection, 102) == (200, [LOGGED, answer(102, **CONTENT)])
