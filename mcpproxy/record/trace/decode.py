"""Decode lines of a trace to records: the inverse of ``mcpproxy.record.trace.encode``.

Each line is parsed once, as one JSON object. The bytes of an embedded frame (what a peer sent) are the exact
text of the line's last member, ``message``. Most peers write JSON as orjson does. Then encoding the parsed
value again gives the frame's bytes, so the line need not be searched for them, and the frame's message need
not be parsed a second time.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

import orjson

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Sender, SseEvent
from mcpproxy.protocol.jsonrpc import JSON, NOT_JSON, JSONObject, Malformed, classify
from mcpproxy.record.trace.members import (
    NotARecordError,
    bytes_of,
    member,
    optional_member,
    read_object,
    text_or_base64_of,
)
from mcpproxy.record.trace.record_decoders import DECODERS, fault_of, is_terminated, sender_of
from mcpproxy.record.trace.records import Record
from mcpproxy.record.trace.repeated_bodies import Shortened, shortened_of

__all__ = ["decode", "header_format"]


_SENDERS: Final[Mapping[JSON, Sender]] = {CLIENT: CLIENT, SERVER: SERVER}
_PLAIN_FRAME_MEMBERS: Final = 5
"""How many members the record of a usual frame on stdio has: type, seq, t, from, message."""

_ANY_FRAME: Final = pattern(rb'\s*\{\s*"type"\s*:\s*"frame"\s*,')
_MESSAGE: Final = b'"message":'
_DAMAGED: Final = "a damaged message"


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
    if "again" in members:
        return _read_shortened(members, line)
    message = members.get("message")
    if type(message) is not dict:
        return (
            _frame_from_text(members, line)
            if "message" in members
            else _read_frame(members, text_or_base64_of(members))
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
        return _read_frame(members, raw)  # raises and says what is wrong
    if type(seq) is not int or type(at_ns) is not int:
        return _read_frame(members, raw)
    frame = Frame(seq, sender, raw, at_ns)
    if len(members) != _PLAIN_FRAME_MEMBERS:
        frame = _add_rare_members(frame, members)
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
    frame = _check_json(_read_frame(members, line[start + len(_MESSAGE) : -1]))
    if not line.endswith(b"}"):
        raise NotARecordError(_DAMAGED)
    return shortened_of(members, frame) if "again" in members else frame


def _read_shortened(members: JSONObject, line: bytes) -> Shortened:
    """Return a frame that was recorded without the parts that it repeats."""
    has_json = "message" in members
    frame = _frame_from_text(members, line) if has_json else _read_frame(members, text_or_base64_of(members))
    return shortened_of(members, frame)


def _decode_object(members: JSONObject) -> Record:
    kind = members.get("type")
    decoder = _DECODERS.get(kind) if type(kind) is str else None
    if decoder is None:
        raise NotARecordError("a record of no known type")
    return decoder(members)


def _frame_from_text(members: JSONObject, line: bytes) -> Frame:
    """Return a frame whose bytes are found in the line after the first ``"message":``."""
    line = line.rstrip(b" \t\r\n")
    return _check_json(_read_frame(members, line[line.find(_MESSAGE) + len(_MESSAGE) : -1]))


def _check_json(frame: Frame) -> Frame:
    """Return ``frame`` if its message is JSON. If not, the trace is damaged, because the peer's text was
    JSON.

    Raises:
        NotARecordError: the message is not JSON.
    """
    message = frame.message
    if type(message) is Malformed and message.flaw in NOT_JSON:  # only JSON is embedded
        raise NotARecordError(_DAMAGED)
    return frame


def _read_frame(members: JSONObject, raw: bytes) -> Frame:
    frame = Frame(member(members, "seq", int), sender_of(members), raw, member(members, "t", int))
    return _add_rare_members(frame, members)


def _add_rare_members(frame: Frame, members: JSONObject) -> Frame:
    """Return ``frame`` with its rare properties and its HTTP properties."""
    if "eol" in members:
        frame.terminated = is_terminated(members)
    if "continues" in members:
        frame.continues = member(members, "continues", bool)
    if "by" in members:
        frame.by_proxy = member(members, "by", str) == "proxy"
    if "refused" in members:
        frame.refused = member(members, "refused", bool)
    if "fault" in members:
        frame.fault = fault_of(members)
    return _read_http_members(members, frame) if "exchange" in members else frame


def _read_http_members(members: JSONObject, frame: Frame) -> Frame:
    """Return ``frame`` with the properties that only HTTP frames have."""
    frame.exchange = member(members, "exchange", int, 0)
    frame.connection = member(members, "connection", int, 0)
    if members.get("event") is not None:
        event = cast("JSONObject", member(members, "event", dict))
        frame.event = SseEvent(
            bytes_of(event["before"]) if "before" in event else b"",
            None if event.get("after") is None else bytes_of(event["after"]),
            optional_member(event, "id", str),
            optional_member(event, "name", str),
            optional_member(event, "retry", int),
        )
    return frame


_DECODERS: Final[Mapping[str, Callable[[JSONObject], Record]]] = {
    **DECODERS,
    "frame": lambda members: _read_frame(members, text_or_base64_of(members)),
}
