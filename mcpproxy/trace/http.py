"""The records of a trace that HTTP adds: heads, ends, what is no HTTP, what mcpproxy did, encoded bytes.

    {"type":"request","seq":1,"t":..,"exchange":1,"connection":1,"session":"1a2b3c4d","method":"POST",..}
    {"type":"response","seq":3,"t":..,"exchange":1,"connection":1,"session":"1a2b3c4d","status":200,..}
    {"type":"end","t":..,"exchange":1,"connection":1,"cut":false}
    {"type":"encoded","t":..,"exchange":1,"connection":1,"from":"server","base64":".."}
    {"type":"opaque","t":..,"connection":1,"from":"client","bytes":517,"reason":".."}
    {"type":"note","t":..,"connection":1,"what":"refused","why":".."}

``session`` is there as soon as it is known. It says nothing that the heads do not say (see
``mcpproxy.trace.session_labels``) and is there for people with grep and jq; it is not read.

The bytes of a body are those of its frames in order, an event's with what stands around it; where there are
``encoded`` records of that side of the exchange, they are theirs.
"""

import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeVar, cast, get_args

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
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
from mcpproxy.trace.members import (
    NotARecordError,
    member,
    object_line,
    optional,
    read_object,
    several,
    text_or_base64,
    word,
)


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
    # Every exchange has one of each of the first three.
    if type(event) is ExchangeEnd:
        by = b',"by":"%b"' % event.by.encode("ascii") if event.by is not None else b""
        cut = b"true" if event.cut else b"false"
        return b'{"type":"end","t":%d,"exchange":%d,"connection":%d,%b"cut":%b%b}\n' % (
            event.observed_at_ns,
            event.exchange,
            event.connection,
            _named(session),
            cut,
            by,
        )
    if type(event) is RequestHead:
        said = {
            "method": event.method,
            "target": event.target,
            "version": event.version,
            "headers": event.headers,
            "endpoint": event.endpoint,
        }
        return _head(b"request", event, session) + object_line(said)[1:]
    if type(event) is ResponseHead:
        said = {
            "status": event.status,
            "reason": event.reason,
            "version": event.version,
            "headers": event.headers,
        }
        if event.by_proxy:
            said["by"] = "proxy"
        return _head(b"response", event, session) + object_line(said)[1:]
    if type(event) is Encoded:
        return b'{"type":"encoded","t":%d,"exchange":%d,"connection":%d,"from":"%b","base64":"%b"}\n' % (
            event.observed_at_ns,
            event.exchange,
            event.connection,
            event.sender.encode("ascii"),
            binascii.b2a_base64(event.data, newline=False),
        )
    place = {"t": event.observed_at_ns, "connection": event.connection}
    if type(event) is Opaque:
        told = {"from": event.sender, "bytes": event.size, "reason": event.reason}
        return object_line({"type": "opaque", **place, **told})
    assert type(event) is Note
    return object_line({"type": "note", **place, "what": event.what, "why": event.why})


def _head(kind: bytes, head: RequestHead | ResponseHead, session: str) -> bytes:
    """What the records of both kinds of head begin with."""
    return b'{"type":"%b","seq":%d,"t":%d,"exchange":%d,"connection":%d,%b' % (
        kind,
        head.seq,
        head.observed_at_ns,
        head.exchange,
        head.connection,
        _named(session),
    )


def _named(session: str) -> bytes:
    return b'"session":"%b",' % session.encode("ascii") if session else b""


def plain_frame(frame: Frame, session: str) -> bytes:
    """The line of a frame that is JSON on one line and of which nothing but that is to be said."""
    return b'{"type":"frame","seq":%d,"t":%d,"from":"%b",%b%b%b"message":%b}\n' % (
        frame.seq,
        frame.observed_at_ns,
        frame.sender.encode("ascii"),
        b'"exchange":%d,"connection":%d,' % (frame.exchange, frame.connection),
        _named(session),
        b"" if frame.event is None else _around(frame.event),
        frame.raw,
    )


def frame_members(frame: Frame, session: str) -> bytes:
    """The members that a frame has over HTTP alone, each with the comma behind it."""
    parts = [b'"exchange":%d,"connection":%d,' % (frame.exchange, frame.connection), _named(session)]
    if frame.by_proxy:
        parts.append(b'"by":"proxy",')
    if frame.event is not None:
        parts.append(_around(frame.event))
    return b"".join(parts)


def _around(event: SseEvent) -> bytes:
    """The member that says what stood around a frame."""
    # All events of a stream without ids have the same around them.
    is_usual = event.id is None and event.after in _ENDS and len(event.before) <= _SHORT_BYTES
    write = _event_member if is_usual else _event_member.__wrapped__
    return write(event.before, event.after, event.id, event.name, event.retry)


_SHORT_BYTES: Final = 64
_ENDS: Final = (b"\r\n\r\n", b"\n\n")


@lru_cache(maxsize=64)
def _event_member(
    before: bytes, after: bytes | None, id: str | None, name: str | None, retry: int | None
) -> bytes:
    written = {
        "id": id,
        "name": name,
        "retry": retry,
        "before": _text_or_base64(before),
        "after": None if after is None else _text_or_base64(after),
    }
    return b'"event":%b,' % object_line(written)[:-1]


def read_frame_members(members: JSONObject, frame: Frame) -> Frame:
    """Put what ``frame_members`` wrote into a frame that was read; ``by`` is read for all frames."""
    frame.exchange = member(members, "exchange", int, 0)
    frame.connection = member(members, "connection", int, 0)
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


_REQUEST: Final = several(
    seq=int, exchange=int, connection=int, method=str, target=str, endpoint=bool, version=str, t=int
)
_RESPONSE: Final = several(seq=int, exchange=int, connection=int, status=int, reason=str, version=str, t=int)
_END: Final = several(exchange=int, connection=int, cut=bool, t=int)


def _request(members: JSONObject) -> RequestHead:
    seq, exchange, connection, method, target, endpoint, version, at_ns = _REQUEST(members)
    fields = _headers(members)
    return RequestHead(seq, exchange, connection, method, target, fields, endpoint, version, at_ns)


def _response(members: JSONObject) -> ResponseHead:
    seq, exchange, connection, status, reason, version, at_ns = _RESPONSE(members)
    by_proxy = "by" in members and member(members, "by", str) == "proxy"
    fields = _headers(members)
    return ResponseHead(seq, exchange, connection, status, fields, reason, version, by_proxy, at_ns)


def _end(members: JSONObject) -> ExchangeEnd:
    exchange, connection, cut, at_ns = _END(members)
    by = cast("Blame", word(members, "by", get_args(Blame))) if "by" in members else None
    return ExchangeEnd(exchange, connection, cut, by, at_ns)


def _encoded(members: JSONObject) -> Encoded:
    return Encoded(
        member(members, "exchange", int),
        member(members, "connection", int),
        _sender(members),
        _unbase64(member(members, "base64", str)),
        member(members, "t", int),
    )


def _opaque(members: JSONObject) -> Opaque:
    return Opaque(
        member(members, "connection", int),
        _sender(members),
        member(members, "bytes", int),
        member(members, "reason", str),
        member(members, "t", int),
    )


def _note(members: JSONObject) -> Note:
    return Note(
        member(members, "connection", int),
        member(members, "what", str),
        member(members, "why", str),
        member(members, "t", int),
    )


DECODERS: Final[Mapping[str, Callable[[JSONObject], HttpEvent | Encoded]]] = {
    "request": _request,
    "response": _response,
    "end": _end,
    "encoded": _encoded,
    "opaque": _opaque,
    "note": _note,
}
"""Type of record -> what reads its members; each raises ``NotARecordError`` if one is missing or wrong."""


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


def _headers(members: JSONObject) -> Headers:
    fields: list[tuple[str, str]] = []
    for field in cast("list[JSON]", member(members, "headers", list, [])):
        if type(field) is not list or len(field) != 2:
            raise NotARecordError("a record with bad headers")
        name, value = field
        if type(name) is not str or type(value) is not str:
            raise NotARecordError("a record with bad headers")
        fields.append((name, value))
    return tuple(fields)


def _sender(members: JSONObject) -> Sender:
    return cast("Sender", word(members, "from", get_args(Sender)))


def _text_or_base64(raw: bytes) -> object:
    written = read_object(b"{%b}" % text_or_base64(raw))
    return written.get("text", written)


def _bytes(value: JSON) -> bytes:
    match value:
        case str():
            try:
                return value.encode("utf-8")
            except UnicodeEncodeError:  # half a character, which we write as base64
                raise NotARecordError("a record with a bad event") from None
        case {"base64": str(text)}:
            return _unbase64(text)
        case _:
            raise NotARecordError("a record with a bad event")


def _unbase64(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise NotARecordError("damaged text") from None
