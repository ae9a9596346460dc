"""The records of a trace that HTTP adds: heads, ends, what is no HTTP, what mcpproxy did, encoded bytes.

    {"type":"request","seq":1,"t":..,"exchange":1,"connection":1,"session":"1a2b3c4d","method":"POST",..}
    {"type":"response","seq":3,"t":..,"exchange":1,"connection":1,"session":"1a2b3c4d","status":200,..}
    {"type":"end","t":..,"exchange":1,"connection":1,"cut":false}
    {"type":"encoded","t":..,"exchange":1,"connection":1,"from":"server","base64":".."}
    {"type":"opaque","t":..,"connection":1,"from":"client","bytes":517,"reason":".."}
    {"type":"note","t":..,"connection":1,"what":"refused","why":".."}

``session`` is there as soon as it is known. It says nothing that the heads do not say (see
``mcpproxy.trace.sessions``) and is there for people with grep and jq; it is not read.

The bytes of a body are those of its frames in order, an event's with what stands around it; where there are
``encoded`` records of that side of the exchange, they are theirs.
"""

import binascii
from collections.abc import Iterable
from typing import TypeVar, cast, get_args

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.slotted import slotted
from mcpproxy.session.frame import (
    Blame,
    ExchangeEnd,
    Frame,
    Headers,
    HttpEvent,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
    SseEvent,
)
from mcpproxy.trace.members import NotARecordError, list_member, member, object_line, optional, word


@slotted(frozen=True)
class Encoded:
    """Bytes of a body as they passed, under a content coding; the frames hold what they stand for."""

    exchange: int
    connection: int
    sender: Sender
    data: bytes
    observed_at_ns: int = 0


def encode_http(event: HttpEvent | Encoded, session: str = "") -> bytes:
    """One event as a line; ``session`` is the name of the session that it belongs to, if known."""
    match event:
        case RequestHead():
            return object_line(
                {
                    "type": "request",
                    "seq": event.seq,
                    "t": event.observed_at_ns,
                    "exchange": event.exchange,
                    "connection": event.connection,
                    **({"session": session} if session else {}),
                    "method": event.method,
                    "target": event.target,
                    "version": event.version,
                    "headers": event.headers,
                    "endpoint": event.endpoint,
                }
            )
        case ResponseHead():
            return object_line(
                {
                    "type": "response",
                    "seq": event.seq,
                    "t": event.observed_at_ns,
                    "exchange": event.exchange,
                    "connection": event.connection,
                    **({"session": session} if session else {}),
                    "status": event.status,
                    "reason": event.reason,
                    "version": event.version,
                    "headers": event.headers,
                    **({"by": "proxy"} if event.by_proxy else {}),
                }
            )
        case ExchangeEnd():
            return object_line(
                {
                    "type": "end",
                    "t": event.observed_at_ns,
                    "exchange": event.exchange,
                    "connection": event.connection,
                    **({"session": session} if session else {}),
                    "cut": event.cut,
                    **({"by": event.by} if event.by is not None else {}),
                }
            )
        case Encoded():
            return b'{"type":"encoded","t":%d,"exchange":%d,"connection":%d,"from":"%b","base64":"%b"}\n' % (
                event.observed_at_ns,
                event.exchange,
                event.connection,
                event.sender.encode("ascii"),
                binascii.b2a_base64(event.data, newline=False),
            )
        case Opaque():
            return object_line(
                {
                    "type": "opaque",
                    "t": event.observed_at_ns,
                    "connection": event.connection,
                    "from": event.sender,
                    "bytes": event.size,
                    "reason": event.reason,
                }
            )
        case Note():
            return object_line(
                {
                    "type": "note",
                    "t": event.observed_at_ns,
                    "connection": event.connection,
                    "what": event.what,
                    "why": event.why,
                }
            )


def frame_members(frame: Frame, session: str) -> bytes:
    """The members that a frame has over HTTP alone, each with the comma behind it."""
    parts = [b'"exchange":%d,"connection":%d,' % (frame.exchange, frame.connection)]
    if session:
        parts.append(b'"session":"%b",' % session.encode("ascii"))
    if frame.by_proxy:
        parts.append(b'"by":"proxy",')
    if (event := frame.event) is not None:
        written = {
            "id": event.id,
            "name": event.name,
            "retry": event.retry,
            "before": _text_or_base64(event.before),
            "after": None if event.after is None else _text_or_base64(event.after),
        }
        parts.append(b'"event":%b,' % object_line(written)[:-1])
    return b"".join(parts)


def read_frame_members(members: JSONObject, frame: Frame) -> Frame:
    """Put what ``frame_members`` wrote into a frame that was read."""
    frame.exchange = member(members, "exchange", int, 0)
    frame.connection = member(members, "connection", int, 0)
    frame.by_proxy = member(members, "by", str, "") == "proxy"
    if members.get("event") is not None:
        event = cast("JSONObject", member(members, "event", dict))
        frame.event = SseEvent(
            _bytes(event["before"]) if "before" in event else b"",
            None if event.get("after") is None else _bytes(event["after"]),
            optional(event, "id", str),
            optional(event, "name", str),
            optional(event, "retry", int),
        )
    return frame


def decode_http(kind: JSON, members: JSONObject) -> HttpEvent | Encoded | None:
    """What a record of type ``kind`` says; ``None`` if it is none of those above.

    Raises:
        NotARecordError: a member is missing or wrong.
    """
    match kind:
        case "request":
            return RequestHead(
                *_place(members),
                member(members, "method", str),
                member(members, "target", str),
                _headers(members),
                member(members, "endpoint", bool),
                member(members, "version", str),
                member(members, "t", int),
            )
        case "response":
            return ResponseHead(
                *_place(members),
                member(members, "status", int),
                _headers(members),
                member(members, "reason", str),
                member(members, "version", str),
                member(members, "by", str, "") == "proxy",
                member(members, "t", int),
            )
        case "end":
            by = word(members, "by", get_args(Blame)) if "by" in members else None
            return ExchangeEnd(
                member(members, "exchange", int),
                member(members, "connection", int),
                member(members, "cut", bool),
                cast("Blame | None", by),
                member(members, "t", int),
            )
        case "encoded":
            return Encoded(
                member(members, "exchange", int),
                member(members, "connection", int),
                _sender(members),
                _unbase64(member(members, "base64", str)),
                member(members, "t", int),
            )
        case "opaque":
            return Opaque(
                member(members, "connection", int),
                _sender(members),
                member(members, "bytes", int),
                member(members, "reason", str),
                member(members, "t", int),
            )
        case "note":
            return Note(
                member(members, "connection", int),
                member(members, "what", str),
                member(members, "why", str),
                member(members, "t", int),
            )
        case _:
            return None


T = TypeVar("T")


def body_bytes(records: Iterable[T], exchange: int, sender: Sender) -> bytes:
    """The exact bytes of one body, transfer coding removed, from the records of its trace.

    Credentials in bodies that are not MCP are masked in there, unless they were kept.
    """
    encoded: list[bytes] = []
    framed: list[bytes] = []
    for record in records:
        match record:
            case Encoded(exchange=number, sender=of, data=data) if (number, of) == (exchange, sender):
                encoded.append(data)
            case Frame(exchange=number, sender=of) if (number, of) == (exchange, sender):
                framed.append(frame_bytes(record))
            case _:
                pass
    return b"".join(encoded or framed)


def frame_bytes(frame: Frame) -> bytes:
    """The bytes of the stream that a frame was made of."""
    event = frame.event
    if event is None:
        return frame.raw
    return event.before if event.after is None else event.before + frame.raw + event.after


def _place(members: JSONObject) -> tuple[int, int, int]:
    return (
        member(members, "seq", int),
        member(members, "exchange", int),
        member(members, "connection", int),
    )


def _headers(members: JSONObject) -> Headers:
    fields: list[tuple[str, str]] = []
    for field in cast("list[list[JSON]]", list_member(members, "headers", list)):
        match field:
            case [str(name), str(value)]:
                fields.append((name, value))
            case _:
                raise NotARecordError("a record with bad headers")
    return tuple(fields)


def _sender(members: JSONObject) -> Sender:
    return cast("Sender", word(members, "from", get_args(Sender)))


def _text_or_base64(raw: bytes) -> object:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": binascii.b2a_base64(raw, newline=False).decode("ascii")}


def _bytes(value: JSON) -> bytes:
    match value:
        case str():
            return value.encode("utf-8")
        case {"base64": str(text)}:
            return _unbase64(text)
        case _:
            raise NotARecordError("a record with a bad event")


def _unbase64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise NotARecordError("damaged text") from None
