"""Fault rules and breakpoints as a policy: which rule acts on a message, and what it makes of it. No I/O.

Messages are counted per MCP session; all messages without a session id are one session, as on stdio.
"""

from collections.abc import Callable
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.fault_actions import ANSWERS_OVER_HTTP, FROM_SERVERS
from mcpproxy.gate.intercept.fault_decisions import FaultDecider, FaultDecision
from mcpproxy.gate.intercept.fault_effects import FaultEffect, effect_of
from mcpproxy.gate.intercept.fault_rules import FaultRules
from mcpproxy.gate.intercept.message_facts import MessageFacts, OpenRequests
from mcpproxy.gate.intercept.policies import AppliedFault, Passing, Policy
from mcpproxy.judge.session.frame import CLIENT, RequestHead
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.record.relay.said_once import said_once

_MOST_SESSIONS: Final = 10_000
"""How many sessions are told apart; the oldest are forgotten first."""


@slotted()
class _Session:
    number: int
    requests: OpenRequests


class FaultPolicy(Policy):
    """Applies ``rules`` to each message that enters. ``say`` writes a line to stderr.

    ``is_http``: the messages pass over HTTP, where more verbs act only on what servers send.
    """

    def __init__(
        self, rules: FaultRules, say: Callable[[str], None] = lambda _: None, *, is_http: bool = False
    ) -> None:
        self._decider = FaultDecider(rules, ANSWERS_OVER_HTTP if is_http else FROM_SERVERS)
        self._say_once = said_once(say)
        self._sessions: dict[str, _Session] = {}
        self._session_count = 0
        self._token = ""
        """The ``Authorization`` header of the last request."""
        self._lost: dict[str, FaultDecision] = {}
        """Session id -> the decision that has ended the session."""
        self._expired: dict[str, FaultDecision] = {}
        """``Authorization`` header -> the decision that lets the token expire."""

    @property
    def matched(self) -> set[str]:
        """The names of the rules that have matched a message on which their action can act."""
        return self._decider.matched

    def enter(self, passing: Passing) -> AppliedFault | None:
        decision = self.decide(passing)
        if decision is None or decision.rule.action.verb in passing.unfit:
            return None
        effect = effect_of(decision, passing.raw, passing.message)
        if effect is None:
            self._say_once(f"fault rule {decision.rule.name}: its edit fits not every message it matches")
            return None
        return AppliedFault(decision, effect)

    def decide(self, passing: Passing) -> FaultDecision | None:
        """Return the decision of the rule that acts on a message, even if its edit does not fit the message.

        Return ``None`` if no rule acts, or it would end a session or a token that the request does not have.
        """
        session = self._session(passing.session)
        facts = session.requests.facts(passing.sender, passing.raw, passing.message, passing.findings)
        size = len(passing.raw) + passing.frame.terminated  # with the line feed
        decision = self._decider.decide(session.number, passing.sender, facts, size)
        match decision.rule.action.verb if decision is not None else None:
            case "lose-session" if passing.session and decision is not None:
                self._lost[passing.session] = decision
            case "expire-token" if self._token and decision is not None:
                self._expired[self._token] = decision
            case "lose-session" | "expire-token":
                return None  # the request names no session to lose, or no token to expire
            case _:
                pass
        return decision

    def enter_head(self, head: RequestHead) -> AppliedFault | None:
        fields = {name.lower(): value for name, value in head.headers}
        session, self._token = fields.get(SESSION_ID, ""), fields.get("authorization", "")
        decision = self._lost.get(session) or self._expired.get(self._token)
        if decision is None and head.endpoint and head.method != "POST":  # a request without a message
            lines = (f"{head.method} {head.target}", *(f"{name}: {value}" for name, value in head.headers))
            facts = MessageFacts(CLIENT, "http", "\n".join(lines).encode("latin-1", "replace"))
            decision = self._decider.decide(self._session(session).number, CLIENT, [facts])
        return None if decision is None else AppliedFault(decision, FaultEffect())

    def _session(self, name: str) -> _Session:
        session = self._sessions.get(name)
        if session is None:
            if len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[name] = _Session(self._session_count, OpenRequests())
            self._session_count += 1
        return session
