"""The records of a trace: what each looks like as a line, and back.

A trace is JSON Lines. The first record is the header, the last the close record; in between stand
the events in the order they were seen, each finding behind the event that brought it to light.

A frame that is JSON is embedded as it came, as the last member of its record: it is neither encoded
when written nor decoded when read, so its bytes (spacing, member order, number spelling, a carriage
return at the end) survive. A frame that is other text is a JSON string, any other bytes are base64.
"""

import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, TypeAlias, TypeVar, cast, get_args

import orjson

from mcpproxy.protocol.jsonrpc import JSON, Flaw, JSONObject, Malformed
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
    Sender,
    Severity,
    Signal,
    Stderr,
)
from mcpproxy.trace.upgrades import FORMAT


@dataclass(frozen=True, slots=True)
class Header:
    """What is known before the first byte.

    ``started_at`` is the wall clock (UTC, ISO 8601) and ``started_ns`` the monotonic clock of the
    moment that every other time in the trace counts from. ``pid`` is that of the wrapper.
    """

    format: int = FORMAT
    mcpproxy: str = ""
    transport: str = "stdio"
    command: tuple[str, ...] = ()
    label: str = ""
    cwd: str = ""
    pid: int = 0
    started_at: str = ""
    started_ns: int = 0
    redaction: str = "none"


@dataclass(slots=True)
class Tally:
    """What a trace holds, counted; the close record carries it. ``judge_error`` is our own fault."""

    frames: dict[Sender, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    findings: dict[Severity, int] = field(default_factory=lambda: {"error": 0, "warning": 0, "info": 0})
    judge_error: str | None = None


@dataclass(frozen=True, slots=True)
class CloseRecord:
    """The last record: how the recording ended, and what it should hold (``None``: it does not say)."""

    close: Close
    tally: Tally | None = None


Recorded: TypeAlias = Frame | Stderr | Eof | Signal | Gap
"""What may stand between the header and the close record, findings apart."""

Record: TypeAlias = Header | Recorded | Finding | CloseRecord


class NotARecordError(ValueError):
    """A line that is no record of a trace; the text says what is wrong with it."""


# Encoding. Records are put together by hand where they occur by the million.


def encode_header(header: Header) -> bytes:
    return object_line({"type": "header", **asdict(header)})


def encode_frame(frame: Frame) -> bytes:
    """A frame as a line."""
    if frame.terminated and not frame.continues and is_embeddable(frame):
        return _USUAL[frame.sender] % (frame.seq, frame.observed_at_ns, frame.raw)
    return b"".join(frame_parts(frame))


_USUAL: Final[Mapping[Sender, bytes]] = {
    CLIENT: b'{"type":"frame","seq":%d,"t":%d,"from":"client","message":%b}\n',
    SERVER: b'{"type":"frame","seq":%d,"t":%d,"from":"server","message":%b}\n',
}


def frame_parts(frame: Frame) -> tuple[bytes, bytes, bytes]:
    """The line in three parts, the frame's bytes in the middle, so that nobody has to copy a large one."""
    head = b'{"type":"frame","seq":%d,"t":%d,"from":"%b",%b%b' % (
        frame.seq,
        frame.observed_at_ns,
        b"client" if frame.sender == CLIENT else b"server",
        b"" if frame.terminated else b'"eol":"",',
        b'"continues":true,' if frame.continues else b"",
    )
    if is_embeddable(frame):
        return head + b'"message":', frame.raw, b"}\n"
    return head, _bytes_member(frame.raw), b"}\n"


def encode(event: Recorded) -> bytes:
    """One event as a line."""
    match event:
        case Frame():
            return encode_frame(event)
        case Stderr():
            eol = b"" if event.terminated else b'"eol":"",'
            return b'{"type":"stderr","t":%d,%b%b}\n' % (event.observed_at_ns, eol, _bytes_member(event.raw))
        case Eof():
            return object_line({"type": "eof", "t": event.observed_at_ns, "from": event.sender})
        case Signal():
            return object_line({"type": "signal", "t": event.observed_at_ns, "signal": event.name})
        case _:  # a gap
            lost = {"client": event.client_bytes, "server": event.server_bytes, "stderr": event.stderr_bytes}
            return object_line({"type": "gap", "t": event.observed_at_ns, "reason": event.reason, **lost})


def encode_finding(finding: Finding) -> bytes:
    return object_line({"type": "finding", **finding_object(finding)})


def finding_object(finding: Finding) -> dict[str, object]:
    """A finding as JSON has it, in the trace and wherever machines read it."""
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


def encode_close(close: Close, tally: Tally) -> bytes:
    return object_line(
        {
            "type": "close",
            "t": close.observed_at_ns,
            "ending": close.ending,
            "exit_code": close.exit_code,
            "signal": close.signal,
            "frames": tally.frames,
            "findings": tally.findings,
            "judge_error": tally.judge_error,
        }
    )


def object_line(value: Mapping[str, object]) -> bytes:
    """``value`` as one compact line of JSON, line feed included."""
    try:
        return orjson.dumps(value) + b"\n"
    except TypeError:  # a lone surrogate (a command's argument that is no UTF-8), or a very long number
        return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def is_embeddable(frame: Frame) -> bool:
    """Whether the frame's bytes are one JSON value on one line."""
    message = frame.message
    # One comparison for the usual frame: what became a message was JSON.
    if type(message) is Malformed and message.flaw in _UNPARSED:
        return False
    return b"\n" not in frame.raw


_UNREADABLE: Final = frozenset({Flaw.EMPTY, Flaw.NOT_JSON, Flaw.NOT_UTF8})
_UNPARSED: Final = _UNREADABLE | {Flaw.TOO_DEEP}


def _bytes_member(raw: bytes) -> bytes:
    try:
        return b'"text":' + orjson.dumps(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return b'"base64":"%b"' % binascii.b2a_base64(raw, newline=False)


# Decoding.

_FRAME: Final = re.compile(
    rb'\{"type":"frame","seq":(\d{1,18}),"t":(-?\d{1,18}),"from":"(client|server)",'
    rb'("eol":"",)?("continues":true,)?"message":'
)
_ANY_FRAME: Final = re.compile(rb'\s*\{\s*"type"\s*:\s*"frame"\s*,')
_MESSAGE: Final = b'"message":'
_MISSING: Final = object()

T = TypeVar("T")


def decode(line: bytes) -> Record:
    """Read one record, with or without its line feed. Members that are not known are passed over.

    Raises:
        NotARecordError: it is none, for whatever reason.
    """
    line = line.rstrip(b" \t\r\n")
    if found := _FRAME.match(line):
        seq, t, sender, open_ended, continues = found.groups()
        frame = Frame(
            int(seq),
            CLIENT if sender == b"client" else SERVER,
            line[found.end() : -1],
            int(t),
            open_ended is None,
            continues is not None,
        )
        return _whole(frame, line)
    if _ANY_FRAME.match(line) and (at := line.find(_MESSAGE)) >= 0:
        members = _object(line[:at].rstrip(b" ,") + b"}")
        return _whole(_frame(members, line[at + len(_MESSAGE) : -1]), line)
    members = _object(line)
    match members.get("type"):
        case "header":
            return _header(members)
        case "frame":
            return _frame(members, _raw(members))
        case "stderr":
            return Stderr(_raw(members), _member(members, "t", int), _terminated(members))
        case "eof":
            return Eof(_sender(members), _member(members, "t", int))
        case "signal":
            return Signal(_member(members, "signal", str), _member(members, "t", int))
        case "gap":
            return Gap(
                _member(members, "reason", str),
                *(_member(members, stream, int) for stream in ("client", "server", "stderr")),
                observed_at_ns=_member(members, "t", int),
            )
        case "finding":
            return _finding(members)
        case "close":
            return _close(members)
        case _:
            raise NotARecordError("a record of no known type")


def header_format(line: bytes) -> int:
    """The format of the trace whose first line this is; all that may be asked of a header from the future.

    Raises:
        NotARecordError: it is no header.
    """
    members = _object(line)
    if members.get("type") != "header":
        raise NotARecordError("no header")
    return _member(members, "format", int)


def _whole(frame: Frame, line: bytes) -> Frame:
    """``frame`` unless its message is damaged, which must not be held against the peer."""
    message = frame.message
    if (type(message) is Malformed and message.flaw in _UNREADABLE) or not line.endswith(b"}"):
        raise NotARecordError("a damaged message")
    return frame


def _frame(members: JSONObject, raw: bytes) -> Frame:
    return Frame(
        _member(members, "seq", int),
        _sender(members),
        raw,
        _member(members, "t", int),
        _terminated(members),
        _member(members, "continues", bool, False),
    )


def _header(members: JSONObject) -> Header:
    return Header(
        _member(members, "format", int),
        _member(members, "mcpproxy", str, ""),
        _member(members, "transport", str, "stdio"),
        tuple(_list(members, "command", str)),
        _member(members, "label", str, ""),
        _member(members, "cwd", str, ""),
        _member(members, "pid", int, 0),
        _member(members, "started_at", str, ""),
        _member(members, "started_ns", int, 0),
        _member(members, "redaction", str, "none"),
    )


def _finding(members: JSONObject) -> Finding:
    return Finding(
        _member(members, "rule", str),
        cast("Severity", _word(members, "severity", get_args(Severity))),
        cast("Blame", _word(members, "blame", get_args(Blame))),
        _member(members, "message", str),
        _member(members, "frame", int),
        tuple(_list(members, "related", int)),
        _optional(members, "pointer", str),
        _optional(members, "revision", str),
        _member(members, "source", str, ""),
        _member(members, "requirement", str, ""),
    )


def _close(members: JSONObject) -> CloseRecord:
    close = Close(
        cast("Ending", _word(members, "ending", get_args(Ending))),
        _optional(members, "exit_code", int),
        _optional(members, "signal", int),
        _member(members, "t", int),
    )
    if "frames" not in members:
        return CloseRecord(close)
    frames = cast("JSONObject", _member(members, "frames", dict))
    findings = cast("JSONObject", _member(members, "findings", dict, {}))
    senders: tuple[Sender, ...] = get_args(Sender)
    severities: tuple[Severity, ...] = get_args(Severity)
    tally = Tally(
        {sender: _member(frames, sender, int) for sender in senders},
        {severity: _member(findings, severity, int, 0) for severity in severities},
        _optional(members, "judge_error", str),
    )
    return CloseRecord(close, tally)


def _object(text: bytes) -> JSONObject:
    value: JSON
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = cast(
                "JSON", json.loads(text.decode("utf-8"))
            )  # reads the lone surrogates that orjson refuses
        except (ValueError, RecursionError):
            raise NotARecordError("not a trace record") from None
    if not isinstance(value, dict):
        raise NotARecordError("not a trace record")
    return value


def _member(members: JSONObject, name: str, kind: type[T], default: object = _MISSING) -> T:
    value = members.get(name, default)
    if type(value) is not kind:
        raise NotARecordError(
            f"a record without {name}" if value is _MISSING else f"a record with a bad {name}"
        )
    return value


def _optional(members: JSONObject, name: str, kind: type[T]) -> T | None:
    return None if members.get(name) is None else _member(members, name, kind)


def _list(members: JSONObject, name: str, kind: type[T]) -> list[T]:
    items = cast("list[JSON]", _member(members, name, list, []))
    if any(type(item) is not kind for item in items):
        raise NotARecordError(f"a record with a bad {name}")
    return cast("list[T]", items)


def _word(members: JSONObject, name: str, words: tuple[str, ...]) -> str:
    word = _member(members, name, str)
    if word not in words:
        raise NotARecordError(f"a record with a bad {name}")
    return word


def _sender(members: JSONObject) -> Sender:
    return cast("Sender", _word(members, "from", get_args(Sender)))


def _terminated(members: JSONObject) -> bool:
    return _member(members, "eol", str, "\n") != ""


def _raw(members: JSONObject) -> bytes:
    try:
        if "base64" in members:
            return binascii.a2b_base64(_member(members, "base64", str), strict_mode=True)
        return _member(members, "text", str).encode("utf-8")
    except ValueError as fault:
        if isinstance(fault, NotARecordError):
            raise
        raise NotARecordError("damaged text") from None
