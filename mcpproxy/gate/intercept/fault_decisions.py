"""Decide which fault rule acts on a message. The decisions about the same messages are the same in every run,
if the sessions begin in the same order.

A generator of random numbers would make each decision depend on the earlier ones, and so on how directions
and sessions are interleaved. Instead, each number is a hash of the seed, the rule, the session, the
direction, and the message's position among the messages that the rule matched there.
"""

import hashlib
from collections.abc import Sequence

from mcpproxy.base.slotted import field, slotted
from mcpproxy.gate.intercept.fault_actions import FROM_CLIENTS, FROM_SERVERS, WITHOUT_MESSAGE
from mcpproxy.gate.intercept.fault_rules import FaultRule, FaultRules
from mcpproxy.gate.intercept.message_facts import MessageFacts, passes
from mcpproxy.judge.session.frame import CLIENT, Finding, Sender


@slotted(frozen=True)
class FaultDecision:
    """A rule that acts on a message, and the random numbers for its action.

    ``occurrence`` is the position, from 1, of the message among those that the rule matched in this session
    and direction. ``delay_ns`` is how many nanoseconds the message is held before the rule acts. If the rule
    is a breakpoint, the message is held until it is released, and ``delay_ns`` does not count. ``_key`` is
    the hash from which the random numbers are derived.
    """

    rule: FaultRule
    occurrence: int
    delay_ns: int
    _key: bytes
    findings: tuple[Finding, ...] = ()
    """The findings about the message, if ``MessageFacts`` has some."""

    def draw(self, purpose: str) -> float:
        """Return a number from 0 up to, not including, 1; always the same for a message and a ``purpose``."""
        return _fraction(self._key, purpose)


@slotted()
class _Count:
    matched: int = 0
    acted: int = 0


@slotted()
class FaultDecider:
    """Decides which rule acts on each message of all sessions, and counts what each rule has matched."""

    rules: FaultRules
    for_answers: frozenset[str] = FROM_SERVERS
    """The verbs that act only on what servers send."""
    _counts: dict[tuple[str, int, Sender], _Count] = field(
        default_factory=dict[tuple[str, int, Sender], _Count]
    )

    @property
    def matched(self) -> set[str]:
        """The names of the rules that have matched a message on which their action can act."""
        return {rule for rule, _, _ in self._counts}

    def decide(
        self, session: int, sender: Sender, messages: Sequence[MessageFacts], size: int = 0
    ) -> FaultDecision | None:
        """Return the decision of the first rule that acts on a frame; ``None`` if none does.

        ``messages`` are the messages in it. ``size`` is how many bytes it has on the wire; ``bandwidth``
        delays it in proportion. Every rule that matches the frame, and whose action can act on it, counts it,
        even if another rule acts.
        """
        decision: FaultDecision | None = None
        for rule in self.rules.rules:
            if not any(passes(rule.match, message) for message in messages):
                continue
            unfit = self.for_answers if sender == CLIENT else FROM_CLIENTS
            if rule.action.verb in unfit or not _can_act_on(rule.action.verb, messages):
                continue
            count = self._counts.setdefault((rule.name, session, sender), _Count())
            count.matched += 1
            if decision is not None or (rule.limit and count.acted >= rule.limit):
                continue
            key = _key(self.rules.seed, rule.name, session, sender, count.matched)
            if _is_chosen(rule, count.matched) and _fraction(key, "fires") * 100 < rule.percentage:
                count.acted += 1
                delay_ns = delay_of(rule, key, size)
                decision = FaultDecision(rule, count.matched, delay_ns, key, messages[0].findings)
        return decision


def delay_of(rule: FaultRule, key: bytes, size: int) -> int:
    """Return for how many nanoseconds a rule holds a message of ``size`` bytes, jitter included.

    The jitter is derived from ``key``.
    """
    action = rule.action
    delay_ns = action.delay_ns
    if action.jitter_ns:
        delay_ns += round((2 * _fraction(key, "jitter") - 1) * action.jitter_ns)
    if action.verb == "bandwidth":
        delay_ns += size * 1_000_000_000 // action.count
    return max(0, delay_ns)


def _can_act_on(verb: str, messages: Sequence[MessageFacts]) -> bool:
    """Whether a verb can act on a frame. An error answers one request, or replaces one answer."""
    if verb != "error":
        return verb in WITHOUT_MESSAGE or all(message.kind != "http" for message in messages)
    return len(messages) == 1 and messages[0].kind in ("request", "answer") and messages[0].id is not None


def _is_chosen(rule: FaultRule, occurrence: int) -> bool:
    if rule.spans:
        return any(first <= occurrence <= last for first, last in rule.spans)
    return occurrence > rule.after and (occurrence - rule.after) % rule.every == 0


def _key(seed: int, rule: str, session: int, sender: Sender, occurrence: int) -> bytes:
    parts = (str(seed), rule, str(session), sender, str(occurrence))
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=32).digest()


def _fraction(key: bytes, purpose: str) -> float:
    digest = hashlib.blake2b(purpose.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
