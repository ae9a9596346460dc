"""The state of a trace that is being written.

To continue a trace after a kill, the recorder (the process that writes it) reads and judges the trace again,
which restores the state."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.base.telling_line import LastLines
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.frame import (
    CLIENT,
    NOT_DECODED,
    SERVER,
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Gap,
    Note,
    Sender,
    Signal,
    Stderr,
)
from mcpproxy.record.recorder.judge import NothingJudged, Observing, SafeJudge
from mcpproxy.record.trace.records import Encoded, Header, Tally
from mcpproxy.record.trace.session_labels import SessionNames

if TYPE_CHECKING:
    from mcpproxy.record.recorder.http.assembly import HttpAssembly
    from mcpproxy.record.recorder.model.counts import TurnCounter
    from mcpproxy.record.recorder.model.repeats import RepeatFinder
    from mcpproxy.record.trace.shipped_files import ShippedFiles

SENDERS: Final[tuple[Sender, Sender]] = (CLIENT, SERVER)
"""The index of a stream -> its sender; the third stream, the server's stderr, has none."""


_REASON_CHARACTERS: Final = 240
"""The longest reason, in characters, that is taken from the last lines of stderr."""


@slotted()
class TraceState:
    """The counts of the records in a trace so far, and the judge that has judged exactly these records."""

    judge: SafeJudge
    header: Header | None = None
    seq: int = 0
    """The number of the last frame. Over HTTP it stays as restored: there the assembly numbers the frames."""
    at_ns: int = 0
    """The time of the last record."""
    tally: Tally = field(default_factory=Tally)
    stream_bytes: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Bytes of each stream, gaps included."""
    missing_findings: list[Finding] = field(default_factory=list[Finding])
    """Findings (violations of rules) of the last event that are not in the trace, because it was cut right
    after the event."""
    names: SessionNames = field(default_factory=SessionNames)
    """Over HTTP: the names of the sessions, from the heads so far."""
    assembly: "HttpAssembly | None" = None
    """Over HTTP: the state of the connections at the end of the trace."""
    before: tuple[str, ...] = ()
    """The earlier files of the recording, in order."""
    after_hole: str = ""
    """The first file after those that were shipped and deleted; empty if none were. ``stream_bytes`` counts
    from there on."""
    file_ns: int = 0
    """The time at which the current file began."""
    calls: CallCounter = field(default_factory=CallCounter)
    """Counts the calls of exactly these records."""
    last_words: LastLines = field(default_factory=LastLines)
    """The last lines that the server wrote to stderr."""
    first_end: str = ""
    """What began the end of the session: ``client``, ``server`` or ``signal``; empty if nothing did."""
    failed_start: str = ""
    """How the server failed before any message was sent; empty if it did not, or has not ended."""
    unjudged_lines: int = 0
    """How many lines on stdio were recorded in pieces because judging them would take too much memory."""

    turns: "TurnCounter | None" = None
    """With ``mcpproxy model``: counts the turns (requests to the model) in exactly these records."""
    repeats: "RepeatFinder | None" = None
    """With ``mcpproxy model``: finds what a request repeats of earlier ones in the current file."""

    def begin(self, header: Header) -> None:
        """Begin a recording with this header. A recording of a language model is counted, not judged."""
        self.header = header
        if header.model:
            from mcpproxy.record.recorder.model.counts import TurnCounter

            self.judge, self.turns = SafeJudge(NothingJudged), TurnCounter(header.model)
            self.begin_file()

    def begin_file(self) -> None:
        """Begin a new file of the recording. Its records do not refer to those of earlier files."""
        if self.turns is not None:
            from mcpproxy.record.recorder.model.repeats import RepeatFinder

            self.repeats = RepeatFinder()

    def count_event(self, event: Event, session: str) -> None:
        """Count an event; ``session`` is the name of its session over HTTP, if known."""
        self.calls.count_event(event, session)
        if type(event) is Note and event.what == NOT_DECODED:
            self.tally.undecoded[event.why] += 1
        if self.turns is not None:
            self.turns.count_event(event)

    def take_first_end(self, event: Eof | Signal) -> None:
        """Remember ``event`` as the beginning of the session's end, unless there was an earlier one."""
        self.first_end = self.first_end or (event.sender if isinstance(event, Eof) else "signal")

    def end(self, close: Close) -> Close:
        """End the session. If the server failed before any message, set ``failed_start``.

        Returns:
            ``close``; if the server failed, with the reason.
        """
        if any(self.tally.frames.values()) or self.header is None:
            return close
        from mcpproxy.judge.session.ending import not_begun  # few sessions have no message

        if close.ending == "exited" and close.exit_code and not close.reason and self.last_words:
            close = replace(close, reason=self.last_words.telling(_REASON_CHARACTERS))
        self.failed_start = not_begun(close, self.header, 0, self.first_end)
        return close

    def complete_tally(self) -> None:
        """Add to the tally the calls, the findings that were only counted, and what was not judged."""
        count = self.unjudged_lines
        unjudged = f"not judged, because that takes too much memory: {count} of the lines" if count else None
        self.tally.judge_error = "; ".join(filter(None, (self.judge.error, unjudged))) or None
        self.tally.more = self.judge.more
        self.tally.calls = self.calls.counts


def restore(
    trace: str,
    size: int,
    make_observer: Callable[[], Observing],
    assembly: "HttpAssembly | None" = None,
    before: tuple[str, ...] = (),
) -> TraceState:
    """Return the state at the end of ``trace``, for a recorder that continues it.

    The caller has already cut the file to ``size`` bytes; if that is 0, only the earlier files are read.
    The decoders of ``assembly`` are fed again the bytes that they had read. ``before`` are the earlier
    files of the recording; some may have been shipped and deleted. The judge then gets a gap in their place,
    and their counts come from the note that was left for them (see ``trace.shipped_files``).

    Raises:
        TraceError: the trace is damaged.
    """
    # A file may be shipped and deleted while it is read. But decoders cannot be fed twice.
    attempts = 3 if assembly is None else 1
    while True:
        attempts -= 1
        try:
            return _restore_once(trace, size, make_observer, assembly, tuple(filter(os.path.exists, before)))
        except TraceError:
            if not attempts:
                raise


def _restore_once(
    trace: str,
    size: int,
    make_observer: Callable[[], Observing],
    assembly: "HttpAssembly | None",
    before: tuple[str, ...],
) -> TraceState:
    # Imported late: only a continued recording needs them.
    from mcpproxy.record.trace.reader import read_trace
    from mcpproxy.record.trace.shipped_files import shipped_before

    state = TraceState(SafeJudge(make_observer), assembly=assembly, before=before)
    files = (*before, trace) if size else before
    if not files:
        return state
    opened = read_trace(trace, files=files)
    state.begin(opened.header)
    previous_place = ("", 0)
    file = opened.files[0]
    for event in opened.records():
        if opened.place[0] != file:
            file = opened.place[0]
            state.begin_file()
        match event:
            case Finding(severity=severity):
                state.tally.findings[severity] += 1
                del state.missing_findings[:1]
                continue
            case Encoded():
                if assembly is not None:
                    assembly.feed_again(event)
                continue
            case Frame(seq=seq, sender=sender) as frame:
                state.seq = seq
                if state.repeats is not None:
                    state.repeats.shortened(event)
                state.tally.count(frame)
                state.stream_bytes[SENDERS.index(sender)] += len(event.raw) + event.terminated
            case Stderr():
                state.stream_bytes[2] += len(event.raw) + event.terminated
                state.last_words.add(event.raw)
            case Eof() | Signal():
                state.take_first_end(event)
            case Gap() if event is opened.hole:
                if (shipped := opened.shipped_before(opened.files[1])) is None:
                    raise TraceError(
                        opened.files[1], None, "is not what the file before it names", "try again"
                    )
                _take_over_counts(state, shipped)
            case Gap():
                for stream, count in enumerate(lost_in(event)):
                    state.stream_bytes[stream] += count
            case _:
                pass
        state.count_event(event, state.names.track(event))
        state.at_ns = event.observed_at_ns
        new_findings = state.judge.observe(event)
        # A run of short lines is one record, and the findings of all its lines follow that record.
        state.missing_findings = (
            state.missing_findings + new_findings if opened.place == previous_place else new_findings
        )
        previous_place = opened.place
    if file != opened.files[-1]:
        state.begin_file()
    state.file_ns = opened.continued_ns
    if not size and len(before) == 1 and (shipped := shipped_before(trace, before[0])) is not None:
        _take_over_counts(state, shipped)  # nothing is left after the hole
        state.at_ns = state.file_ns = shipped.continued.observed_at_ns
        state.judge.observe(Gap(shipped.text, observed_at_ns=state.at_ns))
    return state


def _take_over_counts(state: TraceState, shipped: "ShippedFiles") -> None:
    """Take over the counts of the files that were shipped and deleted."""
    tally = shipped.continued.tally
    state.after_hole = shipped.continued.file
    state.calls.lose_count()  # nobody knows which calls were open there
    state.stream_bytes = [0, 0, 0]
    state.tally.frames, state.tally.own = dict(tally.frames), dict(tally.own)
    state.tally.findings = tally.total_findings
    state.seq = sum(tally.frames.values())  # over HTTP, the checkpoint has the number


def lost_in(gap: Gap) -> tuple[int, int, int]:
    """Return how many bytes of each stream are lost in a gap."""
    return gap.client_bytes, gap.server_bytes, gap.stderr_bytes
