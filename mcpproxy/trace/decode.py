"""Lines to records: the inverse of ``mcpproxy.trace.encode``.

Each line is parsed once, as one JSON object. The bytes of an embedded frame are the exact text of the line's
last member, ``message``. Most peers write JSON as orjson does. Then encoding the parsed value again gives the
frame's bytes, so the line need not be searched for them, and the frame's message need not be parsed a second
time.
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

import orjson

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import JSON, Flaw, JSONObject, Malformed, classify
from mcpproxy.session.frame import (
    CLIENT,
    SERVER,
    Blame,
    Close,
    Ending,
    Eof,
    ExchangeEnd,
    FaultMark,
    Finding,
    Frame,
    Gap,
    Headers,
    Note,
    Opaque,
    Repeated,
    RequestHead,
    ResponseHead,
    Sender,
    Severity,
    Signal,
    SseEvent,
    Stderr,
)
from mcpproxy.trace.members import (
    NotARecordError,
    list_member,
    member,
    members_reader,
    one_of,
    optional_member,
    read_object,
    text_or_base64_of,
)
from mcpproxy.trace.records import OMITTED_IF_EMPTY, CloseRecord, Continued, Encoded, Header, Record, Tally
from mcpproxy.trace.short_lines import decode_lines

__all__ = ["decode", "header_format"]


_SENDERS: Final[Mapping[JSON, Sender]] = {CLIENT: CLIENT, SERVER: SERVER}
_PLAIN_FRAME_MEMBERS: Final = 5
"""How many members the record of a usual frame on stdio has: type, seq, t, from, message."""

_ANY_FRAME: Final = pattern(rb'\s*\{\s*"type"\s*:\s*"frame"\s*,')
_MESSAGE: Final = b'"message":'
_DAMAGED: Final = "a damaged message"
_UNREADABLE: Final = frozenset({Flaw.EMPTY, Flaw.NOT_JSON, Flaw.NOT_UTF8})


def decode(line: bytes) -> Record:
    """Read one record, with or without its line feed. Unknown members are ignored.

    Raises:
        NotARecordError: the line is not a record.
    """
    try:
        members: JSONObject = orjson.loads(line)
        kind = members["type"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return _decode_leniently(line)
    if kind != "frame":
        return _decode_object(members)
    message = members.get("message")
    if type(message) is not dict:
        return (
            _frame_from_text(members, line)
            if "message" in members
            else _frame(members, text_or_base64_of(members))
        )
    try:
        raw = orjson.dumps(message)
    except orjson.JSONEncodeError:  # nested deeper than orjson can write
        return _frame_from_text(members, line)
    # The line ends with the message, a brace and a line feed. The text of a JSON object is never the end of
    # another object's text. So if the line has ``raw`` at that place, ``raw`` is the whole message.
    if line[-2 - len(raw) : -2] != raw:
        return _frame_from_text(members, line)
    # Then parsing has lost nothing: no id was rounded, and no object repeats the name of a member.
    classified = classify(message, message, False)
    try:
        seq, at_ns, sender = members["seq"], members["t"], _SENDERS[members["from"]]
    except (KeyError, TypeError):
        return _frame(members, raw)  # raises and says what is wrong
    if type(seq) is not int or type(at_ns) is not int:
        return _frame(members, raw)
    frame = Frame(seq, sender, raw, at_ns)
    if len(members) != _PLAIN_FRAME_MEMBERS:
        frame = _completed(frame, members)
    return frame.with_message(classified)


def header_format(line: bytes) -> int:
    """Return the format number in the header line. In a newer format, all other members may have changed.

    Raises:
        NotARecordError: the line is not a header.
    """
    members = read_object(line)
    if members.get("type") != "header":
        raise NotARecordError("no header")
    return member(members, "format", int)


def _decode_leniently(line: bytes) -> Record:
    """Read a line that orjson rejects, for example because the embedded frame nests too deeply.

    Raises:
        NotARecordError: the line is not a record.
    """
    line = line.rstrip(b" \t\r\n")
    if not _ANY_FRAME.match(line) or (start := line.find(_MESSAGE)) < 0:
        return _decode_object(read_object(line))
    members = read_object(line[:start].rstrip(b" ,") + b"}")
    frame = _whole(_frame(members, line[start + len(_MESSAGE) : -1]))
    if not line.endswith(b"}"):
        raise NotARecordError(_DAMAGED)
    return frame


def _decode_object(members: JSONObject) -> Record:
    kind = members.get("type")
    decoder = _DECODERS.get(kind) if type(kind) is str else None
    if decoder is None:
        raise NotARecordError("a record of no known type")
    return decoder(members)


def _frame_from_text(members: JSONObject, line: bytes) -> Frame:
    """Return a frame whose bytes are found in the line after the first ``"message":``."""
    line = line.rstrip(b" \t\r\n")
    return _whole(_frame(members, line[line.find(_MESSAGE) + len(_MESSAGE) : -1]))


def _whole(frame: Frame) -> Frame:
    """Return ``frame`` if its message is JSON. If not, the trace is damaged, because the peer's text was
    JSON.

    Raises:
        NotARecordError: the message is not JSON.
    """
    message = frame.message
    if type(message) is Malformed and message.flaw in _UNREADABLE:
        raise NotARecordError(_DAMAGED)
    return frame


def _frame(members: JSONObject, raw: bytes) -> Frame:
    frame = Frame(member(members, "seq", int), _sender(members), raw, member(members, "t", int))
    return _completed(frame, members)


def _completed(frame: Frame, members: JSONObject) -> Frame:
    """Return ``frame`` with its rare properties and its HTTP properties."""
    if "eol" in members:
        frame.terminated = _terminated(members)
    if "continues" in members:
        frame.continues = member(members, "continues", bool)
    if "by" in members:
        frame.by_proxy = member(members, "by", str) == "proxy"
    if "refused" in members:
        frame.refused = member(members, "refused", bool)
    if "fault" in members:
        frame.fault = _fault(members)
    return _read_http_members(members, frame) if "exchange" in members else frame


def _stderr(members: JSONObject) -> Stderr:
    return Stderr(text_or_base64_of(members), member(members, "t", int), _terminated(members))


def _eof(members: JSONObject) -> Eof:
    return Eof(_sender(members), member(members, "t", int))


def _signal(members: JSONObject) -> Signal:
    return Signal(member(members, "signal", str), member(members, "t", int))


def _gap(members: JSONObject) -> Gap:
    return Gap(
        member(members, "reason", str),
        *(member(members, stream, int) for stream in ("client", "server", "stderr")),
        observed_at_ns=member(members, "t", int),
    )


def _continued(members: JSONObject) -> Continued:
    return Continued(member(members, "in", str), _tally(members), member(members, "t", int))


def _header(members: JSONObject) -> Header:
    return Header(
        format=member(members, "format", int),
        mcpproxy=member(members, "mcpproxy", str, ""),
        transport=member(members, "transport", str, "stdio"),
        command=tuple(list_member(members, "command", str)),
        label=member(members, "label", str, ""),
        cwd=member(members, "cwd", str, ""),
        pid=member(members, "pid", int, 0),
        started_at=member(members, "started_at", str, ""),
        started_ns=member(members, "started_ns", int, 0),
        redaction=member(members, "redaction", str, "none"),
        **{name: member(members, name, kind, kind()) for name, kind in _OPTIONAL.items()},
    )


_OPTIONAL: Final[Mapping[str, type[Any]]] = {
    name: int if name == "ppid" else str for name in OMITTED_IF_EMPTY
}
"""The members that a header need not have, with their types."""


def _finding(members: JSONObject) -> Finding:
    return Finding(
        rule=member(members, "rule", str),
        severity=cast("Severity", one_of(members, "severity", get_args(Severity))),
        blame=cast("Blame", one_of(members, "blame", get_args(Blame))),
        message=member(members, "message", str),
        frame=member(members, "frame", int),
        related=tuple(list_member(members, "related", int)),
        pointer=optional_member(members, "pointer", str),
        revision=optional_member(members, "revision", str),
        source=member(members, "source", str, ""),
        requirement=member(members, "requirement", str, ""),
    )


def _close(members: JSONObject) -> CloseRecord:
    close = Close(
        cast("Ending", one_of(members, "ending", get_args(Ending))),
        optional_member(members, "exit_code", int),
        optional_member(members, "signal", int),
        member(members, "t", int),
    )
    if "frames" not in members:
        return CloseRecord(close)
    return CloseRecord(close, _tally(members))


def _tally(members: JSONObject) -> Tally:
    frames = cast("JSONObject", member(members, "frames", dict))
    findings = cast("JSONObject", member(members, "findings", dict, {}))
    senders: tuple[Sender, ...] = get_args(Sender)
    severities: tuple[Severity, ...] = get_args(Severity)
    more = tuple(map(_repeated, cast("list[JSONObject]", list_member(members, "more", dict))))
    counts: dict[Severity, int] = {severity: member(findings, severity, int, 0) for severity in severities}
    # The line counts all findings, but ``Tally.findings`` only those that have a record.
    for repeated in more:
        counts[repeated.severity] -= repeated.count
    return Tally(
        {sender: member(frames, sender, int) for sender in senders},
        counts,
        optional_member(members, "judge_error", str),
        more,
    )


def _repeated(members: JSONObject) -> Repeated:
    return Repeated(
        member(members, "rule", str),
        cast("Severity", one_of(members, "severity", get_args(Severity))),
        cast("Blame", one_of(members, "blame", get_args(Blame))),
        member(members, "requirement", str),
        member(members, "count", int),
    )


def _sender(members: JSONObject) -> Sender:
    return cast("Sender", one_of(members, "from", get_args(Sender)))


def _terminated(members: JSONObject) -> bool:
    return member(members, "eol", str, "\n") != ""


def _read_http_members(members: JSONObject, frame: Frame) -> Frame:
    """Return ``frame`` with the properties that only HTTP frames have."""
    frame.exchange = member(members, "exchange", int, 0)
    frame.connection = member(members, "connection", int, 0)
    if members.get("event") is not None:
        event = cast("JSONObject", member(members, "event", dict))
        frame.event = SseEvent(
            _bytes(event["before"]) if "before" in event else b"",
            None if event.get("after") is None else _bytes(event["after"]),
            optional_member(event, "id", str),
            optional_member(event, "name", str),
            optional_member(event, "retry", int),
        )
    return frame


_REQUEST: Final = members_reader(
    seq=int, exchange=int, connection=int, method=str, target=str, endpoint=bool, version=str, t=int
)
_RESPONSE: Final = members_reader(
    seq=int, exchange=int, connection=int, status=int, reason=str, version=str, t=int
)
_END: Final = members_reader(exchange=int, connection=int, cut=bool, t=int)


def _fault(members: JSONObject) -> FaultMark | None:
    if "fault" not in members:
        return None
    fault = cast("JSONObject", member(members, "fault", dict))
    return FaultMark(member(fault, "rule", str), member(fault, "action", str), member(fault, "number", int))


def _is_by_proxy(members: JSONObject) -> bool:
    return "by" in members and member(members, "by", str) == "proxy"


def _request(members: JSONObject) -> RequestHead:
    seq, exchange, connection, method, target, endpoint, version, at_ns = _REQUEST(members)
    return RequestHead(
        seq,
        exchange,
        connection,
        method=method,
        target=target,
        headers=_headers(members),
        endpoint=endpoint,
        version=version,
        observed_at_ns=at_ns,
        by_proxy=_is_by_proxy(members),
        fault=_fault(members),
    )


def _response(members: JSONObject) -> ResponseHead:
    seq, exchange, connection, status, reason, version, at_ns = _RESPONSE(members)
    return ResponseHead(
        seq,
        exchange,
        connection,
        status=status,
        headers=_headers(members),
        reason=reason,
        version=version,
        by_proxy=_is_by_proxy(members),
        observed_at_ns=at_ns,
        fault=_fault(members),
    )


def _end(members: JSONObject) -> ExchangeEnd:
    exchange, connection, cut, at_ns = _END(members)
    by = cast("Blame", one_of(members, "by", get_args(Blame))) if "by" in members else None
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


def _bytes(value: JSON) -> bytes:
    match value:
        case str():
            try:
                return value.encode("utf-8")
            except UnicodeEncodeError:  # a lone surrogate, whose bytes are written as base64
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


_DECODERS: Final[Mapping[str, Callable[[JSONObject], Record]]] = {
    "header": _header,
    "frame": lambda members: _frame(members, text_or_base64_of(members)),
    "lines": decode_lines,
    "stderr": _stderr,
    "eof": _eof,
    "signal": _signal,
    "gap": _gap,
    "finding": _finding,
    "continued": _continued,
    "close": _close,
    "request": _request,
    "response": _response,
    "end": _end,
    "encoded": _encoded,
    "opaque": _opaque,
    "note": _note,
}
