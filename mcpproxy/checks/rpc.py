"""JSON-RPC: what every message owes, whatever carried it.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#messages
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, as_object, member, shortened, spelled
from mcpproxy.checks.table import (
    ANSWERS,
    ANY_PROTOCOL,
    ASKS,
    MESSAGES,
    ODD,
    REPEATED,
    REUSED,
    UNMATCHED,
    Decider,
    EventDecider,
    Family,
    is_the_senders,
)
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
)
from mcpproxy.protocol.jsontext import repeated_names
from mcpproxy.protocol.revisions import CAPABILITIES_KEY
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.session.frame import CLIENT, Close, Signal, other
from mcpproxy.session.history import Asked, History, Side

UNHURRIED: Final = ("initialize", "server/discover", "subscriptions/listen")
"""Requests whose missing answer another rule judges, or none."""

ANSWER_TIMEOUT_NS: Final = 30_000_000_000
"""How long a request must have waited before its missing answer means anything."""


def jsonrpc_version(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-002"""
    message = passing.message
    if isinstance(message, Malformed) or message.value.get("jsonrpc") == "2.0":
        return ()
    if "jsonrpc" not in message.value:
        said = f'{passing.sender} sent a message without "jsonrpc": "2.0"'
    else:
        found = shown(message.value["jsonrpc"])
        said = f'{passing.sender} sent a message whose "jsonrpc" is {found}, not "2.0"'
    return (Breach("PROTO-002", "R-002", said, passing.at + "/jsonrpc"),)


def request_id_type(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-003, RPC-004"""
    message = passing.message
    assert isinstance(message, Request)
    raw_id = message.value["id"]
    return () if type(raw_id) is int or type(raw_id) is str else _odd_id(message, raw_id, passing)


def _odd_id(message: Request, raw_id: "JSON", passing: Passing) -> Iterator[Breach]:
    method, pointer = shortened(message.method), passing.at + "/id"
    if raw_id is None:
        said = f"{passing.sender} sent {method} with a null id, so its answer could not be told apart"
        yield Breach("RPC-004", "R-005", said, pointer)
    elif message.id is None:
        said = f"{passing.sender} sent {method} with id {shown(raw_id)}; an id is a string or an integer"
        yield Breach("RPC-003", "R-004", said, pointer)
    elif isinstance(raw_id, float) and abs(raw_id) < 2**53:
        said = (
            f"{passing.sender} wrote the id {message.id} as {raw_id}, which some parsers read as a fraction"
        )
        yield Breach("RPC-003", "R-004", said, pointer, at_most="info")


def request_id_reused(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-005, RPC-006"""
    message = passing.message
    assert isinstance(message, Request)
    if message.id is None:
        return ()
    side = history.side(passing.sender)
    first = side.used.first_use(message.id)
    return () if first is None else _reused(message, first, side, passing)


def _reused(message: Request, first: int, side: Side, passing: Passing) -> Iterator[Breach]:
    assert message.id is not None
    where = f", first used in frame {first}" if first else ""
    related = (first,) if first else ()
    said = f"{passing.sender} reused request id {spelled(message.id)}{where}"
    if passing.stateless:
        if in_flight := side.pending.get(message.id):
            said = (
                f"{passing.sender} reused request id {spelled(message.id)} while frame {in_flight.seq} "
                "was still waiting for its answer"
            )
            yield Breach("RPC-006", "R-007", said, passing.at + "/id", (in_flight.seq,))
    else:
        yield Breach("RPC-005", "R-006", said, passing.at + "/id", related)


def response_id(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-007, RPC-007, RPC-012, RPC-015"""
    message, asked = passing.message, passing.answers
    assert isinstance(message, Response | ErrorResponse)
    return () if asked is not None and asked.id == message.id else _foreign_id(message, passing, history)


def _foreign_id(message: Response | ErrorResponse, passing: Passing, history: History) -> Iterator[Breach]:
    asker = history.side(other(passing.sender))
    pointer = passing.at + "/id"
    if message.id is ABSENT or message.id is None:
        yield from _no_response_id(passing, history)
        return
    if (asked := passing.answers) is not None:
        said = (
            f"{passing.sender} answered with {spelled(message.id)}; the request in frame {asked.seq} "
            f"({asked.method}) used {spelled(asked.id)}"
        )
        yield Breach("PROTO-007", "R-008", said, pointer, (asked.seq,))
        return
    first = asker.used.first_use(message.id)
    if first is not None:
        if asker.was_read and not history.blind:
            where = f"; the request was frame {first}" if first else ""
            said = f"{passing.sender} answered request {spelled(message.id)} a second time{where}"
            yield Breach("RPC-007", "R-009", said, pointer, (first,) if first else ())
    elif asker.was_read and not history.blind and not history.scattered:
        used = f"an id that the {other(passing.sender)} never used"
        said = f"{passing.sender} answered {spelled(message.id)}, {used}"
        yield Breach("PROTO-007", "R-008", said, pointer)


def _no_response_id(passing: Passing, history: History) -> Iterator[Breach]:
    """A response that names no request: what it may mean depends on what it may answer."""
    message = passing.message
    assert isinstance(message, Response | ErrorResponse)
    asker = history.side(other(passing.sender))
    pointer = passing.at + "/id" if "id" in message.value else passing.at
    id_is = "a null id" if message.value.get("id", ABSENT) is None else "no id"
    if "id" in message.value and message.value["id"] is not None:
        yield Breach(
            "PROTO-007",
            "R-008",
            f"{passing.sender} answered with id {shown(message.value['id'])}, which no request can have",
            pointer,
        )
        return
    if history.blind or not asker.was_read or history.over_http:
        return  # It may answer what could not be read. Over HTTP the exchange tells what it answers.
    if asker.notified_seq and not asker.pending:
        seq = asker.notified_seq
        said = f"{passing.sender} answered the notification in frame {seq} (a response with {id_is})"
        yield Breach("RPC-015", "R-017", said, pointer, (seq,))
    elif isinstance(message, Response):
        yield Breach(
            "PROTO-007",
            "R-008",
            f"{passing.sender} sent a result with {id_is}; it answers no request",
            pointer,
        )
    elif asker.pending:
        said = f"{passing.sender} sent an error with {id_is}, although every request so far had a readable id"
        null = "id" in message.value
        yield Breach("RPC-012", "R-014", said, pointer, at_most="info" if null else None)


def result_or_error(passing: Passing, history: History) -> Iterator[Breach]:
    """RPC-009"""
    message = passing.message
    assert isinstance(message, ErrorResponse)
    if "result" in message.value:
        yield Breach(
            "RPC-009", "R-011", f"{passing.sender} answered with both a result and an error", passing.at
        )
    elif message.error is ABSENT:
        yield Breach(
            "RPC-009", "R-011", f"{passing.sender} answered with neither a result nor an error", passing.at
        )


def result_type(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-010"""
    message = passing.message
    assert isinstance(message, Response)
    if isinstance(message.result, dict):
        return ()
    of = f" of {passing.answers.method}" if passing.answers else ""
    said = f"{passing.sender} sent a result{of} that is {kind(message.result)}, not an object"
    return (Breach("RPC-010", "R-012", said, passing.at + "/result"),)


def error_shape(passing: Passing, history: History) -> Iterator[Breach]:
    """RPC-011"""
    message = passing.message
    assert isinstance(message, ErrorResponse)
    if message.error is ABSENT or "result" in message.value:
        return  # RPC-009 has said so.
    error = as_object(message.error)
    pointer = passing.at + "/error"
    if error is None:
        said = f"{passing.sender} sent an error that is {kind(member(message.error))}, not an object"
        yield Breach("RPC-011", "R-013", said, pointer)
        return
    code, text = error.get("code"), error.get("message")
    if not _is_integer(code):
        fault = f"a code that is {kind(code)}, not an integer" if "code" in error else "no code"
        yield Breach("RPC-011", "R-013", f"{passing.sender} sent an error with {fault}", pointer + "/code")
    if not isinstance(text, str):
        fault = f"a message that is {kind(text)}, not a string" if "message" in error else "no message"
        yield Breach("RPC-011", "R-013", f"{passing.sender} sent an error with {fault}", pointer + "/message")


def notification_id(passing: Passing, history: History) -> Iterator[Breach]:
    """RPC-013"""
    message = passing.message
    assert isinstance(message, Notification)
    if "id" in message.value:
        said = f"{passing.sender} sent {shortened(message.method)} with an id; a notification has none"
        yield Breach("RPC-013", "R-015", said, passing.at + "/id")


def request_without_id(passing: Passing, history: History) -> Iterator[Breach]:
    """RPC-014"""
    message = passing.message
    assert isinstance(message, Notification)
    if any(
        (found := methods.defined(message.method, revision)) and found.kind == "request"
        for revision in methods.known_anywhere(message.method)
    ):
        said = f"{passing.sender} sent {message.method} without an id, so it will never be answered"
        yield Breach("RPC-014", "R-016", said, passing.at)


def params_type(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-016"""
    message = passing.message
    assert isinstance(message, Request | Notification)
    if isinstance(message.params, dict) or message.params is ABSENT:
        return ()
    method, found = shortened(message.method), kind(message.params)
    said = f"{passing.sender} sent {method} with params that are {found}, not an object"
    return (Breach("RPC-016", "R-018", said, passing.at + "/params"),)


def method_side(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-019"""
    message = passing.message
    assert isinstance(message, Request)
    if methods.sends_in_any(passing.sender, message.method, "request", passing.candidates):
        return ()
    return _wrong_side(message.method, passing, history)


def _wrong_side(method: str, passing: Passing, history: History) -> Iterator[Breach]:
    sender = passing.sender
    revisions = methods.known_anywhere(method)
    if methods.sends_in_any(sender, method, "request", revisions):
        return  # The right side, the wrong revision: PROTO-008 and the stateless rules judge that.
    if revisions:
        said = f"{sender} sent the request {method}, which only the {other(sender)} sends"
        yield Breach("RPC-019", "R-021", said, passing.at + "/method")
    elif not _extended(passing, history):
        said = f"{sender} sent the request {shortened(method)}, which no revision defines"
        yield Breach("RPC-019", "R-021", said, passing.at + "/method", at_most="warning")


def unknown_notification(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-006"""
    message = passing.message
    assert isinstance(message, Notification)
    if methods.sends_in_any(passing.sender, message.method, "notification", passing.candidates):
        return ()
    return _unknown_notification(message.method, passing, history)


def _unknown_notification(method: str, passing: Passing, history: History) -> Iterator[Breach]:
    sender = passing.sender
    revisions = methods.known_anywhere(method)
    if any((found := methods.defined(method, r)) and found.kind == "request" for r in revisions):
        return  # A request without its id: RPC-014.
    if not revisions:
        if _extended(passing, history):
            return
        prefixed = f"notifications/{method}"
        hint = f" (is {prefixed} meant?)" if methods.known_anywhere(prefixed) else ""
        said = f"{sender} sent the notification {shortened(method)}, which no revision defines{hint}"
    elif elsewhere := [r for r in revisions if methods.sends(sender, method, "notification", r)]:
        named = passing.candidates[0] if len(passing.candidates) == 1 else "the session's revision"
        said = f"{sender} sent {method}, which {elsewhere[-1]} defines for it but {named} does not"
    else:
        said = f"{sender} sent {method}, which only the {other(sender)} sends"
    yield Breach("PROTO-006", "R-022", said, passing.at + "/method")


def _extended(passing: Passing, history: History) -> bool:
    """Whether an extension may bring this method: a known one, or any that a peer declared."""
    message = passing.message
    assert isinstance(message, Request | Notification)
    declared = [history.client_capabilities, history.server_capabilities]
    if history.stateless_seq is not None or passing.stateless or history.lasting is not None:
        if any(message.method in names for names in methods.EXTENSIONS.values()):
            return True
        asked = (message.params, *(asked.params for asked in history.client.pending.values()))
        declared += [as_object(member(params, "_meta", CAPABILITIES_KEY)) for params in asked]
    return any(c.get("experimental") or c.get("extensions") for c in declared if c)


def unknown_method_code(passing: Passing, history: History) -> Iterator[Breach]:
    """RPC-020"""
    asked, code = passing.answers, _code(passing)
    if asked is None or code is None or code == -32601 or asked.early:
        return
    if asked.method == "initialize" or methods.sends_in_any(
        asked.sender, asked.method, "request", asked.candidates
    ):
        return
    if methods.known_anywhere(asked.method):
        return  # Another revision's method may well be implemented, and refused for another reason.
    said = (
        f"{passing.sender} refused the unknown method {shortened(asked.method)} with {code} instead of -32601"
    )
    yield Breach("RPC-020", "R-023", said, passing.at + "/error/code", (asked.seq,))


def reserved_error_code(passing: Passing, history: History) -> Iterator[Breach]:
    """ERR-001"""
    code = _code(passing)
    if code is None or not -32768 <= code <= -32000:
        return
    if code in (-32700, -32600, -32601, -32602, -32603) or -32099 <= code <= -32000:
        return
    said = f"{passing.sender} used error code {code}, which JSON-RPC reserves and does not define"
    yield Breach("ERR-001", "R-024", said, passing.at + "/error/code")


def repeated_member_names(passing: Passing, history: History) -> Iterable[Breach]:
    """RPC-022"""
    message = passing.message
    if isinstance(message, Malformed) or passing.at:
        return ()
    names = repeated_names(passing.frame.raw, message.value)
    if not names:
        return ()
    said = f"{passing.sender} repeated the member {names[0]}; two parsers may read two different messages"
    return (Breach("RPC-022", "R-026", said, names[0]),)


def unanswered(event: Signal | Close, history: History) -> Iterator[Breach]:
    """RPC-008, and LIFE-004 for a ping: what the other side passed over while it answered later ones"""
    if not isinstance(event, Close) or event.ending == "cut" or history.blind or history.over_http:
        return
    for asker in (CLIENT, "server"):
        side, responder = history.side(asker), other(asker)
        if not history.side(responder).was_read:
            continue
        for asked in side.pending.values():
            if asked.seq < side.last_answered_seq and _waited(asked, event):
                rule = ("LIFE-004", "R-040") if asked.method == "ping" else ("RPC-008", "R-010")
                if asked.cancelled or asked.method in UNHURRIED:
                    continue
                if asked.stateless and history.stateful_seq is not None:
                    continue  # A probe of the other era may meet silence.
                what = f"{shortened(asked.method)} ({spelled(asked.id)})"
                said = f"{responder} never answered {what}, but answered later requests"
                yield Breach(*rule, said, None, (), responder, None, asked.seq, asked.candidates)


def _waited(asked: Asked, event: Close) -> bool:
    return event.observed_at_ns - asked.at_ns >= ANSWER_TIMEOUT_NS


def _code(passing: Passing) -> int | None:
    message = passing.message
    assert isinstance(message, ErrorResponse)
    error = as_object(message.error)
    code = error.get("code") if error else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _is_integer(value: "JSON") -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


FAMILY: Final = Family(
    checks=(
        Decider(("PROTO-002",), jsonrpc_version, MESSAGES, (), ANY_PROTOCOL, given=ODD),
        Decider(("RPC-003", "RPC-004"), request_id_type, ("request",), (), ANY_PROTOCOL, given=ODD),
        Decider(("RPC-005", "RPC-006"), request_id_reused, ("request",), given=REUSED),
        Decider(("RPC-016",), params_type, ASKS, given=ODD),
        Decider(("RPC-019",), method_side, ("request",), unless=is_the_senders),
        Decider(("RPC-013",), notification_id, ("notification",), given=ODD),
        Decider(("RPC-014",), request_without_id, ("notification",), unless=is_the_senders),
        Decider(("PROTO-006",), unknown_notification, ("notification",), unless=is_the_senders),
        Decider(
            ("PROTO-007", "RPC-007", "RPC-012", "RPC-015"),
            response_id,
            ANSWERS,
            (),
            ANY_PROTOCOL,
            given=UNMATCHED,
        ),
        Decider(("RPC-009",), result_or_error, ("error",), (), ANY_PROTOCOL),
        Decider(("RPC-010",), result_type, ("response",), given=ODD),
        Decider(("RPC-011",), error_shape, ("error",), (), ANY_PROTOCOL),
        Decider(("RPC-020",), unknown_method_code, ("error",)),
        Decider(("ERR-001",), reserved_error_code, ("error",), (), ANY_PROTOCOL),
        Decider(("RPC-022",), repeated_member_names, MESSAGES, (), ANY_PROTOCOL, given=REPEATED),
    ),
    events=(EventDecider(("RPC-008", "LIFE-004"), unanswered),),
)
