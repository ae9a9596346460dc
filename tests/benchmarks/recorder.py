"""What the recorder costs per frame on stdio and per exchange over HTTP, in processor time.

Journals are written here as a relay does, and completed as after a kill of the recorder, by the same code as
while a session runs. So nothing else competes for the processor, and versions can be compared on a machine
that is busy. ``compare`` says if two versions do not write the same traces, byte for byte.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy.record.relay import journal
from mcpproxy.record.relay.journal import Journal
from tests.benchmarks import http_peers, peers
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT, WrongBytesError
from tests.recorder import http_journals, journals
from tests.recorder.journals import Entry

COUNT: Final = 20_000
SHORT_COUNT: Final = 200
CONNECTIONS: Final = 16

WORK: Final = """
import gc, sys, time
from mcpproxy.record.recorder import checkpoint_state
from mcpproxy.record.recorder.http import assembly
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.recorder.recovery import recover
standard_observer()  # imports the checks, as the recorder does before its first frame
gc.freeze()
begun = time.process_time_ns()
if recover(sys.argv[1]):
    print(time.process_time_ns() - begun)
"""
"""Completes a trace, and prints the processor time of that in nanoseconds."""


@dataclass(frozen=True)
class Traffic:
    """The records of a journal, given the number of units (frames, exchanges or events) that are counted."""

    row: str
    entries: Callable[[int], Iterator[Entry]]


def stdio(size: int, calls_in_a_chunk: int) -> Callable[[int], Iterator[Entry]]:
    """Calls and answers of ``size`` bytes; so many calls, then so many answers, are read at once."""

    def entries(frames: int) -> Iterator[Entry]:
        yield journals.START
        yield journals.client(peers.INITIALIZE)
        yield journals.server(peers.INITIALIZE_RESULT)
        yield journals.client(peers.INITIALIZED)
        for first in range(0, frames // 2, calls_in_a_chunk):
            numbers = range(first, min(first + calls_in_a_chunk, frames // 2))
            texts = [(peers.FIRST_ID + n, peers.text(n, size)) for n in numbers]
            yield journals.client(b"".join(peers.CALL % text for text in texts), 2 * first)
            yield journals.server(b"".join(peers.ANSWER % text for text in texts), 2 * first + 1)
        yield journals.EXIT

    return entries


def http(exchanges: int) -> Iterator[Entry]:
    """Calls of 150 bytes in one session over several connections."""
    session = "Mcp-Session-Id: 0123456789abcdef"
    accept = "Accept: application/json, text/event-stream"
    fields = (session, "Mcp-Protocol-Version: 2025-11-25", accept, "Content-Type: application/json")
    yield http_journals.start()
    for number in range(1, CONNECTIONS + 1):
        yield http_journals.connect(number)
    yield http_journals.client(http_journals.post(http_peers.INITIALIZE, *fields[2:]))
    yield http_journals.server(http_journals.answer(http_peers.INITIALIZE_RESULT, session))
    yield http_journals.client(http_journals.post(http_peers.INITIALIZED, *fields))
    yield http_journals.server(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
    for first in range(0, exchanges, CONNECTIONS):
        calls = list(enumerate(range(first, min(first + CONNECTIONS, exchanges)), start=1))
        for connection, n in calls:
            call = http_peers.CALL % (http_peers.FIRST_ID + n, http_peers.text(n, 150))
            yield http_journals.client(http_journals.post(call, *fields), n, connection)
        for connection, n in calls:
            answer = http_peers.ANSWER % (http_peers.FIRST_ID + n, http_peers.text(n, 150))
            yield http_journals.server(http_journals.answer(answer), n, connection)
    yield journals.EXIT


TRAFFIC: Final = (
    Traffic("stdio, 150 B, one call at a time, µs a frame", stdio(150, 1)),
    Traffic("stdio, 150 B, 64 in flight, µs a frame", stdio(150, 32)),
    Traffic("stdio, 4 KB, 64 in flight, µs a frame", stdio(4096, 8)),
    Traffic("HTTP, 150 B, 16 connections, µs an exchange", http),
)


def run(options: Options) -> list[Section]:
    """Complete every journal; a table of processor time.

    Raises:
        WrongBytesError: something was found in lawful traffic, or a trace was different the second time.
    """
    samples = Samples()
    count = options.size(COUNT, SHORT_COUNT)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as folder:
        trace = Path(folder) / "trace.jsonl"
        for traffic in TRAFFIC:
            kept = Path(folder) / "kept"
            write(kept, traffic.entries(count))
            for _ in range(options.rounds):
                samples.add(traffic.row, "mcpproxy", completed(kept, trace) / count / 1000)
                written = trace.read_bytes()
                digest = hashlib.sha256(written).hexdigest()
                is_same = samples.digests.setdefault(traffic.row, digest) == digest
                if not is_same or b'{"type":"finding"' in written:
                    raise WrongBytesError(f"{traffic.row}: the traces differ, or lawful traffic was accused")
                trace.unlink()
            shutil.rmtree(journal.folder(str(kept)))
    return [Section("recorder", samples, ("mcpproxy",))]


def write(trace: Path, entries: Iterator[Entry]) -> None:
    """Write a journal beside ``trace``, as a relay does."""
    _, payload, at_ns, _ = next(entries)
    written = Journal(str(trace), payload, at_ns)
    for kind, payload, at_ns, connection in entries:
        written.append(kind, at_ns, payload, connection)
    written.close(at_ns)


def completed(kept: Path, trace: Path) -> int:
    """Complete ``trace`` from a copy of a journal; the processor time in nanoseconds.

    Raises:
        WrongBytesError: it cannot be completed.
    """
    shutil.copytree(journal.folder(str(kept)), journal.folder(str(trace)))
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(trace)], cwd=ROOT, capture_output=True, check=False
    )
    if not done.stdout.strip():
        raise WrongBytesError(f"{trace.name} was not completed: {done.stderr.decode()[-300:]}")
    return int(done.stdout)
