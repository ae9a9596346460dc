"""The reader of traces. It streams a trace in constant memory, any number of times.

A damaged file raises ``TraceError``. An incomplete *recording* (cut off, with a gap, still being written) is
not an error: it is read as far as possible, and ``Trace.notes`` says what is missing.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO, Final, cast

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import CLIENT, NOT_DECODED, SERVER, Event, Finding, Frame, Gap, Note, Sender
from mcpproxy.record.trace import chain, upgrades
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.opened_trace import OpenedTrace, gap_note
from mcpproxy.record.trace.records import (
    CloseRecord,
    Continued,
    Encoded,
    Header,
    Recorded,
    Tally,
    undecoded_notes,
)
from mcpproxy.record.trace.repeated_bodies import UNKNOWN_BODY, EarlierBodies, Shortened
from mcpproxy.record.trace.short_lines import Lines
from mcpproxy.record.trace.trace_file import ENDLESS, SECOND_HEADER, open_file, path_in, read_header, refuse

# A frame grows at most sixfold in its record: JSON writes a control character in six bytes.
_LINE_LIMIT: Final = 6 * (64 << 20) + (64 << 10)
"""The longest line that is read. Older versions wrote frames of up to 64 MiB."""

_FINDING: Final = b'"finding"'
_KIND_BYTES: Final = 64
"""The type of a record is within this many bytes at the start of its line."""


class Trace(OpenedTrace):
    """An open trace; see ``read_trace``.

    ``complete``, ``notes`` and ``tally`` describe the last full iteration over ``events()``, ``records()`` or
    ``lines()``. ``complete`` is true if nothing is known to be missing. Each of ``notes`` is a sentence
    fragment about something missing. ``tally`` has the counts of the last record that has counts: the close
    record, or the one that names the next file.
    """

    is_import = False
    """Whether this is the recording of another program. It has no lines of ours."""
    complete = False
    tally: Tally | None = None
    continued_ns = 0
    """The time at which the recording continued in its last file; known after iteration."""
    continued_in = ""
    """The missing file in which the recording continues, if any; known after iteration."""
    hole: Gap | None = None
    """During an iteration: the gap that stands for files that were shipped and deleted, or that are missing,
    once it was read."""

    # Set while lines are read.
    _path: str
    _number: int
    _line: bytes
    _undecoded: Counter[str]
    _passed_bytes = 0
    _is_torn = False
    _file: BinaryIO | None = None

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
        return cast("Iterator[Event | Finding]", self._read_files(with_encoded=False))

    def records(self) -> Iterator[Event | Finding | Encoded]:
        """Like ``events``, but also yield the ``Encoded`` records: the bytes of compressed bodies as sent.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        return self._read_files()

    def lines(self) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
        """Like ``records``, but yield pairs of a record and its line in the current format.

        Raises:
            TraceError: the file cannot be read, or a line of it is damaged.
        """
        from mcpproxy.record.trace.encode import (
            encode,  # Imported here: most readers want records, and no lines.
        )

        for record in self._read_files():
            # Several short frames or lines of stderr share one line of the file. Each gets a line here.
            yield record, self._line or encode(cast("Recorded", record))

    def findings(self) -> Iterator[Finding]:
        """Yield only the findings (violations of rules) that were recorded, in a tenth of the time of
        ``events``.

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

    def _read_files(self, *, with_encoded: bool = True) -> Iterator[Event | Finding | Encoded]:
        self.complete = False
        self.notes = self.notes_at_start()
        self.tally = None
        self._passed_bytes = 0
        self._is_torn = False
        self._undecoded = Counter()
        frames: dict[Sender, int] = {CLIENT: 0, SERVER: 0}
        closing, self.hole = None, None
        for path in self.files:
            if isinstance(closing, Continued) and closing.file != os.path.basename(path):
                yield self._gap_before(path, closing)
            closing = yield from self._read_file(path, frames, with_encoded=with_encoded)
            if self._is_torn:
                break
        self.notes += [*undecoded_notes(self._undecoded), *self.notes_at_end(closing, frames)]
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
        bodies = EarlierBodies() if self.header.model else None
        with self._lines() as lines:
            # The hot loop of every reader: only lines that are not records are examined for faults.
            for number, line in enumerate(lines, start=2):
                self._number = number
                try:
                    line = upgrades.upgrade_line(line, upgrade_steps) if upgrade_steps else line
                    record = decode(line)
                    if bodies is not None and isinstance(record, Frame | Shortened):
                        is_short = isinstance(record, Shortened)
                        record = bodies.whole(record)
                        line = b"" if is_short else line  # ``lines`` encodes the complete frame
                except NotARecordError as fault:
                    self._skip_line(path, number, line, fault)
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
                    case Shortened():
                        refuse(path, number, UNKNOWN_BODY)
                    case Gap():
                        self.notes.append(gap_note(record))
                        yield record
                    case Note(what=what):
                        if what == NOT_DECODED:
                            self._undecoded[record.why] += 1
                        yield record
                    case Encoded() if not with_encoded:
                        pass
                    case _:
                        yield record
        return closing

    @contextmanager
    def _lines(self) -> Generator[Iterator[bytes]]:
        """Open the current file and yield its lines after the header."""
        with open_file(path_in(self._copy_folder, self._path)) as file:
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

    def _gap_before(self, path: str, closing: Continued) -> Gap:
        """Return the gap that stands for the files between ``closing``, the end of a file, and ``path``."""
        self._line = b""
        if (shipped := self.shipped_before(path)) is not None:  # the notes at the start mention it already
            self.hole = Gap(shipped.text, observed_at_ns=shipped.continued.observed_at_ns)
        else:
            self.hole = Gap(f"{closing.file} is missing", observed_at_ns=closing.observed_at_ns)
            self.notes.append(self.hole.reason)
        return self.hole

    def _skip_line(self, path: str, number: int, line: bytes, fault: NotARecordError) -> None:
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


def read_trace(
    path: str,
    *,
    is_recording: bool = False,
    trouble: str = "",
    files: Sequence[str] = (),
    copy_folder: str = "",
) -> Trace:
    """Open the file ``path``, or all ``files`` of one recording. Records that are only in the journal, the
    relay's copy of the traffic, are not read.

    ``is_recording`` says that a recorder is at work, so the end of the trace may be yet to come. With
    ``copy_folder``, the files are read from that folder, which is deleted together with the `Trace`.
    ``trouble`` becomes the first note of the trace.

    Raises:
        TraceError: the file does not exist, or this mcpproxy cannot read it.
    """
    first_file = files[0] if files else path
    with open_file(path_in(copy_folder, first_file)) as file:
        header, upgrade_steps = read_header(first_file, file, is_recording)
    return Trace(
        path,
        header,
        upgrade_steps=upgrade_steps,
        is_recording=is_recording,
        trouble=trouble,
        files=files,
        copy_folder=copy_folder,
    )
