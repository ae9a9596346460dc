"""Turn the journal (the relay's copy of the traffic) into the trace: split bytes into frames, which are
lines, bodies or events of a stream; judge the frames; write them; show findings (violations of rules).

The same code runs in the recorder process during a session, and during recovery, which completes the trace
after the recorder was killed. Both read the same records, so both write the same trace."""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from mcpproxy.judge.session.frame import Close, Eof, Frame, Gap, Note, Signal
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.record.framing.lines import LineFramer
from mcpproxy.record.recorder.checkpoint import Checkpoint, PartialLine
from mcpproxy.record.recorder.journal_reader import Entry, JournalReader
from mcpproxy.record.recorder.judge import Observing, SafeJudge, observer_for
from mcpproxy.record.recorder.line_order import LineOrder
from mcpproxy.record.recorder.payloads import (
    close_of,
    faulted_of,
    gap_of,
    header_of,
    note_of,
    object_of,
    rule_options_of,
)
from mcpproxy.record.recorder.rotation import Rotation, limits_of, rotation_of
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.recorder.trace_sink import EventWatcher, TraceSink
from mcpproxy.record.recorder.trace_state import SENDERS, TraceState, lost_in, restore
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.encode import encode_continued, encode_header
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import Continued, Tally
from mcpproxy.record.trace.writer import TraceWriter

if TYPE_CHECKING:
    from mcpproxy.judge.ruleset.rule_options import RuleOptions
    from mcpproxy.record.recorder.model.counts import TurnCounter

_CLOSE_BYTES: Final = 16 << 10
"""Room for the last records on a full disk: a gap, the last findings, the close record."""

_SAVED_BYTES: Final = 16 << 20
"""How many bytes of a journal are kept in memory when the journal has to be deleted to make room."""

_LINE_BYTES: Final = 16 << 20
"""The longest line that may become one frame, as with bodies over HTTP."""

_STDERR_BYTES: Final = 1 << 20
"""The longest line of the server's stderr that becomes one record."""

_REMEMBERED_SIZES: Final = 64
"""How many sizes of the trace are remembered: a few, because ``give_up`` shortens it only a little."""

_STREAMS: Final[dict[int, int]] = {journal.CLIENT: 0, journal.SERVER: 1, journal.STDERR: 2}
"""The kind of a journal record -> the index of its stream: the client's, the server's, the server's
stderr."""
_ENDS: Final[dict[int, int]] = {journal.CLIENT_EOF: 0, journal.SERVER_EOF: 1, journal.STDERR_EOF: 2}
_REFUSED: Final = {journal.CLIENT_REFUSED: 0, journal.SERVER_REFUSED: 1}
_OWN: Final = {journal.CLIENT_OWN: 0, journal.SERVER_OWN: 1}
_ALTERED: Final = {journal.CLIENT_ALTERED: 0, journal.SERVER_ALTERED: 1}
_GIVEN: Final = {journal.CLIENT_GIVEN: 0, journal.SERVER_GIVEN: 1}
"""Like ``_STREAMS``: for the ends of streams, for lines that mcpproxy refused, for its own answers to them,
for lines that met a fault (a change that the user asked for), and for what mcpproxy gave the receiver in
their place."""
_FAULTED: Final = _ALTERED | _GIVEN
_BY_PROXY: Final = _OWN | _GIVEN
_WHOLE_LINES: Final = _REFUSED | _OWN | _FAULTED

_TOO_LARGE: Final = "the recording is as large as --max-size allows"
_LEFT_OUT: Final = f"{_TOO_LARGE}, what follows is left out"


class RecordingPipeline:
    """Writes the session that ``reader`` reads to ``writer``.

    ``make_observer`` makes the judge, unless the START record names the rules to judge by; ``is_found`` says
    that the journal was found on disk, so that these rules may come from an unknown source. With the
    checkpoint ``start`` (the last position that a killed recorder saved) and the ``state`` of the trace at
    that checkpoint, an existing trace is continued. ``watcher`` is told the events of an HTTP recording (see
    ``EventWatcher``)."""

    def __init__(
        self,
        reader: JournalReader,
        writer: TraceWriter,
        make_observer: Callable[[], Observing],
        notes: StderrNotes,
        start: Checkpoint | None = None,
        state: TraceState | None = None,
        watcher: EventWatcher | None = None,
        is_found: bool = False,
    ) -> None:
        start = start or Checkpoint()
        self._is_found = is_found
        self._reader = reader
        self._writer = writer
        self._make_observer = make_observer
        self._notes = notes
        self._framers = (LineFramer(_LINE_BYTES), LineFramer(_LINE_BYTES), LineFramer(_STDERR_BYTES))
        self._order = LineOrder(self._framers[:2], self._end_line)
        state = state or TraceState(SafeJudge(make_observer))
        self._sink = TraceSink(writer, notes, state, watcher)
        self._passed = list(state.stream_bytes)
        """How many bytes of each stream were read so far, including the bytes that are lost in gaps."""
        self._started_ns = state.header.started_ns if state.header else 0
        self._files = [*state.before, writer.path]
        self._has_rotated = False
        """Whether a file was begun since the last checkpoint."""
        self._rotation: Rotation | None = start.rotation
        self._max_bytes = start.max_bytes
        """How large all files together may become; 0 for no limit."""
        self._earlier_bytes = _size_of(state.before)
        """The size of the files before the current one."""
        was_large = 0 < self._max_bytes <= self._earlier_bytes + writer.position
        self._passed_at_limit: tuple[int, ...] | None = tuple(self._passed) if was_large else None
        """How many bytes of each stream were read before the recording became too large; ``None`` if it has
        not. Later bytes are only counted; if the recorder was killed, only those since its last
        checkpoint."""
        self._rule_options: RuleOptions | None = start.rule_options
        self._assembly = state.assembly
        """Turns the bytes of HTTP connections into events; ``None`` on stdio."""
        self._sizes: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=_REMEMBERED_SIZES)
        """Over HTTP: earlier sizes of the trace, each with how many bytes of each stream were read then."""
        self._recorded_before: dict[str, tuple[int, ...]] = {}
        """The name of each file after the first -> how many bytes of each stream the files before it have."""
        self._exit: Close | None = None
        self.lag_ns = 0
        """The longest time from forwarding to judging, in nanoseconds; meaningless in recovery."""
        self._is_closed = False
        for framer, partial_line, stream in zip(self._framers, start.held, range(3), strict=True):
            framer.feed(partial_line.raw, partial_line.at_ns)
            self._passed[stream] += len(partial_line.raw)
            self._order.is_open |= bool(partial_line.raw)

    @property
    def is_over(self) -> bool:
        """Whether the journal says how the session ended."""
        return self._exit is not None

    @property
    def is_stuck(self) -> bool:
        """Whether the trace cannot be written at the moment. The journal then keeps the traffic."""
        return self._writer.fault is not None

    @property
    def tally(self) -> Tally:
        """The counts of frames and findings so far, for the close record."""
        return self._sink.state.tally

    @property
    def failed_start(self) -> str:
        """How the server failed before any message was sent; empty if it did not."""
        return self._sink.state.failed_start

    @property
    def turns(self) -> "TurnCounter | None":
        """With ``mcpproxy model``: the numbers of requests, tools and calls; else ``None``."""
        return self._sink.state.turns

    @property
    def seq(self) -> int:
        """The number of the last frame in the trace; over HTTP, only of those before the checkpoint
        ``start``."""
        return self._sink.state.seq

    def drain(self, may_continue: Callable[[int], bool] | None = None) -> None:
        """Write all records that are now in the journal to the trace, or as many as the disk has room for.

        After each part of the journal, ``may_continue`` gets the time of its last record, in nanoseconds, and
        returns whether to continue at once.

        Raises:
            OSError: the journal cannot be read.
            TraceError: the trace exists already, or a record of the journal is too long.
            NotARecordError: a record of the journal cannot be read.
        """
        if self.is_stuck and not self._flush():
            self._sink.report_lag(None)
            return
        latest_ns = None
        while not self.is_over and (entries := self._reader.read()):
            for entry in entries:
                if self._passed_at_limit is not None:
                    self._count_unrecorded(entry)
                    continue
                if self._order.is_open:
                    self._take_entry(entry)
                else:
                    self._record_entry(entry)
                if self._rotation is not None:
                    self._rotate(self._rotation)
            latest_ns = entries[-1][2]
            self.lag_ns = max(self.lag_ns, time.monotonic_ns() - latest_ns)
            del entries
            if not self._flush():
                break
            self._check_size(latest_ns)
            if not self.is_over:  # ``finish`` needs the last records
                self._clear_journal()
                if may_continue is not None and not may_continue(latest_ns):
                    break
        self._sink.report_lag(latest_ns)

    def _rotate(self, rotation: Rotation) -> None:
        """Continue in a new file if the current one has reached a limit of ``rotation``."""
        self._sink.settle()
        state, writer = self._sink.state, self._writer
        if state.header is None or not rotation.is_due(writer.position, state.file_ns, state.at_ns):
            return
        last_file = self._files[-1]
        path = chain.next_name(self._files[0], last_file)
        state.file_ns = state.at_ns
        state.complete_tally()
        writer.write(encode_continued(Continued(os.path.basename(path), state.tally, state.at_ns)))
        self._earlier_bytes += writer.position
        writer.continue_in(path)
        state.begin_file()
        self._files.append(path)
        self._has_rotated = True
        self._sizes.clear()
        self._recorded_before[os.path.basename(path)] = tuple(
            passed - framer.held_bytes for passed, framer in zip(self._passed, self._framers, strict=True)
        )
        writer.write(encode_header(replace(state.header, continues=os.path.basename(last_file))))

    def _check_size(self, now_ns: int) -> None:
        """If the recording has become too large, only count later bytes."""
        is_large = 0 < self._max_bytes <= self._earlier_bytes + self._writer.position
        if not is_large or self._passed_at_limit is not None or self.is_over:
            return
        for entry in self._order.give_up():
            self._record_entry(entry)
        for stream in range(3):
            self._end_line(stream, True)
        # How much is left out is known only at the end. A recording that is cut before then has this gap.
        self._record_gap(Gap(_LEFT_OUT, observed_at_ns=now_ns - self._started_ns))
        self._passed_at_limit = tuple(self._passed)
        self._notes.say(f"recording ended: {_TOO_LARGE}; the session goes on")

    def finish(self) -> bool:
        """Write the close record, which says how the session ended; return false if the disk has no room.

        Without an EXIT record the relay was killed, and the ending is ``cut``.
        """
        if self._is_closed:
            return self._flush()
        if self.is_stuck:
            return False
        if self._assembly is not None:
            self._sink.write_http_events(self._assembly.end())
        for entry in self._order.give_up():
            self._record_entry(entry)
        if self._passed_at_limit is not None and any(left_out := self._left_out_bytes(self._passed_at_limit)):
            at_ns = self._exit.observed_at_ns if self._exit else self._sink.state.at_ns
            self._sink.write_event(Gap(_TOO_LARGE, *left_out, observed_at_ns=at_ns))
        for stream in range(3):
            # The relay stopped reading the stream before its end, so the last line may be incomplete.
            self._end_line(stream, True)
        self._is_closed = True
        self._sink.write_close(self._exit or Close("cut", observed_at_ns=self._sink.state.at_ns))
        return self._flush()

    def give_up(self) -> str:
        """Like ``finish``, for a disk that stays full. Return what the trace lacks, empty if it is complete.

        Up to ``_SAVED_BYTES`` of the journal are read into memory, then the journal is deleted. That makes
        room for the records in memory and for the last records of the trace. Records that still do not fit
        become a gap."""
        why = self._writer.fault
        self._writer.shortage = None  # deleting the journal frees more than the last records take
        saved, is_all = self._read_rest()
        self._reader.clear()
        self._flush()
        for entry in saved:
            if self._passed_at_limit is not None:
                self._count_unrecorded(entry)
            elif self.is_stuck:
                self._count_unrecorded(entry)
                is_all = False
            else:
                self._take_entry(entry)
        if self._flush() and is_all and self.finish():
            return ""
        for entry in self._order.drop():
            self._count_unrecorded(entry)
        # If there is no room for the last records, the second attempt removes records to make room.
        for reserve in (0, _CLOSE_BYTES):
            try:
                size = self._writer.rewind(reserve)
            except OSError:
                break
            header = self._sink.state.header
            earlier_files = tuple(self._files[: self._files.index(self._writer.path)])
            previous = os.path.basename(earlier_files[-1]) if earlier_files else ""
            # Judge the shortened trace again: findings about the removed records must not count.
            self._sink.state = restore(self._writer.path, size, self._make_observer, before=earlier_files)
            if size == 0 and header is not None:
                self._sink.state.header = header
                self._writer.write(encode_header(replace(header, continues=previous)))
            self._sink.write_findings(self._sink.state.missing_findings)  # they were shown on stderr before
            missing = self._missing_bytes(size)
            close = self._exit or Close("cut", observed_at_ns=self._sink.state.at_ns)
            self._sink.write_event(
                Gap(f"the trace could not be written: {why}", *missing, observed_at_ns=close.observed_at_ns)
            )
            self._is_closed = True
            self._sink.write_close(close)
            if self._flush():
                return f"the trace is incomplete: {why}"
        return f"the trace has no end: {why}"

    def _take_entry(self, entry: Entry) -> None:
        """Write the content of one journal record, or hold it back until an earlier line has ended."""
        for due in self._order.take(entry):
            self._record_entry(due)

    def _record_entry(self, entry: Entry) -> None:
        """Write the content of one journal record to the trace."""
        kind, payload, at_ns, connection = entry
        at_ns -= self._started_ns
        stream = _STREAMS.get(kind)
        if stream is not None:  # nearly all records
            self._passed[stream] += len(payload)
        if self._assembly is not None and (connection or kind == journal.NOTE):
            self._sink.write_http_events(self._assembly.take(kind, payload, at_ns, connection))
        elif stream is not None:
            framer = self._framers[stream]
            self._sink.write_lines(stream, framer.feed(payload, at_ns))
            if framer.held_bytes:
                self._order.is_open = True
        elif (stream := _ENDS.get(kind)) is not None:
            self._end_line(stream, False)
            if stream < 2:
                self._sink.write_event(Eof(SENDERS[stream], at_ns))
        elif kind in _WHOLE_LINES:
            self._record_whole_lines(kind, payload, at_ns)
        elif kind == journal.NOTE:
            self._sink.write_event(note_of(payload, at_ns))
        elif kind == journal.SIGNAL:
            name = payload.decode("ascii", "replace")
            if self._assembly is None:
                self._sink.write_event(Signal(name, at_ns))
            else:  # the signal was meant for mcpproxy; no server received it
                self._sink.write_http_events([Note(0, "stopped", f"mcpproxy received {name}", at_ns)])
        elif kind == journal.GAP:
            self._record_gap(gap_of(payload, at_ns))
        elif kind == journal.START:
            self._begin_session(payload)
        elif kind == journal.EXIT:
            self._exit = close_of(payload, at_ns)

    def _end_line(self, stream: int, continues: bool) -> None:
        """Write the incomplete line of ``stream``: as its last line or, with ``continues``, as a piece."""
        self._sink.write_lines(stream, self._framers[stream].end(continues=continues))

    def _begin_session(self, payload: bytes) -> None:
        """Write the header, and prepare for the transport and the rules that the START record names."""
        if self._sink.state.header is not None:
            raise NotARecordError("a second START record")
        header = header_of(payload)
        self._started_ns = header.started_ns
        self._writer.write(encode_header(header))
        if header.transport == "http":
            # Imported only for HTTP: this import takes as long as all other imports together.
            from mcpproxy.record.recorder.http.assembly import HttpAssembly

            self._assembly = HttpAssembly(payload)
            # If mcpproxy did not listen, it is a bridge (``mcpproxy bridge``), which gives hints itself.
            if header.upstream and header.listen and not header.model:
                from mcpproxy.record.recorder.http.upstream_hints import UpstreamHints

                self._sink.hints = UpstreamHints(header.upstream)
        self._rotation = rotation_of(payload)
        self._max_bytes, reserve = limits_of(payload)
        if reserve and not self._is_found:
            self._writer.shortage = partial(journal.shortage, self._reader.folder, reserve)
        self._rule_options = rule_options_of(object_of(payload))
        if self._rule_options is not None:
            self._make_observer = partial(observer_for, self._rule_options, is_found=self._is_found)
            self._sink.state.judge = SafeJudge(self._make_observer)
        self._sink.state.begin(header)

    def _record_whole_lines(self, kind: int, payload: bytes, at_ns: int) -> None:
        """Write a record that needs no framer: lines, or a piece of one, that mcpproxy refused, altered, or
        sent itself."""
        state, stream = self._sink.state, _WHOLE_LINES[kind]
        mark, content, _ = faulted_of(payload) if kind in _FAULTED else (None, payload, None)
        self._passed[stream] += len(content)
        *lines, last = content.split(b"\n")
        for index, raw in enumerate([*lines, last] if last else lines):
            state.seq += 1
            frame = Frame(state.seq, SENDERS[stream], raw, at_ns, index < len(lines), fault=mark)
            frame.refused, frame.by_proxy = kind in _REFUSED, kind in _BY_PROXY
            # A line that mcpproxy gave without its end continues with the next bytes that it gives.
            frame.continues = frame.by_proxy and not frame.terminated
            self._sink.write_event(frame)

    def _record_gap(self, gap: Gap) -> None:
        """Write a gap, after the incomplete lines before it."""
        for stream, count in enumerate(lost_in(gap)):
            self._passed[stream] += count
            if count:
                # The current line continues in the gap, so only a piece of the line is known.
                self._end_line(stream, True)
        self._sink.write_event(gap)
        if self._assembly is not None:
            self._sink.write_http_events(self._assembly.gap(gap.observed_at_ns))

    def _left_out_bytes(self, kept: Sequence[int]) -> list[int]:
        return [passed - recorded for passed, recorded in zip(self._passed, kept, strict=True)]

    def _flush(self) -> bool:
        """Write pending records to the disk. If that fails, return false, and say so on stderr unless that
        was said already or the relay says it."""
        self._sink.settle()
        self._sink.report_judge()
        was_stuck = self.is_stuck
        is_written = self._writer.flush()
        # If the disk has less than its reserve, the relay says so as soon as bytes are lost.
        if not is_written and not was_stuck and not self._writer.is_short:
            self._notes.say(
                f"cannot write the trace: {self._writer.fault}; the session goes on, trying again"
            )
        if is_written and self._assembly is not None and self._passed_at_limit is None:
            self._sizes.append((self._writer.size, tuple(self._passed)))
        return is_written

    def _missing_bytes(self, size: int) -> list[int]:
        """Return how many bytes of each stream are missing if the trace has only its first ``size`` bytes.

        Over HTTP the trace does not contain the bytes as they passed, so they are counted from the last
        remembered size of the trace that is at most ``size``."""
        stream_bytes: Sequence[int] = self._sink.state.stream_bytes
        # The state counts from the first file after those that were shipped and deleted, so add theirs.
        if shipped := self._recorded_before.get(self._sink.state.after_hole):
            stream_bytes = [*map(sum, zip(shipped, stream_bytes, strict=True))]
        if self._assembly is not None:
            stream_bytes = next(
                (passed for size_then, passed in reversed(self._sizes) if size_then <= size), (0, 0, 0)
            )
        return self._left_out_bytes(stream_bytes)

    def _clear_journal(self) -> None:
        """Delete segments (files of the journal) whose records are in the trace, if that frees more than the
        checkpoint needs.

        After a rotation the checkpoint is written even if that frees less: it makes the previous file final,
        so that the file may be shipped.
        """
        held_bytes = self._assembly.held_bytes if self._assembly is not None else 0
        held_bytes += sum(framer.held_bytes for framer in self._framers)
        frees_enough = self._reader.read_segments * journal.SEGMENT_BYTES > held_bytes
        if self._order.is_waiting or not (frees_enough or self._has_rotated):
            return
        client, server, stderr = (PartialLine(framer.held, framer.held_at_ns) for framer in self._framers)
        state: JSON = None
        long: list[bytes | memoryview] = []
        if self._assembly is not None:
            from mcpproxy.record.recorder.checkpoint_state import save_assembly  # only HTTP needs it

            state, long = save_assembly(self._assembly)
        checkpoint = Checkpoint(
            trace_bytes=self._writer.size,
            held=(client, server, stderr),
            assembly=state,
            long=long,
            file=os.path.basename(self._writer.path) if self._rotation is not None else "",
            rotation=self._rotation,
            max_bytes=self._max_bytes,
            rule_options=self._rule_options,
        )
        try:
            self._reader.checkpoint_and_clear(checkpoint)
            self._has_rotated = False
        except OSError:
            pass  # no room for the checkpoint, so the segments stay for now
        finally:
            for run in long:
                if isinstance(run, memoryview):
                    run.release()

    def _read_rest(self) -> tuple[list[Entry], bool]:
        """Read the remaining journal. Return up to ``_SAVED_BYTES`` of it, and whether that is all of it."""
        saved: list[Entry] = []
        saved_bytes = 0
        while not self.is_over and (entries := self._reader.read()):
            for entry in entries:
                saved_bytes += len(entry[1])
                if saved_bytes <= _SAVED_BYTES:
                    saved.append(entry)
                else:
                    self._count_unrecorded(entry)
        return saved, saved_bytes <= _SAVED_BYTES

    def _count_unrecorded(self, entry: Entry) -> None:
        """Count the bytes of a record that will not be in the trace."""
        kind, payload, at_ns, _ = entry
        at_ns -= self._started_ns
        if kind in _FAULTED:
            _, payload, _ = faulted_of(payload)
        if (stream := (_STREAMS | _WHOLE_LINES).get(kind)) is not None:
            self._passed[stream] += len(payload)
        elif kind == journal.GAP:
            for stream, count in enumerate(lost_in(gap_of(payload, at_ns))):
                self._passed[stream] += count
        elif kind == journal.EXIT:
            self._exit = close_of(payload, at_ns)


def _size_of(files: Sequence[str]) -> int:
    """Return the size of all ``files`` that exist, in bytes."""
    size = 0
    for path in files:
        with suppress(OSError):
            size += os.stat(path).st_size
    return size
