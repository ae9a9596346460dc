"""The facts of a message that the filter of a fault rule can test, and whether the message matches a filter.

An answer has the method and the target of its request, so open requests of both directions are remembered
until they are answered.
"""

import json
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.filter import STATUS, Filter, Key, Term
from mcpproxy.judge.session.frame import Finding, Sender, other
from mcpproxy.judge.session.outcomes import UNKNOWN, Outcome, error_code, outcome_of
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.protocol.jsonrpc import (
    JSON,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.protocol.mcp_in_acp import Innermost, innermost
from mcpproxy.protocol.message_parts import singles, target_of

_MOST_OPEN: Final = 10_000
"""How many requests are remembered; the oldest is forgotten first."""

FINDING_KEYS: Final[frozenset[Key]] = frozenset({"rule", "severity"})
"""The filter keys that test a finding instead of the message."""


@slotted()
class MessageFacts:
    """One message as a filter sees it.

    ``raw`` are the bytes of its frame: of the whole batch, if it is in one. ``kind`` is ``request``,
    ``answer``, ``notification`` or ``not-a-message``, or ``http`` for a request without a message. ``target``
    and ``id`` are ``None`` for a message without them; an answer has the target of its request. Of an
    answer, ``outcome`` says how its call ended, and ``code`` is the code of an error. ``findings`` blame the
    sender of the frame; there are some only if messages are judged before they are forwarded
    (``live_judge``), or were recorded (``fault_plan``).
    """

    sender: Sender
    kind: str
    raw: bytes
    method: str = ""
    target: str | None = None
    id: JSON = None
    outcome: Outcome = Outcome.NONE
    code: int | None = None
    findings: tuple[Finding, ...] = ()


@slotted()
class OpenRequests:
    """The unanswered requests of one session, each with its method, its target and its innermost request.

    The innermost request is the MCP request that an ACP request carries; otherwise the request itself.
    """

    _unanswered: UnansweredRequests[tuple[str, str | None, Innermost]] = field(
        default_factory=lambda: UnansweredRequests(_MOST_OPEN)
    )

    def facts(
        self, sender: Sender, raw: bytes, message: Message, findings: tuple[Finding, ...] = ()
    ) -> list[MessageFacts]:
        """Return the facts of each message in a frame; remember its requests until their answers come."""
        all_facts = [self._facts_of(sender, raw, single) for single in singles(message)]
        for facts in all_facts if findings else ():
            facts.findings = findings
        return all_facts

    def _facts_of(self, sender: Sender, raw: bytes, message: Single) -> MessageFacts:
        match message:
            case Request():
                target = target_of(message.method, message.params)
                asked = innermost(message.method, message.params)
                self._unanswered.add(sender, message.id, (message.method, target, asked))
                return MessageFacts(sender, "request", raw, message.method, target, message.id)
            case Notification():
                return MessageFacts(sender, "notification", raw, message.method)
            case Response() | ErrorResponse():
                id = message.id if isinstance(message.id, int | str) else None
                method, target, asked = self._unanswered.take(other(sender), id) or (
                    "",
                    None,
                    UNKNOWN,
                )
                outcome, code = outcome_of(message, asked), error_code(message, method)
                return MessageFacts(sender, "answer", raw, method, target, id, outcome, code)
            case Malformed():
                return MessageFacts(sender, "not-a-message", raw)


def passes(wanted: Filter, facts: MessageFacts) -> bool:
    """Whether a message matches a filter that has only keys of ``fault_rules.MATCHABLE``.

    If the filter has terms about findings, one finding of the message has to match all of them.
    """
    finding_terms = [term for term in wanted.terms if term.key in FINDING_KEYS]
    if finding_terms and not any(_finding_matches(finding_terms, finding) for finding in facts.findings):
        return False
    return all(_matches(term, facts) != term.negated for term in wanted.terms if term.key not in FINDING_KEYS)


def _finding_matches(terms: list[Term], finding: Finding) -> bool:
    return all(
        (term.matches(finding.rule) if term.key == "rule" else finding.severity in term.values)
        != term.negated
        for term in terms
    )


def _matches(term: Term, facts: MessageFacts) -> bool:
    match term.key:
        case "from":
            return facts.sender in term.values
        case "kind":
            return facts.kind in term.values
        case "method" | "tool" | "prompt" | "resource" | "target":
            return term.names(facts.method, facts.target)
        case "id":
            return facts.id is not None and term.matches(json.dumps(facts.id, ensure_ascii=False))
        case "status":
            return any(facts.outcome in STATUS[str(word)] for word in term.values)
        case "code":
            return facts.code is not None and term.has(facts.code)
        case "bytes":
            return term.has(len(facts.raw))
        case _:  # a free text
            text = facts.raw.decode("utf-8", "replace").casefold()
            return any(str(value).casefold() in text for value in term.values)
