"""What a check run found out, before anybody decides how to print it."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from mcpproxy.session.frame import Finding, Severity


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    """One trace and its findings, in the order in which they came up.

    ``complete`` is false for a recording that was cut or has gaps; ``notes`` says in words what is
    missing. ``revision`` is the protocol revision in force at the end, ``None`` if none was settled.
    """

    path: str
    complete: bool
    revision: str | None
    frames: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A trace that could not be read: where, and one line that says why and what to do."""

    path: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """A whole run: every trace in the order asked for."""

    traces: tuple[JudgedTrace, ...]
    unjudged: tuple[Unjudged, ...] = ()
    strict: bool = False

    @cached_property
    def counts(self) -> Counter[Severity]:
        """Findings per severity."""
        return Counter(finding.severity for trace in self.traces for finding in trace.findings)

    @cached_property
    def frames(self) -> int:
        return sum(trace.frames for trace in self.traces)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings that count, 2 when a trace could not be judged."""
        if self.unjudged:
            return 2
        return 1 if self.counts["error"] or (self.strict and self.counts["warning"]) else 0
