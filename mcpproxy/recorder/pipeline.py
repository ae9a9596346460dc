"""From the journal to the trace: framing, judging, filing, telling.

The same code runs while a session lives and when its journal is folded in later, and it is fed the same
records, so both give the same trace.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from mcpproxy.framing.lines import LineFramer
from mcpproxy.recorder.checkpoint import Checkpoint, PartialLine, SavedAssembly
from mcpproxy.recorder.journal_reader import Entry, JournalReader
from mcpproxy.recorder.judge import Observing, SafeJudge, observer_for
from mcpproxy.recorder.payloads import close_of, gap_of, header_of, terms_of
from mcpproxy.recorder.rotation import Rotation, rotation_of
from mcpproxy.recorder.stderr_notes import StderrNotes
from mcpproxy.recorder.trace_sink import EventWatcher, TraceSink
from mcpproxy.recorder.trace_state import SENDERS, TraceState, lost_in, restore
from mcpproxy.relay import journal
from mcpproxy.session.frame import (
    Close,
    Eof,
    Frame,
    Gap,
    Note,
    Signal,
)
from mcpproxy.trace import chain
from mcpproxy.trace.encode import encode_continued, encode_header
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.records import Continued, Tally
from mcpproxy.trace.writer import TraceWriter

if TYPE_CHECKING:
    from mcpproxy.ruleset.rule_options import RuleOptions

_CLOSE_BYTES: Final = 16 << 10
"""Room for the last records on a disk that is full: a gap, the last findings, the close record."""

_SAVED_BYTES: Final = 16 << 20
"""How much of a journal is taken into memory when it must be deleted."""


_LINE_BYTES: Final = 16 << 20
"""The longest line that may become one frame, as with bodies over HTTP."""

_STDERR_BYTES: Final = 1 << 20

LATE_NS: Final = 2_000_000_000
"""What is judged so much later than it passed is late: after a burst, or on a machine that is busy."""

_MARKS: Final = 64
"""How many sizes of the trace are remembered; giving up takes back no more than the last of them."""

_STREAMS: Final[dict[int, int]] = {journal.CLIENT: 0, journal.SERVER: 1, journal.STDERR: 2}
"""Journal kind -> place in every triple of streams: the client's, the server's, the server's stderr."""
_ENDS: Final[dict[int, int]] = {journal.CLIENT_EOF: 0, journal.SERVER_EOF: 1, journal.STDERR_EOF: 2}
_REFUSED: Final[dict[int, int]] = {journal.CLIENT_REFUSED: 0, journal.SERVER_REFUSED: 1}
_OWN: Final[dict[int, int]] = {journal.CLIENT_OWN: 0, journal.SERVER_OWN: 1}
_ALL_BYTES: Final = _STREAMS | _REFUSED | _OWN


class RecordingPipeline:
    """One session on its way from ``reader`` to ``writer``.

    ``make_observer`` makes the judge, unless the START record says by which rules to judge: then
    ``make_observer_for`` does. ``start`` and ``state`` continue what an earlier recorder had filed at a
    checkpoint. ``watcher`` hears of all that is filed over HTTP."""

    def __init__(
        self,
        reader: JournalReader,
        writer: TraceWriter,
        make_observer: Callable[[], Observing],
        notes: StderrNotes,
        start: Checkpoint | None = None,
        state: TraceState | None = None,
        watcher: EventWatcher | None = None,
        make_observer_for: "Callable[[RuleOptions], Observing]" = observer_for,
    ) -> None:
        self._make_observer_for = make_observer_for
        self._reader = reader
        self._writer = writer
        self._make_observer = make_observer
        self._notes = notes
        self._framers = (LineFramer(_LINE_BYTES), LineFramer(_LINE_BYTES), LineFramer(_STDERR_BYTES))
        state = state or TraceState(SafeJudge(make_observer))
        self._sink = TraceSink(writer, notes, state, watcher)
        self._passed = list(state.stream_bytes)
        """How many bytes of each stream we know of: filed, to be filed, or lost in a gap."""
        self._started_ns = state.header.started_ns if state.header else 0
        self._files = [*state.before, writer.path]
        self._rotation: Rotation | None = (start or Checkpoint()).rotation
        self._terms: RuleOptions | None = (start or Checkpoint()).terms
        self._assembly = state.assembly
        """What frames a session over HTTP; ``None`` on stdio."""
        self._marks: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=_MARKS)
        """Over HTTP, sizes of the trace and how many bytes had passed then."""
        self._exit: Close | None = None
        self.hurry: Callable[[], None] | None = None
        """To be called when something is judged very late, at most once in each ``drain``."""
        self.lag_ns = 0
        """How late something was judged, at the worst: from when it passed; meant while the session lives."""
        self._is_closed = False
        for framer, held, place in zip(self._framers, (start or Checkpoint()).held, range(3), strict=True):
            framer.feed(held.raw, held.at_ns)
            self._passed[place] += len(held.raw)

    @property
    def is_over(self) -> bool:
        """Whether the relay has said how the session ended."""
        return self._exit is not None

    @property
    def is_stuck(self) -> bool:
        """Whether the trace cannot be written at the moment; the journal keeps what passes."""
        return self._writer.fault is not None

    @property
    def tally(self) -> Tally:
        return self._sink.state.tally

    def drain(self) -> None:
        """File all that the journal holds now, or as much as the disk takes.

        Raises:
            OSError: the journal cannot be read.
            TraceError: the trace exists already.
        """
        if self.is_stuck and not self._flush():
            self._sink.tell_of_lag(None)
            return
        latest_ns, hurry = None, self.hurry
        while not self.is_over and (entries := self._reader.read()):
            for entry in entries:
                self._file(entry)
                if self._rotation is not None:
                    self._rotate(self._rotation)
            latest_ns = entries[-1][2]
            lag_ns = time.monotonic_ns() - latest_ns
            self.lag_ns = max(self.lag_ns, lag_ns)
            if hurry is not None and lag_ns > LATE_NS:
                hurry()
                hurry = None
            del entries
            if not self._flush():
                break
            if not self.is_over:  # the EXIT record is filed by finish alone
                self._clear_journal()
        self._sink.tell_of_lag(latest_ns)

    def _rotate(self, rotation: Rotation) -> None:
        """Go on in another file, if it is time to."""
        state, writer = self._sink.state, self._writer
        if state.header is None or not rotation.is_due(writer.position, state.file_ns, state.at_ns):
            return
        last = self._files[-1]
        path = chain.next_name(self._files[0], last)
        state.file_ns = state.at_ns
        state.settle()
        writer.write(encode_continued(Continued(os.path.basename(path), state.tally, state.at_ns)))
        writer.turn_to(path)
        self._files.append(path)
        self._marks.clear()
        writer.write(encode_header(replace(state.header, continues=os.path.basename(last))))

    def finish(self) -> bool:
        """File how the session ended; false if the disk is too full for it.

        Without an EXIT record the relay was killed: the recording is cut.
        """
        if self._is_closed:
            return self._flush()
        if self.is_stuck:
            return False
        if self._assembly is not None:
            self._sink.all(self._assembly.end())
        for place in range(3):
            # The stream did not end, we stopped reading it: its last line may have gone on.
            self._sink.lines(place, self._framers[place].end(continues=True))
        self._is_closed = True
        self._sink.close(self._exit or Close("cut", observed_at_ns=self._sink.state.at_ns))
        return self._flush()

    def give_up(self) -> str:
        """``finish`` for a disk that stays full; what is wrong with the trace then, empty if nothing is.

        The journal is deleted first. Its blocks make room: for what of it could be taken into memory,
        and for the last records. What does not fit becomes a gap.
        """
        why = self._writer.fault
        saved, is_all = self._read_rest()
        self._reader.clear()
        self._flush()
        for entry in saved:
            if self.is_stuck:
                self._count(entry)
                is_all = False
            else:
                self._file(entry)
        if self._flush() and is_all and self.finish():
            return ""
        for reserve in (0, _CLOSE_BYTES):
            try:
                size = self._writer.rewind(reserve)
            except OSError:
                break
            header = self._sink.state.header
            before = tuple(self._files[: self._files.index(self._writer.path)])
            # Judged anew, up to where the trace now ends: what is not in it must not count.
            self._sink.state = restore(self._writer.path, size, self._make_observer, before=before)
            if size == 0 and header is not None:
                self._sink.state.header = header
                continues = os.path.basename(before[-1]) if before else ""
                self._writer.write(encode_header(replace(header, continues=continues)))
            self._sink.owed()
            missing = self._missing(size)
            end = self._exit or Close("cut", observed_at_ns=self._sink.state.at_ns)
            self._sink.event(
                Gap(f"the trace could not be written: {why}", *missing, observed_at_ns=end.observed_at_ns)
            )
            self._is_closed = True
            self._sink.close(end)
            if self._flush():
                return f"the trace is incomplete: {why}"
        return f"the trace has no end: {why}"

    def _file(self, entry: Entry) -> None:
        """Take one record of the journal."""
        kind, payload, at_ns, connection = entry
        at_ns -= self._started_ns
        place = _STREAMS.get(kind)
        if place is not None:  # as nearly all are
            self._passed[place] += len(payload)
        if self._assembly is not None and (connection or kind == journal.NOTE):
            self._sink.all(self._assembly.take(kind, payload, at_ns, connection))
        elif place is not None:
            self._sink.lines(place, self._framers[place].feed(payload, at_ns))
        elif (place := _ENDS.get(kind)) is not None:
            self._sink.lines(place, self._framers[place].end())
            if place < 2:
                self._sink.event(Eof(SENDERS[place], at_ns))
        elif kind in _REFUSED or kind in _OWN:
            self._file_refusal(kind, payload, at_ns)
        elif kind == journal.SIGNAL:
            name = payload.decode("ascii", "replace")
            if self._assembly is None:
                self._sink.event(Signal(name, at_ns))
            else:  # it was meant for mcpproxy, and no server got it
                self._sink.all([Note(0, "stopped", f"mcpproxy received {name}", at_ns)])
        elif kind == journal.GAP:
            self._file_gap(gap_of(payload, at_ns))
        elif kind == journal.START:
            if self._sink.state.header is not None:
                raise NotARecordError("a second START record")
            header = header_of(payload)
            self._sink.state.header = header
            self._started_ns = header.started_ns
            self._writer.write(encode_header(header))
            if header.transport == "http":
                # What it imports is as much as all the rest, and a stdio server is there at once.
                from mcpproxy.recorder.http.assembly import HttpAssembly

                self._assembly = HttpAssembly(payload)
            self._rotation = rotation_of(payload)
            self._agree(terms_of(payload))
        elif kind == journal.EXIT:
            self._exit = close_of(payload, at_ns)

    def _agree(self, terms: "RuleOptions | None") -> None:
        """Judge by what the START record says, if it says anything."""
        if terms is not None:
            self._terms = terms
            self._make_observer = partial(self._make_observer_for, terms)
            self._sink.state.judge = SafeJudge(self._make_observer)
            self._sink.tell_of_judge()

    def _file_refusal(self, kind: int, line: bytes, at_ns: int) -> None:
        """File a line that was refused, or our answer to it: neither belongs to a peer's stream of lines."""
        state, place = self._sink.state, _REFUSED.get(kind, _OWN.get(kind, 0))
        self._passed[place] += len(line)
        state.seq += 1
        raw = line.removesuffix(b"\n")
        frame = Frame(state.seq, SENDERS[place], raw, at_ns, len(raw) < len(line))
        frame.refused, frame.by_proxy = kind in _REFUSED, kind in _OWN
        self._sink.event(frame)

    def _file_gap(self, gap: Gap) -> None:
        for place, count in enumerate(lost_in(gap)):
            self._passed[place] += count
            if count:
                # The line goes on inside the gap: what we have of it is a piece.
                self._sink.lines(place, self._framers[place].end(continues=True))
        self._sink.event(gap)
        if self._assembly is not None:
            self._sink.all(self._assembly.gap(gap.observed_at_ns))

    def _flush(self) -> bool:
        was_stuck = self.is_stuck
        is_written = self._writer.flush()
        if not is_written and not was_stuck:
            self._notes.say(
                f"cannot write the trace: {self._writer.fault}; the session goes on, trying again"
            )
        if is_written and self._assembly is not None:
            self._marks.append((self._writer.size, tuple(self._passed)))
        return is_written

    def _missing(self, size: int) -> list[int]:
        """How many bytes of each stream passed and are not in the first ``size`` bytes of the trace.

        Over HTTP these are the bytes since the last mark, for what is filed there is not what passed.
        """
        state: Sequence[int] = self._sink.state.stream_bytes
        if self._assembly is not None:
            state = next((passed for at, passed in reversed(self._marks) if at <= size), (0, 0, 0))
        return [passed - there for passed, there in zip(self._passed, state, strict=True)]

    def _clear_journal(self) -> None:
        """Delete the segments that are filed, when that frees more than the checkpoint costs to write."""
        held = self._assembly.held_bytes if self._assembly is not None else 0
        held += sum(framer.held_bytes for framer in self._framers)
        if self._reader.read_segments * journal.SEGMENT_BYTES <= held:
            return
        client, server, stderr = (PartialLine(framer.held, framer.held_at_ns) for framer in self._framers)
        saved = self._saved_assembly()
        state = Checkpoint(
            trace_bytes=self._writer.size,
            held=(client, server, stderr),
            assembly=saved.state,
            long=saved.long,
            file=os.path.basename(self._writer.path) if self._rotation is not None else "",
            rotation=self._rotation,
            terms=self._terms,
        )
        try:
            self._reader.checkpoint_and_clear(state)
        except OSError:
            pass  # no room for the checkpoint: the segments stay until there is
        finally:
            saved.release()

    def _saved_assembly(self) -> SavedAssembly:
        if self._assembly is None:
            return SavedAssembly()
        from mcpproxy.recorder.checkpoint_state import save_assembly  # only HTTP needs it

        return save_assembly(self._assembly)

    def _read_rest(self) -> tuple[list[Entry], bool]:
        """What the journal still holds, as much as memory may hold; whether that is all of it."""
        saved: list[Entry] = []
        saved_bytes = 0
        while not self.is_over and (entries := self._reader.read()):
            for entry in entries:
                saved_bytes += len(entry[1])
                if saved_bytes <= _SAVED_BYTES:
                    saved.append(entry)
                else:
                    self._count(entry)
        return saved, saved_bytes <= _SAVED_BYTES

    def _count(self, entry: Entry) -> None:
        """Take a record of the journal that will not be filed."""
        kind, payload, at_ns, _ = entry
        at_ns -= self._started_ns
        if (place := _ALL_BYTES.get(kind)) is not None:
            self._passed[place] += len(payload)
        elif kind == journal.GAP:
            for place, count in enumerate(lost_in(gap_of(payload, at_ns))):
                self._passed[place] += count
        elif kind == journal.EXIT:
            self._exit = close_of(payload, at_ns)
