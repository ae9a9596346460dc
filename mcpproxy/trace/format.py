"""The records of a trace: what each looks like as a line. ``mcpproxy.trace.decoding`` is the way back.

A trace is JSON Lines. The first record is the header, the last the close record; in between stand
the events in the order they were seen, each finding behind the event that brought it to light.

A frame that is JSON is embedded as it came, as the last member of its record: it is neither encoded
when written nor decoded when read, so its bytes (spacing, member order, number spelling, a carriage
return at the end) survive. A frame that is other text is a JSON string, any other bytes are base64.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import orjson

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import Flaw, Malformed
from mcpproxy.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Finding,
    Frame,
    Gap,
    HttpEvent,
    Repeated,
    Sender,
    Severity,
    Signal,
    Stderr,
)
from mcpproxy.trace.http import (
    Encoded,
    encode_http,
    frame_members,
    plain_frame,
)
from mcpproxy.trace.members import (
    object_line,
    text_or_base64,
)
from mcpproxy.trace.short_lines import Lines
from mcpproxy.trace.upgrades import FORMAT

__all__ = [
    "CloseRecord",
    "Continued",
    "Header",
    "Record",
    "Recorded",
    "Tally",
    "encode",
    "encode_close",
    "encode_continued",
    "encode_finding",
    "encode_frame",
    "encode_header",
    "finding_object",
    "frame_parts",
    "is_embeddable",
    "more_object",
    "object_line",
]


ARGUMENTS: Final = "arguments"
"""What ``redaction`` says where secrets among the arguments of the command are masked, and nothing else."""


@slotted(frozen=True)
class Header:
    """What is known before the first byte.

    ``started_at`` is the wall clock (UTC, ISO 8601) and ``started_ns`` the monotonic clock of the
    moment that every other time in the trace counts from. ``pid`` is that of the wrapper. ``redaction`` is
    ``none``, or ``credentials`` or ``arguments`` where those are masked. Over HTTP there is no command but a
    ``mode`` (``reverse`` or ``forward``), the URL we listened on, the path of the MCP endpoint there, and the
    URL of the server's (empty in forward mode).
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
    boot: str = ""
    """Linux: the boot in which it was recorded. It tells whether the process ``pid`` can still live."""


@slotted()
class Tally:
    """What a trace holds, counted; the close record carries it.

    ``findings`` are those that stand in it, ``more`` those that were only counted. ``judge_error`` is our own
    fault.
    """

    frames: dict[Sender, int] = field(default_factory=lambda: {CLIENT: 0, SERVER: 0})
    findings: dict[Severity, int] = field(default_factory=lambda: {"error": 0, "warning": 0, "info": 0})
    judge_error: str | None = None
    more: tuple[Repeated, ...] = ()

    @property
    def found(self) -> dict[Severity, int]:
        """How many findings there were of each severity, in full or counted."""
        total = dict(self.findings)
        for one in self.more:
            total[one.severity] += one.count
        return total


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

Record: TypeAlias = Header | Recorded | Lines | Finding | Continued | CloseRecord


# Encoding. Records are put together by hand where they occur by the million.


def encode_header(header: Header) -> bytes:
    members = {
        name: getattr(header, name) for name in _HEADER if name not in LEFT_OUT or getattr(header, name)
    }
    return object_line({"type": "header", **members})


_HEADER: Final = Header.__match_args__
LEFT_OUT: Final = _HEADER[_HEADER.index("mode") :]
"""Members of a header that are not there if they are empty."""


def encode_frame(frame: Frame, session: str = "") -> bytes:
    """A frame as a line; ``session`` names the HTTP session that it belongs to, if it is known."""
    is_plain = frame.terminated and not (frame.continues or frame.by_proxy or frame.refused)
    if is_plain and is_embeddable(frame):
        if frame.exchange:
            return plain_frame(frame, session)
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
    return head, text_or_base64(frame.raw), b"}\n"


def encode(event: Recorded, session: str = "") -> bytes:
    """One event as a line; ``session`` as for ``encode_frame``."""
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


def more_object(one: Repeated) -> dict[str, object]:
    """Findings that were only counted, as JSON has them."""
    return {
        "rule": one.rule,
        "severity": one.severity,
        "blame": one.blame,
        "requirement": one.requirement,
        "count": one.count,
    }


def encode_close(close: Close, tally: Tally) -> bytes:
    return object_line(
        {
            "type": "close",
            "t": close.observed_at_ns,
            "ending": close.ending,
            "exit_code": close.exit_code,
            "signal": close.signal,
            **_counts(tally),
        }
    )


def encode_continued(continued: Continued) -> bytes:
    tally = continued.tally
    return object_line(
        {
            "type": "continued",
            "t": continued.observed_at_ns,
            "in": continued.file,
            **_counts(tally),
        }
    )


def _counts(tally: Tally) -> dict[str, object]:
    """The members of a last record that count what there was; findings that were only counted are in them."""
    more = [more_object(one) for one in tally.more]
    counts: dict[str, object] = {"frames": tally.frames, "findings": tally.found}
    return counts | {"judge_error": tally.judge_error} | ({"more": more} if more else {})


def is_embeddable(frame: Frame) -> bool:
    """Whether the frame's bytes are one JSON value on one line that every JSON reader takes.

    An escape that is half a character is JSON by its grammar, but jq and others refuse the whole line.
    """
    message = frame.message
    # One comparison for the usual frame: what became a message was JSON.
    if type(message) is Malformed and message.flaw in _UNPARSED:
        return False
    raw = frame.raw
    # For each frame of a session: to look for one byte costs a tenth of looking for two.
    if _BACKSLASH in raw and not _is_read_by_all(raw):
        return False
    return _LINE_FEED not in raw


_BACKSLASH: Final = 0x5C
_LINE_FEED: Final = 0x0A


def _is_read_by_all(raw: bytes) -> bool:
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return True
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


_UNPARSED: Final = frozenset({Flaw.EMPTY, Flaw.NOT_JSON, Flaw.NOT_UTF8, Flaw.TOO_DEEP})
