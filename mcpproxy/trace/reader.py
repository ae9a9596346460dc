"""The one reader of a trace: streams it, in constant memory, as often as asked.

Whatever is wrong with a file becomes one ``TraceError``. What is wrong with a *recording* (cut off, a
gap, still being written) is no error: it is read as far as it goes, and ``Trace.notes`` says what is
missing.
"""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, NoReturn

from mcpproxy.errors import McpProxyError, TraceError
from mcpproxy.framing.lines import LIMIT_BYTES
from mcpproxy.relay import journal
from mcpproxy.session.frame import CLIENT, SERVER, Event, Finding, Frame, Gap
from mcpproxy.trace import chain, upgrades
from mcpproxy.trace.format import (
    CloseRecord,
    Continued,
    Header,
    NotARecordError,
    Tally,
    decode,
    header_format,
)
from mcpproxy.trace.http import Encoded

__all__ = ["Header", "Trace", "follow", "open_trace", "read_trace"]

# JSON spells a control character in six bytes; nothing else makes a frame longer than that.
_LINE_LIMIT: Final = 6 * LIMIT_BYTES + (64 << 10)
_HEADER_LIMIT: Final = 16 << 20

_SECOND_HEADER: Final = "a second header: two traces in one file"
_NOT_OURS: Final = ("not an mcpproxy trace", "name a file that mcpproxy recorded; mcpproxy list shows them")


class Trace:
    """A trace that was opened; see ``open_trace``.

    ``complete``, ``notes`` and ``tally`` speak of the last full iteration over ``events()``:
    ``complete`` is true when nothing is known to be missing, ``notes`` says what is, one sentence
    fragment each, and ``tally`` is what the close record counted, if there was one.
    """

    def __init__(
        self,
        path: str,
        header: Header,
        *,
        rungs: tuple[upgrades.Rung, ...] = (),
        is_recording: bool = False,
        trouble: str = "",
        files: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.files = list(files) or [path]
        """The files of the recording, in order; more than one where it was rotated."""
        self.continued_ns = 0
        """When the last file but one ended, known after iteration."""
        self.header = header
        self.complete = False
        self.notes: list[str] = []
        self.tally: Tally | None = None
        self.place = (path, 1)
        """While iterating: the file and the line, counted from 1, of the record at hand."""
        self.read_bytes = 0
        """While iterating: how much has been read."""
        self._is_recording = is_recording
        self._trouble = trouble
        self.rungs = rungs
        """What every line goes through before it is decoded; empty for today's format."""

    def events(self) -> Iterator[Event | Finding]:
        """The recording from its beginning: what was seen and, in between, what was found then.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        for record, _ in self.lines():
            if not isinstance(record, Encoded):
                yield record

    def records(self) -> Iterator[Event | Finding | Encoded]:
        """``events`` and, in between, the bytes of compressed bodies as they passed.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        for record, _ in self.lines():
            yield record

    def lines(self) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
        """``records``, each with the line that it is, in today's format.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        self.complete = False
        self.notes = [self._trouble] if self._trouble else []
        if self.header.continues:
            self.notes.append(f"it goes on from {self.header.continues}, which is not here")
        if self.header.partial:
            self.notes.append(self.header.partial)
        if self.header.imported:
            self.notes.append(f"imported {self.header.imported}")
        self.tally = None
        frames = {CLIENT: 0, SERVER: 0}
        last: CloseRecord | Continued | None = None
        self.read_bytes = 0
        rungs = self.rungs
        for path, number, line in self._records():
            self.read_bytes += len(line)
            if number == 1 or line.isspace():
                last = last if number > 1 else None
                continue
            try:
                line = upgrades.climb(line, rungs) if rungs else line
                record = decode(line)
            except NotARecordError as fault:
                if not line.endswith(b"\n"):
                    self._note_torn(number)
                    break
                _refuse(path, number, str(fault))
            if last:
                _refuse(path, number, "a record behind the close record")
            self.place = (path, number)
            if type(record) is Frame:  # as nearly all are
                frames[record.sender] += 1
                yield record, line
                continue
            match record:
                case CloseRecord():
                    last = record
                    self.tally = record.tally
                    yield record.close, line
                case Continued():
                    last = record
                    self.tally, self.continued_ns = record.tally, record.observed_at_ns
                case Header():
                    _refuse(path, number, _SECOND_HEADER)
                case Gap():
                    self.notes.append(_gap_note(record))
                    yield record, line
                case _:
                    yield record, line
        self._note_ending(last, frames)
        self.complete = not self.notes

    @property
    def joined_late(self) -> bool:
        """Whether the beginning is missing, or other parts: nothing follows from what is not there."""
        return bool(self.header.continues or self.header.partial)

    def _records(self) -> Iterator[tuple[str, int, bytes]]:
        """The lines of all files, each with its file and its number there."""
        for path in self.files:
            with _open(path) as file:
                for number, line in _lines(path, file):
                    yield path, number, line

    def _note_torn(self, number: int) -> None:
        if not self._is_recording:  # a line that is being written is not torn
            self.notes.append(f"line {number}: cut off mid-record; {number - 1} records read")

    def _note_ending(self, last: CloseRecord | Continued | None, frames: dict[str, int]) -> None:
        closed = last if isinstance(last, CloseRecord) else None
        if isinstance(last, Continued) and not self._is_recording:
            self.notes.append(f"it goes on in {last.file}, which is not here")
        elif closed is None:
            missing = (
                "still recording" if self._is_recording else "no close record: the recording was cut off"
            )
            self.notes += [] if self.header.imported else [missing]
        elif closed.close.ending == "cut":
            self.notes.append("the recording was cut: mcpproxy was killed before the session ended")
        if closed and closed.tally and closed.tally.frames != frames and not self.header.continues:
            told = sum(closed.tally.frames.values())
            self.notes.append(f"the close record counts {told} frames, the file holds {sum(frames.values())}")


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Open a trace; a journal that a killed session left beside it is folded in first.

    A recording in a format of others is read as if it were a trace (see ``mcpproxy.trace.foreign``).

    Raises:
        TraceError: there is no trace there, or none that this mcpproxy can read.
    """
    name = os.fspath(path)
    first = chain.first_of(name)
    trouble = _fold(first) if os.path.isdir(journal.folder(first)) else ""
    is_recording = not trouble and os.path.isdir(journal.folder(first))
    try:
        return read_trace(name, is_recording=is_recording, trouble=trouble, files=chain.files_of(name))
    except TraceError as fault:
        if fault.fact == _NOT_OURS[0] and (found := _foreign(name)):
            return found
        raise


def _fold(first: str) -> str:
    """Finish a recording from the journal beside it; what is in the way of that, empty if nothing is."""
    # Not at the top: the recorder, which owns the folding, imports the trace, and few traces need it.
    from mcpproxy.recorder.fold import fold

    try:
        fold(first)
    except (OSError, McpProxyError) as fault:
        reason = fault.fact if isinstance(fault, TraceError) else str(fault)
        return f"the journal beside it could not be folded in: {reason}"
    return ""


def _foreign(name: str) -> Trace | None:
    from mcpproxy.trace.foreign import open_foreign, recognised

    format = recognised(name)
    return open_foreign(name, format) if format else None


def read_trace(
    path: str, *, is_recording: bool = False, trouble: str = "", files: Sequence[str] = ()
) -> Trace:
    """Open the file as it stands, whatever lies beside it, or all ``files`` that belong together.

    Raises:
        TraceError: there is no trace there, or none that this mcpproxy can read.
    """
    first = files[0] if files else path
    with _open(first) as file:
        header, rungs = _read_header(first, file, is_recording)
    return Trace(path, header, rungs=rungs, is_recording=is_recording, trouble=trouble, files=files)


def follow(path: str | os.PathLike[str], poll_s: float = 0.1) -> Iterator[Event | Finding]:
    """The recording from its beginning, then what is added, until it is closed or nobody adds any more.

    ``poll_s`` is how long to wait before looking again, in seconds.

    Raises:
        TraceError: as ``open_trace`` and ``Trace.events``.
    """
    name = os.fspath(path)
    first = chain.first_of(name)
    trace = _wait_for_trace(first, poll_s)
    if type(trace) is not Trace:  # of others: it is what it is
        yield from trace.events()
        return
    goes_on = True
    name = first
    while goes_on:
        goes_on = False
        for record in _follow_file(name, first, trace, poll_s):
            if isinstance(record, Continued):
                name, goes_on = os.path.join(os.path.dirname(first), os.path.basename(record.file)), True
            else:
                yield record


def _follow_file(name: str, first: str, trace: Trace, poll_s: float) -> Iterator[Event | Finding | Continued]:
    from mcpproxy.recorder.fold import fold

    while not os.path.exists(name) and os.path.isdir(journal.folder(first)):
        time.sleep(poll_s)  # its name is known a moment before it is there
    with _open(name) as file:
        number = 0
        line = b""
        is_over = False
        while True:
            line += file.readline()
            if line.endswith(b"\n"):
                number += 1
                is_over = False
                if number > 1 and line.strip():
                    try:
                        record = decode(upgrades.climb(line, trace.rungs))
                    except NotARecordError as fault:
                        _refuse(name, number, str(fault))
                    match record:
                        case CloseRecord():
                            yield record.close
                            return
                        case Header():
                            _refuse(name, number, _SECOND_HEADER)
                        case Encoded():
                            pass
                        case Continued():
                            yield record
                            return
                        case _:
                            yield record
                line = b""
            elif is_over:
                return
            elif os.path.isdir(journal.folder(first)):
                # Alive, or left behind by a recorder that was killed; folding tells, and mends it.
                if not fold(first):
                    time.sleep(poll_s)
            else:
                is_over = True  # the journal goes when the trace is closed: look once more


def _wait_for_trace(name: str, poll_s: float) -> Trace:
    """The trace, as soon as the recorder that is starting has written its header."""
    while True:
        try:
            return open_trace(name)
        except TraceError:
            if not os.path.isdir(journal.folder(name)):
                raise
        time.sleep(poll_s)


def _open(path: str) -> BinaryIO:
    try:
        if stat.S_ISDIR(mode := os.stat(path).st_mode):
            raise TraceError(path, None, "is a directory", "name a trace file in it")
        if not stat.S_ISREG(mode):
            raise TraceError(path, None, "is not a regular file", "copy what it gives into one first")
        return open(path, "rb")  # the callers close it
    except FileNotFoundError:
        raise TraceError(path, None, "no such file", "mcpproxy list shows the recorded traces") from None
    except PermissionError:
        raise TraceError(path, None, "permission denied", "run as the user who recorded it") from None
    except (OSError, ValueError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        raise TraceError(path, None, reason, "check the path") from None


def _read_header(path: str, file: BinaryIO, is_recording: bool) -> tuple[Header, tuple[upgrades.Rung, ...]]:
    line = file.readline(_HEADER_LIMIT)
    if not line.endswith(b"\n"):
        if is_recording and len(line) < _HEADER_LIMIT:
            raise TraceError(path, None, "nothing is recorded yet", "try again in a moment")
        if not line:
            raise TraceError(path, None, "the file is empty", "nothing was recorded: record again")
        if line.startswith(b'{"type":"header"'):
            raise TraceError(path, 1, "cut off in the header", "nothing can be read from it: record again")
    try:
        version = header_format(line)
        rungs = upgrades.rungs(version, to=upgrades.FORMAT, ladder=upgrades.LADDER)
        header = decode(upgrades.climb(line, rungs))
    except NotARecordError:
        raise TraceError(path, 1, *_NOT_OURS) from None
    except LookupError as fault:
        raise TraceError(path, 1, str(fault.args[0]), "please update") from None
    assert isinstance(header, Header)
    return header, rungs


def _refuse(path: str, number: int, fact: str) -> NoReturn:
    raise TraceError(path, number, fact, f"the {number - 1} records before it are whole")


def _lines(path: str, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while True:
        try:
            line = file.readline(_LINE_LIMIT)
        except OSError as fault:
            raise TraceError(
                path, number + 1, fault.strerror or str(fault), "copy the file and try again"
            ) from None
        if not line:
            return
        number += 1
        if len(line) == _LINE_LIMIT:
            raise TraceError(
                path, number, "a line longer than any record", "the file is damaged: record again"
            )
        yield number, line


def _gap_note(gap: Gap) -> str:
    lost = gap.client_bytes + gap.server_bytes + gap.stderr_bytes
    return f"{lost} bytes are missing: {gap.reason}"
