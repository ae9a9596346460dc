"""``mcpproxy replay`` and other readers of a recording with faults: each plays what its peer was given."""

import base64
import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.api import check
from mcpproxy.gate.intercept.asking.control_client import ask
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Sender
from mcpproxy.peers.replay.diff.compare_traces import compare_recordings
from mcpproxy.peers.replay.recording import LoadedTrace, load
from mcpproxy.read.edit.trim import trimmed
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace
from mcpproxy.record.trace.reader import read_trace
from tests.intercept.test_breakpoints import Held
from tests.intercept.test_fault_http import LOG, Streams, Talk, streams
from tests.intercept.test_fault_relay import CALLS, INITIALIZE, INITIALIZED, OPENED, PEER, Played, call
from tests.relay.hosts import DEADLINE_S, HOME, until_recorded

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


def replayed(trace: Path | str, *options: str, calls: int = 3) -> Sequence[Line | str]:
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


def recorded(folder: Path, rule: str, *, calls: int = 3) -> Path:
    """Record a session of three calls, in which ``rule`` meets the second or its answer."""
    sender, _, action = rule.partition(" => ")
    fault = f"{sender} tool:search => {action}, nth 2"
    trace = folder / "session.jsonl"
    command = [sys.executable, "-m", "mcpproxy", "--trace", str(trace), "--fault", fault, "--fault-seed", "7"]
    messages = [call(0, "initialize", **INITIALIZE), INITIALIZED, *CALLS[:calls]]
    said = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    subprocess.run(
        [*command, "--", sys.executable, PEER, json.dumps(OPENED)],
        input=said,
        capture_output=True,
        env=HOME,
        timeout=DEADLINE_S,
    )
    until_recorded(trace)
    return trace


REFUSED: Final = {"code": -32001, "message": "Internal error"}
DECLINED: Final[Line] = {"jsonrpc": "2.0", "id": 102, "error": REFUSED}
ALL: Final = [answer(101), answer(102), answer(103)]

DELIVERED: Final[dict[str, Sequence[Line | str]]] = {
    "from:server => drop": [answer(101), answer(103)],
    "from:client => drop": [answer(101), answer(103)],
    "from:client => error -32001": [
        answer(101),
        DECLINED,
        answer(103),
    ],
    "from:server => error -32001": [
        answer(101),
        DECLINED,
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
    trace = recorded(tmp_path, rule)
    calls = 2 if "disconnect" in rule else 3
    given = replayed(trace, calls=calls)
    # A line that is no message comes after what the client had sent by then, which was all calls.
    assert sorted(map(_without_noise, given), key=str) == sorted(DELIVERED[rule], key=str)
    lost = "from:client" in rule  # no server has answered this call
    sent = [each for each in ALL[:calls] if not (lost and each["id"] == 102)]
    assert replayed(trace, "--as-sent", calls=calls) == sent


def _without_noise(line: Line | str) -> Line | str:
    return "#" if isinstance(line, str) and line[:1] == "#" else line


def test_what_somebody_has_edited_at_a_breakpoint_is_played(tmp_path: Path) -> None:
    held = Held(tmp_path, "--break", "tool:search", "--break-timeout", "60s")
    try:
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
    messages = [json.loads(entry.raw) for session in loaded.sessions for entry in session.messages]
    return [each["params"]["arguments"] for each in messages if each.get("method") == "tools/call"]


@pytest.mark.parametrize("rule", DELIVERED)
def test_a_part_of_a_recording_has_both_sides_of_a_fault(tmp_path: Path, rule: str) -> None:
    trace = recorded(tmp_path, rule)
    frames = [event for event in read_trace(str(trace)).events() if isinstance(event, Frame)]
    second = {frame.seq for frame in frames if frame.sender == CLIENT and b'"id": 2' in frame.raw}
    part = tmp_path / "part.jsonl"
    write_trace(str(part), *trimmed(open_trace(str(trace)), second.__contains__))
    expected = [
        each if isinstance(each, str) else {**each, "id": 101}
        for each in DELIVERED[rule]
        if isinstance(each, str) or each["id"] == 102
    ]
    given = [_without_noise(line) for line in replayed(part, calls=1)]
    is_lost = "drop" in rule or "raw" in rule or "disconnect" in rule
    assert given[: len(expected)] == [
        each if isinstance(each, str) else {**each, "id": 101} for each in expected
    ]
    assert is_lost or len(given) == len(expected)
    assert set(check(part).findings) <= set(check(trace).findings)


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


TYPES: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Client:
    """A client over HTTP that has opened its session."""

    def __init__(self, host: str) -> None:
        self.connection = HTTPConnection(host, timeout=DEADLINE_S)
        self._headers = TYPES
        _, self._headers = self._post(call(0, "initialize", **INITIALIZE))
        self._post(INITIALIZED)

    def _post(self, message: object) -> tuple[str, dict[str, str]]:
        """Return the body, and the headers of further requests."""
        self.connection.request("POST", "/mcp", json.dumps(message), self._headers)
        response = self.connection.getresponse()
        self.status = response.status
        id = response.headers["Mcp-Session-Id"]
        return response.read().decode(), {**TYPES, "Mcp-Session-Id": id} if id else TYPES

    def call(self, id: int) -> tuple[int, list[object]]:
        """Call the tool; return the status, 0 if the connection was closed, and the messages that came."""
        try:
            body, _ = self._post(call(id, name="search", arguments={}))
        except (HTTPException, ConnectionError):
            self.connection.close()
            return 0, []
        lines = [line.removeprefix("data:").strip() for line in body.splitlines() if line[:1] in ("{", "d")]
        return self.status, [_parsed(line) for line in lines]


@contextmanager
def replayed_over_http(trace: Path, *options: str) -> Generator[Client]:
    """Replay a recording, and open its session."""
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(trace), "--http", "127.0.0.1:0"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, env=HOME, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "replaying at" in line)
        client = Client(line.strip().removesuffix("/mcp").rpartition("//")[2])
        try:
            yield client
        finally:
            client.connection.close()
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


CONTENT: Final[dict[str, object]] = {"content": []}

OVER_HTTP: Final[dict[str, tuple[int, list[object]]]] = {
    "from:client => status 503": (503, [{"jsonrpc": "2.0"}]),
    "from:client => expire-token": (401, [{"jsonrpc": "2.0"}]),
    "from:client => lose-session": (404, [{"jsonrpc": "2.0"}]),
    "from:client => error -32001": (200, [DECLINED]),
    "from:client => drop": (0, []),
    "from:server kind:notification => drop": (200, [answer(102, **CONTENT)]),
    "from:server kind:answer => drop": (200, [LOG]),
    "from:server kind:answer => duplicate": (200, [LOG, answer(102, **CONTENT), answer(102, **CONTENT)]),
    'from:server kind:answer => set {"/result": {"a": 1}}': (200, [LOG, answer(102, a=1)]),
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
    with replayed_over_http(talk.proxied.trace) as client:
        whole = (200, [LOG, answer(101, **CONTENT)])
        assert client.call(101) == whole
        status, messages = client.call(102)
        expected_status, expected = OVER_HTTP[rule]
        assert status == expected_status
        if status in (401, 404, 503):
            assert "error" in str(messages)
        else:
            assert messages == expected
    with replayed_over_http(talk.proxied.trace, "--as-sent") as client:
        assert client.call(101) == whole
        if "from:server" in rule:
            assert client.call(102) == (200, [LOG, answer(102, **CONTENT)])
