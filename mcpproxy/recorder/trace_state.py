"""What a trace holds, and how a recorder that takes over learns it: by reading it again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mcpproxy.recorder.judge import Observing, SafeJudge
from mcpproxy.session.frame import CLIENT, SERVER, Finding, Frame, Gap, Sender, Stderr
from mcpproxy.trace.reader import read_trace
from mcpproxy.trace.records import Encoded, Header, Tally
from mcpproxy.trace.session_labels import SessionNames

if TYPE_CHECKING:
    from mcpproxy.recorder.http.assembly import HttpAssembly

SENDERS: Final[tuple[Sender, Sender]] = (CLIENT, SERVER)
"""Place in every triple of streams (the client's, the server's, the server's stderr) -> who sends."""


@dataclass(slots=True)
class TraceState:
    """What the trace holds up to now, and the judge that has seen just that."""

    judge: SafeJudge
    header: Header | None = None
    seq: int = 0
    at_ns: int = 0
    tally: Tally = field(default_factory=Tally)
    stream_bytes: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Of each stream, gaps included."""
    owed: list[Finding] = field(default_factory=list[Finding])
    """What the last event brought to light and the trace does not hold, being cut between the two."""
    names: SessionNames = field(default_factory=SessionNames)
    assembly: "HttpAssembly | None" = None
    """Over HTTP, the connections as they were then."""
    before: tuple[str, ...] = ()
    """The files of the recording before the one that is written, in order."""
    file_ns: int = 0
    """When the one that is written began."""

    too_dear: int = 0
    """How many lines on stdio were recorded in pieces because nobody could judge them in little memory."""

    def settle(self) -> None:
        """Let the tally say what the judge counted, and what did not go as it should."""
        told = f"not judged for the memory it takes: {self.too_dear} of the lines" if self.too_dear else None
        self.tally.judge_error = "; ".join(filter(None, (self.judge.error, told))) or None
        self.tally.more = self.judge.more


def restore(
    trace: str,
    size: int,
    make_observer: Callable[[], Observing],
    assembly: "HttpAssembly | None" = None,
    before: tuple[str, ...] = (),
) -> TraceState:
    """What was filed by a recorder that is gone, read again from the ``size`` bytes of its trace.

    ``assembly`` is shown what its decoders had read. ``before`` are the files that the trace goes on from.

    Raises:
        TraceError: the trace is damaged.
    """
    state = TraceState(SafeJudge(make_observer), assembly=assembly, before=before)
    files = (*before, trace) if size else before
    if not files:
        return state
    opened = read_trace(trace, files=files)
    state.header = opened.header
    before_place = ("", 0)
    for event in opened.records():
        match event:
            case Finding(severity=severity):
                state.tally.findings[severity] += 1
                del state.owed[:1]
                continue
            case Encoded():
                if assembly is not None:
                    assembly.refeed(event)
                continue
            case Frame(seq=seq, sender=sender):
                state.seq = seq
                state.tally.frames[sender] += 1
                state.stream_bytes[SENDERS.index(sender)] += len(event.raw) + event.terminated
            case Stderr():
                state.stream_bytes[2] += len(event.raw) + event.terminated
            case Gap():
                for place, count in enumerate(lost_in(event)):
                    state.stream_bytes[place] += count
            case _:
                pass
        state.names.of(event)
        state.at_ns = event.observed_at_ns
        found = state.judge.observe(event)
        # What is found in a run of lines follows the record that holds them all.
        state.owed = state.owed + found if opened.place == before_place else found
        before_place = opened.place
    state.file_ns = opened.continued_ns
    return state


def lost_in(gap: Gap) -> tuple[int, int, int]:
    """How many bytes a gap took from each stream."""
    return gap.client_bytes, gap.server_bytes, gap.stderr_bytes
