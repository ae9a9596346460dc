"""Encode records as lines of a trace. ``mcpproxy.record.trace.decode`` is the inverse.

A frame is a line on stdio, or a body or SSE event over HTTP. If it is one line of JSON that every reader
accepts, it is embedded unchanged as the last member of its record. It is never re-encoded, so all its bytes
are kept: spacing, member order, number notation, a trailing carriage return. A frame of other text becomes a
JSON string, or base64 if the string would be much longer; any other bytes become base64.

HTTP adds these records (on stdio, a ``note`` may say what ``--fault`` did to the session):

    {"type":"request","seq":1,"t":..,"exchange":1,"connection":1,"session":"1a2b3c4d","method":"POST",..}
    {"type":"response","seq":3,"t":..,"exchange":1,"connection":1,"session":"1a2b3c4d","status":200,..}
    {"type":"end","t":..,"exchange":1,"connection":1,"cut":false}
    {"type":"encoded","t":..,"exchange":1,"connection":1,"from":"server","base64":".."}
    {"type":"opaque","t":..,"connection":1,"from":"client","bytes":517,"reason":".."}
    {"type":"note","t":..,"connection":1,"what":"refused","why":".."}

``session`` appears as soon as the session is known. It repeats information from the heads (see
``mcpproxy.record.trace.session_labels``) for use with grep and jq; the reader ignores it.

The bytes of a body are the bytes of its frames in order, each with the surrounding bytes of its SSE
event. If there are ``encoded`` records of the same exchange (request and response) and sender, the bytes of
the body are those of these records instead.

Frequent records (frames, ends of exchanges) are formatted directly as bytes, without a dictionary.
"""

import binascii
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import orjson

from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    HttpEvent,
    Note,
    Opaque,
    Repeated,
    RequestHead,
    ResponseHead,
    Sender,
    Signal,
    SseEvent,
    Stderr,
)
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.protocol.jsonrpc import NOT_JSON, Flaw, Malformed
from mcpproxy.record.trace.members import object_line, read_object, text_or_base64
from mcpproxy.record.trace.records import (
    HEADER_MEMBERS,
    OMITTED_IF_EMPTY,
    Continued,
    Encoded,
    Header,
    Recorded,
    Tally,
)
from mcpproxy.record.trace.repeated_bodies import Shortened

__all__ = [
    "encode",
    "encode_close",
    "encode_continued",
    "encode_finding",
    "encode_frame",
    "encode_header",
    "encode_shortened",
    "finding_object",
    "frame_parts",
    "is_embeddable",
    "more_object",
    "object_line",
]


def encode(event: Recorded, session: str = "") -> bytes:
    """Return an event as a line; ``session`` as for ``encode_frame``."""
    match event:
        case Frame():
            return encode_frame(event, session)
        case Stderr():
            eol = b"" if event.terminated else b'"eol":"",'
            return b'{"type":"stderr","t":%d,%b%b}\n' % (event.observed_at_ns, eol, text_or_base64(event.raw))
        case Eof():
            return object_line({"type": "eof", "t": event.observed_at_ns, "from": event.sender})
        case Signal():
            return object_line({"type": "signal", "t": event.observed_at_ns, "signal": event.name})
        case Gap():
            lost = {"client": event.client_bytes, "server": event.server_bytes, "stderr": event.stderr_bytes}
            members = {"type": "gap", "t": event.observed_at_ns, "reason": event.reason, **lost}
            return object_line(members | _answered_in(event))
        case _:
            return _encode_http(event, session)


def encode_header(header: Header) -> bytes:
    """Return the first line of a trace."""
    members = {
        name: getattr(header, name)
        for name in HEADER_MEMBERS
        if name not in OMITTED_IF_EMPTY or getattr(header, name)
    }
    return object_line({"type": "header", **members})


def encode_frame(frame: Frame, session: str = "") -> bytes:
    """Return a frame as a line; ``session`` is the label of its HTTP session, if known."""
    is_plain = frame.terminated and not (frame.continues or frame.by_proxy or frame.refused or frame.fault)
    if is_plain and is_embeddable(frame):
        if frame.exchange:
            return _encode_http_frame(frame, session)
        return _PLAIN_FRAME[frame.sender] % (frame.seq, frame.observed_at_ns, frame.raw)
    return b"".join(frame_parts(frame, session))


_PLAIN_FRAME: Final[Mapping[Sender, bytes]] = {
    CLIENT: b'{"type":"frame","seq":%d,"t":%d,"from":"client","message":%b}\n',
    SERVER: b'{"type":"frame","seq":%d,"t":%d,"from":"server","message":%b}\n',
}


def frame_parts(frame: Frame, session: str = "") -> tuple[bytes, bytes, bytes]:
    """Return the line of a frame in three parts. The middle part is an embedded frame itself, not a copy."""
    head = b'{"type":"frame","seq":%d,"t":%d,"from":"%b",%b%b%b' % (
        frame.seq,
        frame.observed_at_ns,
        b"client" if frame.sender == CLIENT else b"server",
        _http_members(frame, session) if frame.exchange else b"",
        b"" if frame.terminated else b'"eol":"",',
        b'"continues":true,' if frame.continues else b"",
    )
    if frame.by_proxy and not frame.exchange:
        head += b'"by":"proxy",'
    if frame.refused:
        head += b'"refused":true,'
    if (fault := frame.fault) is not None:
        head += b'"fault":%b,' % object_line(fault.members)[:-1]
    if is_embeddable(frame):
        return head + b'"message":', frame.raw, b"}\n"
    return head, text_or_base64(frame.raw), b"}\n"


def encode_shortened(shortened: Shortened, session: str) -> bytes:
    """Return the line of a frame without the parts that it repeats; ``session`` as for ``encode_frame``."""
    head, content, tail = frame_parts(shortened.frame, session)
    start = b'{"type":"frame",'
    return b"".join((start, shortened.again, b",", head.removeprefix(start), content, tail))


def _encode_http_frame(frame: Frame, session: str) -> bytes:
    """Return the line of an HTTP frame that is one line of JSON and has no rare properties."""
    return b'{"type":"frame","seq":%d,"t":%d,"from":"%b",%b%b%b"message":%b}\n' % (
        frame.seq,
        frame.observed_at_ns,
        frame.sender.encode("ascii"),
        b'"exchange":%d,"connection":%d,' % (frame.exchange, frame.connection),
        _session_member(session),
        b"" if frame.event is None else _encode_event(frame.event),
        frame.raw,
    )


def _http_members(frame: Frame, session: str) -> bytes:
    """Return the members that only HTTP frames have, each followed by a comma."""
    parts = [b'"exchange":%d,"connection":%d,' % (frame.exchange, frame.connection), _session_member(session)]
    if frame.by_proxy:
        parts.append(b'"by":"proxy",')
    if frame.event is not None:
        parts.append(_encode_event(frame.event))
    return b"".join(parts)


def _encode_event(event: SseEvent) -> bytes:
    """Return the member ``event``: the SSE event's fields, and its bytes before and after the frame."""
    # Events without ids differ only in their data, so a few cached members serve a whole stream.
    is_usual = event.id is None and event.after in _EVENT_ENDS and len(event.before) <= _CACHED_BYTES
    write = _event_member if is_usual else _event_member.__wrapped__
    return write(event.before, event.after, event.id, event.name, event.retry)


_CACHED_BYTES: Final = 64
"""Events with more bytes than this before the frame are not cached: those bytes are arbitrary."""

_EVENT_ENDS: Final = (b"\r\n\r\n", b"\n\n")


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


def _text_or_base64(raw: bytes) -> object:
    """Return bytes as a JSON value: a string, or ``{"base64": ...}`` where ``text_or_base64`` writes base64.

    ``text_or_base64`` returns a whole member as bytes instead: ``"text":...`` or ``"base64":...``.
    """
    written = read_object(b"{%b}" % text_or_base64(raw))
    return written.get("text", written)


def _encode_http(event: HttpEvent | Encoded, session: str = "") -> bytes:
    # Every exchange has an event of each of the first three types, so these are tested first.
    if type(event) is ExchangeEnd:
        by = b',"by":"%b"' % event.by.encode("ascii") if event.by is not None else b""
        cut = b"true" if event.cut else b"false"
        left = b',"left":%d' % event.left_ns if event.left_ns is not None else b""
        return b'{"type":"end","t":%d,"exchange":%d,"connection":%d,%b"cut":%b%b%b}\n' % (
            event.observed_at_ns,
            event.exchange,
            event.connection,
            _session_member(session),
            cut,
            by,
            left,
        )
    if type(event) is RequestHead:
        members: dict[str, object] = {
            "method": event.method,
            "target": event.target,
            "version": event.version,
            "headers": event.headers,
            "endpoint": event.endpoint,
        }
        if event.by_proxy:
            members["by"] = "proxy"
        if event.fault is not None:
            members["fault"] = event.fault.members
        return _begin_head(b"request", event, session) + object_line(members)[1:]
    if type(event) is ResponseHead:
        members = {
            "status": event.status,
            "reason": event.reason,
            "version": event.version,
            "headers": event.headers,
        }
        if event.by_proxy:
            members["by"] = "proxy"
        if event.fault is not None:
            members["fault"] = event.fault.members
        return _begin_head(b"response", event, session) + object_line(members)[1:]
    if type(event) is Encoded:
        return b'{"type":"encoded","t":%d,"exchange":%d,"connection":%d,"from":"%b","base64":"%b"}\n' % (
            event.observed_at_ns,
            event.exchange,
            event.connection,
            event.sender.encode("ascii"),
            binascii.b2a_base64(event.data, newline=False),
        )
    common_members = {"t": event.observed_at_ns, "connection": event.connection}
    if type(event) is Opaque:
        size = {"from": event.sender, "bytes": event.size, "reason": event.reason}
        by = {"by": "proxy"} if event.by_proxy else {}
        return object_line({"type": "opaque", **common_members, **size, **by})
    assert type(event) is Note
    members = {"type": "note", **common_members, "what": event.what, "why": event.why}
    return object_line(members | _answered_in(event))


def _answered_in(event: Gap | Note) -> dict[str, int]:
    """Return the member that names the exchange whose answer is missing; empty if none is."""
    return {"exchange": event.exchange} if event.exchange else {}


def _begin_head(kind: bytes, head: RequestHead | ResponseHead, session: str) -> bytes:
    """Return the beginning of the line of a head: the members that all heads have."""
    return b'{"type":"%b","seq":%d,"t":%d,"exchange":%d,"connection":%d,%b' % (
        kind,
        head.seq,
        head.observed_at_ns,
        head.exchange,
        head.connection,
        _session_member(session),
    )


def _session_member(session: str) -> bytes:
    return b'"session":"%b",' % session.encode("ascii") if session else b""


def encode_finding(finding: Finding) -> bytes:
    """Return a finding (violation of a rule) as a line."""
    return object_line({"type": "finding", **finding_object(finding)})


def finding_object(finding: Finding) -> dict[str, object]:
    """Return a finding as a JSON object, for the trace and the reports in JSON."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "blame": finding.blame,
        "message": finding.message,
        "frame": finding.frame,
        "related": finding.related,
        "pointer": finding.pointer,
        "revision": finding.revision,
        "source": finding.source,
        "requirement": finding.requirement,
    }


def more_object(repeated: Repeated) -> dict[str, object]:
    """Return, as a JSON object, how many findings were only counted, not recorded one by one."""
    return {
        "rule": repeated.rule,
        "severity": repeated.severity,
        "blame": repeated.blame,
        "requirement": repeated.requirement,
        "count": repeated.count,
    }


def encode_close(close: Close, tally: Tally) -> bytes:
    """Return the line of the close record, the last of a recording."""
    return object_line(
        {
            "type": "close",
            "t": close.observed_at_ns,
            "ending": close.ending,
            "exit_code": close.exit_code,
            "signal": close.signal,
            **({"reason": close.reason} if close.reason else {}),
            **_counts(tally),
        }
    )


def encode_continued(continued: Continued) -> bytes:
    """Return the last line of a file whose recording continues in another file."""
    tally = continued.tally
    return object_line(
        {
            "type": "continued",
            "t": continued.observed_at_ns,
            "in": continued.file,
            **_counts(tally),
        }
    )


def calls_object(calls: CallCounts) -> dict[str, int]:
    """Return the counts of calls as a JSON object."""
    return {
        "total": calls.total,
        "failed": calls.failed,
        "unanswered": calls.unanswered,
        "cancelled": calls.cancelled,
        **({"refused": calls.refused} if calls.refused else {}),
        **({"declined": calls.declined} if calls.declined else {}),
        **({"unreadable": calls.unreadable} if calls.unreadable else {}),
    }


def _counts(tally: Tally) -> dict[str, object]:
    """Return the members of a file's last record that count frames, calls and findings."""
    counts: dict[str, object] = {"frames": tally.frames}
    if any(tally.own.values()):
        counts["own"] = tally.own
    if (calls := tally.calls) is not None:
        counts["calls"] = calls_object(calls)
    counts |= {"findings": tally.total_findings, "judge_error": tally.judge_error}
    more = [more_object(repeated) for repeated in tally.more]
    return counts | ({"more": more} if more else {})


def is_embeddable(frame: Frame) -> bool:
    """Whether the frame's bytes are one JSON value on one line that every JSON reader accepts.

    JSON's grammar allows the escape of a lone surrogate, but jq and others reject a line with one.
    """
    message = frame.parsed or frame.message
    # Most frames are messages and therefore JSON: for them, one comparison is enough.
    if type(message) is Malformed and message.flaw in _UNPARSED:
        return False
    raw = frame.raw
    # Searching for one byte takes a tenth of the time of searching for two.
    if _BACKSLASH in raw and not _is_read_by_all(raw):
        return False
    return _LINE_FEED not in raw


_BACKSLASH: Final = 0x5C


_LINE_FEED: Final = 0x0A


def _is_read_by_all(raw: bytes) -> bool:
    """Whether JSON text has no escape of a lone surrogate, which some readers reject."""
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return True
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


# The flaws of bytes that are not JSON, or are not known to be.
_UNPARSED: Final = NOT_JSON | {Flaw.TOO_DEEP}
