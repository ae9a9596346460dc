"""The only reader of traces. It streams a trace in constant memory, any number of times.

A damaged file raises ``TraceError``. An incomplete *recording* (cut off, with a gap, still being written) is
not an error: it is read as far as possible, and ``Trace.notes`` says what is missing.
"""

import errno
import os
import sys
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn, cast

from mcpproxy.base.files import open_regular
from mcpproxy.errors import TraceError
from mcpproxy.session.frame import CLIENT, SERVER, Event, Finding, Frame, Gap, Sender
from mcpproxy.trace import chain, upgrades
from mcpproxy.trace.decode import decode, header_format
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.records import ARGUMENTS_MASKED, CloseRecord, Continued, Encoded, Header, Recorded, Tally
from mcpproxy.trace.short_lines import Lines

# A frame grows at most sixfold in its record: JSON writes a control character in six bytes.
_LINE_LIMIT: Final = 6 * (64 << 20) + (64 << 10)
"""The longest line that is read. Older versions wrote frames of up to 64 MiB."""

_HEADER_LIMIT: Final = 16 << 20

if TYPE_CHECKING:
    from mcpproxy.trace.shipped_files import ShippedFiles

_FINDING: Final = b'"finding"'
_KIND_BYTES: Final = 64
"""The type of a record is within this many bytes at the start of its line."""

SECOND_HEADER: Final = "a second header: two traces in one file"
ENDLESS: Final = "the next file that it names is itself, an earlier one, or has no valid name"
NOT_OURS: Final = ("not an mcpproxy trace", "name a file that mcpproxy recorded; mcpproxy list shows them")
STILL_RECORDING: Final = "still recording"


class Trace:
    """An open trace; see ``read_trace``.

    ``complete``, ``notes`` and ``tally`` describe the last full iteration over ``events()``. ``complete`` is
    true if nothing is known to be missing. Each of ``notes`` is a sentence fragment about something missing.
    ``tally`` has the counts of the close record, if there was one.
    """

    def __init__(
        self,
        path: str,
        header: Header,
        *,
        upgrade_steps: tuple[upgrades.UpgradeStep, ...] = (),
        is_recording: bool = False,
        trouble: str = "",
        files: Sequence[str] = (),
        copy_folder: str = "",
    ) -> None:
        self.path = path
        self.files = list(files) or [path]
        """The files of the recording, in order; several if it was rotated."""
        self.continued_ns = 0
        """The time at which the recording continued in its last file; known after iteration."""
        self.hole: Gap | None = None
        """During an iteration: the gap that stands for files that were shipped and deleted, once it was
        read."""
        self.continued_in = ""
        """The file in which the recording continues and that is missing; known after iteration."""
        self.header = header
        self.complete = False
        self.notes: list[str] = []
        self.tally: Tally | None = None
        self._path = path
        self._number = 1
        self._line = b""
        self._passed_bytes = 0
        self._is_torn = False
        self._file: BinaryIO | None = None
        self._is_recording = is_recording
        self._trouble = trouble
        self.upgrade_steps = upgrade_steps
        """The upgrades applied to every line before decoding; empty for the current format."""
        self._copy_folder = copy_folder
        if copy_folder:
            from shutil import rmtree  # Only copies need it: it takes 3 ms at the end of each session.

            weakref.finalize(self, rmtree, copy_folder, ignore_errors=True)

    @property
    def place(self) -> tuple[str, int]:
        """During an iteration: the file and line number (from 1) of the current record."""
        return self._path, self._number

    @property
    def read_bytes(self) -> int:
        """During an iteration: the number of bytes read so far."""
        return self._passed_bytes + (self._file.tell() if self._file is not None else 0)

    def events(self) -> Iterator[Event | Finding]:
        """Yield the recording from its start: the events, each followed by the findings recorded for it.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        return cast("Iterator[Event | Finding]", self._read(with_encoded=False))

    def records(self) -> Iterator[Event | Finding | Encoded]:
        """Like ``events``, but also yield the ``Encoded`` records: the bytes of compressed bodies as sent.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        return self._read()

    def lines(self) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
        """Like ``records``, but yield pairs of a record and its line in the current format.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        from mcpproxy.trace.encode import encode  # Imported here: most readers want records, and no lines.

        for record in self._read():
            # Several short frames or lines of stderr share one line of the file. Each gets a line here.
            yield record, self._line or encode(cast("Recorded", record))

    def findings(self) -> Iterator[Finding]:
        """Yield only the findings that were recorded, in a tenth of the time of ``events``.

        Unlike ``events``, this does not report damaged lines.

        Raises:
            TraceError: the file cannot be read.
        """
        for path in self.files:
            self._path = path
            with self._lines() as lines:
                for line in lines:
                    if line.find(_FINDING, 0, _KIND_BYTES) < 0 and not self.upgrade_steps:
                        continue
                    try:
                        record = decode(upgrades.upgrade_line(line, self.upgrade_steps))
                    except NotARecordError:
                        continue
                    if isinstance(record, Finding):
                        yield record

    def _read(self, *, with_encoded: bool = True) -> Iterator[Event | Finding | Encoded]:
        self.complete = False
        self.notes = self.notes_at_start()
        self.tally = None
        self._passed_bytes = 0
        self._is_torn = False
        frames: dict[Sender, int] = {CLIENT: 0, SERVER: 0}
        closing, self.hole = None, None
        for path in self.files:
            if isinstance(closing, Continued) and closing.file != os.path.basename(path):
                yield self._gap_before(path, closing)
            closing = yield from self._read_file(path, frames, with_encoded=with_encoded)
            if self._is_torn:
                break
        self.notes += self.notes_at_end(closing, frames)
        self.continued_in = closing.file if isinstance(closing, Continued) else ""
        self.complete = not self.notes

    def _read_file(
        self, path: str, frames: dict[Sender, int], *, with_encoded: bool
    ) -> Generator[Event | Finding | Encoded, None, CloseRecord | Continued | None]:
        """Yield the content of one file; return its closing record if it has one."""
        closing: CloseRecord | Continued | None = None
        upgrade_steps = self.upgrade_steps
        earlier_names = {os.path.basename(file) for file in self.files[: self.files.index(path) + 1]}
        self._path, self._number = path, 0
        with self._lines() as lines:
            # The hot loop of every reader: only lines that are not records are examined for faults.
            for number, line in enumerate(lines, start=2):
                self._number = number
                try:
                    line = upgrades.upgrade_line(line, upgrade_steps) if upgrade_steps else line
                    record = decode(line)
                except NotARecordError as fault:
                    self._skip(path, number, line, fault)
                    continue
                if closing:
                    refuse(path, number, "a record after the close record")
                self._line = line
                if type(record) is Frame:  # nearly all records are frames
                    frames[record.sender] += 1
                    yield record
                    continue
                match record:
                    case Lines():
                        self._line = b""
                        for event in record.events():
                            if type(event) is Frame:
                                frames[event.sender] += 1
                            yield event
                    case CloseRecord():
                        closing = record
                        self.tally = record.tally
                        yield record.close
                    case Continued():
                        if not chain.is_name(record.file) or record.file in earlier_names:
                            refuse(path, number, ENDLESS)
                        closing = record
                        self.tally, self.continued_ns = record.tally, record.observed_at_ns
                    case Header():
                        refuse(path, number, SECOND_HEADER)
                    case Gap():
                        self.notes.append(gap_note(record))
                        yield record
                    case Encoded() if not with_encoded:
                        pass
                    case _:
                        yield record
        return closing

    @contextmanager
    def _lines(self) -> Generator[Iterator[bytes]]:
        """Open the current file and yield its lines after the header."""
        with open_file(_path_in(self._copy_folder, self._path)) as file:
            lines = iter(partial(file.readline, _LINE_LIMIT), b"")
            self._file = file
            try:
                next(lines, None)
                self._number = 1
                yield lines
                self._passed_bytes += file.tell()
            except OSError as fault:
                reason = fault.strerror or str(fault)
                raise TraceError(
                    self._path, self._number + 1, reason, "copy the file and try again"
                ) from None
            finally:
                self._file = None

    @property
    def readable_files(self) -> list[str]:
        """The paths at which ``files`` are read: those of the copy, if one was made."""
        return [_path_in(self._copy_folder, path) for path in self.files]

    def _gap_before(self, path: str, closing: Continued) -> Gap:
        """Return the gap that stands for the files between ``closing``, the end of a file, and ``path``."""
        self._line = b""
        if (shipped := self.shipped_before(path)) is not None:  # one of the notes at the start says so
            self.hole = Gap(shipped.text, observed_at_ns=shipped.continued.observed_at_ns)
        else:
            self.hole = Gap(f"{closing.file} is missing", observed_at_ns=closing.observed_at_ns)
            self.notes.append(self.hole.reason)
        return self.hole

    def shipped_before(self, path: str) -> "ShippedFiles | None":
        """Return what is known of the files before ``path`` that were shipped and deleted, if there are
        any."""
        if path not in self.files[1:2]:  # the first file stays
            return None
        first = _path_in(self._copy_folder, self.files[0])
        if not os.path.lexists(first + ".shipped"):
            return None
        from mcpproxy.trace.shipped_files import shipped_before  # few recordings have a note

        return shipped_before(path, first)

    @property
    def is_recording(self) -> bool:
        """Whether the recording was still being written when it was opened."""
        return self._is_recording

    @property
    def is_copy(self) -> bool:
        """Whether a copy is read, because this user is not allowed to change the original."""
        return bool(self._copy_folder)

    @property
    def journal_fault(self) -> str:
        """Why the journal, which has the latest records, could not be read; empty if it was read or does not
        exist."""
        # If a copy is read, the journal was read too, and ``_trouble`` only says that there is a copy.
        return "" if self._copy_folder else self._trouble

    @property
    def joined_late(self) -> bool:
        """Whether the beginning or other parts are missing, so that a missing message proves nothing."""
        return bool(self.header.continues or self.header.partial)

    @property
    def redacted(self) -> bool:
        """Whether values other than credentials and arguments of the command may be masked."""
        return self.header.redaction not in ("none", "credentials", ARGUMENTS_MASKED)

    def _skip(self, path: str, number: int, line: bytes, fault: NotARecordError) -> None:
        """Skip a line that is not a record: a blank line, or an incomplete last line.

        Raises:
            TraceError: the line is neither blank nor an incomplete last line.
        """
        if line.isspace():
            return
        if len(line) == _LINE_LIMIT:
            fact = "a line longer than any record"
            raise TraceError(path, number, fact, "the file is damaged: record again")
        if line.endswith(b"\n"):
            refuse(path, number, str(fault))
        self._is_torn = True
        if not self._is_recording:  # a recorder may still be writing the line
            self.notes.append(f"line {number}: cut off mid-record; {number - 1} records read")

    def notes_at_start(self) -> list[str]:
        """Return what is known to be missing before the events are read."""
        notes = [self._trouble] if self._trouble else []
        if self.header.continues:
            notes.append(f"it continues {self.header.continues}, which is missing")
        if len(self.files) > 1 and (shipped := self.shipped_before(self.files[1])) is not None:
            notes.append(shipped.text)
        if self.header.partial:
            notes.append(self.header.partial)
        if self.header.imported:
            notes.append(f"imported {self.header.imported}")
        return notes

    def notes_at_end(self, last: CloseRecord | Continued | None, frames: dict[Sender, int]) -> list[str]:
        """Return what is known to be missing at the end, from the ``last`` record and the counts of frames.

        ``frames`` has the number of frames of each peer that were read.
        """
        notes: list[str] = []
        closed = last if isinstance(last, CloseRecord) else None
        if isinstance(last, Continued) and not self._is_recording:
            notes.append(f"it continues in {last.file}, which is missing")
        elif closed is None:
            missing = STILL_RECORDING if self._is_recording else "no close record: the recording was cut off"
            if not self.header.imported:  # other programs write no close record
                notes.append(missing)
        elif closed.close.ending == "cut":
            notes.append("the recording was cut: mcpproxy was killed before the session ended")
        lacks_files = self.header.continues or (len(self.files) > 1 and self.shipped_before(self.files[1]))
        if closed and closed.tally and closed.tally.frames != frames and not lacks_files:
            stated = sum(closed.tally.frames.values())
            notes.append(f"the close record counts {stated} frames, the file holds {sum(frames.values())}")
        return notes


def read_trace(
    path: str,
    *,
    is_recording: bool = False,
    trouble: str = "",
    files: Sequence[str] = (),
    copy_folder: str = "",
) -> Trace:
    """Open the file ``path``, or all ``files`` of one recording. Records that are still in a journal are not
    read.

    With ``copy_folder``, the files are read from that folder, which is deleted together with the `Trace`.
    ``trouble`` becomes the first note of the trace.

    Raises:
        TraceError: the file does not exist, or this mcpproxy cannot read it.
    """
    first_file = files[0] if files else path
    with open_file(_path_in(copy_folder, first_file)) as file:
        header, upgrade_steps = _read_header(first_file, file, is_recording)
    return Trace(
        path,
        header,
        upgrade_steps=upgrade_steps,
        is_recording=is_recording,
        trouble=trouble,
        files=files,
        copy_folder=copy_folder,
    )


def _path_in(folder: str, path: str) -> str:
    return os.path.join(folder, os.path.basename(path)) if folder else path


def open_file(path: str) -> BinaryIO:
    """Open the file of a trace; the caller closes it.

    Raises:
        TraceError: the file cannot be opened, or is not a regular file.
    """
    try:
        if os.path.isdir(path):
            raise TraceError(path, None, "is a directory", "name a trace file in it")
        return open(open_regular(path, follows=True), "rb")
    except FileNotFoundError:
        raise TraceError(
            path, None, "no such file", "mcpproxy list shows recordings and their labels"
        ) from None
    except PermissionError as fault:
        next_step = "run as the user who recorded it"
        if sys.platform == "win32":
            next_step = f"close that program, or {next_step}"
        raise TraceError(path, None, (fault.strerror or "permission denied").lower(), next_step) from None
    except (OSError, ValueError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        is_special = isinstance(fault, OSError) and fault.errno == errno.EINVAL
        next_step = "copy what it gives into a file first" if is_special else "check the path"
        raise TraceError(path, None, reason, next_step) from None


def _read_header(
    path: str, file: BinaryIO, is_recording: bool
) -> tuple[Header, tuple[upgrades.UpgradeStep, ...]]:
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
        upgrade_steps = upgrades.upgrade_steps(
            version, to=upgrades.FORMAT, known_steps=upgrades.UPGRADE_STEPS
        )
        header = decode(upgrades.upgrade_line(line, upgrade_steps))
    except NotARecordError:
        raise TraceError(path, 1, *NOT_OURS) from None
    except LookupError as fault:
        raise TraceError(path, 1, str(fault.args[0]), "please update") from None
    assert isinstance(header, Header)
    previous = header.continues
    if previous and (not chain.is_name(previous) or previous == os.path.basename(path)):
        fact = "the previous file that it names is itself, or has no valid name"
        raise TraceError(path, 1, fact, "record again")
    return header, upgrade_steps


def refuse(path: str, number: int, fact: str) -> NoReturn:
    """Report that line ``number`` of a trace cannot be read.

    Raises:
        TraceError: always.
    """
    raise TraceError(path, number, fact, whole_before(number))


def whole_before(number: int) -> str:
    """Say that the records before line ``number`` can be read."""
    before = number - 1
    return "the record before it is whole" if before == 1 else f"the {before} records before it are whole"


def gap_note(gap: Gap) -> str:
    """Say what is missing, as a sentence fragment."""
    lost = gap.client_bytes + gap.server_bytes + gap.stderr_bytes
    if not lost:  # it is not known how much
        return gap.reason
    return f"{lost} {'byte is' if lost == 1 else 'bytes are'} missing: {gap.reason}"
