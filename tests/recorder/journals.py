"""Journals to record from, as a relay would have left them, and judges to record with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mcpproxy.judge.session.frame import Close, Event, Finding, Frame
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.judge import Observing
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.writer import TraceWriter

Entry = tuple[int, bytes, int, int]

STARTED_NS: Final = 1000


def start(pid: int = 0, started_ns: int = STARTED_NS) -> Entry:
    """The START record of a relay with this ``pid``; 0 is nobody's, so that it counts as dead."""
    payload = {
        "transport": "stdio",
        "command": ["srv", "\udcff"],
        "label": "srv",
        "cwd": "/",
        "pid": pid,
        "started_at": "2026-11-21T10:20:30.123456Z",
        "started_ns": started_ns,
        "mcpproxy": "0.1.0",
    }
    return journal.START, json.dumps(payload).encode(), started_ns, 0


START: Final = start()
EXIT: Final = (journal.EXIT, b'{"ending":"exited","code":0,"signal":null}', STARTED_NS + 900, 0)


def client(raw: bytes, at: int = 1) -> Entry:
    return journal.CLIENT, raw, STARTED_NS + at, 0


def server(raw: bytes, at: int = 2) -> Entry:
    return journal.SERVER, raw, STARTED_NS + at, 0


def stderr(raw: bytes, at: int = 3) -> Entry:
    return journal.STDERR, raw, STARTED_NS + at, 0


def mark(kind: int, payload: bytes = b"", at: int = 4) -> Entry:
    return kind, payload, STARTED_NS + at, 0


def gap(client: int = 0, server: int = 0, stderr: int = 0) -> Entry:
    return mark(
        journal.GAP,
        json.dumps({"reason": "full", "client": client, "server": server, "stderr": stderr}).encode(),
    )


SESSION: Final = [
    START,
    client(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0",', 10),
    server(b'{"jsonrpc":"2.0","id":1,"result":{}}\nnot json\n', 20),
    stderr(b"log line\nhalf a ", 21),
    client(b'"id":2,"method":"ping"}\n', 30),
    stderr(b"line\n\xff\n", 31),
    mark(journal.SIGNAL, b"SIGTERM", 40),
    client(b"no end", 50),
    mark(journal.CLIENT_EOF, at=51),
    server(b'{"jsonrpc":"2.0","id":2,"result":{}}\n', 60),
    gap(server=5),
    server(b"\xfe\n", 70),
    mark(journal.SERVER_EOF, at=71),
    mark(journal.STDERR_EOF, at=72),
    EXIT,
]
"""A session with one of everything."""


def packed(*entries: Entry) -> bytes:
    return b"".join(
        journal.HEAD.pack(len(payload), kind, connection, at) + payload
        for kind, payload, at, connection in entries
    )


class JournalFolder:
    """The journal beside ``trace``; ``append`` is the relay that goes on writing."""

    def __init__(self, trace: Path, *segments: list[Entry]) -> None:
        self.path = Path(journal.folder(str(trace)))
        self.path.mkdir(0o700)
        for number, entries in enumerate(segments, start=1):
            self.append(number, packed(*entries))

    def append(self, segment: int, data: bytes) -> None:
        with (self.path / journal.segment_name(segment)).open("ab") as file:
            file.write(data)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())


class Accuser:
    """A judge with a finding for every frame, which counts the frames and keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    def observe(self, event: Event) -> list[Finding]:
        self.seen.append(event)
        match event:
            case Frame(seq=seq, sender=sender):
                return [Finding("TEST-001", "warning", sender, f"{len(self.seen)} events seen", seq)]
            case Close():
                return [Finding("TEST-002", "info", "server", f"{len(self.seen)} events seen", 0)]
            case _:
                return []


class Fragile(Accuser):
    """A judge that breaks at the third frame."""

    def observe(self, event: Event) -> list[Finding]:
        if isinstance(event, Frame) and event.seq == 3:
            raise RuntimeError("out of\n\nideas")
        return super().observe(event)


class WriterWithReader(TraceWriter):
    """A writer that closes the reader of the journal, too."""

    def __init__(self, trace: Path) -> None:
        super().__init__(str(trace))
        self.reader: Final = JournalReader(journal.folder(self.path))

    def close(self) -> None:
        super().close()
        self.reader.close()


def recording(
    trace: Path, make: Callable[[], Observing] = Accuser, live: StderrNotes | None = None
) -> tuple[RecordingPipeline, TraceWriter]:
    """A recording of the journal beside ``trace``, and its writer, which closes all that is open."""
    writer = WriterWithReader(trace)
    return RecordingPipeline(writer.reader, writer, make, live or StderrNotes(None)), writer


def record(trace: Path, make: type[Observing] = Accuser) -> None:
    """Record the journal beside ``trace`` from start to end; the journal stays."""
    session, writer = recording(trace, make)
    session.drain()
    assert session.finish()
    writer.close()


def read(trace: Path) -> list[Event | Finding]:
    return list(read_trace(str(trace)).events())
