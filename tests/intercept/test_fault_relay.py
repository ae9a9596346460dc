"""``mcpproxy run --fault``: what client and server get, and what the recording says about it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.api import check
from mcpproxy.judge.session.frame import Frame
from mcpproxy.record.trace.reader import read_trace
from tests.relay.hosts import DEADLINE_S, HOME, until_recorded

PEER: Final = str(Path(__file__).parent.parent / "relay" / "enforced_peer.py")
ABOUT: Final = {"name": "example", "version": "1.0"}
OPENED: Final[dict[str, object]] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": ABOUT,
}
INITIALIZE: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": ABOUT}
Message = dict[str, Any]


def call(id: int, method: str = "tools/call", **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


INITIALIZED: Final[Message] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALLS: Final = [call(number, name="search", arguments={}) for number in (1, 2, 3)]


THE_PEER_S: Final = ["TOOL-005 server"]
"""What the peer does wrong by itself: it answers every call with an empty result."""


class Played:
    """A client that opens a session, sends everything, closes stdin and reads to the end."""

    def __init__(
        self, folder: Path, *options: str, messages: list[Message], python: str = sys.executable
    ) -> None:
        trace = folder / "session.jsonl"
        command = [python, "-m", "mcpproxy", "--trace", str(trace), *options]
        with subprocess.Popen(
            [*command, "--", sys.executable, PEER, json.dumps(OPENED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=HOME,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            opening = b""
            if messages:
                process.stdin.write(_line(call(0, "initialize", **INITIALIZE)))
                process.stdin.flush()
                opening = process.stdout.readline()
            stdout, stderr = process.communicate(b"".join(map(_line, messages)), timeout=DEADLINE_S)
        until_recorded(trace)
        self.returncode, self.stdout, self.stderr = process.returncode, opening + stdout, stderr.decode()
        self.answers = [json.loads(line).get("id") for line in self.stdout.splitlines()]
        self.server_heard = [json.loads(line).get("id") for line in stderr.splitlines() if line[:1] == b"{"]
        self.trace = trace

    def frames(self) -> list[Frame]:
        return [event for event in read_trace(str(self.trace)).events() if isinstance(event, Frame)]

    def findings(self) -> list[str]:
        return sorted({f"{finding.rule} {finding.blame}" for finding in check(self.trace).findings})


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_the_second_call_is_answered_here(tmp_path: Path) -> None:
    fault = "from:client tool:search => error -32001, nth 2, name down"
    played = Played(tmp_path, "--fault", fault, "--fault-seed", "7", messages=[INITIALIZED, *CALLS])
    assert played.server_heard == [0, None, 1, 3]
    assert sorted(played.answers) == [0, 1, 2, 3]
    assert f"recording to {played.trace}; faults by seed 7\n" in played.stderr
    marks = [(f.sender, f.by_proxy, f.fault.action) for f in played.frames() if f.fault]
    assert marks == [("client", False, "error"), ("server", True, "error")]
    assert read_trace(str(played.trace)).header.faults.endswith("; down")
    assert played.findings() == THE_PEER_S


def test_a_seed_gives_the_same_faults_in_every_run(tmp_path: Path) -> None:
    messages = [INITIALIZED, *(call(number, "ping") for number in range(1, 61))]

    def met(name: str, seed: str) -> set[tuple[str, str, bytes]]:
        folder = tmp_path / name
        folder.mkdir()
        fault = "from:client method:ping => delay 1ms, hold one, percentage 30"
        played = Played(folder, "--fault", fault, "--fault-seed", seed, messages=messages)
        return {(f.sender, f.fault.rule, f.raw) for f in played.frames() if f.fault and not f.by_proxy}

    first = met("first", "7")
    assert met("second", "7") == first
    assert met("third", "8") != first


def test_a_late_answer_comes_before_the_end(tmp_path: Path) -> None:
    fault = "from:server tool:search => delay 200ms, limit 1"
    played = Played(tmp_path, "--fault", fault, messages=[INITIALIZED, *CALLS])
    assert played.answers == [0, 1, 2, 3]
    first, *_, last = (f for f in played.frames() if f.fault)
    assert (first.by_proxy, last.by_proxy) == (False, True)
    assert last.observed_at_ns - first.observed_at_ns >= 200_000_000
    assert played.findings() == THE_PEER_S


def test_a_dropped_request_is_in_the_recording(tmp_path: Path) -> None:
    played = Played(tmp_path, "--fault", "from:client id:2 => drop", messages=[INITIALIZED, *CALLS])
    assert played.server_heard == [0, None, 1, 3]
    assert [f.raw for f in played.frames() if f.fault] == [json.dumps(CALLS[1]).encode()]
    assert played.findings() == THE_PEER_S


def test_what_is_not_matched_is_equal_to_the_byte(tmp_path: Path) -> None:
    messages = [INITIALIZED, *(call(number, "ping", text="é" * number) for number in range(1, 400))]
    faulted = tmp_path / "faulted"
    faulted.mkdir()
    direct = Played(tmp_path, messages=messages)
    played = Played(faulted, "--fault", "tool:none => drop", messages=messages)
    assert played.stdout == direct.stdout
    assert not any(f.fault for f in played.frames())


def test_a_line_cut_in_pieces_arrives_whole(tmp_path: Path) -> None:
    fault = "from:server kind:answer => split 5, gap 10ms"
    played = Played(tmp_path, "--fault", fault, messages=[INITIALIZED, *CALLS])
    assert played.answers == [0, 1, 2, 3]
    assert played.findings() == THE_PEER_S


def test_a_cut_connection_ends_both_sides(tmp_path: Path) -> None:
    fault = "from:client tool:search => disconnect"
    played = Played(tmp_path, "--fault", fault, messages=[INITIALIZED, *CALLS])
    assert played.answers == [0]
    assert played.server_heard == [0, None]
    assert played.findings() == []


def test_a_killed_server_is_our_doing(tmp_path: Path) -> None:
    played = Played(tmp_path, "--fault", "from:client tool:search => kill", messages=[INITIALIZED, *CALLS])
    assert played.returncode == 128 + 9
    assert played.findings() == []


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["--fault", "=> dorp"], "--fault: there is no action dorp; do you mean drop?"),
        (["--faults", "none.toml"], "none.toml: cannot be read (No such file or directory)"),
        (["--fault-seed", "7"], "run: --fault-seed without fault rules; add --faults FILE or --fault"),
        (["--fault", "=> drop", "--fault-seed", "x"], "run: --fault-seed x is not a number"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_server_starts(
    tmp_path: Path, options: list[str], fact: str
) -> None:
    played = Played(tmp_path, *options, messages=[])
    assert (played.returncode, played.stdout) == (2, b"")
    assert played.stderr.startswith(f"mcpproxy: {fact}")
    assert played.stderr.count("\n") == 1
    assert not played.trace.exists()
