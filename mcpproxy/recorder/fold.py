"""Finish the trace of a session whose recorder was killed, from the journal that it left behind.

Folding is what the recorder would have done: it goes on from the checkpoint with the same code. It can be
killed itself at any point and done again.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mcpproxy.errors import TraceError
from mcpproxy.recorder import follow
from mcpproxy.recorder.alive import is_relay_alive
from mcpproxy.recorder.filed import restore
from mcpproxy.recorder.follow import Checkpoint, JournalReader
from mcpproxy.recorder.frozen import FrozenStateError, thaw
from mcpproxy.recorder.http import HttpAssembly
from mcpproxy.recorder.judge import Observing, observer, observer_later
from mcpproxy.recorder.live import Live
from mcpproxy.recorder.lock import Lock
from mcpproxy.recorder.payloads import header_of
from mcpproxy.recorder.pipeline import Recording
from mcpproxy.relay import journal
from mcpproxy.trace import chain
from mcpproxy.trace.format import Header, encode_header
from mcpproxy.trace.reader import read_trace
from mcpproxy.trace.writer import TraceWriter


def fold(trace: str, make_observer: Callable[[], Observing] | None = None) -> bool:
    """Fold the journal beside ``trace`` in, if there is one and its session is over; whether it did.

    Raises:
        TraceError: the file is not the one that the journal belongs to, or is damaged, or there is no
            room for the rest of it. The journal stays.
        OSError: something could not be read or written. The journal stays.
    """
    folder = journal.folder(trace)
    if not os.path.isdir(folder):
        return False
    lock = Lock.take(folder)
    if lock is None:
        return False
    try:
        return _fold(trace, folder, make_observer or observer)
    finally:
        lock.release()


def _fold(trace: str, folder: str, make_observer: Callable[[], Observing]) -> bool:
    files = chain.files_of(trace)
    if _is_closed(files[-1]):  # only the deleting was left to do
        follow.remove(folder)
        return True
    start = follow.read_checkpoint(folder) or Checkpoint()
    path = os.path.join(os.path.dirname(trace), os.path.basename(start.file) or os.path.basename(trace))
    if path not in files:
        raise TraceError(path, None, "is missing, and the recording was to go on in it", "put it back")
    before, after = tuple(files[: files.index(path)]), files[files.index(path) + 1 :]
    header = read_trace(trace).header if start.trace_bytes else _started(folder)
    if header is None or is_relay_alive(header):
        return False
    continues = os.path.basename(before[-1]) if before else ""
    _refuse_stranger(path, replace(header, continues=continues), start.trace_bytes)
    for later in after:  # it all comes again
        os.unlink(later)
    if start.terms is not None:
        make_observer = partial(observer_later, start.terms)
    reader = JournalReader(folder, start)
    writer = TraceWriter(path, resume_at=start.trace_bytes)
    try:
        if not writer.flush():  # cuts off what was filed after the checkpoint: it comes again
            raise TraceError(trace, None, f"cannot be completed: {writer.fault}", "see to it and try again")
        filed = restore(path, start.trace_bytes, make_observer, _assembly(folder, start), before)
        recording = Recording(
            reader, writer, make_observer, Live(None), start, filed, judge_by=observer_later
        )
        reader.end()
        recording.drain()
        if not recording.finish():
            raise TraceError(trace, None, f"cannot be completed: {writer.fault}", "make room and try again")
    finally:
        reader.close()
        writer.close()
    follow.remove(folder)
    return True


def _assembly(folder: str, start: Checkpoint) -> HttpAssembly | None:
    if start.assembly is None:
        return None
    try:
        return thaw(start.assembly, [bytes(run) for run in start.long])
    except FrozenStateError:
        raise TraceError(
            folder, None, "the checkpoint is damaged", "the trace is whole up to its last line"
        ) from None


def _is_closed(trace: str) -> bool:
    """Whether the last line of the trace is a close record."""
    try:
        with open(trace, "rb") as file:
            file.seek(-min(os.fstat(file.fileno()).st_size, 64 << 10), os.SEEK_END)
            end = file.read()
    except FileNotFoundError:
        return False
    last = end[end.rfind(b"\n", 0, -1) + 1 :]
    return last.startswith(b'{"type":"close",') and last.endswith(b"}\n")


def _started(folder: str) -> Header | None:
    """What the START record says; ``None`` if the relay was killed before it wrote one."""
    reader = JournalReader(folder)
    try:
        entries = reader.read()
    finally:
        reader.close()
    if not entries:
        return None
    kind, payload, *_ = entries[0]
    return header_of(payload) if kind == journal.START else None


def _refuse_stranger(trace: str, header: Header, trace_bytes: int) -> None:
    """Folding cuts the file back to the checkpoint, which must not cost another file its content."""
    expected = encode_header(header)
    try:
        with open(trace, "rb") as file:
            found = file.read(len(expected))
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return
    if not expected.startswith(found) or size < trace_bytes:
        raise TraceError(trace, None, "is not the trace of the journal beside it", "move one of the two away")
