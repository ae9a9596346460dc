"""Servers that hang, flood, die, answer garbage or never close: the run ends, says so, and leaves nothing."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.judge.session.frame import SERVER, Frame
from mcpproxy.peers.validate.outcome import Validation
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.record.trace.reader import read_trace
from tests.attacks.floods import Flood
from tests.validate.trial import check, target, tried

PATIENCE_S = 1.5

START_S = 4
"""How long a server is waited for that starts and never answers; by then it must have said who it is."""

LIMIT_S = 60
"""How long a killed process may take to end."""


def endured(
    flaw: str,
    folder: Path,
    only: Sequence[str] = (),
    timeout_s: float = PATIENCE_S,
    start_s: float = 60,
) -> tuple[Validation, list[int]]:
    """The run, and the processes that the server has been."""
    pids = folder / "pids"
    result = tried(target(flaw, SCRIPTED_PIDS=str(pids)), folder, only, timeout_s=timeout_s, start_s=start_s)
    return result, [int(line) for line in pids.read_text().split()]


def running(pids: Sequence[int]) -> list[int]:
    """Those that do not end. A process that was killed takes a moment to, and its parent may be gone."""
    found: list[int] = []
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not is_readable(process, LIMIT_S):
            found.append(pid)
        os.close(process)
    return found


def test_a_server_that_dies_of_a_ping_is_told_so_once(tmp_path: Path) -> None:
    result = tried(target("dies-of-ping"), tmp_path)
    failed = [one.name for one in result.checks if one.status == "failed"]
    assert "ping" in failed
    assert len(failed) <= 2, failed  # that it is not answered is a finding, too
    why = "it takes a ping, and the server does not survive one"
    assert sum(one.conclusion.message == why for one in result.checks) >= 10


@pytest.mark.parametrize(
    ("flaw", "says"),
    [
        ("hanging", f"no answer to initialize within {START_S} s"),
        ("flooding", f"no answer to initialize within {START_S} s"),
        ("one-endless-line", "no answer to initialize"),  # whichever comes first
        ("dying-in-mid-answer", "no answer to initialize: it ended with exit code 7"),
        ("garbage", "something that is not a message"),
    ],
)
def test_who_takes_no_part_is_left_alone(flaw: str, says: str, tmp_path: Path) -> None:
    result, pids = endured(flaw, tmp_path, start_s=START_S)
    assert check(result, "handshake").status == "failed"
    assert says in check(result, "handshake").conclusion.message
    assert not result.is_valid
    later = [one for one in result.checks if one.name in ("list-tools", "large-message", "stdin-eof")]
    assert [one.status for one in later] == ["skipped"] * 3
    assert all("there is no session" in one.conclusion.message for one in later)
    assert len(pids) == 1
    assert running(pids) == []


def test_a_flood_in_the_middle_fails_one_check_and_not_the_next(tmp_path: Path) -> None:
    result, pids = endured("flooding-later", tmp_path, ("list-tools", "call-tools", "list-prompts"))
    assert check(result, "call-tools").status == "warning"
    assert check(result, "call-tools").conclusion.message.startswith("no answer to tools/call within 1.5 s")
    assert check(result, "list-prompts").status == "passed"
    assert running(pids) == []


def test_who_falls_silent_for_good_is_asked_no_more(tmp_path: Path) -> None:
    result, pids = endured("silent-once-open", tmp_path)
    assert check(result, "handshake").status == "passed"
    failed = [one.conclusion.message for one in result.checks if one.status == "failed"]
    assert failed == [
        f"no answer to {method} within 1.5 s" for method in ("ping", "tools/list", "tools/list")
    ]
    assert check(result, "huge-message").conclusion.message == "the server does not answer any more"
    assert running(pids) == []


def test_who_never_closes_is_ended_with_all_its_children(tmp_path: Path) -> None:
    result, pids = endured("never-closing", tmp_path, ("stdin-eof",))
    assert check(result, "stdin-eof").status == "info"
    assert "still running" in check(result, "stdin-eof").conclusion.message
    assert len(pids) == 4  # two sessions, and a child of each
    assert running(pids) == []


def test_a_full_stderr_blocks_nobody(tmp_path: Path) -> None:
    result, pids = endured("noisy-stderr", tmp_path, ("ping", "list-tools"), timeout_s=10)
    assert result.is_valid
    assert running(pids) == []


def test_what_died_is_on_its_recording(tmp_path: Path) -> None:
    endured("dying-in-mid-answer", tmp_path)
    events = read_trace(str(tmp_path / "trace.jsonl")).events()
    said = [event for event in events if isinstance(event, Frame)]
    assert [frame.raw[-6:] for frame in said if frame.sender == SERVER] == [b"2025-1"]


STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
BODY: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@pytest.mark.parametrize("head", [STREAM + b":", BODY, BODY + b'{"jsonrpc":', BODY[:20]], ids=str)
def test_what_our_client_cuts_is_no_fault_of_the_server(head: bytes, tmp_path: Path) -> None:
    with Flood(head, b" ", 0.2) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        result = tried(Target(url=url), tmp_path, ("ping",), timeout_s=1)
    assert check(result, "handshake").conclusion.message == "no answer to initialize within 1 s"
    assert [finding.message for trace in result.traces for finding in trace.findings] == []
