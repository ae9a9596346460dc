"""JSON-RPC: rules for every message on any transport.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#messages
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.basic.response_ids import (
    id_text,
    misdirected_result,
    remember_misdirected,
    response_id,
)
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened, spelled
from mcpproxy.judge.checks.engine.rows import (
    ANSWERS,
    ANY_PROTOCOL,
    ASKS,
    IRREGULAR,
    MESSAGES,
    REUSED_ID,
    UNMATCHED_ID,
    Check,
    EventCheck,
    RuleFamily,
    StateUpdate,
    sender_may_send,
)
from mcpproxy.judge.session.frame import other
from mcpproxy.judge.session.history import History, Side
from mcpproxy.judge.session.outcomes import error_code
from mcpproxy.protocol import methods
from mcpproxy.protocol.error_message import JSON_RPC_CODES, METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
)
from mcpproxy.protocol.message_parts import as_object, member, or_none
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY
from mcpproxy.protocol.wording import kind, shown


def jsonrpc_version(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a message without ``"jsonrpc": "2.0"`` (PROTO-002)."""
    message = context.message
    if isinstance(message, Malformed) or message.value.get("jsonrpc") == "2.0":
        return ()
    if "jsonrpc" not in message.value:
        problem = f'{context.sender} sent a message without "jsonrpc": "2.0"'
    else:
        version = shown(message.value["jsonrpc"])
        problem = f'{context.sender} sent a message whose "jsonrpc" is {version}, not "2.0"'
    return (Violation("PROTO-002", "R-002", problem, pointer=context.at + "/jsonrpc"),)


def request_id_type(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request id that is null (RPC-004), or that is neither a string nor an integer or is written as
    a fraction, such as ``1.0`` (RPC-003).
    """
    message = context.message
    raw_id = message.value["id"]
    return () if type(raw_id) is int or type(raw_id) is str else _unusual_id(message, raw_id, context)


def _unusual_id(message: Request, raw_id: "JSON", context: MessageContext) -> Iterator[Violation]:
    method, pointer = shortened(message.method), context.at + "/id"
    if raw_id is None:
        problem = f"{context.sender} sent {method} with a null id, so its answer cannot be recognised"
        yield Violation("RPC-004", "R-005", problem, pointer=pointer)
    elif message.id is None:
        problem = f"{context.sender} sent {method} with id {shown(raw_id)}; an id is a string or an integer"
        yield Violation("RPC-003", "R-004", problem, pointer=pointer)
    elif isinstance(raw_id, float) and abs(raw_id) < 2**53:
        text = id_text(context, raw_id)
        problem = (
            f"{context.sender} wrote the id {message.id} as {text}, which some parsers read as a fraction"
        )
        yield Violation("RPC-003", "R-004", problem, pointer=pointer, at_most="info")


def request_id_reused(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request id that was used before (RPC-005) or, if stateless, is still in use (RPC-006)."""
    message = context.message
    if message.id is None:
        return ()
    side = history.side(context.sender)
    first_seq = side.used_ids.first_use(message.id)
    return () if first_seq is None else _reused_id(message, first_seq, side, context)


def _reused_id(message: Request, first_seq: int, side: Side, context: MessageContext) -> Iterator[Violation]:
    """Report a reused id. ``first_seq`` is the frame that used it first, 0 if that is not remembered."""
    assert message.id is not None
    where = f", first used in frame {first_seq}" if first_seq else ""
    related = (first_seq,) if first_seq else ()
    problem = f"{context.sender} reused request id {spelled(message.id)}{where}"
    if context.stateless:
        if in_flight := side.pending.get(message.id):
            problem = (
                f"{context.sender} reused request id {spelled(message.id)} while frame {in_flight.seq} "
                "was still waiting for its answer"
            )
            yield Violation("RPC-006", "R-007", problem, pointer=context.at + "/id", related=(in_flight.seq,))
    else:
        yield Violation("RPC-005", "R-006", problem, pointer=context.at + "/id", related=related)


def result_or_error(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a response that has both result and error, or neither (RPC-009)."""
    message = context.message
    if "result" in message.value:
        yield Violation(
            "RPC-009",
            "R-011",
            f"{context.sender} answered with both a result and an error",
            pointer=context.at,
        )
    elif message.error is ABSENT:
        yield Violation(
            "RPC-009",
            "R-011",
            f"{context.sender} answered with neither a result nor an error",
            pointer=context.at,
        )


def result_type(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report a result that is not an object (RPC-010)."""
    message = context.message
    if isinstance(message.result, dict):
        return ()
    method = f" of {context.answers.method}" if context.answers else ""
    problem = f"{context.sender} sent a result{method} that is {kind(message.result)}, not an object"
    return (Violation("RPC-010", "R-012", problem, pointer=context.at + "/result"),)


def error_shape(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report an error that is not an object, or lacks an integer code or a message string (RPC-011)."""
    message = context.message
    if message.error is ABSENT or "result" in message.value:
        return  # RPC-009 reports it.
    error = as_object(message.error)
    pointer = context.at + "/error"
    if error is None:
        problem = f"{context.sender} sent an error that is {kind(or_none(message.error))}, not an object"
        yield Violation("RPC-011", "R-013", problem, pointer=pointer)
        return
    code, text = error.get("code"), error.get("message")
    if not _is_integer(code):
        fault = f"a code that is {kind(code)}, not an integer" if "code" in error else "no code"
        yield Violation(
            "RPC-011", "R-013", f"{context.sender} sent an error with {fault}", pointer=pointer + "/code"
        )
    if not isinstance(text, str):
        fault = f"a message that is {kind(text)}, not a string" if "message" in error else "no message"
        yield Violation(
            "RPC-011", "R-013", f"{context.sender} sent an error with {fault}", pointer=pointer + "/message"
        )


def notification_id(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a notification that has an id (RPC-013)."""
    message = context.message
    if "id" in message.value:
        problem = f"{context.sender} sent {shortened(message.method)} with an id; a notification has none"
        yield Violation("RPC-013", "R-015", problem, pointer=context.at + "/id")


def request_without_id(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a message that has the method of a request but no id (RPC-014)."""
    message = context.message
    if _is_request_method(message.method):
        problem = f"{context.sender} sent {message.method} without an id, so it will never be answered"
        yield Violation("RPC-014", "R-016", problem, pointer=context.at)


def params_type(context: MessageContext[Request | Notification], history: History) -> Iterable[Violation]:
    """Report params that are not an object (RPC-016)."""
    message = context.message
    if isinstance(message.params, dict) or message.params is ABSENT:
        return ()
    method, params_kind = shortened(message.method), kind(message.params)
    problem = f"{context.sender} sent {method} with params that are {params_kind}, not an object"
    return (Violation("RPC-016", "R-018", problem, pointer=context.at + "/params"),)


def method_side(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request that only the other side sends, or that no revision defines (RPC-019)."""
    message = context.message
    if methods.sends_in_any(context.sender, message.method, "request", context.candidates):
        return ()
    return _wrong_side(message.method, context, history)


def _wrong_side(method: str, context: MessageContext[Request], history: History) -> Iterator[Violation]:
    sender = context.sender
    revisions = methods.revisions_with(method)
    if methods.sends_in_any(sender, method, "request", revisions):
        return  # Another revision has this request: PROTO-008 and the rules of stateless requests report it.
    if revisions:
        problem = f"{sender} sent the request {method}, which only the {other(sender)} sends"
        yield Violation("RPC-019", "R-021", problem, pointer=context.at + "/method")
    elif not _may_be_extension(context, history):
        # An info only: nothing forbids methods that no revision defines, but the receiver may not have them.
        problem = f"{sender} sent the request {shortened(method)}, which no revision defines"
        yield Violation("RPC-019", "R-021", problem, pointer=context.at + "/method", at_most="info")


def unknown_notification(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a notification that the revision does not define for its sender (PROTO-006)."""
    message = context.message
    if methods.sends_in_any(context.sender, message.method, "notification", context.candidates):
        return ()
    return _unknown_notification(message.method, context, history)


def _unknown_notification(
    method: str, context: MessageContext[Notification], history: History
) -> Iterator[Violation]:
    sender = context.sender
    revisions = methods.revisions_with(method)
    if _is_request_method(method):
        return  # It is a request without an id: RPC-014 reports it.
    if not revisions:
        if _may_be_extension(context, history):
            return
        prefixed = f"notifications/{method}"
        hint = f" (is {prefixed} meant?)" if methods.revisions_with(prefixed) else ""
        problem = f"{sender} sent the notification {shortened(method)}, which no revision defines{hint}"
    elif other_revisions := [r for r in revisions if methods.sends(sender, method, "notification", r)]:
        revision = context.candidates[0] if len(context.candidates) == 1 else "the session's revision"
        problem = (
            f"{sender} sent {method}, which {other_revisions[-1]} defines for it but {revision} does not"
        )
    else:
        problem = f"{sender} sent {method}, which only the {other(sender)} sends"
    yield Violation("PROTO-006", "R-022", problem, pointer=context.at + "/method")


def _may_be_extension(context: MessageContext[Request | Notification], history: History) -> bool:
    """Whether an extension may define this method: a known one, or any that a peer declares.

    A peer declares extensions under ``extensions`` or ``experimental`` in its capabilities. A client need not
    have seen the declaration on this connection, so the methods of known extensions always count.
    """
    message = context.message
    if message.method in methods.extension_methods():
        return True
    capability_sets = [history.client_capabilities, history.server_capabilities]
    # ``stateless_memories`` is set in a stateless session over HTTP.
    if history.stateless_seq is not None or context.stateless or history.stateless_memories is not None:
        # A stateless request declares the client's capabilities in its own params.
        pending_params = (request.params for request in history.client.pending.values())
        capability_sets += [
            as_object(member(params, "_meta", CAPABILITIES_KEY))
            for params in (message.params, *pending_params)
        ]
    return any(
        capabilities.get("experimental") or capabilities.get("extensions")
        for capabilities in capability_sets
        if capabilities
    )


def unknown_method_code(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report the refusal of an unknown method with a code other than -32601 (RPC-020)."""
    request, code = context.answers, error_code(context.message)
    # An early request was sent before the handshake was complete, and may be refused for that reason.
    if request is None or code is None or code == METHOD_NOT_FOUND or request.early:
        return
    if request.method == "initialize" or methods.sends_in_any(
        request.sender, request.method, "request", request.candidates
    ):
        return
    if methods.revisions_with(request.method) or request.method in methods.extension_methods():
        return  # The server may have this method of another revision, and refuse it for another reason.
    method = shortened(request.method)
    problem = f"{context.sender} refused the unknown method {method} with {code} instead of -32601"
    yield Violation("RPC-020", "R-023", problem, pointer=context.at + "/error/code", related=(request.seq,))


def reserved_error_code(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report an error code that JSON-RPC reserves and does not define (ERR-001)."""
    code = error_code(context.message)
    if code is None or not -32768 <= code <= -32000:
        return
    if code in JSON_RPC_CODES or -32099 <= code <= -32000:
        return
    problem = f"{context.sender} used error code {code}, which JSON-RPC reserves and does not define"
    yield Violation("ERR-001", "R-024", problem, pointer=context.at + "/error/code")


def _is_request_method(method: str) -> bool:
    """Whether some revision defines ``method`` as a request."""
    definitions = (methods.defined(method, revision) for revision in methods.revisions_with(method))
    return any(definition.kind == "request" for definition in definitions if definition)


def _is_integer(value: "JSON") -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


# Here ``sender_may_send`` excludes each message whose method its sender may send as this kind of message
# (request or notification) in one of the candidate revisions.
FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-002",), jsonrpc_version, MESSAGES, (), ANY_PROTOCOL, given=IRREGULAR),
        Check(("RPC-003", "RPC-004"), request_id_type, (Request,), (), ANY_PROTOCOL, given=IRREGULAR),
        Check(("RPC-005", "RPC-006"), request_id_reused, (Request,), given=REUSED_ID),
        Check(("RPC-016",), params_type, ASKS, given=IRREGULAR),
        Check(("RPC-019",), method_side, (Request,), unless=sender_may_send),
        Check(("RPC-013",), notification_id, (Notification,), given=IRREGULAR),
        Check(("RPC-014",), request_without_id, (Notification,), unless=sender_may_send),
        Check(("PROTO-006",), unknown_notification, (Notification,), unless=sender_may_send),
        Check(
            ("PROTO-007", "RPC-007", "RPC-012", "RPC-015"),
            response_id,
            ANSWERS,
            (),
            ANY_PROTOCOL,
            given=UNMATCHED_ID,
        ),
        Check(("RPC-009",), result_or_error, (ErrorResponse,), (), ANY_PROTOCOL),
        Check(("RPC-010",), result_type, (Response,), given=IRREGULAR),
        Check(("RPC-011",), error_shape, (ErrorResponse,), (), ANY_PROTOCOL),
        Check(("RPC-020",), unknown_method_code, (ErrorResponse,)),
        Check(("ERR-001",), reserved_error_code, (ErrorResponse,), (), ANY_PROTOCOL),
    ),
    events=(EventCheck(("PROTO-007",), misdirected_result, ANY_PROTOCOL),),
    updates=(StateUpdate(remember_misdirected, (Response,), (), ANY_PROTOCOL, given=UNMATCHED_ID),),
)
