"""A sidecar under a limit of memory, as a container has: what holds, and what happens at the limit."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.session.frame import ExchangeEnd
from mcpproxy.read.opening import follow, open_trace
from mcpproxy.record.relay import journal
from tests.recorder.test_memory import ACCEPT, JUDGED, LARGE, SMALL, answer, call, result, rows, text
from tests.relay.hosts import DEADLINE_S
from tests.relay.http_peers import Peer, Upstream, request
from tests.trace.bodies import body_bytes

ROOT: Final = Path("/sys/fs/cgroup")
ATTEMPTS: Final = 5
OK: Final = b'{"jsonrpc":"2.0","id":1,"result":{}}'


class Container:
    """Processes that may use ``limit_bytes`` of memory together."""

    def __init__(self, limit_bytes: int, number: int) -> None:
        self._is_old: Final = (ROOT / "memory").is_dir()
        self.path: Final = (
            ROOT / "memory" if self._is_old else ROOT
        ) / f"mcpproxy-test-{os.getpid()}-{number}"
        self.path.mkdir()
        name = "memory.limit_in_bytes" if self._is_old else "memory.max"
        (self.path / name).write_text(str(limit_bytes))

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        """Remove the limit as soon as the last process has ended."""
        end = time.monotonic() + DEADLINE_S
        while (self.path / "cgroup.procs").read_text():
            assert time.monotonic() < end
            select.select([], [], [], 0.02)  # nothing tells when
        self.path.rmdir()

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed because of the limit."""
        file = self.path / ("memory.oom_control" if self._is_old else "memory.events")
        return int(file.read_text().partition("oom_kill ")[2].split()[0])

    @property
    def most_bytes(self) -> int:
        return int((self.path / ("memory.max_usage_in_bytes" if self._is_old else "memory.peak")).read_text())


@pytest.fixture
def container() -> Iterator[Callable[[int], Container]]:
    made: list[Container] = []

    def make(limit_bytes: int) -> Container:
        try:
            made.append(Container(limit_bytes, len(made)))
        except OSError as fault:
            pytest.skip(f"no limit of memory can be set: {fault.strerror}")
        return made[-1]

    yield make
    for each in made:
        each.remove()


class Proxied:
    """A client and a server with `mcpproxy http` between them, in a container."""

    def __init__(self, container: Container, trace: Path) -> None:
        self.trace: Final = str(trace)
        self._upstream: Final = Upstream()
        options = (f"{self._upstream.origin}/mcp", "--listen", "127.0.0.1:0", "--trace", self.trace)
        self.process: Final = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy", "http", *options],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=container.enter,
        )
        assert self.process.stderr is not None
        port = int(self.process.stderr.readline().partition("http://127.0.0.1:")[2].partition("/")[0])
        self.client: Final = Peer(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
        self._server: Peer | None = None

    def exchange(self, body: bytes, answered: bytes) -> None:
        sending = self.client.send_aside(request(body, *ACCEPT, line=b"POST /mcp HTTP/1.1"))
        server = self._server = self._server or self._upstream.accept()
        server.read_head()
        assert server.read(len(body)) == body
        sending.join()
        sending = server.send_aside(answered)
        assert self.client.read(len(answered)) == answered
        sending.join()

    def end(self) -> str:
        """End the proxy; return what it said."""
        self.client.close()
        self.process.terminate()
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            said = stderr.read()
        self.process.wait(DEADLINE_S)
        self._upstream.close()
        return said


def test_128_mib_are_enough_for_bodies_of_50_mib(
    container: Callable[[int], Container], tmp_path: Path
) -> None:
    limited = container(128 << 20)
    proxied = Proxied(limited, tmp_path / "t.jsonl")
    body, answered = call(text(LARGE)), answer(result(text(LARGE)))
    proxied.exchange(body, answered)
    proxied.exchange(call(rows(JUDGED)), answer(result(rows(JUDGED))))
    ended = 0
    for event in follow(proxied.trace):
        ended += isinstance(event, ExchangeEnd)
        if ended == 2:
            break
    assert limited.kills == 0
    proxied.end()
    records = list(open_trace(proxied.trace).records())
    assert body_bytes(records, 1, "client") == body
    assert body_bytes(records, 1, "server") == answered.partition(b"\r\n\r\n")[2]


def test_at_the_limit_the_recorder_is_killed_and_the_traffic_passes(
    container: Callable[[int], Container], tmp_path: Path
) -> None:
    for attempt in range(ATTEMPTS):
        limited = container(32 << 20)
        proxied = Proxied(limited, tmp_path / f"{attempt}.jsonl")
        body = call(rows(JUDGED))
        try:
            count = exchanges_until_killed(proxied, limited, body)
        except (AssertionError, OSError):
            proxied.end()
            if limited.kills < 2:
                raise
            continue  # the kernel needed memory before the recorder had given its own back
        proxied.end()
        assert limited.kills == 1
        assert Path(journal.folder(proxied.trace)).is_dir()
        trace = open_trace(proxied.trace)  # completes it
        records = list(trace.records())
        assert body_bytes(records, 1, "client") == body
        assert sum(isinstance(record, ExchangeEnd) for record in records) == count
        assert (trace.notes, trace.complete) == ([], True)
        return
    pytest.fail(f"in {ATTEMPTS} attempts, the kernel killed the relay too")


def exchanges_until_killed(proxied: Proxied, limited: Container, body: bytes) -> int:
    """Make exchanges until the recorder is killed and the proxy has said so, and then 20 more; how many."""
    proxied.exchange(body, answer(OK))
    count = 21
    end = time.monotonic() + DEADLINE_S
    while not limited.kills:
        assert time.monotonic() < end
        proxied.exchange(SMALL, answer(OK))
        count += 1
    assert proxied.process.stderr is not None
    stopped = "the recorder has stopped; the proxy goes on and the journal keeps the traffic"
    assert any(stopped in line for line in proxied.process.stderr)
    for _ in range(20):
        proxied.exchange(SMALL, answer(OK))
    return count
