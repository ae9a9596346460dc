"""Decode the members of a line to a record, for each type of line except frames (see ``trace.decode``).

``DECODERS`` lists the functions. Each raises ``NotARecordError`` if a member is missing or wrong.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

from mcpproxy.judge.session.frame import (
    Blame,
    Close,
    Ending,
    Eof,
    ExchangeEnd,
    FaultMark,
    Finding,
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
    Stderr,
)
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.record.trace.members import (
    NotARecordError,
    list_member,
    member,
    members_reader,
    one_of,
    optional_member,
    text_or_base64_of,
    unbase64,
)
from mcpproxy.record.trace.records import (
    OMITTED_IF_EMPTY,
    CloseRecord,
    Continued,
    Encoded,
    Header,
    Record,
    Tally,
)
from mcpproxy.record.trace.short_lines import decode_lines


def _read_stderr(members: JSONObject) -> Stderr:
    return Stderr(text_or_base64_of(members), member(members, "t", int), is_terminated(members))


def _read_eof(members: JSONObject) -> Eof:
    return Eof(sender_of(members), member(members, "t", int))


def _read_signal(members: JSONObject) -> Signal:
    return Signal(member(members, "signal", str), member(members, "t", int))


def _read_gap(members: JSONObject) -> Gap:
    return Gap(
        member(members, "reason", str),
        *(member(members, stream, int) for stream in ("client", "server", "stderr")),
        observed_at_ns=member(members, "t", int),
        exchange=member(members, "exchange", int, 0),
    )


def _read_continued(members: JSONObject) -> Continued:
    return Continued(member(members, "in", str), _read_tally(members), member(members, "t", int))


def _read_header(members: JSONObject) -> Header:
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
"""The members that a header has only if they are not empty, with their types."""


def _read_finding(members: JSONObject) -> Finding:
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


def _read_close(members: JSONObject) -> CloseRecord:
    close = Close(
        cast("Ending", one_of(members, "ending", get_args(Ending))),
        optional_member(members, "exit_code", int),
        optional_member(members, "signal", int),
        member(members, "t", int),
        member(members, "reason", str, ""),
    )
    if "frames" not in members:
        return CloseRecord(close)
    return CloseRecord(close, _read_tally(members))


def _read_tally(members: JSONObject) -> Tally:
    frames = cast("JSONObject", member(members, "frames", dict))
    own = cast("JSONObject", member(members, "own", dict, {}))
    findings = cast("JSONObject", member(members, "findings", dict, {}))
    senders: tuple[Sender, ...] = get_args(Sender)
    severities: tuple[Severity, ...] = get_args(Severity)
    more = tuple(map(_read_repeated, cast("list[JSONObject]", list_member(members, "more", dict))))
    counts: dict[Severity, int] = {severity: member(findings, severity, int, 0) for severity in severities}
    # The line counts all findings, but ``Tally.findings`` only those that have a record.
    for repeated in more:
        counts[repeated.severity] -= repeated.count
    return Tally(
        {sender: member(frames, sender, int) for sender in senders},
        counts,
        optional_member(members, "judge_error", str),
        more,
        _read_calls(members),
        {sender: member(own, sender, int, 0) for sender in senders},
    )


def _read_calls(members: JSONObject) -> CallCounts | None:
    if "calls" not in members:  # a recording of an earlier release
        return None
    calls = cast("JSONObject", member(members, "calls", dict))
    total, failed, unanswered = (member(calls, name, int) for name in ("total", "failed", "unanswered"))
    names = ("cancelled", "refused", "declined", "unreadable")
    return CallCounts(total, failed, unanswered, *(optional_member(calls, name, int) or 0 for name in names))


def _read_repeated(members: JSONObject) -> Repeated:
    return Repeated(
        member(members, "rule", str),
        cast("Severity", one_of(members, "severity", get_args(Severity))),
        cast("Blame", one_of(members, "blame", get_args(Blame))),
        member(members, "requirement", str),
        member(members, "count", int),
    )


def sender_of(members: JSONObject) -> Sender:
    """Return the peer that sent the recorded bytes.

    Raises:
        NotARecordError: the record names neither peer.
    """
    return cast("Sender", one_of(members, "from", get_args(Sender)))


def is_terminated(members: JSONObject) -> bool:
    """Whether a line feed ended the line."""
    return member(members, "eol", str, "\n") != ""


_request_members: Final = members_reader(
    seq=int, exchange=int, connection=int, method=str, target=str, endpoint=bool, version=str, t=int
)
_response_members: Final = members_reader(
    seq=int, exchange=int, connection=int, status=int, reason=str, version=str, t=int
)
_end_members: Final = members_reader(exchange=int, connection=int, cut=bool, t=int)


def fault_of(members: JSONObject) -> FaultMark | None:
    """Return the mark of the fault rule that acted on a message; ``None`` if none did."""
    if "fault" not in members:
        return None
    fault = cast("JSONObject", member(members, "fault", dict))
    return FaultMark(member(fault, "rule", str), member(fault, "action", str), member(fault, "number", int))


def _is_by_proxy(members: JSONObject) -> bool:
    return "by" in members and member(members, "by", str) == "proxy"


def _read_request(members: JSONObject) -> RequestHead:
    seq, exchange, connection, method, target, endpoint, version, at_ns = _request_members(members)
    return RequestHead(
        seq,
        exchange,
        connection,
        method=method,
        target=target,
        headers=_read_headers(members),
        endpoint=endpoint,
        version=version,
        observed_at_ns=at_ns,
        by_proxy=_is_by_proxy(members),
        fault=fault_of(members),
    )


def _read_response(members: JSONObject) -> ResponseHead:
    seq, exchange, connection, status, reason, version, at_ns = _response_members(members)
    return ResponseHead(
        seq,
        exchange,
        connection,
        status=status,
        headers=_read_headers(members),
        reason=reason,
        version=version,
        by_proxy=_is_by_proxy(members),
        observed_at_ns=at_ns,
        fault=fault_of(members),
    )


def _read_end(members: JSONObject) -> ExchangeEnd:
    exchange, connection, cut, at_ns = _end_members(members)
    by = cast("Blame", one_of(members, "by", get_args(Blame))) if "by" in members else None
    return ExchangeEnd(exchange, connection, cut, by, at_ns, optional_member(members, "left", int))


def _read_encoded(members: JSONObject) -> Encoded:
    return Encoded(
        member(members, "exchange", int),
        member(members, "connection", int),
        sender_of(members),
        unbase64(member(members, "base64", str)),
        member(members, "t", int),
    )


def _read_opaque(members: JSONObject) -> Opaque:
    return Opaque(
        member(members, "connection", int),
        sender_of(members),
        member(members, "bytes", int),
        member(members, "reason", str),
        member(members, "t", int),
        _is_by_proxy(members),
    )


def _read_note(members: JSONObject) -> Note:
    return Note(
        member(members, "connection", int),
        member(members, "what", str),
        member(members, "why", str),
        member(members, "t", int),
        member(members, "exchange", int, 0),
    )


def _read_headers(members: JSONObject) -> Headers:
    fields: list[tuple[str, str]] = []
    for field in cast("list[JSON]", member(members, "headers", list, [])):
        if type(field) is not list or len(field) != 2:
            raise NotARecordError("a record with bad headers")
        name, value = field
        if type(name) is not str or type(value) is not str:
            raise NotARecordError("a record with bad headers")
        fields.append((name, value))
    return tuple(fields)


DECODERS: Final[Mapping[str, Callable[[JSONObject], Record]]] = {
    "header": _read_header,
    "lines": decode_lines,
    "stderr": _read_stderr,
    "eof": _read_eof,
    "signal": _read_signal,
    "gap": _read_gap,
    "finding": _read_finding,
    "continued": _read_continued,
    "close": _read_close,
    "request": _read_request,
    "response": _read_response,
    "end": _read_end,
    "encoded": _read_encoded,
    "opaque": _read_opaque,
    "note": _read_note,
}
"""The type of a line -> the function that decodes its members."""
