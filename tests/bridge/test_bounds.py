"""What clients without a token may make ``bridge --stdio`` keep, and what an upstream may make it read."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import pytest

from mcpproxy.peers.bridge import session_table
from mcpproxy.peers.bridge.server_process import ServerProcess
from mcpproxy.peers.bridge.session_recordings import SessionJournal, SessionRecordings
from mcpproxy.peers.bridge.session_table import HttpSessions
from mcpproxy.peers.bridge.stdio_session import SESSION_BYTES, StdioSession
from mcpproxy.peers.session_server.request_body import BODIES_BYTES, LONGEST_BODY
from mcpproxy.peers.session_server.resumable_streams import ResumableStream
from mcpproxy.protocol.jsonrpc import parse
from tests.bridge.ends import DEADLINE_S, Bridge, Reply, call, result

MIB: Final = 1 << 20


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    with Bridge(tmp_path, "--event-streams") as bridge:
        yield bridge


def unfinished(bridge: Bridge, length: int) -> socket.socket:
    """The connection of a request that says how long its body is, and sends none of it."""
    url = urlsplit(bridge.url)
    assert url.hostname is not None
    connection = socket.create_connection((url.hostname, url.port or 0), DEADLINE_S)
    head = f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def refused(reply: Reply, status: int) -> str:
    assert reply.status == status
    text: str = json.loads(reply.body())["error"]["message"]
    return text


def test_bodies_that_do_not_come_leave_room_for_small_ones(bridge: Bridge) -> None:
    session = bridge.begin()
    large = call(2, result(2), padding="x" * MIB)
    with ExitStack() as connections:
        for _ in range(BODIES_BYTES // LONGEST_BODY):
            connections.enter_context(unfinished(bridge, LONGEST_BODY))
            assert bridge.ask(call(1, result(1)), session).event()["id"]  # by now the head has been read
        one = connections.enter_context(unfinished(bridge, LONGEST_BODY))
        answer = one.recv(MIB)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5\r\n" in answer
        assert "leave no room for this body; try again" in refused(bridge.ask(large, session), 503)
        assert result(3) in bridge.ask(call(3, result(3)), session).body()
    end = time.monotonic() + DEADLINE_S
    while (reply := bridge.ask(large, session)).status == 503 and time.monotonic() < end:
        reply.body()  # the ends of the connections are on their way
    assert result(2) in reply.body()


def test_a_body_that_is_too_long_is_refused_before_it_comes(bridge: Bridge) -> None:
    with unfinished(bridge, LONGEST_BODY + 1) as connection:
        assert connection.recv(MIB).startswith(b"HTTP/1.1 413 ")


def test_a_session_keeps_the_newest_answers_of_clients_that_have_left(bridge: Bridge) -> None:
    session = bridge.begin()
    large = '{"jsonrpc":"2.0","id":%d,"result":{"large":"' + "x" * MIB + '"}}'
    count = SESSION_BYTES // MIB + 4
    ids: list[str] = []
    for number in range(1, count + 1):
        reply = bridge.ask(call(number), session)
        ids.append(reply.event()["id"].decode())
        reply.drop()
    answers = [large % number for number in range(1, count + 1)]
    last = bridge.ask(call("all", *answers, result("all")), session)
    assert [event["data"] for event in last.events()][-1] == result("all")

    first = bridge.ask(method="GET", session=session, Last_Event_ID=ids[0])
    assert "are not kept" in refused(first, 400)
    newest = bridge.ask(method="GET", session=session, Last_Event_ID=ids[-1])
    assert [event["data"].decode() for event in newest.events()] == answers[-1:]


class _NoProcess:
    """In the place of a process: it takes everything, and nothing is read from it."""

    is_held = False

    def hold_output(self, *, is_held: bool) -> None:
        self.is_held = is_held

    async def write(self, line: bytes) -> bool:
        del line
        return True


def _sessions(process: _NoProcess) -> HttpSessions:
    def make(*_: object) -> ServerProcess:
        return cast("ServerProcess", process)

    return HttpSessions(make, lambda text: None, 64, 60.0)


async def _kept(sessions: HttpSessions, megabytes: int) -> StdioSession:
    session = sessions.begin()
    for _ in range(megabytes):
        session.get_stream.put(b"x" * MIB)
    return session


async def _total() -> tuple[int, int]:
    sessions = _sessions(_NoProcess())
    quiet = await _kept(sessions, 1)
    greedy = [await _kept(sessions, 4) for _ in range(8)]
    return quiet.kept_bytes, sum(one.kept_bytes for one in greedy)


def test_all_sessions_share_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_table, "TOTAL_BYTES", 16 * MIB)
    quiet, greedy = asyncio.run(_total())
    assert quiet > MIB
    assert quiet + greedy <= 16 * MIB


async def _full_and_taken() -> None:
    process = _NoProcess()
    session = _sessions(process).begin()
    streams: list[ResumableStream] = []
    for number in range(6):  # each keeps less than a stream may keep, and all more than a session
        line = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number
        answer = await session.send_requests(line, parse(line), {(int, number): b"%d" % number})
        answer.begin_stream(primes=False)
        session.keep_stream(answer.stream)
        streams.append(answer.stream)
    for _ in range(3):
        for stream in streams:
            stream.put(b"x" * MIB)
    assert process.is_held
    readers = [stream.read() for stream in streams]
    for reader in readers:
        for _ in range(3):
            await anext(reader)
    assert not process.is_held  # and all are still connected


def test_a_server_is_read_on_when_the_clients_of_a_full_session_have_taken_all() -> None:
    asyncio.run(_full_and_taken())


async def _full_and_left() -> int:
    session = _sessions(_NoProcess()).begin()
    stream = session.get_stream
    stream.await_client()
    for _ in range(sys.getrecursionlimit()):
        stream.put(b"small")
    for _ in range(SESSION_BYTES // MIB + 1):
        stream.put(b"x" * MIB)
    reader = stream.read()
    await anext(reader)
    await reader.aclose()
    return session.kept_bytes


def test_a_client_may_leave_any_number_of_small_events_of_a_full_session() -> None:
    assert asyncio.run(_full_and_left()) <= SESSION_BYTES


_CLOSES_STDIN: Final = "import os, signal; os.read(0, 1); os.close(0); signal.pause()"


async def _is_written_to_a_pipe_that_breaks() -> bool:
    journal = SessionJournal(cast("SessionRecordings", None), 1, None)
    command = [sys.executable, "-S", "-c", _CLOSES_STDIN]
    process = ServerProcess(
        command, lambda _: journal, lambda _: None, lambda _: None, lambda _: None, grace_s=0
    )
    try:
        return await process.write(b"x" * MIB)
    finally:
        process.stop()
        await process.wait()


def test_a_message_is_not_written_if_the_pipe_breaks_while_it_waits_for_room() -> None:
    assert not asyncio.run(_is_written_to_a_pipe_that_breaks())
