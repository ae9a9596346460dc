"""Plan what fault rules would do to a recorded session. No clock, and nothing is sent."""

from collections.abc import Iterable, Iterator

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import effect_of
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import FaultRules
from mcpproxy.gate.intercept.message_facts import OpenRequests
from mcpproxy.gate.intercept.policies import Passing
from mcpproxy.judge.session.frame import CLIENT, Finding, Frame, RequestHead, Sender
from mcpproxy.protocol.header_names import SESSION_ID


@slotted(frozen=True)
class PlannedFault:
    """What a rule would do to the frame or head with the number ``seq``.

    ``fits`` is false if the rule's action does not fit the message, or its edit changes nothing.
    """

    seq: int
    sender: Sender
    what: str
    """The method and the target of a message (for an answer, its request's), or the HTTP method of a head."""
    decision: FaultDecision
    fits: bool = True


class FaultPlanner:
    """Decides about the events of one recording."""

    def __init__(self, rules: FaultRules) -> None:
        self._rules = rules
        self._findings: dict[int, tuple[Finding, ...]] = {}
        self._over_stdio = FaultPolicy(rules)
        self._over_http = FaultPolicy(rules, is_http=True)
        self._requests: dict[str, OpenRequests] = {}
        self._sessions: dict[int, str] = {}
        """Exchange -> the session that its request names."""
        self._in_pieces: set[tuple[int, Sender]] = set()
        """The exchanges and senders whose next frame is a further piece of a long message."""
        self._with_head_fault: set[int] = set()
        """The exchanges on whose request head a rule acts."""

    @property
    def unmatched(self) -> list[str]:
        """The names of the rules that have matched no message on which their action can act."""
        matched = self._over_stdio.matched | self._over_http.matched
        return [rule.name for rule in self._rules.rules if rule.name not in matched]

    def plan(self, events: Iterable[object], findings: Iterable[Finding] = ()) -> Iterator[PlannedFault]:
        """Yield the fault of each of ``events`` that a rule would act on, in order.

        What mcpproxy itself sent is left out, and so are empty frames, and messages over ``LIMIT_BYTES``,
        which the gate lets pass. If a rule acts on the head of a request, no rule is planned for its body.
        ``findings`` are the findings of the recording, for breakpoints that ask for them.
        """
        for finding in findings:
            self._findings[finding.frame] = (*self._findings.get(finding.frame, ()), finding)
        for event in events:
            if isinstance(event, RequestHead) and not event.by_proxy:
                yield from self._plan_head(event)
            elif isinstance(event, Frame) and not event.by_proxy and not self._is_long(event) and event.raw:
                yield from self._plan_frame(event)

    def _is_long(self, frame: Frame) -> bool:
        place = (frame.exchange, frame.sender)
        is_piece = frame.continues or place in self._in_pieces
        (self._in_pieces.add if frame.continues else self._in_pieces.discard)(place)
        return is_piece or len(frame.raw) > LIMIT_BYTES

    def _plan_head(self, head: RequestHead) -> Iterator[PlannedFault]:
        names = [value for name, value in head.headers if name.lower() == SESSION_ID]
        self._sessions[head.exchange] = names[0] if names else ""
        if (applied := self._over_http.enter_head(head)) is not None:
            self._with_head_fault.add(head.exchange)
            yield PlannedFault(head.seq, CLIENT, head.method, applied.decision)

    def _plan_frame(self, frame: Frame) -> Iterator[PlannedFault]:
        session = self._sessions.get(frame.exchange, "")
        recorded = self._findings.get(frame.seq, ())
        findings = tuple(finding for finding in recorded if finding.blame == frame.sender)
        requests = self._requests.setdefault(session, OpenRequests())
        facts = requests.facts(frame.sender, frame.raw, frame.message, findings)
        if frame.sender == CLIENT and frame.exchange in self._with_head_fault:
            return
        policy = self._over_http if frame.exchange else self._over_stdio
        decision = policy.decide(Passing(frame, session, findings))
        if decision is not None:
            fits = effect_of(decision, frame.raw, frame.message) is not None
            what = " ".join(filter(None, (facts[0].method, facts[0].target))) if facts else ""
            yield PlannedFault(frame.seq, frame.sender, what, decision, fits)
