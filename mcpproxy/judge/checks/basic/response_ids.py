"""The ids of responses: which request a response answers, if any. The rows are in ``rpc``.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#responses
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.basic.unclear_requests import UnclearRequests, may_be_refused
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened, spelled
from mcpproxy.judge.session.frame import Close, Signal, other
from mcpproxy.judge.session.history import History, SentRequest, Side
from mcpproxy.judge.session.outcomes import error_code
from mcpproxy.protocol.error_message import INVALID_REQUEST, PARSE_ERROR
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, ErrorResponse, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.raw_json import elements, value_bytes
from mcpproxy.protocol.wording import shown

_UNKNOWN: Final = r"(unknown|unhandled|unsupported|not (found|supported|implemented))"
_METHOD: Final = r"(method|notification)"
_METHOD_CALLED_UNKNOWN: Final = pattern(
    rf"(?i)(\b{_UNKNOWN} {_METHOD}|\b{_METHOD} {_UNKNOWN}|^{_UNKNOWN})[\s:\"'`(]+(?P<after>[\w$][\w/$.-]*)"
    rf"|(\b{_METHOD}[\s:\"'`(]+|^)(?P<before>[\w$][\w/$.-]*)[\s\"'`):]+(is )?{_UNKNOWN}\b"
)
"""Finds the method that an error text calls unknown: ``unknown method a/b``, ``a/b is not supported``.

The words must be next to the name: any other text may name a method that has to be sent first.
"""


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
        # The request is known anyway: only the JSON type of the id is wrong, or the response has the
        # members of the awaited result of initialize.
        problem = (
            f"{context.sender} answered with {answered}; the request in frame {request.seq} "
            f"({request.method}) used {spelled(request.id)}"
        )
        yield Violation("PROTO-007", "R-008", problem, pointer=pointer, related=(request.seq,))
        return
    receiver = other(context.sender)
    # A result repeats an id that its sender has read. An error may have an invented id: JSON-RPC wants null
    # if the id could not be read, and the schemas before 2025-11-25 do not allow null.
    is_error = isinstance(message, ErrorResponse)
    may_answer_unread = not asker.fully_read if is_error else asker.may_have_sent(message.id)
    if may_answer_unread or history.has_gap or history.of(UnclearRequests).is_sent_by(receiver):
        return  # The response may be to a request in which the other side read another id.
    first_seq = asker.used_ids.first_use(message.id)
    if message.id == "" and first_seq is None and (seq := _refused_notification(message, asker, history)):
        yield _answered_notification(context, seq, 'the id ""', pointer)
        return
    awaited, open_seq = _describe_open_request(asker)
    if first_seq is not None:
        where = f"; the request was frame {first_seq}" if first_seq else ""
        problem = f"{context.sender} answered request {answered} a second time{where}{awaited}"
        related = (*((first_seq,) if first_seq else ()), *open_seq)
        yield Violation("RPC-007", "R-009", problem, pointer=pointer, related=related)
    elif not history.may_lack_messages:
        # With ``may_lack_messages``, over HTTP, the request may have been attributed to another session.
        problem = f"{context.sender} answered {answered}, an id that the {receiver} never used{awaited}"
        yield Violation("PROTO-007", "R-008", problem, pointer=pointer, related=open_seq)


def _describe_open_request(asker: Side) -> tuple[str, tuple[int, ...]]:
    """Return a clause that names the only open request, and its frame; both empty unless exactly one is open.

    A cancelled request is not open: its answer is not awaited any more.
    """
    request = _only_open_request(asker)
    if request is None:
        return "", ()
    method = f" ({shortened(request.method)})" if request.method else ""
    return f"; open is {spelled(request.id)}{method}", (request.seq,)


def _only_open_request(asker: Side) -> SentRequest | None:
    """Return the only pending request that is not cancelled; ``None`` unless there is exactly one."""
    awaited = [*islice((request for request in asker.pending.values() if not request.cancelled), 2)]
    return awaited[0] if len(awaited) == 1 else None


@slotted()
class Misdirected:
    """The latest result with the id of initialize that is not a result of initialize, and that came while
    exactly one other request was open.

    ``seq`` is the frame of the result, ``awaited`` the open request. No cancelled request was pending, so the
    result is not a late answer to one.
    """

    seq: int = 0
    awaited: SentRequest | None = None


def remember_misdirected(context: MessageContext[Response], history: History) -> None:
    """Record a result for ``misdirected_result``."""
    first, result = history.initialize, context.message.result
    if context.answers is not None or first is None or first.sender == context.sender:
        return
    if context.message.id != first.id or not isinstance(result, dict) or "protocolVersion" in result:
        return
    asker = history.side(first.sender)
    if len(asker.pending) == 1 and (awaited := _only_open_request(asker)) is not None:
        memory = history.of(Misdirected)
        memory.seq, memory.awaited = context.frame.seq, awaited


def misdirected_result(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a result with the id of initialize that was meant for the only open request (PROTO-007).

    It is judged on stdio, at the end, if that request has no other answer: before, the answer may still come.
    """
    memory, first = history.of(Misdirected), history.initialize
    if (request := memory.awaited) is None or first is None:
        return
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap or history.over_http:
        return
    asker = history.side(request.sender)
    is_open = asker.pending.get(request.id) is request and not request.cancelled and request.method
    if not is_open or not asker.fully_read or history.of(UnclearRequests).is_sent_by(request.sender):
        return
    sender = other(request.sender)
    yield Violation(
        "PROTO-007",
        "R-008",
        f"{sender} answered {shortened(request.method)} ({spelled(request.id)}) under the id of initialize, "
        f"{spelled(first.id)}",
        pointer="/id",
        related=(request.seq,),
        blame=sender,
        frame=memory.seq,
        candidates=request.candidates,
    )


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
    awaited, open_seq = _describe_open_request(asker)
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
    is_refusal = isinstance(message, ErrorResponse) and error_code(message) in (PARSE_ERROR, INVALID_REQUEST)
    if is_refusal and asker.sent_invalid:
        return  # "If there was an error in detecting the id", it is null (JSON-RPC 2.0, section 5).
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
        level = "info" if is_refusal and "id" in message.value else None
        yield Violation("RPC-012", "R-014", problem, pointer=pointer, related=open_seq, at_most=level)


def _refused_notification(message: Response | ErrorResponse, asker: Side, history: History) -> int:
    """Return the frame of the notification whose method ``message`` refuses as unknown, otherwise 0.

    The text of the error must name this method, and not the method of an open request. Over HTTP it is 0.
    """
    text = member(message.value, "error", "message")
    if history.over_http or not isinstance(message, ErrorResponse) or not isinstance(text, str):
        return 0
    named = _METHOD_CALLED_UNKNOWN.search(text)
    if named is None or any(request.method in text for request in asker.pending.values()):
        return 0
    method = (named["after"] or named["before"]).rstrip(".-")
    return asker.latest_notifications.get(method, 0) if "/" in method else 0


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
