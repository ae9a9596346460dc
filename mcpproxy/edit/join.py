"""Joins two recordings of one server: appends the requests that only the later recording contains.

The earlier recording is kept unchanged. Each request that it lacks is appended with its response and with
the unsolicited messages of both sides while it was open, under ids that the earlier recording does not use.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mcpproxy.base import files
from mcpproxy.opening import open_trace
from mcpproxy.protocol.jsonrpc import Notification, Request, RequestId
from mcpproxy.protocol.raw_json import spliced, written
from mcpproxy.replay.message_paths import ID, REQUEST_ID
from mcpproxy.replay.recording import RecordedSession, SessionMessage, from_trace, load
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.replay.server.replay_source import merged
from mcpproxy.session.frame import Close, Finding, Frame
from mcpproxy.trace.encode import encode, encode_close, encode_finding, encode_frame, encode_header
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.records import Tally

_PAUSE_NS: Final = 1_000_000
"""The time between the earlier recording and the first appended message."""


def join(kept: str, added: str, into: str) -> bool:
    """Write ``kept`` and the requests that only ``added`` contains to ``into``; false if there are none.

    Both recordings are of stdio. ``into`` may be ``kept``: the file is replaced as a whole.

    Raises:
        TraceError: a recording cannot be read.
        OSError: ``into`` cannot be written.
    """
    trace, more = open_trace(kept), open_trace(added)
    extra = _extra(_only_session(trace), _only_session(more))
    if not extra:
        return False
    files.replace(into, _records(trace, extra))
    return True


def lacks(kept: str, added: str) -> bool:
    """Whether ``added`` contains a client request, over any transport, that ``kept`` lacks.

    Raises:
        TraceError: a recording cannot be read.
    """
    known, asked = merged(load(kept).sessions), merged(load(added).sessions)
    return bool(_wanted(known.messages, asked.messages))


def _wanted(known: Iterable[SessionMessage], asked: Iterable[SessionMessage]) -> set[int]:
    """Return the places of the client's requests in ``asked`` that are not in ``known``, or not as often."""
    matcher = Matcher(entry for entry in known if entry.sender == "client")
    return {
        entry.index
        for entry in asked
        if entry.sender == "client" and isinstance(entry.message, Request) and not matcher.take(entry.message)
    }


def _only_session(trace: Trace) -> RecordedSession:
    return next(iter(from_trace(trace).sessions), RecordedSession())


def _extra(kept: RecordedSession, added: RecordedSession) -> list[Frame]:
    """Return the frames to append, in recorded order."""
    wanted = _wanted(kept.messages, added.messages)
    ids = _NewIds(kept)
    answered = {entry.answers for entry in added.messages}
    waiting: set[int] = set()
    frames: dict[int, Frame] = {}
    for entry in added.messages:
        if entry.answers is None:
            asks = entry.sender == "client" and isinstance(entry.message, Request)
            belongs = entry.index in wanted if asks else bool(waiting)
        else:
            belongs = entry.answers in wanted or ids.has(entry.answers)
            waiting.discard(entry.answers)
        if entry.index in wanted and entry.index in answered:
            waiting.add(entry.index)
        if belongs:
            raw = entry.raw if entry.batch else ids.renamed(entry)
            frames[entry.seq] = Frame(entry.seq, entry.sender, raw, entry.at_ns, event=None)
    return [_as_batch(frame, added) for frame in frames.values()]


def _as_batch(frame: Frame, session: RecordedSession) -> Frame:
    """Return the whole batch if the frame was one, even if not all of its messages are to be appended."""
    parts = [entry.raw for entry in session.messages if entry.batch == frame.seq]
    return replace(frame, raw=b"[" + b",".join(parts) + b"]") if parts else frame


class _NewIds:
    """Gives requests ids that the earlier recording does not use."""

    def __init__(self, kept: RecordedSession) -> None:
        known = [entry.message.id for entry in kept.messages if isinstance(entry.message, Request)]
        self._next = max((id for id in known if isinstance(id, int)), default=0) + 1
        self._of_request: Final[dict[int, bytes]] = {}
        self._of_id: Final[dict[tuple[type, RequestId], bytes]] = {}

    def has(self, request: int) -> bool:
        """Whether the request at this place was given a new id."""
        return request in self._of_request

    def renamed(self, entry: SessionMessage) -> bytes:
        """Return the message with new ids: its own id, and the ids that it refers to."""
        match entry.message:
            case Request(id=id) if id is not None:
                new = written(self._next)
                self._next += 1
                self._of_request[entry.index] = self._of_id[type(id), id] = new
                return spliced(entry.raw, {ID: new})
            case Notification(params={"requestId": int() | str() as id}):
                new = self._of_id.get((type(id), id))
                return spliced(entry.raw, {REQUEST_ID: new}) if new else entry.raw
            case _ if entry.answers is not None and (new := self._of_request.get(entry.answers)):
                return spliced(entry.raw, {ID: new})
            case _:
                return entry.raw


def _records(trace: Trace, extra: list[Frame]) -> "list[bytes]":
    """Return the lines of the joined trace."""
    lines = [encode_header(trace.header)]
    tally = Tally()
    close = Close("cut")
    seq = at_ns = 0
    for event in trace.events():
        match event:
            case Close():
                close = event
                continue
            case Finding():
                tally.findings[event.severity] += 1
                lines.append(encode_finding(event))
                continue
            case Frame():
                tally.frames[event.sender] += 1
                seq = event.seq
            case _:
                pass
        at_ns = max(at_ns, event.observed_at_ns)
        lines.append(encode(event))
    shift_ns = at_ns + _PAUSE_NS - extra[0].observed_at_ns
    for frame in extra:
        seq += 1
        tally.frames[frame.sender] += 1
        at_ns = frame.observed_at_ns + shift_ns
        lines.append(encode_frame(replace(frame, seq=seq, observed_at_ns=at_ns)))
    lines.append(encode_close(replace(close, observed_at_ns=max(at_ns, close.observed_at_ns)), tally))
    return lines
