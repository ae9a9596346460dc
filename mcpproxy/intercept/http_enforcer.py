"""Which fault rule meets a request over HTTP, or a message in an answer. No I/O.

Messages are counted for each MCP session; those without a session id are one session.
"""

from collections.abc import Callable
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.intercept.addons.addon_outcomes import addon_kind
from mcpproxy.intercept.addons.closed_gate import A_FAULT, TOO_LONG, ClosedGate, Withheld, is_message
from mcpproxy.intercept.addons.closed_gate_http import GatedPaths
from mcpproxy.intercept.fault_actions import ANSWERS_OVER_HTTP, FROM_CLIENTS
from mcpproxy.intercept.fault_decisions import FaultDecider, FaultDecision
from mcpproxy.intercept.fault_effects import effect_of
from mcpproxy.intercept.fault_rules import FaultRules
from mcpproxy.intercept.message_facts import MessageFacts, OpenRequests
from mcpproxy.intercept.policies import Refused
from mcpproxy.protocol.jsonrpc import Message, Request, parse
from mcpproxy.protocol.raw_json import value_bytes
from mcpproxy.session.frame import CLIENT, SERVER, Event, FaultMark, Finding, Frame, RequestHead

_ANSWERED: Final = ("error", "status", "lose-session", "expire-token")
_ENDED: Final = ("drop", "disconnect")
_MOST_SESSIONS: Final = 10_000
"""How many sessions are told apart; the oldest are forgotten first."""


@slotted(frozen=True)
class FaultVerdict:
    """What meets a request.

    ``content`` is its message, ``body`` our error, if any. ``is_altered``: another request is forwarded
    instead. ``is_stream_cut``: the stream that it asks for is cut when the delay is over.
    """

    decision: FaultDecision
    content: bytes = b""
    body: bytes = b""
    is_altered: bool = False
    is_stream_cut: bool = False


@slotted(frozen=True)
class AskedRequest:
    """A request about which addons are asked: the hook, its session, its bytes and its message."""

    kind: str
    session: str
    content: bytes
    message: Message


@slotted(frozen=True)
class WithheldRequest:
    """A request that does not pass a gate that fails closed: its message, and what becomes of it."""

    content: bytes
    withheld: Withheld


@slotted()
class _Session:
    number: int
    requests: OpenRequests


class FaultEnforcer:
    """Asks fault rules, instead of a judge, about each request."""

    def __init__(self, rules: FaultRules) -> None:
        self.verdict: FaultVerdict | None = None
        """What meets the last request."""
        self.asked: AskedRequest | None = None
        """The last request, if addons are asked about it."""
        self.withheld: WithheldRequest | None = None
        """The last request, if it does not pass a gate that fails closed."""
        self.gate = ClosedGate()
        self.paths = GatedPaths()
        self.id = b""
        """The id of the last request, as JSON has it; empty if it has none."""
        self._is_judged = self._is_gated = self._has_message = False
        self.say: Callable[[str], None] = _ignore
        """Writes a line to stderr."""
        self.wants: Callable[[str], bool] = _never
        """Whether an addon has a hook for this kind of message."""
        self.found: Callable[[Event], tuple[Finding, ...]] = _nothing
        """Judges an event, and returns what is wrong with it."""
        self.on_deleted: Callable[[str], None] = _ignore
        """Called with the id of a session that a client ends."""
        self._decider = FaultDecider(rules, ANSWERS_OVER_HTTP)
        self._sessions: dict[str, _Session] = {}
        self._session_count = 0
        self._name = ""
        self._token = ""
        self._lost: dict[str, FaultDecision] = {}
        self._expired: dict[str, FaultDecision] = {}
        self._number = 0

    @property
    def matched(self) -> set[str]:
        """The names of the rules that have matched a message."""
        return self._decider.matched

    @property
    def response(self) -> Refused | None:
        """What the tunnel is told if something meets the last request."""
        if self.withheld is not None:
            return Refused("addon", self.withheld.withheld.why, b"")
        if self.asked is not None:
            return Refused("addon", self.asked.kind, b"")
        if self.verdict is None:
            return None
        rule = self.verdict.decision.rule
        return Refused(f"rule {rule.name}", rule.action.verb, self.verdict.body)

    def on_bug(self, fault: Exception) -> None:
        """Say that a bug in mcpproxy lets the answers on a connection pass."""
        self.say(f"a fault of mcpproxy, no rule acts on these answers: {type(fault).__name__}: {fault}")

    def begin(self) -> None:
        """Forget what meets the last request."""
        self.verdict = self.asked = self.withheld = None
        self.id, self._is_judged = b"", False
        self._is_gated = self._has_message = True  # until its head says otherwise

    def deny_unjudged(self, *, is_broken: bool) -> None:
        """Withhold the last request if a gate fails closed and nothing has judged it.

        ``is_broken``: a bug in mcpproxy has ended all judging.
        """
        is_due = is_broken or (self._is_gated and self._has_message and not self._is_judged)
        if self.gate.addons and is_due and self.verdict is None and self.withheld is None:
            self.withheld = WithheldRequest(b"", self.gate.withhold(CLIENT, b"", A_FAULT))

    def mark(self, rule: str, action: str) -> FaultMark:
        """Return the mark of a new fault."""
        self._number += 1
        return FaultMark(rule, action, self._number)

    def observe(self, event: Event, *, leaves: bool = True) -> None:
        """Take an event that is no message of a client; the head of a request names its session."""
        del leaves
        self.found(event)
        if not isinstance(event, RequestHead) or event.by_proxy:
            return
        self.begin()
        self._is_gated, self._has_message = self.paths.has(event.target), event.method == "POST"
        fields = {name.lower(): value for name, value in event.headers}
        self._name, self._token = fields.get("mcp-session-id", ""), fields.get("authorization", "")
        if event.method == "DELETE" and self._name:
            self.on_deleted(self._name)
        if decision := self._lost.get(self._name) or self._expired.get(self._token):
            self.verdict = FaultVerdict(decision)
        elif event.endpoint and event.method != "POST":
            self.verdict = self._without_message(event)

    def _without_message(self, head: RequestHead) -> FaultVerdict | None:
        """Return what meets a request that has no message."""
        lines = (f"{head.method} {head.target}", *(f"{name}: {value}" for name, value in head.headers))
        facts = MessageFacts(CLIENT, "http", "\n".join(lines).encode("latin-1", "replace"))
        decision = self._decider.decide(self._session(self._name).number, CLIENT, [facts])
        if decision is None:
            return None
        verb = decision.rule.action.verb
        is_stream_cut = verb == "disconnect" and head.method == "GET" and decision.rule.action.delay_ns > 0
        is_altered = verb not in (*_ANSWERED, *_ENDED, "delay")
        return FaultVerdict(decision, is_altered=is_altered, is_stream_cut=is_stream_cut)

    def refusal(self, frame: Frame) -> Refused | None:
        """Return a refusal if something meets the request in ``frame``; ``verdict`` says what."""
        event, findings = frame, self.found(frame)
        if self.verdict is not None or self.withheld is not None:
            return None
        if event.continues:  # too much is held
            if self.gate.addons and self._is_gated:
                withheld = self.gate.withhold(CLIENT, event.raw, TOO_LONG, b"")
                self.withheld = WithheldRequest(event.raw, withheld)
            return self.response
        self._is_judged = True
        session = self._session(self._name)
        facts = session.requests.facts(event.sender, event.raw, event.message, findings)
        decision = self._decider.decide(session.number, event.sender, facts)
        effect = effect_of(decision, event.raw, event.message) if decision is not None else None
        if decision is None or effect is None:
            self._pass_gate(event)
            return self.response
        verb = decision.rule.action.verb
        if verb == "lose-session" and self._name:
            self._lost[self._name] = decision
        elif verb == "expire-token" and self._token:
            self._expired[self._token] = decision
        elif verb in FROM_CLIENTS and verb not in ("set-header", "drop-header"):
            self._pass_gate(event)  # there is no session that could be lost, and no token
            return self.response
        is_altered = verb not in (*_ANSWERED, *_ENDED, "delay")
        self.verdict = FaultVerdict(decision, event.raw, effect.answer or b"", is_altered)
        return self.response

    def _pass_gate(self, event: Frame) -> None:
        """Find out whether addons are to be asked about a request, and whether it may pass at all."""
        raw, message = event.raw, event.message
        if self.gate.addons and (withheld := self.gate.withheld(CLIENT, raw, message)) is not None:
            if self._is_gated or is_message(raw, message):
                self.withheld = WithheldRequest(raw, withheld)
            return
        self.id = (value_bytes(raw, ("id",)) or b"") if isinstance(message, Request) else b""
        kind = addon_kind(message)
        if kind is not None and self.wants(kind):
            self.asked = AskedRequest(kind, self._name, raw, message)

    def decide_answer(
        self, session: str, content: bytes, findings: tuple[Finding, ...] = ()
    ) -> FaultDecision | None:
        """Return the rule that acts on a message of a server, in an answer to a request of ``session``.

        ``findings`` are what is wrong with the message.
        """
        known = self._session(session)
        facts = known.requests.facts(SERVER, content, parse(content), findings)
        return self._decider.decide(known.number, SERVER, facts)

    def asks(self, message: Message) -> str | None:
        """Return the hook for a message of a server, if an addon has it."""
        kind = addon_kind(message)
        return kind if kind is not None and self.wants(kind) else None

    def _session(self, name: str) -> _Session:
        session = self._sessions.get(name)
        if session is None:
            if len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[name] = _Session(self._session_count, OpenRequests())
            self._session_count += 1
        return session


def _ignore(text: str) -> None:
    """Used until there is something that it concerns."""
    del text


def _nothing(event: Event) -> tuple[Finding, ...]:
    """Used where nothing is judged."""
    del event
    return ()


def _never(kind: str) -> bool:
    """Used where there are no addons."""
    del kind
    return False
