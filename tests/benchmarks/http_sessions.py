"""One measured load over HTTP: the server, the load client, and what the trace holds of it."""

import atexit
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from tests.benchmarks import http_peers as peers
from tests.benchmarks.sessions import HERE, ROOT, WrongBytesError


@cache
def peer_command() -> tuple[str, ...]:
    """The server and load client: compiled where there are a C compiler and epoll, in Python elsewhere."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return (sys.executable, "-m", "tests.benchmarks.http_peers")
    folder = tempfile.mkdtemp(prefix="mcpproxy-peers-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = str(Path(folder) / "http_peers")
    subprocess.run((compiler, "-O2", "-o", program, str(HERE / "http_peers.c")), check=True)
    return (program,)


@contextmanager
def server() -> Generator[int, None, None]:
    """A running server; its port."""
    with subprocess.Popen(
        [*peer_command(), "serve"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


# The load.


@dataclass(frozen=True)
class Load:
    """``count`` calls over ``connections``: of ``size`` bytes, or each answered by ``size`` events and one
    more that ends it."""

    kind: Literal["call", "stream"]
    connections: int
    count: int
    size: int

    @property
    def last_sign(self) -> bytes:
        """What stands in the trace when all calls do: the answer to the one that is made at the end."""
        return b'"id":%d,"result"' % (peers.FIRST_ID + self.count)

    def call(self, index: int) -> tuple[bytes, Iterator[bytes]]:
        """The message of call number ``index``, and those that answer it."""
        id = peers.FIRST_ID + index
        if index == self.count:  # the last one, made alone
            return peers.CALL % (id, b""), iter([peers.ANSWER % (id, b"")])
        if self.kind == "stream":
            return peers.COUNT % (id, id, self.size), peers.events(id, self.size)
        said = peers.text(index, self.size)
        return peers.CALL % (id, said), iter([peers.ANSWER % (id, said)])


@dataclass(frozen=True)
class Outcome:
    """What the calls took; of each call until its answer was there, or its first event."""

    seconds: float
    p50_us: float
    p99_us: float
    finished_ns: int


class Client:
    """A load client that has shaken hands and waits to be told to go.

    Used as a context manager: leaving it closes its connections.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @classmethod
    def calling(cls, name: str, port: int, load: Load) -> Self:
        numbers = (port, load.connections, load.count, load.size)
        return cls(name, [*peer_command(), load.kind, *map(str, numbers)])

    @classmethod
    def holding(cls, name: str, port: int) -> Self:
        return cls(name, [*peer_command(), "open", str(port)])

    def go(self) -> Outcome:
        """Make the calls; every byte of every answer has been compared when this returns."""
        return self.go_and_tell()[0]

    def go_and_tell(self) -> tuple[Outcome, str]:
        """Make the calls; what they took, and what else the client says of them."""
        seconds, p50, p99, finished, *told = self._ask("", "done")
        return Outcome(float(seconds), float(p50), float(p99), int(finished)), " ".join(told)

    def hold(self, streams: int) -> None:
        """Have so many idle streams open."""
        self._ask(str(streams), "done")

    def __enter__(self) -> Self:
        self._heard("ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # it may be in the middle of something
            self._process.kill()
        self._process.communicate()

    def _ask(self, line: str, word: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        return self._heard(word)

    def _heard(self, word: str) -> list[str]:
        assert self._process.stdout is not None
        said, *values = (self._process.stdout.readline() or b"nothing").decode().split()
        if said != word:
            complaint = self._process.communicate()[1].decode(errors="replace").strip()
            raise WrongBytesError(f"{self._name}: waited for {word!r}: {complaint or said}")
        return values


# The trace.

_EXCHANGE: Final = re.compile(rb'"exchange":(\d+)')


def verify(trace: Path, load: Load) -> None:
    """Every request, answer and event is in the trace, once, in its exchange, with its bytes; no finding.

    Raises:
        WrongBytesError: that is not so.
    """
    unsaid: dict[int, Iterator[bytes]] = {}  # by exchange, what the server will have said
    calls: set[int] = set()
    for exchange, sender, message in frames(trace, requests=load.count + 3):
        if sender == b"client":
            if message in (peers.INITIALIZE, peers.INITIALIZED):
                sent = message
                unsaid[exchange] = iter([peers.INITIALIZE_RESULT] if message == peers.INITIALIZE else [])
            else:
                index = int(message[peers.IN_HEAD : peers.IN_HEAD + 7]) - peers.FIRST_ID
                calls.add(index)
                sent, unsaid[exchange] = load.call(index)
        else:
            sent = next(unsaid.get(exchange, iter(())), b"nothing")
        if message != sent:
            raise WrongBytesError(
                f"{trace.name}: exchange {exchange}: {message[:200]!r} is not what was sent"
            )
    if calls != set(range(load.count + 1)):
        raise WrongBytesError(f"{trace.name}: {len(calls)} of {load.count + 1} calls are there")
    if any(next(rest, None) is not None for rest in unsaid.values()):
        raise WrongBytesError(f"{trace.name}: an answer is not there as a whole")


def verify_streams(trace: Path, streams: int) -> None:
    """As ``verify``, of idle streams.

    Raises:
        WrongBytesError: that is not so.
    """
    held = sum(sender == b"server" and not message for _, sender, message in frames(trace, streams + 2))
    if held != streams:
        raise WrongBytesError(f"{trace.name}: {held} of {streams} streams are there")


def frames(trace: Path, requests: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Exchange, sender and message of each frame; everything else in the trace is seen to be in order.

    Raises:
        WrongBytesError: it is not.
    """
    kinds: Counter[bytes] = Counter()
    pieces: dict[tuple[int, bytes], list[bytes]] = {}
    seq = 0
    with trace.open("rb") as file:
        for record in file:
            kind = record[9 : record.index(b'"', 9)]
            kinds[kind] += 1
            if kind in (b"finding", b"gap") or (kind == b"close" and b'"judge_error":null' not in record):
                raise WrongBytesError(f"{trace.name}: in a clean session: {record[:300]!r}")
            if kind in (b"request", b"response", b"frame"):
                seq += 1
                if not record.startswith(b'{"type":"%b","seq":%d,' % (kind, seq)):
                    raise WrongBytesError(f"{trace.name}: number {seq} is not in its place: {record[:99]!r}")
            if kind == b"frame":
                head, _, message = record.partition(b'"message":')
                found = _EXCHANGE.search(head[:300])
                exchange = int(found[1]) if found else 0
                sender = b"client" if b'"from":"client"' in head[:300] else b"server"
                if b'"text":' not in head[:300]:
                    yield exchange, sender, message[:-2]
                    continue
                # What is too long to be judged stands there as text, in pieces.
                piece = json.loads(record)
                pieces.setdefault((exchange, sender), []).append(piece["text"].encode())
                if not piece.get("continues"):
                    yield exchange, sender, b"".join(pieces.pop((exchange, sender)))
    if (kinds[b"request"], kinds[b"response"], kinds[b"end"]) != (requests, requests, requests):
        raise WrongBytesError(f"{trace.name}: of {requests} requests, these are there: {dict(kinds)}")
