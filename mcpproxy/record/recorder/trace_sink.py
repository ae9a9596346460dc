"""Write events to the trace (the file of the recording), judge them, and show their findings (violations of
rules)."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from mcpproxy.judge.session.frame import (
    UNKNOWN_DIALECT,
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Gap,
    Note,
    Signal,
    Stderr,
)
from mcpproxy.protocol.jsonrpc import parse
from mcpproxy.record.framing.lines import Line
from mcpproxy.record.recorder.http.memory_budget import Budget
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.recorder.trace_state import SENDERS, TraceState
from mcpproxy.record.relay.said_once import said_once
from mcpproxy.record.trace.encode import (
    encode,
    encode_close,
    encode_finding,
    encode_frame,
    encode_shortened,
    frame_parts,
)
from mcpproxy.record.trace.records import Encoded, Recorded
from mcpproxy.record.trace.short_lines import (
    SHORTEST_RUN,
    SOURCES,
    Lines,
    encode_lines,
    has_run,
    is_run,
    runs_in,
)
from mcpproxy.record.trace.writer import BATCH_BYTES, TraceWriter

if TYPE_CHECKING:
    from mcpproxy.record.recorder.http.upstream_hints import UpstreamHints

_MOST_WAITING: Final = 128
_MOST_WAITING_BYTES: Final = 64 << 10
"""How many events, and how many bytes in their frames, wait to be written and judged together. Fewer would be
slower; more would not be faster, and their parsed messages would take memory."""


class EventWatcher(Protocol):
    """Counts the events of an HTTP recording, except gaps and the end of the session, and their findings.

    After an exception in one of the two methods that count, the watcher is not called any more.
    """

    def count_event(self, event: Event) -> None: ...
    def count_finding(self, finding: Finding) -> None: ...
    def set_lag(self, lag_ns: int | None, trouble: str) -> None: ...


class TraceSink:
    """Writes events to ``writer``, judges them and shows their findings.

    ``state`` describes the existing content of the trace. ``watcher`` is told the events of an HTTP
    recording.
    """

    def __init__(
        self, writer: TraceWriter, notes: StderrNotes, state: TraceState, watcher: EventWatcher | None
    ) -> None:
        self.state = state
        self._writer = writer
        self._notes = notes
        self._watcher = watcher
        self._budget = Budget()
        self.hints: UpstreamHints | None = None
        """Over HTTP: hints for the user about the server's responses, besides findings."""
        self._waiting: list[Recorded] = []
        """Over HTTP: the events that are neither written nor judged yet."""
        self._waiting_bytes = 0
        self._in_long_line = [False, False]
        """By stream, whether the next line continues a line that was too long to hold."""
        self._say_once = said_once(notes.say)

    def write_lines(self, stream: int, lines: list[Line], is_group: bool = False) -> None:
        """Write lines of ``stream`` (0 client, 1 server, 2 stderr).

        ``is_group``: the lines contain no run of short lines, so each gets its own record.
        """
        if len(lines) >= SHORTEST_RUN and not is_group and has_run(lines):
            for group in runs_in(lines):
                if is_run(group):
                    self._write_run(stream, group)
                else:
                    self.write_lines(stream, group, is_group=True)
            return
        if stream == 2:
            for raw, at_ns, terminated, _ in lines:
                self.write_event(Stderr(raw, at_ns, terminated))
            return
        # The hot path of stdio: every frame passes here, usually one at a time.
        state, writer, sender = self.state, self._writer, SENDERS[stream]
        judge, count_frame = state.judge, state.calls.count_frame
        state.tally.frames[sender] += len(lines)
        continued = self._in_long_line[stream]
        for raw, at_ns, terminated, continues in lines:
            state.seq = seq = state.seq + 1
            state.at_ns = at_ns
            frame = Frame(seq, sender, raw, at_ns, terminated, continues)
            if len(raw) < BATCH_BYTES:  # always judged, because ``SMALL_BYTES`` is not less
                frame.parsed = parse(raw)
                writer.write(encode_frame(frame))
            elif continues or continued or self._budget.cost(raw) is None:
                self._write_in_pieces(stream, frame)
                continued = continues
                continue
            else:
                writer.write_large(frame_parts(frame))
            continued = False
            count_frame(frame)
            if findings := judge.observe(frame):
                self._record_findings(findings)
        self._in_long_line[stream] = continued

    def _write_run(self, stream: int, lines: list[Line]) -> None:
        """Write a run of short lines as one record."""
        state, judge = self.state, self.state.judge
        at_ns = lines[0][1]
        seq = 0 if stream == 2 else state.seq + 1
        run = Lines(seq, SOURCES[stream], tuple(raw for raw, _, _, _ in lines), at_ns)
        self._writer.write(encode_lines(run))
        state.at_ns = at_ns
        if stream == 2:
            state.last_words.add(*run.raws)
            return
        self._in_long_line[stream] = False
        state.seq += len(lines)
        state.tally.frames[SENDERS[stream]] += len(lines)
        for frame in run.events():
            if findings := judge.observe(frame):
                self._record_findings(findings)

    def _write_in_pieces(self, stream: int, frame: Frame) -> None:
        """Write a line, or a part of a line that is too long to hold, in pieces. The first piece has the
        number of ``frame``.

        The judge gets each piece, so that it knows that it has missed a line, but it does not check the
        pieces.
        """
        from mcpproxy.record.recorder.http.body_frames import in_pieces

        state, sender = self.state, SENDERS[stream]
        if not frame.continues:  # the last part of the line, or all of it
            state.unjudged_lines += 1
        self._say_once(f"a line of the {sender}'s was too much to judge: it is recorded in pieces")
        for count, piece in enumerate(in_pieces(frame, at_least=2)):
            if count > 0:
                state.seq += 1
                state.tally.frames[sender] += 1
            piece.seq = state.seq
            self._writer.write_large(frame_parts(piece))
            state.calls.count_frame(piece)
            self._record_findings(state.judge.observe(piece))

    def write_http_events(self, events: Iterable[Recorded]) -> None:
        """Add events of an HTTP recording. They are in the trace after ``settle`` at the latest."""
        for event in events:
            self._waiting.append(event)
            if type(event) is Frame:
                self._waiting_bytes += len(event.raw)
            if len(self._waiting) >= _MOST_WAITING or self._waiting_bytes > _MOST_WAITING_BYTES:
                self.settle()

    def settle(self) -> None:
        """Write and judge the events that wait.

        First all are encoded, then all are judged: an exchange takes 58 µs instead of 71 if several are
        settled together (64 events, CPython 3.11), because each step finds its code and data in the caches.
        """
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        state = self.state
        names, judge, tally, hints = state.names, state.judge, state.tally, self.hints
        sessions = [names.track(event) for event in waiting]
        records = list(map(self._line_of, waiting, sessions))
        state.at_ns = waiting[-1].observed_at_ns
        for event, record, session in zip(waiting, records, sessions, strict=True):
            if isinstance(record, tuple):
                self._writer.write_large(record)
            else:
                self._writer.write(record)
            if isinstance(event, Encoded):
                continue
            if type(event) is Frame:
                tally.count(event)
            state.count_event(event, session)
            if type(event) is Note and event.what == UNKNOWN_DIALECT:
                self._say_once(event.why)
            if findings := judge.observe(event):
                self._record_findings(findings)
            if hints is not None and (hint := hints.hint_for(event)):
                self._notes.say(hint)
            if self._watcher is not None:
                self._tell_watcher(self._watcher, event, findings)

    def _line_of(self, event: Recorded, session: str) -> bytes | tuple[bytes, bytes, bytes]:
        """Return an event as a line of the trace; a request to a language model without what it repeats."""
        repeats = self.state.repeats
        shortened = repeats.shortened(event) if repeats is not None and type(event) is Frame else None
        return encode_shortened(shortened, session) if shortened else _encode_http_event(event, session)

    def write_event(self, event: Frame | Stderr | Eof | Signal | Gap | Note) -> None:
        """Write and judge a single event of a stdio recording, or a gap in any recording."""
        self.settle()
        if isinstance(event, Frame):
            self.state.tally.count(event)
            self.state.calls.count_frame(event)
        elif isinstance(event, Stderr):
            self.state.last_words.add(event.raw)
        elif isinstance(event, Eof | Signal):
            self.state.take_first_end(event)
        self._writer.write(encode(event))
        self.state.at_ns = event.observed_at_ns
        self._judge(event)

    def write_close(self, close: Close) -> None:
        """Judge the end of the session, and write the close record, which says how it ended."""
        self.settle()
        state = self.state
        close = state.end(close)
        self._judge(close)
        state.complete_tally()
        self._writer.write(encode_close(close, state.tally))

    def report_lag(self, latest_ns: int | None) -> None:
        """Tell the watcher the delay between traffic and trace, and whether the trace can be written.

        ``latest_ns`` is the time of the last record that was written since the previous report; ``None`` if
        nothing was written since then.
        """
        if self._watcher is not None:
            fault = self._writer.fault
            lag_ns = None if latest_ns is None else max(0, time.monotonic_ns() - latest_ns)
            self._watcher.set_lag(lag_ns, f"the trace cannot be written: {fault}" if fault else "")

    def report_judge(self) -> None:
        """Show what went wrong during judging, each problem once."""
        judge = self.state.judge
        for line in judge.left_out:
            self._say_once(f"judging goes on; {line}")
        if judge.stopped and judge.is_our_fault:
            self._say_once(
                f"judging stopped, a fault of mcpproxy: {judge.stopped};"
                " the recording goes on, please report it"
            )
        elif judge.stopped:
            self._say_once(f"judging stopped: {judge.stopped}; the recording goes on")

    def _judge(self, event: Event) -> None:
        """Judge an event, and record and show its findings."""
        self._record_findings(self.state.judge.observe(event))

    def _record_findings(self, findings: list[Finding]) -> None:
        self.write_findings(findings)
        for finding in findings:
            self._notes.show_finding(finding)

    def write_findings(self, findings: list[Finding]) -> None:
        """Write findings without showing them."""
        for finding in findings:
            self._writer.write(encode_finding(finding))
            self.state.tally.findings[finding.severity] += 1

    def _tell_watcher(self, watcher: EventWatcher, event: Event, findings: list[Finding]) -> None:
        try:
            watcher.count_event(event)
            for finding in findings:
                watcher.count_finding(finding)
        except Exception as fault:
            self._watcher = None
            self._notes.say(f"the metrics stopped, a fault of mcpproxy: {fault!r}; the recording goes on")


def _encode_http_event(event: Recorded, session: str) -> bytes | tuple[bytes, bytes, bytes]:
    """Return an event as a line of the trace; that of a large frame in parts, to avoid copying the frame."""
    if type(event) is Frame and len(event.raw) >= BATCH_BYTES:
        return frame_parts(event, session)
    return encode(event, session)
