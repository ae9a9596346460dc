"""Refuse instead of flag: which requests break a rule that is enforced, and what their sender is told.

Only a request can be refused, for only a request has an answer. A rule can be enforced if one of its checks
looks at requests alone: then what it says of a request is known before anybody else has seen it. Whatever
else the rule says (of notifications, of answers, of the end) is flagged as ever.

A batch is refused as a whole, so that nobody gets part of one: each of its requests is answered.
"""

import json
from dataclasses import replace
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.checks import STANDARD
from mcpproxy.checks.engine.context import member
from mcpproxy.checks.engine.dispatch import Dispatch
from mcpproxy.checks.engine.rows import Check
from mcpproxy.observer import Observer
from mcpproxy.protocol.jsonrpc import JSON, Batch, JSONObject, Message, Request
from mcpproxy.protocol.revisions import VERSION_KEY
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Event, Finding, Frame

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602


@slotted(frozen=True)
class RefusalResponse:
    """How a request that may not go on is answered: ``body`` is the JSON-RPC error (or an array of them)."""

    body: bytes
    rules: tuple[str, ...]
    why: str
    is_stateless: bool


def _judges_requests(row: Check) -> bool:
    return row.kinds == ("request",)


def enforceable(dispatch: Dispatch = STANDARD) -> frozenset[str]:
    """The codes of all rules that can be enforced."""
    rows = (row for family in dispatch.families for row in family.checks if _judges_requests(row))
    return frozenset(code for row in rows for code in row.rules)


def only(rules: frozenset[str], dispatch: Dispatch = STANDARD) -> Dispatch:
    """The checks that say of a request whether it breaks one of ``rules``, and all that is remembered."""
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
    """Judges a session ahead of its receivers, by ``rules`` alone, which ``dispatch`` decides.

    Whoever forwards shows it everything, in order: requests to ``refusal`` before they go on, the rest of
    what happens to ``observe``. It raises nothing on any peer input, but it is ours: expect faults of it.
    """

    def __init__(self, catalogue: Catalogue, rules: frozenset[str], dispatch: Dispatch = STANDARD) -> None:
        self._rules = rules
        self._observer = Observer(catalogue, only(rules, dispatch), lists_all=True)

    def observe(self, event: Event) -> None:
        """Take note of what nobody can refuse."""
        self._observer.observe(event)

    def refusal(self, frame: Frame) -> RefusalResponse | None:
        """What becomes of a frame that must not go on; ``None`` if it may.

        A frame that may go on has happened from then on; of one that may not, nothing is remembered.
        """
        if _requests(frame.message):
            frame.refused = True
            found = [finding for finding in self._observer.observe(frame) if self._forbids(finding, frame)]
            if found:
                return _verdict(frame.message, found)
            frame.refused = False
        self._observer.observe(frame)
        return None

    def judge(self, event: Event) -> RefusalResponse | None:
        """As ``refusal``, for HTTP: an answer marked ``by_proxy`` is to follow, which takes it back."""
        found = self._observer.observe(event)
        if not isinstance(event, Frame) or not _requests(event.message):
            return None
        found = [finding for finding in found if self._forbids(finding, event)]
        return _verdict(event.message, found) if found else None

    def _forbids(self, finding: Finding, frame: Frame) -> bool:
        """Whether the sender broke an enforced rule with this very frame; what is only notable may pass."""
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
            at = f"/{index}"
            own = [f for f in found if f.pointer is not None and (f.pointer + "/").startswith(at + "/")]
            answers.append(error(item.id, (own or found)[0]))
    return answers


def error(id: int | str | None, finding: Finding) -> JSONObject:
    """The JSON-RPC error that answers a request in which ``finding`` was found."""
    data: JSONObject = finding.data or {
        "rule": finding.rule,
        "requirement": finding.requirement,
        "source": finding.source,
        "pointer": finding.pointer,
    }
    is_in_params = finding.pointer is not None and "/params" in finding.pointer
    code = INVALID_PARAMS if is_in_params or finding.data is not None else INVALID_REQUEST
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": finding.message, "data": data}}


def _verdict(message: Message, found: list[Finding]) -> RefusalResponse:
    # The standard library writes integers of any length and half characters as they came.
    body = json.dumps(_answer(message, found), separators=(",", ":")).encode()
    rules = tuple(dict.fromkeys(finding.rule for finding in found))
    is_stateless = any(member(item.params, "_meta", VERSION_KEY) is not None for item in _requests(message))
    return RefusalResponse(body, rules, found[0].message, is_stateless)
