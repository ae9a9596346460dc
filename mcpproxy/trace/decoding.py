"""Records out of lines: the way back from what ``mcpproxy.trace.format`` writes.

A line is read once, as the JSON object that it is. The bytes of an embedded frame are its last member as it
stands there. Where the peer wrote as orjson does, which most do, writing the value again gives those bytes:
then they need not be looked for, and the value is the frame's message, which nobody has to parse once more.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast, get_args

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
    Finding,
    Frame,
    Gap,
    Repeated,
    Sender,
    Severity,
    Signal,
    Stderr,
)
from mcpproxy.trace.format import LEFT_OUT, CloseRecord, Continued, Header, Record, Tally
from mcpproxy.trace.http import DECODERS, read_frame_members
from mcpproxy.trace.members import (
    NotARecordError,
    list_member,
    member,
    optional,
    read_object,
    text_or_base64_of,
    word,
)
from mcpproxy.trace.short_lines import decode_lines

__all__ = ["decode", "header_format"]

_SENDERS: Final[Mapping[JSON, Sender]] = {CLIENT: CLIENT, SERVER: SERVER}
_USUAL_MEMBERS: Final = 5
"""How many a frame over stdio has of which there is nothing else to say: type, seq, t, from, message."""

_ANY_FRAME: Final = pattern(rb'\s*\{\s*"type"\s*:\s*"frame"\s*,')
_MESSAGE: Final = b'"message":'
_DAMAGED: Final = "a damaged message"
_UNREADABLE: Final = frozenset({Flaw.EMPTY, Flaw.NOT_JSON, Flaw.NOT_UTF8})


def decode(line: bytes) -> Record:
    """Read one record, with or without its line feed. Members that are not known are passed over.

    Raises:
        NotARecordError: it is none, for whatever reason.
    """
    try:
        members: JSONObject = orjson.loads(line)
        kind = members["type"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return _decode_patiently(line)
    if kind != "frame":
        return _decode_object(members)
    message = members.get("message")
    if type(message) is not dict:
        return (
            _frame_with_text(members, line)
            if "message" in members
            else _frame(members, text_or_base64_of(members))
        )
    try:
        raw = orjson.dumps(message)
    except orjson.JSONEncodeError:  # it nests deeper than is written
        return _frame_with_text(members, line)
    # No object is the end of another as a text, so this is all of the member and not a part of it.
    if line[-2 - len(raw) : -2] != raw:
        return _frame_with_text(members, line)
    meaning = classify(message, message, repeats=False)
    try:
        seq, at_ns, sender = members["seq"], members["t"], _SENDERS[members["from"]]
    except (KeyError, TypeError):
        return _frame(members, raw)  # which tells what is wrong
    if type(seq) is not int or type(at_ns) is not int:
        return _frame(members, raw)
    frame = Frame(seq, sender, raw, at_ns)
    return (frame if len(members) == _USUAL_MEMBERS else _amended(frame, members)).understood(meaning)


def header_format(line: bytes) -> int:
    """The format of the trace whose first line this is; all that may be asked of a header from the future.

    Raises:
        NotARecordError: it is no header.
    """
    members = read_object(line)
    if members.get("type") != "header":
        raise NotARecordError("no header")
    return member(members, "format", int)


def _decode_patiently(line: bytes) -> Record:
    """Read what orjson does not read as a whole: an embedded frame that nests too deep, say, or nothing."""
    line = line.rstrip(b" \t\r\n")
    if not _ANY_FRAME.match(line) or (at := line.find(_MESSAGE)) < 0:
        return _decode_object(read_object(line))
    members = read_object(line[:at].rstrip(b" ,") + b"}")
    frame = _whole(_frame(members, line[at + len(_MESSAGE) : -1]))
    if not line.endswith(b"}"):
        raise NotARecordError(_DAMAGED)
    return frame


def _decode_object(members: JSONObject) -> Record:
    kind = members.get("type")
    decode = _DECODERS.get(kind) if type(kind) is str else None
    if decode is None:
        raise NotARecordError("a record of no known type")
    return decode(members)


def _frame_with_text(members: JSONObject, line: bytes) -> Frame:
    """A frame whose bytes are to be found in the line. In ours no other member could be taken for it."""
    line = line.rstrip(b" \t\r\n")
    return _whole(_frame(members, line[line.find(_MESSAGE) + len(_MESSAGE) : -1]))


def _whole(frame: Frame) -> Frame:
    """``frame`` unless its message is damaged, which must not be held against the peer."""
    message = frame.message
    if type(message) is Malformed and message.flaw in _UNREADABLE:
        raise NotARecordError(_DAMAGED)
    return frame


def _frame(members: JSONObject, raw: bytes) -> Frame:
    frame = Frame(member(members, "seq", int), _sender(members), raw, member(members, "t", int))
    return _amended(frame, members)


def _amended(frame: Frame, members: JSONObject) -> Frame:
    """``frame`` with what few have to say of themselves, or over HTTP alone."""
    if "eol" in members:
        frame.terminated = _terminated(members)
    if "continues" in members:
        frame.continues = member(members, "continues", bool)
    if "by" in members:
        frame.by_proxy = member(members, "by", str) == "proxy"
    if "refused" in members:
        frame.refused = member(members, "refused", bool)
    return read_frame_members(members, frame) if "exchange" in members else frame


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
        member(members, "format", int),
        member(members, "mcpproxy", str, ""),
        member(members, "transport", str, "stdio"),
        tuple(list_member(members, "command", str)),
        member(members, "label", str, ""),
        member(members, "cwd", str, ""),
        member(members, "pid", int, 0),
        member(members, "started_at", str, ""),
        member(members, "started_ns", int, 0),
        member(members, "redaction", str, "none"),
        *(member(members, name, str, "") for name in LEFT_OUT),
    )


def _finding(members: JSONObject) -> Finding:
    return Finding(
        member(members, "rule", str),
        cast("Severity", word(members, "severity", get_args(Severity))),
        cast("Blame", word(members, "blame", get_args(Blame))),
        member(members, "message", str),
        member(members, "frame", int),
        tuple(list_member(members, "related", int)),
        optional(members, "pointer", str),
        optional(members, "revision", str),
        member(members, "source", str, ""),
        member(members, "requirement", str, ""),
    )


def _close(members: JSONObject) -> CloseRecord:
    close = Close(
        cast("Ending", word(members, "ending", get_args(Ending))),
        optional(members, "exit_code", int),
        optional(members, "signal", int),
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
    listed: dict[Severity, int] = {severity: member(findings, severity, int, 0) for severity in severities}
    for one in more:
        listed[one.severity] -= one.count
    return Tally(
        {sender: member(frames, sender, int) for sender in senders},
        listed,
        optional(members, "judge_error", str),
        more,
    )


def _repeated(members: JSONObject) -> Repeated:
    return Repeated(
        member(members, "rule", str),
        cast("Severity", word(members, "severity", get_args(Severity))),
        cast("Blame", word(members, "blame", get_args(Blame))),
        member(members, "requirement", str),
        member(members, "count", int),
    )


def _sender(members: JSONObject) -> Sender:
    return cast("Sender", word(members, "from", get_args(Sender)))


def _terminated(members: JSONObject) -> bool:
    return member(members, "eol", str, "\n") != ""


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
    **DECODERS,
}
