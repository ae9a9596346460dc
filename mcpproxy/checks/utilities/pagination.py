"""Pagination: the server gives out cursors, and the client returns them unchanged.

Each list has its own cursors. The empty string is a valid cursor: only its presence matters.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Request, Response
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.session.frame import Sender, other
from mcpproxy.session.history import History, SentRequest, get_or_make, keep_latest

LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "tasks/list")

INVALID_PARAMS: Final = -32602

UNRELATED_CODES: Final = (-32601, -32020, -32021, -32022)
"""Error codes with a cause other than the cursor: the method, the headers, the revision."""

MAX_CURSORS: Final = 16_384
MAX_LISTS: Final = 1024
MAX_UNKNOWN: Final = 64
"""The number of cursors per list, of lists, and of requests with an unknown cursor that are remembered."""

MAX_STEPS: Final = 1024
"""The number of pages that are followed back to find a circle."""

Key = tuple[str, Sender, str]
"""The owner of cursors: the caller (see ``History.caller``), the side that asks, and the list method."""


@slotted()
class Cursors:
    """The cursors of one list, stored as hashes because they may be long.

    ``before`` maps each cursor to the cursor of the request that was answered with it, ``None`` on the first
    page. ``forgot_some`` is set once there were more cursors than are remembered.
    """

    before: dict[int, int | None] = field(default_factory=dict[int, int | None])
    forgot_some: bool = False

    def leads_to(self, cursor: str, start: str | None) -> bool:
        """Whether ``cursor`` is ``start``, or one of those that led to it."""
        wanted, at = hash(cursor), None if start is None else hash(start)
        for _ in range(MAX_STEPS):
            if at is None or at == wanted:
                return at is not None
            at = self.before.get(at)
        return False

    def add(self, cursor: str, sent: str | None) -> None:
        """Remember that ``cursor`` was returned for ``sent``."""
        keep_latest(self.before, hash(cursor), None if sent is None else hash(sent), MAX_CURSORS)
        self.forgot_some = self.forgot_some or len(self.before) >= MAX_CURSORS


@slotted()
class Pages:
    """The cursors of every list, and the latest requests with a cursor that was never issued."""

    lists: dict[Key, Cursors] = field(default_factory=dict[Key, Cursors])
    unknown: deque[SentRequest] = field(default_factory=lambda: deque[SentRequest](maxlen=MAX_UNKNOWN))


def unknown_cursor(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a cursor that was never given for this list (PAGE-002)."""
    sent = _sent(context)
    if sent is None or not _is_unknown(context, history, sent):
        return ()
    message, sender = context.message, context.sender
    pages, giver = history.across_requests(Pages), other(sender)
    problem = (
        f"{sender} sent {message.method} with the cursor {shown(sent)}, which the {giver} never gave for it"
    )
    for method in LISTS:
        if (found := pages.lists.get((history.caller, sender, method))) and hash(sent) in found.before:
            problem = f"{problem}: it is one of {method}"
    # Until 2025-11-25 a cursor ends with its session. Later it may come from before the recording.
    level = "info" if context.stateless else None
    return (Violation("PAGE-002", "R-124", problem, pointer=context.at + "/params/cursor", at_most=level),)


def refused_cursor(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report an unknown cursor that was refused with a code other than -32602 (PAGE-003)."""
    asked, message = context.answers, context.message
    if asked is None or not any(request is asked for request in history.of(Pages).unknown):
        return ()
    code = member(as_object(message.error), "code")
    if not isinstance(code, int) or code == INVALID_PARAMS or code in UNRELATED_CODES:
        return ()
    problem = f"{context.sender} refused a cursor that it never gave with {code}, not with {INVALID_PARAMS}"
    level = "info" if context.stateless else None  # The cursor may come from before the recording.
    return (
        Violation(
            "PAGE-003",
            "R-125",
            problem,
            pointer=context.at + "/error/code",
            related=(asked.seq,),
            at_most=level,
        ),
    )


def next_cursor(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a nextCursor that is not a string or that leads in a circle (PAGE-001, PAGE-004)."""
    asked, message = context.answers, context.message
    result = message.result if isinstance(message, Response) else None
    if asked is None or not isinstance(result, dict) or "nextCursor" not in result:
        return ()
    cursor, pointer = result["nextCursor"], context.at + "/result/nextCursor"
    if not isinstance(cursor, str):
        problem = (
            f"{context.sender} sent a page of {asked.method} whose nextCursor is {kind(cursor)}, not a string"
        )
        level = "info" if cursor is None else None  # Many clients accept null.
        return (Violation("PAGE-001", "R-123", problem, pointer=pointer, at_most=level),)
    sent = _cursor(asked.params)
    if sent is not None and _cursors(asked, history).leads_to(cursor, sent):
        again = "which the request had" if cursor == sent else "which led to this page"
        problem = (
            f"{context.sender} sent a page of {asked.method} with the nextCursor {shown(cursor)}, {again}"
        )
        return (Violation("PAGE-004", "R-126", problem, pointer=pointer, related=(asked.seq,)),)
    return ()


def _sent(context: MessageContext[Request]) -> str | None:
    """The cursor of a request."""
    message = context.message
    return _cursor(message.params)


def _cursor(params: "JSON | Absent") -> str | None:
    cursor = params.get("cursor") if isinstance(params, dict) else None
    return cursor if isinstance(cursor, str) else None


def _is_unknown(context: MessageContext[Request], history: History, cursor: str) -> bool:
    """Whether a request has a cursor that was certainly never issued for this list."""
    message = context.message
    if history.has_gap or history.may_lack_messages or not history.side(other(context.sender)).fully_read:
        return False
    found = history.across_requests(Pages).lists.get((history.caller, context.sender, message.method))
    return found is None or not (found.forgot_some or hash(cursor) in found.before)


def _cursors(asked: SentRequest, history: History) -> Cursors:
    key: Key = (history.caller, asked.sender, asked.method)
    return get_or_make(history.across_requests(Pages).lists, key, Cursors, MAX_LISTS)


def remember_unknown(context: MessageContext[Request], history: History) -> None:
    """Record a request with a cursor that was never issued."""
    sent = _sent(context)
    if sent is not None and context.asked is not None and _is_unknown(context, history, sent):
        history.of(Pages).unknown.append(context.asked)


def remember_page(context: MessageContext, history: History) -> None:
    """Record the cursor that a page gives, and the cursor of its request."""
    asked, cursor = context.answers, member(context.message.value, "result", "nextCursor")
    if asked is None or not isinstance(cursor, str):
        return
    cursors, sent = _cursors(asked, history), _cursor(asked.params)
    if not cursors.leads_to(cursor, sent):
        cursors.add(cursor, sent)


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PAGE-001", "PAGE-004"), next_cursor, (Response,), LISTS),
        Check(("PAGE-002",), unknown_cursor, (Request,), LISTS),
        Check(("PAGE-003",), refused_cursor, (ErrorResponse,), LISTS),
    ),
    updates=(
        StateUpdate(remember_unknown, (Request,), LISTS),
        StateUpdate(remember_page, (Response,), LISTS),
    ),
)
