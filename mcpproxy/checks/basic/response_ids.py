"""The ids of responses: which request a response answers, if any. The rows are in ``rpc``.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#responses
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.checks.basic.unclear_requests import UnclearRequests, may_be_refused
from mcpproxy.checks.engine.context import MessageContext, Violation, shortened, spelled
from mcpproxy.protocol.error_message import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, ErrorResponse, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.raw_json import elements, value_bytes
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import other
from mcpproxy.session.history import History, Side
from mcpproxy.session.outcomes import error_code

_UNKNOWN: Final = pattern(r"(?i)\b(unknown|not found|unsupported|not supported)\b")
"""How an error says that a method is not known."""


def response_id(context: MessageContext[Response | ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a response whose id matches no pending request of the other side (PROTO-007, RPC-007, RPC-012,
    RPC-015).
    """
    message, request = context.message, context.answers
    return (
        () if request is not None and request.id == message.id else _unmatched_id(message, context, history)
    )


def _unmatched_id(
    message: Response | ErrorResponse, context: MessageContext[Response | ErrorResponse], history: History
) -> Iterator[Violation]:
    asker = history.side(other(context.sender))
    pointer = context.at + "/id"
    if message.id is ABSENT or message.id is None:
        yield from _missing_response_id(context, history)
        return
    raw_id = message.value["id"]
    answered = f"number {id_text(context, raw_id)}" if isinstance(raw_id, float) else spelled(message.id)
    if (request := context.answers) is not None:
        # The request is known all the same: only the JSON type of the id is wrong, or the response has the
        # members of the awaited result of initialize.
        problem = (
            f"{context.sender} answered with {answered}; the request in frame {request.seq} "
            f"({request.method}) used {spelled(request.id)}"
        )
        yield Violation("PROTO-007", "R-008", problem, pointer=pointer, related=(request.seq,))
        return
    receiver = other(context.sender)
    # A result repeats an id that was read. An error may have one of its own: JSON-RPC wants null for what
    # could not be read, which the schemas before 2025-11-25 do not allow.
    is_error = isinstance(message, ErrorResponse)
    is_of_unread = not asker.fully_read if is_error else asker.may_have_sent(message.id)
    if is_of_unread or history.has_gap or history.of(UnclearRequests).is_sent_by(receiver):
        return  # The response may be to a request in which the other side read another id.
    first_seq = asker.used_ids.first_use(message.id)
    if message.id == "" and first_seq is None and (seq := _refused_notification(message, asker, history)):
        yield _answered_notification(context, seq, 'the id ""', pointer)
        return
    awaited, open_seq = _the_open_request(asker)
    if first_seq is not None:
        where = f"; the request was frame {first_seq}" if first_seq else ""
        problem = f"{context.sender} answered request {answered} a second time{where}{awaited}"
        related = (*((first_seq,) if first_seq else ()), *open_seq)
        yield Violation("RPC-007", "R-009", problem, pointer=pointer, related=related)
    elif not history.may_lack_messages:
        # With ``may_lack_messages``, over HTTP, the request may have been attributed to another session.
        problem = f"{context.sender} answered {answered}, an id that the {receiver} never used{awaited}"
        yield Violation("PROTO-007", "R-008", problem, pointer=pointer, related=open_seq)


def _the_open_request(asker: Side) -> tuple[str, tuple[int, ...]]:
    """Return which request is open, in words, and its frame; nothing unless it is exactly one.

    The answer to a cancelled request is not awaited any more.
    """
    awaited = [*islice((request for request in asker.pending.values() if not request.cancelled), 2)]
    if len(awaited) != 1:
        return "", ()
    (request,) = awaited
    method = f" ({shortened(request.method)})" if request.method else ""
    return f"; open is {spelled(request.id)}{method}", (request.seq,)


def _missing_response_id(
    context: MessageContext[Response | ErrorResponse], history: History
) -> Iterator[Violation]:
    """Report a response without a usable id (PROTO-007, RPC-012, RPC-015).

    The rule depends on the requests that the response may answer.
    """
    message = context.message
    asker = history.side(other(context.sender))
    pointer = context.at + "/id" if "id" in message.value else context.at
    fault = "a null id" if message.value.get("id", ABSENT) is None else "no id"
    awaited, open_seq = _the_open_request(asker)
    if "id" in message.value and message.value["id"] is not None:
        if history.has_gap or not asker.fully_read:
            return  # The response may answer an unreadable request that has the same unusable id.
        yield Violation(
            "PROTO-007",
            "R-008",
            f"{context.sender} answered with id {id_text(context, message.value['id'])}, "
            f"which no request can have{awaited}",
            pointer=pointer,
            related=open_seq,
        )
        return
    if history.has_gap or not asker.fully_read or history.over_http:
        # The response may answer a message that could not be read. Over HTTP, the rules of HTTP judge the
        # response, because its exchange shows the request.
        return
    if asker.notified_seq and not asker.pending:
        yield _answered_notification(context, asker.notified_seq, fault, pointer)
    elif seq := _refused_notification(message, asker, history):
        yield _answered_notification(context, seq, fault, pointer)
    elif isinstance(message, Response):
        yield Violation(
            "PROTO-007",
            "R-008",
            f"{context.sender} sent a result with {fault}; it answers no request{awaited}",
            pointer=pointer,
            related=open_seq,
        )
    elif asker.pending and not may_be_refused(other(context.sender), history):
        problem = (
            f"{context.sender} sent an error with {fault}, although every request so far had a readable id"
            f"{awaited}"
        )
        is_unread = "id" in message.value and error_code(message) in (PARSE_ERROR, INVALID_REQUEST)
        level = "info" if is_unread else None
        yield Violation("RPC-012", "R-014", problem, pointer=pointer, related=open_seq, at_most=level)


def _refused_notification(message: Response | ErrorResponse, asker: Side, history: History) -> int:
    """Return the frame of the latest notification if ``message`` refuses its method as unknown, otherwise 0.

    The text of the error names the method, and no open request has it.
    """
    if history.over_http or not isinstance(message, ErrorResponse):
        return 0
    seq, method = asker.notification
    text = member(message.value, "error", "message")
    if "/" not in method or not isinstance(text, str) or method not in text:
        return 0
    if error_code(message) != METHOD_NOT_FOUND and not _UNKNOWN.search(text):
        return 0
    return 0 if any(request.method == method for request in asker.pending.values()) else seq


def _answered_notification(context: MessageContext, seq: int, fault: str, pointer: str) -> Violation:
    problem = f"{context.sender} answered the notification in frame {seq} (a response with {fault})"
    return Violation("RPC-015", "R-017", problem, pointer=pointer, related=(seq,))


def id_text(context: MessageContext, id: JSON) -> str:
    """Return the id of a message; a float, which parsing may have rounded, as its sender wrote it."""
    if not isinstance(id, float):
        return shown(id)
    raw = context.frame.raw
    if context.at:  # The message is an element of a batch.
        raw = next(islice(elements(raw), int(context.at[1:]), None), b"")
    return shortened((value_bytes(raw, ("id",)) or b"").decode("utf-8", "replace")) or str(id)
