"""Hold the result of ``mcpproxy check``, independent of the output format."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import Finding, Repeated, Severity
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.record.trace.opened_trace import STILL_RECORDING

if TYPE_CHECKING:  # most reports do not need it
    from mcpproxy.read.reports.baseline import Entry
    from mcpproxy.read.reports.located import Located, Remark


NamedHost: TypeAlias = tuple[str, str, bool]
"""The id of a host that the user named, its name and version, and whether facts about it are known.

Only facts of the grade that the user wants count: the grade says how well a fact is attested."""


def host_of(finding: Finding) -> str | None:
    """Return the id of the host that a finding is about (family HOST); ``None`` for any other finding."""
    data = finding.data if finding.rule.startswith("HOST-") else None
    return None if data is None else str(data["host"])


def host_members(finding: Finding) -> dict[str, object]:
    """Return the JSON members that only a finding about a host has: the host, and the effect."""
    data = finding.data if finding.rule.startswith("HOST-") else None
    return {} if data is None else {"host": data["host"], "effect": data["effect"]}


@slotted(frozen=True)
class JudgedTrace:
    """One trace and its findings, in the order in which they occurred.

    ``complete`` is false for a recording that was cut or has gaps; ``notes`` describes its missing parts, and
    what was not judged or not listed. ``revision`` is the protocol revision at the end, ``None`` if the
    recording does not show it. ``located`` are the findings with their places, if places were requested. They
    include the findings that a baseline (a file of known findings) accepts, which ``findings`` leaves out.
    ``more`` are the repeated findings that were only counted. ``journal_fault`` says why the journal of a
    killed session (the traffic that is not in the trace yet) could not be read; in that case only a part was
    judged. ``places`` maps the number of each frame with findings to its file and line (from 1), if they are
    known; frame 0 is the session. ``calls`` are the counts of failed and other calls, so far if the recording
    is running, or ``None`` if it does not have them. ``waiting_ns`` is how long the oldest unanswered call of
    a running recording has waited, ``None`` if there is none. ``not_begun`` is a clause if the server could
    not be started, or failed before any message; otherwise it is empty. ``not_judged`` is the reason if the
    recording is of a kind that is not judged; otherwise it is empty.
    """

    path: str
    complete: bool
    revision: str | None
    frames: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    located: "tuple[Located, ...]" = ()
    more: tuple[Repeated, ...] = ()
    journal_fault: str = ""
    places: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    calls: CallCounts | None = None
    waiting_ns: int | None = None
    not_begun: str = ""
    not_judged: str = ""

    @property
    def running(self) -> bool:
        """Whether the trace was still being recorded, which is no fault. One of its ``notes`` says so too."""
        return STILL_RECORDING in self.notes

    @property
    def is_whole_so_far(self) -> bool:
        """Whether the recording is running, and has all that happened so far."""
        return self.notes == (STILL_RECORDING,)

    @property
    def known(self) -> "tuple[Located, ...]":
        """The findings that a baseline accepts."""
        return tuple(located for located in self.located if located.is_known)


@slotted(frozen=True)
class Unjudged:
    """A trace that could not be judged, or only without its journal. ``reason`` is one line that says why.

    ``lines`` say the same for a terminal.
    """

    path: str
    reason: str
    lines: tuple[str, ...] = ()


@slotted(frozen=True)
class JudgedTraces:
    """The result of a whole run: every trace in the requested order.

    ``fixed`` are the entries of the baseline whose findings did not occur, ``None`` without a baseline.
    ``folders`` are the folders of custom rules. ``hosts`` are the hosts that the user named. With ``strict``,
    warnings count like errors.
    """

    traces: tuple[JudgedTrace, ...]
    unjudged: tuple[Unjudged, ...] = ()
    strict: bool = False
    fixed: "tuple[Entry, ...] | None" = None
    folders: tuple[str, ...] = ()
    hosts: tuple[NamedHost, ...] = ()

    @property
    def counts(self) -> Counter[Severity]:
        """The number of findings of each severity, without those that a baseline accepts."""
        total: Counter[Severity] = Counter(
            finding.severity for trace in self.traces for finding in trace.findings
        )
        for trace in self.traces:
            for repeated in trace.more:
                total[repeated.severity] += repeated.count
        return total

    @property
    def frames(self) -> int:
        """How many frames were judged."""
        return sum(trace.frames for trace in self.traces)

    @property
    def located(self) -> "tuple[Located, ...]":
        """All findings with their places, trace by trace; none if places were not requested."""
        return tuple(located for trace in self.traces for located in trace.located)

    @property
    def known(self) -> int:
        """How many findings a baseline accepts."""
        return sum(len(trace.known) for trace in self.traces)

    @property
    def remarks(self) -> "tuple[Remark, ...]":
        """The notes on recordings, findings that were only counted, failed servers, and traces not judged."""
        from mcpproxy.read.reports.located import Remark

        incomplete = (Remark(trace.path, note) for trace in self.traces for note in trace.notes)
        counted = (
            Remark(trace.path, more_text(repeated), "more findings")
            for trace in self.traces
            for repeated in trace.more
        )
        failed = (
            Remark(trace.path, trace.not_begun, "failed before any message")
            for trace in self.traces
            if trace.not_begun
        )
        return (
            *incomplete,
            *counted,
            *failed,
            *(Remark(trace.path, trace.not_judged, "note") for trace in self.traces if trace.not_judged),
            *(Remark(trace.path, trace.reason, "not judged") for trace in self.unjudged),
        )

    def does_count(self, finding: Finding) -> bool:
        """Whether a finding that is not known makes the run fail."""
        return finding.severity == "error" or (self.strict and finding.severity == "warning")

    @property
    def exit_code(self) -> int:
        """0 if no finding counts, 1 if some do, and 2 if not everything could be judged.

        A recording whose server failed before any message counts as one that could not be judged.
        """
        if self.unjudged or any(trace.not_begun for trace in self.traces):
            return 2
        return 1 if self.counts["error"] or (self.strict and self.counts["warning"]) else 0


def more_text(repeated: Repeated) -> str:
    """Return a clause that says how many findings with the same cause are not listed."""
    cause = f"{repeated.rule} {repeated.blame} ({repeated.severity})"
    return f"{repeated.count:,} more of {cause}, like those before"
