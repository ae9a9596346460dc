"""Decide which requests break an enforced rule, and make the answers to them.

Only a request can be refused, because only a request gets an answer. A rule can be enforced if one of its
checks applies only to requests: then its result is known before the request is forwarded. What the rule
requires of other messages is only reported, as without enforcement.

A batch is refused as a whole, so that the receiver does not get a part of it. Each of its requests is
answered."""

import json
from dataclasses import replace
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.checks import STANDARD
from mcpproxy.checks.engine.context import member
from mcpproxy.checks.engine.dispatch import Dispatch
from mcpproxy.checks.engine.rows import Check, takes
from mcpproxy.observer import Observer
from mcpproxy.protocol.jsonrpc import JSON, Batch, JSONObject, Message, Request
from mcpproxy.protocol.revisions import VERSION_KEY
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Event, Finding, Frame

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602


@slotted(frozen=True)
class RefusalResponse:
    """Our answer to a refused request: ``body`` is the JSON-RPC error, or an array of them for a batch."""

    body: bytes
    rules: tuple[str, ...]
    why: str
    is_stateless: bool


def _judges_requests(row: Check) -> bool:
    return takes(row, Request) and len(row.kinds) == 1


def enforceable(dispatch: Dispatch = STANDARD) -> frozenset[str]:
    """Return the codes of all rules that can be enforced."""
    rows = (row for family in dispatch.families for row in family.checks if _judges_requests(row))
    return frozenset(code for row in rows for code in row.rules)


def checks_for(rules: frozenset[str], dispatch: Dispatch = STANDARD) -> Dispatch:
    """Return ``dispatch`` with only those checks of requests that decide ``rules``, and all state updates."""
    return Dispatch(
        replace(
            family,
            checks=tuple(
                row for row in family.checks if _judges_requests(row) and not rules.isdisjoint(row.rules)
            ),
            http=(),
            events=(),
        )
        for family in dispatch.families
    )


class Enforcer:
    """Judges the messages of a session by ``rules`` before they are forwarded; ``dispatch`` has the checks.

    The caller passes all events of the session, in order. A frame that can still be refused goes to
    ``refusal`` on stdio and to ``judge`` over HTTP, everything else to ``observe``. No input of a peer makes
    it raise, but a fault of ours may.
    """

    def __init__(self, catalogue: Catalogue, rules: frozenset[str], dispatch: Dispatch = STANDARD) -> None:
        self._rules = rules
        self._observer = Observer(catalogue, checks_for(rules, dispatch), lists_all=True)

    def observe(self, event: Event) -> None:
        """Add an event that cannot be refused to the session."""
        self._observer.observe(event)

    def refusal(self, frame: Frame) -> RefusalResponse | None:
        """Return the answer to a frame that must not be forwarded; ``None`` if it may be forwarded.

        A frame that may be forwarded becomes part of the session; a refused one does not.
        """
        if _requests(frame.message):
            frame.refused = True  # so the observer judges the frame without adding it to the session
            found = [finding for finding in self._observer.observe(frame) if self._forbids(finding, frame)]
            if found:
                return _refusal_response(frame.message, found)
            frame.refused = False
        self._observer.observe(frame)
        return None

    def judge(self, event: Event) -> RefusalResponse | None:
        """Like ``refusal``, for HTTP. Here a refused request becomes part of the session, too. It is answered
        there by our answer, which follows as an event with ``by_proxy``."""
        found = self._observer.observe(event)
        if not isinstance(event, Frame) or not _requests(event.message):
            return None
        found = [finding for finding in found if self._forbids(finding, event)]
        return _refusal_response(event.message, found) if found else None

    def _forbids(self, finding: Finding, frame: Frame) -> bool:
        """Whether the sender broke an enforced rule with this frame; findings of level info do not count."""
        is_about = finding.rule in self._rules and finding.frame == frame.seq
        return is_about and finding.blame == frame.sender and finding.severity != "info"


def _requests(message: Message) -> list[Request]:
    items = message.items if isinstance(message, Batch) else (message,)
    return [item for item in items if isinstance(item, Request)]


def _answer(message: Message, found: list[Finding]) -> JSON:
    if not isinstance(message, Batch):
        return error(message.id, found[0]) if isinstance(message, Request) else None
    answers: list[JSON] = []
    for index, item in enumerate(message.items):
        if isinstance(item, Request):
            prefix = f"/{index}/"
            own = [one for one in found if one.pointer is not None and f"{one.pointer}/".startswith(prefix)]
            answers.append(error(item.id, (own or found)[0]))
    return answers


def error(id: int | str | None, finding: Finding) -> JSONObject:
    """Return the JSON-RPC error that answers a request in which ``finding`` was found."""
    data: JSONObject = finding.data or {
        "rule": finding.rule,
        "requirement": finding.requirement,
        "source": finding.source,
        "pointer": finding.pointer,
    }
    is_in_params = finding.pointer is not None and "/params" in finding.pointer
    code = INVALID_PARAMS if is_in_params or finding.data is not None else INVALID_REQUEST
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": finding.message, "data": data}}


def _refusal_response(message: Message, found: list[Finding]) -> RefusalResponse:
    # The standard library writes integers of any length and lone surrogates unchanged.
    body = json.dumps(_answer(message, found), separators=(",", ":")).encode()
    rules = tuple(dict.fromkeys(finding.rule for finding in found))
    is_stateless = any(member(item.params, "_meta", VERSION_KEY) is not None for item in _requests(message))
    return RefusalResponse(body, rules, found[0].message, is_stateless)
