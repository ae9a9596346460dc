"""Pagination: a page of a list gives a cursor, which the request for the next page repeats.

Each list has its own cursors. The empty string is a valid cursor.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, EventCheck, RuleFamily, StateUpdate
from mcpproxy.judge.checks.server.listings import CHANGES
from mcpproxy.judge.checks.stateless.servers import declared_settings
from mcpproxy.judge.checks.stateless.subscriptions import normalized_uri
from mcpproxy.judge.session.frame import CLIENT, Close, Sender, Signal, other
from mcpproxy.judge.session.history import History, SentRequest, get_or_make, keep_latest
from mcpproxy.protocol.error_message import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, cursor_of, member, target_of
from mcpproxy.protocol.methods import SKILLS
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import kind, shown

LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "tasks/list")
"""The methods of MCP itself whose results are pages."""

EXTENSION_LISTS: Final = ("skills/list", "resources/directory/read")
"""Lists of the Skills extension, which have pages like the other lists."""

UNRELATED_CODES: Final = (METHOD_NOT_FOUND, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)
"""Codes of errors that are about the method, the headers or the revision and not about the cursor."""

MAX_CURSORS: Final = 16_384
"""The number of cursors of one list that are remembered."""

MAX_LISTS: Final = 1024
"""The number of lists that are remembered."""

MAX_UNKNOWN: Final = 64
"""The number of requests with an unknown cursor that are remembered."""

MAX_STEPS: Final = 1024
"""The number of pages that are followed back to find out whether cursors lead in a circle."""

Key = tuple[str, Sender, str, int]
"""Identifies a list: the caller (see ``History.caller``), the side that requests pages, the method, and the
hash of the URI of the directory that is listed, or of ``None`` if the method lists no directory."""


@slotted()
class UnreadPage:
    """The page that an empty nextCursor leads to, as long as the client has not requested it.

    ``seq`` is the frame with that nextCursor, ``connection`` its connection, and ``candidates`` are the
    revisions of its request. ``restarts`` counts the requests for the first page since then.
    """

    seq: int
    connection: int
    candidates: tuple[str, ...]
    restarts: int = 0


@slotted()
class Cursors:
    """The cursors of one list, stored as hashes because they may be long.

    ``previous`` maps each cursor in an answer to the cursor in its request, ``None`` if the request was for
    the first page. ``forgot_some`` is set once ``MAX_CURSORS`` are remembered: from then on the oldest may be
    forgotten. ``unread`` is the earliest unread page; ``sent_empty`` is set once a request had the empty
    cursor.
    """

    previous: dict[int, int | None] = field(default_factory=dict[int, int | None])
    forgot_some: bool = False
    unread: UnreadPage | None = None
    sent_empty: bool = False

    def leads_to(self, cursor: str, start: str | None) -> bool:
        """Whether ``cursor`` led, from page to page, to the cursor ``start``, or the two are equal.

        The pages are followed back from ``start``. The first page has no cursor (``None``): none leads to it.
        """
        cursor_hash, current = hash(cursor), None if start is None else hash(start)
        for _ in range(MAX_STEPS):
            if current is None or current == cursor_hash:
                return current is not None
            current = self.previous.get(current)
        return False

    def add(self, cursor: str, sent: str | None) -> None:
        """Record that ``cursor`` was given in answer to a request with the cursor ``sent``."""
        keep_latest(self.previous, hash(cursor), None if sent is None else hash(sent), MAX_CURSORS)
        self.forgot_some = self.forgot_some or len(self.previous) >= MAX_CURSORS


@slotted()
class Pages:
    """The cursors of every list, and the latest requests with a cursor that was never given.

    ``lists`` is used with ``History.across_requests``, because over HTTP each stateless request has a history
    of its own. ``unknown`` is used with ``History.of``, because an answer has the history of its request.
    """

    lists: dict[Key, Cursors] = field(default_factory=dict[Key, Cursors])
    unknown: deque[SentRequest] = field(default_factory=lambda: deque[SentRequest](maxlen=MAX_UNKNOWN))


def unknown_cursor(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a cursor that was never given for this list (PAGE-002)."""
    cursor = cursor_of(context.message.params)
    if cursor is None or not _is_unknown(context, history, cursor):
        return ()
    message, sender = context.message, context.sender
    pages, giver = history.across_requests(Pages), other(sender)
    problem = (
        f"{sender} sent {message.method} with the cursor {shown(cursor)}, which the {giver} never gave for it"
    )
    for method in LISTS:
        cursors = pages.lists.get(_list_key(history, sender, method))
        if cursors is not None and hash(cursor) in cursors.previous:
            problem = f"{problem}: the cursor is one of {method}"
    # Up to 2025-11-25, inclusive, a cursor is valid in one session only. In later revisions it may have been
    # given before the recording.
    at_most = "info" if context.stateless else None
    return (Violation("PAGE-002", "R-124", problem, pointer=context.at + "/params/cursor", at_most=at_most),)


def refused_cursor(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report an unknown cursor that was refused with a code other than -32602 (PAGE-003)."""
    request, message = context.answers, context.message
    if request is None or not any(unknown is request for unknown in history.of(Pages).unknown):
        return ()
    code = member(as_object(message.error), "code")
    if not isinstance(code, int) or code == INVALID_PARAMS or code in UNRELATED_CODES:
        return ()
    problem = f"{context.sender} refused an unknown cursor with {code} instead of {INVALID_PARAMS}"
    at_most = "info" if context.stateless else None  # for the reason in ``unknown_cursor``
    return (
        Violation(
            "PAGE-003",
            "R-125",
            problem,
            pointer=context.at + "/error/code",
            related=(request.seq,),
            at_most=at_most,
        ),
    )


def next_cursor(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report a nextCursor that is not a string or that leads in a circle (PAGE-001, PAGE-004)."""
    request, result = context.answers, context.message.result
    if request is None or not isinstance(result, dict) or "nextCursor" not in result:
        return ()
    if _may_be_foreign(context, history):
        return ()
    cursor, pointer = result["nextCursor"], context.at + "/result/nextCursor"
    page = f"{context.sender} sent a page of {request.method}"
    if not isinstance(cursor, str):
        problem = f"{page} whose nextCursor is {kind(cursor)}, not a string"
        at_most = "info" if cursor is None else None  # Many clients accept null.
        return (Violation("PAGE-001", "R-123", problem, pointer=pointer, at_most=at_most),)
    sent = cursor_of(request.params)
    if sent is not None and _cursors(request, history).leads_to(cursor, sent):
        description = "which the request had" if cursor == sent else "which led to this page"
        problem = f"{page} with the nextCursor {shown(cursor)}, {description}"
        return (Violation("PAGE-004", "R-126", problem, pointer=pointer, related=(request.seq,)),)
    return ()


def restarted(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a client that reads the first page again and again instead of the page of an empty cursor
    (PAGE-005).

    The first request for the first page after the empty cursor may come from another part of the client, so
    the second is reported, once. The connection is compared, because over HTTP many clients may have the same
    caller.
    """
    message = context.message
    key = _list_key(history, context.sender, message.method, message.params)
    cursors = history.across_requests(Pages).lists.get(key)
    unread = cursors.unread if cursors is not None else None
    if unread is None or unread.restarts != 1 or cursor_of(message.params) is not None:
        return ()
    if unread.connection != context.frame.connection:
        return ()
    problem = (
        f"client requested the first page of {message.method} again and again, "
        'and not the page after it, whose cursor is ""'
    )
    return (
        Violation("PAGE-005", "R-279", problem, pointer=context.at, related=(unread.seq,), at_most="info"),
    )


def never_requested(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a page with an empty cursor that the client never requested (PAGE-005).

    It is reported only if a later request of the client was answered.
    """
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap:
        return
    # Only stateless requests have unread pages, and over HTTP a close does not come to their histories.
    for (_, _, method, _), cursors in history.of(Pages).lists.items():
        unread = cursors.unread
        if unread is None or unread.restarts > 1 or history.client.last_answered_seq < unread.seq:
            continue
        problem = f'client never requested the next page of {method}, whose cursor is ""'
        yield Violation(
            "PAGE-005",
            "R-279",
            problem,
            pointer="/result/nextCursor",
            blame=CLIENT,
            at_most="info",
            frame=unread.seq,
            candidates=unread.candidates,
        )


def _may_be_foreign(context: MessageContext, history: History) -> bool:
    """Whether a method of Skills may be that of another extension, as the server has not declared Skills."""
    return context.method in EXTENSION_LISTS and declared_settings(SKILLS, context, history) is None


def _list_key(history: History, sender: Sender, method: str, params: "JSON | Absent" = ABSENT) -> Key:
    """Return the key of the list that a request is about."""
    directory = target_of(method, params)
    return history.caller, sender, method, hash(directory and normalized_uri(directory))


def _is_unknown(context: MessageContext[Request], history: History, cursor: str) -> bool:
    """Whether a request has a cursor that was certainly never given for this list."""
    message = context.message
    if history.has_gap or history.may_lack_messages or not history.side(other(context.sender)).fully_read:
        return False
    if _may_be_foreign(context, history):
        return False
    key = _list_key(history, context.sender, message.method, message.params)
    cursors = history.across_requests(Pages).lists.get(key)
    return cursors is None or not (cursors.forgot_some or hash(cursor) in cursors.previous)


def _cursors(request: SentRequest, history: History) -> Cursors:
    """Return the cursors of the list that a request is about."""
    key = _list_key(history, request.sender, request.method, request.params)
    return get_or_make(history.across_requests(Pages).lists, key, Cursors, MAX_LISTS)


def remember_unknown(context: MessageContext[Request], history: History) -> None:
    """Record a request with a cursor that was never given."""
    cursor = cursor_of(context.message.params)
    if cursor is not None and context.asked is not None and _is_unknown(context, history, cursor):
        history.of(Pages).unknown.append(context.asked)


def remember_page(context: MessageContext, history: History) -> None:
    """Record the cursor of a page with the cursor of its request, unless they lead in a circle.

    In a stateless revision, an empty cursor makes the next page the unread one, if there is none and the
    client has not followed such a cursor before.
    """
    request, cursor = context.answers, member(context.message.value, "result", "nextCursor")
    if request is None or not isinstance(cursor, str):
        return
    cursors, sent = _cursors(request, history), cursor_of(request.params)
    if not cursors.leads_to(cursor, sent):
        cursors.add(cursor, sent)
    may_be_missed = cursors.unread is None and not cursors.sent_empty and not request.cancelled
    if cursor == "" and may_be_missed and context.stateless and not _may_be_foreign(context, history):
        cursors.unread = UnreadPage(context.seq, context.frame.connection, request.candidates)


def remember_request(context: MessageContext[Request], history: History) -> None:
    """Record that the client requested the page of an empty cursor, or the first page instead."""
    cursor, method = cursor_of(context.message.params), context.message.method
    key = _list_key(history, context.sender, method, context.message.params)
    cursors = history.across_requests(Pages).lists.get(key)
    if cursors is None:
        return
    if cursor == "":
        cursors.unread, cursors.sent_empty = None, True
    elif cursor is None and cursors.unread and cursors.unread.connection == context.frame.connection:
        cursors.unread.restarts += 1


def forget_unread(context: MessageContext[Notification], history: History) -> None:
    """Forget the unread pages of a list that has changed: the client reads it from the first page on."""
    for method in CHANGES[context.message.method]:
        cursors = history.across_requests(Pages).lists.get(_list_key(history, CLIENT, method))
        if cursors is not None:
            cursors.unread = None


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PAGE-001", "PAGE-004"), next_cursor, (Response,), LISTS),
        Check(("PAGE-001", "PAGE-004"), next_cursor, (Response,), EXTENSION_LISTS, within=STATELESS),
        Check(("PAGE-002",), unknown_cursor, (Request,), LISTS),
        Check(("PAGE-002",), unknown_cursor, (Request,), EXTENSION_LISTS, within=STATELESS),
        Check(("PAGE-003",), refused_cursor, (ErrorResponse,), LISTS),
        Check(("PAGE-003",), refused_cursor, (ErrorResponse,), EXTENSION_LISTS, within=STATELESS),
        Check(
            ("PAGE-005",),
            restarted,
            (Request,),
            (*LISTS, *EXTENSION_LISTS),
            sender=CLIENT,
            within=STATELESS,
        ),
    ),
    events=(EventCheck(("PAGE-005",), never_requested),),
    updates=(
        StateUpdate(remember_unknown, (Request,), (*LISTS, *EXTENSION_LISTS)),
        StateUpdate(remember_page, (Response,), (*LISTS, *EXTENSION_LISTS)),
        StateUpdate(
            remember_request, (Request,), (*LISTS, *EXTENSION_LISTS), sender=CLIENT, within=STATELESS
        ),
        StateUpdate(forget_unread, (Notification,), tuple(CHANGES), within=STATELESS),
    ),
)
