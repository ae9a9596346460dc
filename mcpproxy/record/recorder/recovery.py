"""Complete the trace of a session whose recorder (the process that makes the trace) was killed, from the
journal (the relay's copy of the traffic).

Recovery continues from the checkpoint, the last position that the recorder saved, with the same code as the
recorder. If recovery is killed, it can be repeated."""

import os
import struct
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from shutil import rmtree
from typing import Final

from mcpproxy.base.files import Folder, open_regular
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError, TraceError
from mcpproxy.record.recorder import foreign_journals, journal_reader
from mcpproxy.record.recorder.checkpoint import Checkpoint, damaged, read_checkpoint
from mcpproxy.record.recorder.checkpoint_state import StateError, restore_assembly
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.judge import Observing, observer_for, standard_observer
from mcpproxy.record.recorder.liveness import is_relay_there
from mcpproxy.record.recorder.lock import Lock, is_held_by_relay
from mcpproxy.record.recorder.payloads import header_of
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.recorder.trace_state import restore
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.encode import encode_header
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import Header
from mcpproxy.record.trace.writer import TraceWriter

_DAMAGE_ERRORS: Final = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError,
    struct.error,
)  # fmt: skip
"""The exceptions that a journal from an unknown source may cause: the objects of its checkpoint may have
wrong attributes."""


def recover(trace: str, make_observer: Callable[[], Observing] | None = None) -> bool:
    """Complete ``trace`` from the journal beside it, if there is a journal and its session is over.

    ``make_observer`` makes the judge unless the journal names rules; ``None`` means the built-in rules.

    Returns:
        Whether there was a journal and the trace is complete now.

    Raises:
        ForeignJournalError: the files must not be changed (see ``foreign_journals``). Nothing was changed.
        TraceError: the journal belongs to another file, or is damaged, or there is no room for the rest of
            the trace. The journal stays.
        OSError: a file could not be read or written. The journal stays.
    """
    folder = journal.folder(trace)
    try:
        foreign_journals.refuse_foreign(Folder(folder), chain.files_of(trace))
        lock = Lock.take(folder)
    except FileNotFoundError:
        return False
    except OSError as fault:
        raise foreign_journals.read_only_error(fault, folder) or fault from None
    if lock is None:
        return False
    try:
        with refuse_damage(folder):
            return _complete(trace, folder, make_observer or standard_observer)
    finally:
        lock.release()


@contextmanager
def refuse_damage(folder: str) -> Generator[None]:
    """Raise a ``TraceError`` in place of any exception that a damaged journal may cause."""
    try:
        yield
    except _DAMAGE_ERRORS as fault:
        fact = str(fault) if isinstance(fault, NotARecordError) else f"{type(fault).__name__}: {fault}"
        next_step = "the trace is whole up to its last line"
        raise TraceError(folder, None, f"the journal is damaged: {fact}", next_step) from None


def is_session_over(trace: str) -> bool:
    """Whether the relay of a recording has certainly ended, even if its recorder is still at work."""
    try:
        folder = Folder(journal.folder(trace))
        with refuse_damage(folder.path):
            try:
                header = read_trace(trace).header
            except TraceError:  # the recorder has not written the header yet
                header = header_in_journal(folder.path)
    except FileNotFoundError:  # the recorder has just removed its journal
        return True
    except (OSError, McpProxyError):
        return False
    return header is not None and not is_relay_there(folder, header)


def recover_copy(trace: str) -> str:
    """Complete a copy of a recording in a new temporary folder. If a path is returned, the caller has to
    delete the folder.

    Returns:
        The path of the first file of the copy; empty if the recording is still being made, or if its journal
        has no header yet.

    Raises:
        TraceError: as in ``recover``.
        McpProxyError: a file could not be read or written.
        OSError: the journal's folder could not be opened, or the temporary folder not made.
    """
    # The copy has no locks, so the locks of the original are tested.
    if foreign_journals.is_recording(trace) or is_held_by_relay(Folder(journal.folder(trace))):
        return ""
    folder = tempfile.mkdtemp(prefix="mcpproxy-")
    is_done = False
    try:
        copied = foreign_journals.copy_recording(chain.files_of(trace), folder)
        is_done = recover(copied)
        return copied if is_done else ""
    except OSError as fault:
        raise McpProxyError(os_reason(fault)) from None
    finally:
        if not is_done:
            rmtree(folder, ignore_errors=True)


def _complete(trace: str, folder: str, make_observer: Callable[[], Observing]) -> bool:
    """Complete the trace, unless its relay is still running or has written no header.

    Return whether the trace is complete.
    """
    if _is_closed(chain.files_of(trace)[-1]):  # the recorder was killed before it deleted the journal
        journal_reader.remove(folder)
        return True
    start = read_checkpoint(folder) or Checkpoint()
    earlier_files, path, later_files = files_around(start, trace)
    header = read_trace(trace).header if start.trace_bytes else header_in_journal(folder)
    if header is None or is_relay_there(Folder(folder), header):
        return False
    expected = replace(header, continues=chain.name_before(path, earlier_files))
    _refuse_other_trace(path, expected, start.trace_bytes)
    _refuse_hole(folder, start.segment)
    for previous, later in pairwise((path, *later_files)):
        _refuse_other_trace(later, replace(header, continues=os.path.basename(previous)), 0)
    for later in later_files:  # their records are in the journal and are written again
        os.unlink(later)
    reader = JournalReader(folder, start)
    writer = TraceWriter(path, resume_at=start.trace_bytes)
    try:
        # ``flush`` cuts off the records after the checkpoint, which are written again.
        if not writer.flush():
            raise TraceError(trace, None, f"cannot be completed: {writer.fault}", "see to it and try again")
        recording = resume_recording(start, reader, writer, earlier_files, make_observer)
        reader.end()
        recording.drain()
        if not recording.finish():
            raise TraceError(trace, None, f"cannot be completed: {writer.fault}", "make room and try again")
    except (TraceError, *_DAMAGE_ERRORS):
        writer.flush()  # the trace was cut to the checkpoint: write the records before the damage again
        raise
    finally:
        reader.close()
        writer.close()
    journal_reader.remove(folder)
    return True


def files_around(start: Checkpoint, trace: str) -> tuple[tuple[str, ...], str, list[str]]:
    """Return the files of a recording before its current file, the current file, and the files after it.

    Recording continues in the current file, which ``start`` names. ``trace`` is the first file.

    Raises:
        TraceError: the current file is missing.
    """
    files = chain.files_of(trace)
    path = os.path.join(os.path.dirname(trace), os.path.basename(start.file) or os.path.basename(trace))
    if path not in files:
        raise TraceError(path, None, "is missing, and the recording was to go on in it", "put it back")
    at = files.index(path)
    return tuple(files[:at]), path, files[at + 1 :]


def resume_recording(
    start: Checkpoint,
    reader: JournalReader,
    writer: TraceWriter,
    earlier_files: tuple[str, ...],
    make_observer: Callable[[], Observing],
) -> RecordingPipeline:
    """Return a recording that continues from the checkpoint ``start``.

    ``earlier_files`` are the files of the recording before that of ``writer``. ``make_observer`` makes the
    judge unless the checkpoint names the rules.

    Raises:
        TraceError: the trace or the checkpoint is damaged.
    """
    if start.rule_options is not None:
        make_observer = partial(observer_for, start.rule_options, is_found=True)
    try:
        long = [bytes(run) for run in start.long]
        assembly = None if start.assembly is None else restore_assembly(start.assembly, long)
    except StateError:
        raise damaged(reader.folder) from None
    state = restore(writer.path, start.trace_bytes, make_observer, assembly, earlier_files)
    return RecordingPipeline(reader, writer, make_observer, StderrNotes(None), start, state, is_found=True)


def _is_closed(trace: str) -> bool:
    """Whether the last line of the trace is a close record."""
    try:
        with open(open_regular(trace), "rb") as file:
            file.seek(-min(os.fstat(file.fileno()).st_size, 64 << 10), os.SEEK_END)
            tail = file.read()
    except FileNotFoundError:
        return False
    last_line = tail[tail.rfind(b"\n", 0, -1) + 1 :]
    return last_line.startswith(b'{"type":"close",') and last_line.endswith(b"}\n")


def header_in_journal(folder: str) -> Header | None:
    """Return the header from the START record; ``None`` if the relay has not written one, or was killed
    before.

    Raises:
        NotARecordError: the journal does not begin with a valid START record.
        TraceError: the journal is damaged.
        OSError: the journal cannot be read.
    """
    reader = JournalReader(folder)
    try:
        entries = reader.read()
    finally:
        reader.close()
    if not entries:
        return None
    kind, payload, *_ = entries[0]
    if kind != journal.START:
        raise NotARecordError("it does not begin with a START record")
    return header_of(payload)


def _refuse_other_trace(trace: str, header: Header, trace_bytes: int) -> None:
    """Check that ``trace``, if it exists, belongs to the journal, because recovery cuts the trace.

    Raises:
        TraceError: ``trace`` does not belong to the journal.
    """
    expected = encode_header(header)
    try:
        with open(open_regular(trace), "rb") as file:
            beginning = file.read(len(expected))
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return
    if not expected.startswith(beginning) or size < trace_bytes:
        raise TraceError(trace, None, "is not the trace of the journal beside it", "move one of the two away")


def _refuse_hole(folder: str, first_segment: int) -> None:
    """Check that no segment (file of the journal) from ``first_segment`` on is missing: the records after it
    would be lost.

    Raises:
        TraceError: a segment is missing.
    """
    segments = map(int, filter(journal_reader.is_segment, Folder(folder).names()))
    left = (segment for segment in segments if segment >= first_segment)
    for expected, segment in enumerate(left, start=first_segment):
        if segment != expected:
            name = journal.segment_name(expected)
            raise TraceError(folder, None, f"segment {name} is missing", "the trace is whole up to its end")
