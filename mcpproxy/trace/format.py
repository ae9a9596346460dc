"""The records of a trace: what each looks like as a line, and back.

A trace is JSON Lines. The first record is the header, the last the close record; in between stand
the events in the order they were seen, each finding behind the event that brought it to light.

A frame that is JSON is embedded as it came, as the last member of its record: it is neither encoded
when written nor decoded when read, so its bytes (spacing, member order, number spelling, a carriage
return at the end) survive. A frame that is other text is a JSON string, any other bytes are base64.
"""

import binascii
import re
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Final, TypeAlias, cast, get_args

import orjson

from mcpproxy.protocol.jsonrpc import Flaw, JSONObject, Malformed
from mcpproxy.protocol.slotted import slotted
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
    HttpEvent,
    Sender,
    Severity,
    Signal,
    Stderr,
)
from mcpproxy.trace.http import Encoded, decode_http, encode_http, frame_members, read_frame_members
from mcpproxy.trace.members import (
    NotARecordError,
    list_member,
    member,
    object_line,
    optional,
    read_object,
    word,
)
from mcpproxy.trace.upgrades import FORMAT

__all__ = [
    "CloseRecord",
    "Continued",
    "Header",
    "NotARecordError",
    "Record",
    "Recorded",
    "Tally",
    "decode",
    "encode",
    "encode_close",
    "encode_continued",
    "encode_finding",
    "encode_frame",
    "encode_header",
    "finding_object",
    "frame_parts",
    "header_format",
    "is_embeddable",
    "object_line",
]


@slotted(frozen=True)
class Header:
    """What is known before the first byte.

    ``started_at`` is the wall clock (UTC, ISO 8601) and ``started_ns`` the monotonic clock of the
    moment that every other time in the trace counts from. ``pid`` is that of the wrapper. ``redaction`` is
    ``none``, or ``credentials`` where they are masked. Over HTTP there is no command but a ``mode``
    (``reverse`` or ``forward``), the URL we listened on, the path of the MCP endpoint there, and the URL
    of the server's (empty in forward mode).
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
    mode: str = ""
    listen: str = ""
    endpoint: str = ""
    upstream: str = ""
    continues: str = ""
    """The name of the file that this one goes on from, beside it; ``--rotate`` makes such chains."""
    partial: str = ""
    """What was left out on purpose, as a fragment ("trimmed to frames 1-5,12 of 80"); empty for nothing."""
    imported: str = ""
    """Whose recording it was before, and what that did not keep; empty for our own."""


@slotted()
class Tally:
    """What a trace holds, counted; the close record carries it. ``judge_error`` is our own fault."""

    frames: dict[Sender, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    findings: dict[Severity, int] = field(default_factory=lambda: {"error": 0, "warning": 0, "info": 0})
    judge_error: str | None = None


@slotted(frozen=True)
class CloseRecord:
    """The last record: how the recording ended, and what it should hold (``None``: it does not say)."""

    close: Close
    tally: Tally | None = None


@slotted(frozen=True)
class Continued:
    """The last record of a file that another one goes on from; the counts are those since the start."""

    file: str
    tally: Tally
    observed_at_ns: int = 0


Recorded: TypeAlias = Frame | Stderr | Eof | Signal | Gap | HttpEvent | Encoded
"""What may stand between the header and the close record, findings apart."""

Record: TypeAlias = Header | Recorded | Finding | Continued | CloseRecord


# Encoding. Records are put together by hand where they occur by the million.


def encode_header(header: Header) -> bytes:
    members = {
        name: getattr(header, name) for name in _HEADER if name not in _HTTP_ONLY or getattr(header, name)
    }
    return object_line({"type": "header", **members})


_HEADER: Final = tuple(member.name for member in fields(Header))
_HTTP_ONLY: Final = _HEADER[_HEADER.index("mode") :]


def encode_frame(frame: Frame, session: str = "") -> bytes:
    """A frame as a line; ``session`` names the HTTP session that it belongs to, if it is known."""
    is_plain = frame.terminated and not (frame.continues or frame.by_proxy or frame.refused)
    if is_plain and not frame.exchange and is_embeddable(frame):
        return _USUAL[frame.sender] % (frame.seq, frame.observed_at_ns, frame.raw)
    return b"".join(frame_parts(frame, session))


_USUAL: Final[Mapping[Sender, bytes]] = {
    CLIENT: b'{"type":"frame","seq":%d,"t":%d,"from":"client","message":%b}\n',
    SERVER: b'{"type":"frame","seq":%d,"t":%d,"from":"server","message":%b}\n',
}


def frame_parts(frame: Frame, session: str = "") -> tuple[bytes, bytes, bytes]:
    """The line in three parts, the frame's bytes in the middle, so that nobody has to copy a large one."""
    head = b'{"type":"frame","seq":%d,"t":%d,"from":"%b",%b%b%b' % (
        frame.seq,
        frame.observed_at_ns,
        b"client" if frame.sender == CLIENT else b"server",
        frame_members(frame, session) if frame.exchange else b"",
        b"" if frame.terminated else b'"eol":"",',
        b'"continues":true,' if frame.continues else b"",
    )
    if frame.by_proxy and not frame.exchange:
        head += b'"by":"proxy",'
    if frame.refused:
        head += b'"refused":true,'
    if is_embeddable(frame):
        return head + b'"message":', frame.raw, b"}\n"
    return head, _bytes_member(frame.raw), b"}\n"


def encode(event: Recorded, session: str = "") -> bytes:
    """One event as a line; ``session`` as for ``encode_frame``."""
    match event:
        case Frame():
            return encode_frame(event, session)
        case Stderr():
            eol = b"" if event.terminated else b'"eol":"",'
            return b'{"type":"stderr","t":%d,%b%b}\n' % (event.observed_at_ns, eol, _bytes_member(event.raw))
        case Eof():
            return object_line({"type": "eof", "t": event.observed_at_ns, "from": event.sender})
        case Signal():
            return object_line({"type": "signal", "t": event.observed_at_ns, "signal": event.name})
        case Gap():
            lost = {"client": event.client_bytes, "server": event.server_bytes, "stderr": event.stderr_bytes}
            return object_line({"type": "gap", "t": event.observed_at_ns, "reason": event.reason, **lost})
        case _:
            return encode_http(event, session)


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


def encode_continued(continued: Continued) -> bytes:
    tally = continued.tally
    return object_line(
        {
            "type": "continued",
            "t": continued.observed_at_ns,
            "in": continued.file,
            "frames": tally.frames,
            "findings": tally.findings,
            "judge_error": tally.judge_error,
        }
    )


def is_embeddable(frame: Frame) -> bool:
    """Whether the frame's bytes are one JSON value on one line that every JSON reader takes.

    An escape that is half a character is JSON by its grammar, but jq and others refuse the whole line.
    """
    message = frame.message
    # One comparison for the usual frame: what became a message was JSON.
    if type(message) is Malformed and message.flaw in _UNPARSED:
        return False
    raw = frame.raw
    if (b"\\ud" in raw or b"\\uD" in raw) and not _is_read_by_all(raw):
        return False
    return b"\n" not in raw


def _is_read_by_all(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


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
_END: Final = b"}\n"
_DAMAGED: Final = "a damaged message"


def decode(line: bytes) -> Record:
    """Read one record, with or without its line feed. Members that are not known are passed over.

    Raises:
        NotARecordError: it is none, for whatever reason.
    """
    if (found := _FRAME.match(line)) and line.endswith(_END):
        seq, t, sender, open_ended, continues = found.groups()
        frame = Frame(
            int(seq),
            CLIENT if sender == b"client" else SERVER,
            line[found.end() : -len(_END)],
            int(t),
            open_ended is None,
            continues is not None,
        )
        return _whole(frame)
    line = line.rstrip(b" \t\r\n")
    if _ANY_FRAME.match(line) and (at := line.find(_MESSAGE)) >= 0:
        members = read_object(line[:at].rstrip(b" ,") + b"}")
        frame = _whole(_frame(members, line[at + len(_MESSAGE) : -1]))
        if not line.endswith(b"}"):
            raise NotARecordError(_DAMAGED)
        return frame
    members = read_object(line)
    match members.get("type"):
        case "header":
            return _header(members)
        case "frame":
            return _frame(members, _raw(members))
        case "stderr":
            return Stderr(_raw(members), member(members, "t", int), _terminated(members))
        case "eof":
            return Eof(_sender(members), member(members, "t", int))
        case "signal":
            return Signal(member(members, "signal", str), member(members, "t", int))
        case "gap":
            return Gap(
                member(members, "reason", str),
                *(member(members, stream, int) for stream in ("client", "server", "stderr")),
                observed_at_ns=member(members, "t", int),
            )
        case "finding":
            return _finding(members)
        case "continued":
            return Continued(member(members, "in", str), _tally(members), member(members, "t", int))
        case "close":
            return _close(members)
        case kind:
            if (event := decode_http(kind, members)) is None:
                raise NotARecordError("a record of no known type")
            return event


def header_format(line: bytes) -> int:
    """The format of the trace whose first line this is; all that may be asked of a header from the future.

    Raises:
        NotARecordError: it is no header.
    """
    members = read_object(line)
    if members.get("type") != "header":
        raise NotARecordError("no header")
    return member(members, "format", int)


def _whole(frame: Frame) -> Frame:
    """``frame`` unless its message is damaged, which must not be held against the peer."""
    message = frame.message
    if type(message) is Malformed and message.flaw in _UNREADABLE:
        raise NotARecordError(_DAMAGED)
    return frame


def _frame(members: JSONObject, raw: bytes) -> Frame:
    frame = Frame(
        member(members, "seq", int),
        _sender(members),
        raw,
        member(members, "t", int),
        _terminated(members),
        member(members, "continues", bool, False),
        by_proxy=member(members, "by", str, "") == "proxy",
        refused=member(members, "refused", bool, False),
    )
    return read_frame_members(members, frame) if "exchange" in members else frame


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
        *(member(members, name, str, "") for name in _HTTP_ONLY),
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
    return Tally(
        {sender: member(frames, sender, int) for sender in senders},
        {severity: member(findings, severity, int, 0) for severity in severities},
        optional(members, "judge_error", str),
    )


def _sender(members: JSONObject) -> Sender:
    return cast("Sender", word(members, "from", get_args(Sender)))


def _terminated(members: JSONObject) -> bool:
    return member(members, "eol", str, "\n") != ""


def _raw(members: JSONObject) -> bytes:
    try:
        if "base64" in members:
            return binascii.a2b_base64(member(members, "base64", str), strict_mode=True)
        return member(members, "text", str).encode("utf-8")
    except ValueError as fault:
        if isinstance(fault, NotARecordError):
            raise
        raise NotARecordError("damaged text") from None
