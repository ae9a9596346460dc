"""The entry to the judge: ``Observer`` takes events and returns findings.

``Observer.observe`` is called once for each event of a recording, in order, while the session runs or later.
Equal events give equal findings at any time, because the judge uses no clock and only files of rules.
"""

from collections.abc import Sequence

from mcpproxy.judge.checks import STANDARD
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.observer.carried_sessions import CarriedSessions
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.observer.http_judge import HttpJudge
from mcpproxy.judge.observer.memory_limit import MOST_BYTES, MemoryUse, measure
from mcpproxy.judge.observer.message_judge import MessageJudge
from mcpproxy.judge.session.frame import Close, Event, Finding, Frame, Gap, HttpEvent, Repeated
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.protocol.schema.contracts import UNCHECKED

__all__ = ["Observer"]


class Observer:
    """Judges one recording with the checks in ``dispatch``, which report violations of ``catalogue``'s rules.

    ``revision`` is the protocol revision of a session whose handshake was not recorded; it is ignored unless
    it is stateful, because a stateless request names its own. ``joined_late`` says that the start of the
    session was not recorded. ``redacted`` says that values were masked after the session was recorded;
    findings that may depend on a masked value are then left out. ``over_http`` says that the messages went
    over HTTP even if no HTTP exchanges were recorded. The first findings of each cause are given in full and
    the others are only counted, unless ``lists_all`` is set.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        dispatch: Dispatch = STANDARD,
        *,
        revision: str | None = None,
        joined_late: bool = False,
        redacted: bool = False,
        over_http: bool = False,
        lists_all: bool = False,
    ) -> None:
        build_findings = self._build_findings = FindingBuilder(catalogue, lists_all=lists_all)
        memory_use = self._memory_use = MemoryUse()
        self.forgot = ""
        """A sentence that says from which frame on the state was forgotten to save memory; empty if it was
        not."""
        self.left_out: Sequence[str] = UNCHECKED
        """Sentences about checks that are left out because a dependency cannot be loaded."""
        self._carried = CarriedSessions(build_findings, dispatch, memory_use)
        self._messages = MessageJudge(
            build_findings,
            dispatch,
            memory_use,
            revision=revision if revision in STATEFUL else None,
            joined_late=joined_late,
            masked=redacted,
            over_http=over_http,
            judge_carried=self._carried.judge,
        )
        self._http = HttpJudge(
            build_findings, dispatch, memory_use, joined_late=joined_late, redacted=redacted
        )

    @property
    def revision(self) -> str | None:
        """The protocol revision of the session; ``None`` until it is known."""
        return self._messages.revision or self._http.revision

    @property
    def more(self) -> tuple[Repeated, ...]:
        """The number of findings of each cause beyond those that were given in full."""
        return self._build_findings.more

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event. This does not raise, whatever the peers send."""
        if self._memory_use.added > MOST_BYTES:
            self._limit_memory(event)
        if type(event) is Frame:
            return self._http.judge_frame(event) if event.exchange else self._messages.judge_frame(event)
        if isinstance(event, HttpEvent):
            return self._http.observe(event)
        findings = self._messages.observe(event)
        if isinstance(event, Gap):
            self._carried.observe_gap(event)
        return findings + self._http.observe(event) if isinstance(event, Gap | Close) else findings

    def _state_bytes(self) -> int:
        """Return the approximate size of the state in bytes."""
        return measure((self._messages.history, self._carried.remembered, self._http.history))

    def _limit_memory(self, event: Event) -> None:
        """Measure the state. If it is too large, forget answered requests, or if need be everything."""
        measured = self._state_bytes()
        if measured > MOST_BYTES:
            self._messages.history.forget_finished()
            self._carried.forget_finished()
            self._http.forget_finished()
            measured = self._state_bytes()
        if measured <= MOST_BYTES:
            # Start from the measured size. At least half of the limit is added before the next measurement.
            self._memory_use.added = min(measured, MOST_BYTES // 2)
            return
        self._messages.forget()
        self._carried.forget()
        self._http.forget()
        self._memory_use.added = 0
        place = f"frame {event.seq}" if isinstance(event, Frame) else "somewhere"
        self.forgot = self.forgot or (
            f"more than {MOST_BYTES >> 20} MiB had to be remembered: from {place} on the messages were judged"
            " like those of a session that was joined late"
        )
