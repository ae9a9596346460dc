"""Two recordings of one server as one: what a later session asked beyond an earlier one goes behind it.

The earlier recording stays as it is. Each request of the later one that it lacks follows, with its answer and
with what either side said of its own accord while it was open, under ids that the earlier one does not use.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mcpproxy.base import files
from mcpproxy.opening import open_trace
from mcpproxy.protocol.jsonrpc import Notification, Request, RequestId
from mcpproxy.protocol.raw_json import spliced, written
from mcpproxy.replay.recording import Said, Session, from_trace, load
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.replay.server.source import merged
from mcpproxy.replay.server.translate import ID, REQUEST_ID
from mcpproxy.session.frame import Close, Finding, Frame
from mcpproxy.trace.encode import encode, encode_close, encode_finding, encode_frame, encode_header
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.records import Tally

_PAUSE_NS: Final = 1_000_000
"""Between the earlier recording and what follows."""


def join(kept: str, added: str, into: str) -> bool:
    """Write to ``into`` the recording ``kept`` and what ``added`` has beyond it; false if that is nothing.

    Both are of stdio. ``into`` may be ``kept``: it is replaced as a whole.

    Raises:
        TraceError: a recording cannot be read.
        OSError: nothing can be written there.
    """
    trace, more = open_trace(kept), open_trace(added)
    extra = _extra(_only(trace), _only(more))
    if not extra:
        return False
    files.replace(into, _records(trace, extra))
    return True


def lacks(kept: str, added: str) -> bool:
    """Whether there is a request of the client in ``added``, of whatever transport, that ``kept`` lacks.

    Raises:
        TraceError: a recording cannot be read.
    """
    known, asked = merged(load(kept).sessions), merged(load(added).sessions)
    return bool(_wanted(known.messages, asked.messages))


def _wanted(known: Iterable[Said], asked: Iterable[Said]) -> set[int]:
    """The places of the client's requests in ``asked`` that are not in ``known``, or not so often."""
    matcher = Matcher(said for said in known if said.sender == "client")
    return {
        said.index
        for said in asked
        if said.sender == "client" and isinstance(said.message, Request) and not matcher.take(said.message)
    }


def _only(trace: Trace) -> Session:
    return next(iter(from_trace(trace).sessions), Session())


def _extra(kept: Session, added: Session) -> list[Frame]:
    """The frames that go behind, in the order in which they passed, numbered from 1."""
    wanted = _wanted(kept.messages, added.messages)
    ids = _Ids(kept)
    answered = {said.answers for said in added.messages}
    waiting: set[int] = set()
    frames: dict[int, Frame] = {}
    for said in added.messages:
        if said.answers is None:
            asks = said.sender == "client" and isinstance(said.message, Request)
            belongs = said.index in wanted if asks else bool(waiting)
        else:
            belongs = said.answers in wanted or ids.has(said.answers)
            waiting.discard(said.answers)
        if said.index in wanted and said.index in answered:
            waiting.add(said.index)
        if belongs:
            raw = said.raw if said.batch else ids.renamed(said)
            frames[said.seq] = Frame(said.seq, said.sender, raw, said.at_ns, event=None)
    return [_whole(frame, added) for frame in frames.values()]


def _whole(frame: Frame, session: Session) -> Frame:
    """A batch has passed as one, whichever of its elements was lacking."""
    parts = [said.raw for said in session.messages if said.batch == frame.seq]
    return replace(frame, raw=b"[" + b",".join(parts) + b"]") if parts else frame


class _Ids:
    """Gives requests ids that the earlier recording does not have."""

    def __init__(self, kept: Session) -> None:
        known = [said.message.id for said in kept.messages if isinstance(said.message, Request)]
        self._next = max((id for id in known if isinstance(id, int)), default=0) + 1
        self._of_request: Final[dict[int, bytes]] = {}
        self._of_id: Final[dict[tuple[type, RequestId], bytes]] = {}

    def has(self, request: int) -> bool:
        """Whether the request at this place was given one."""
        return request in self._of_request

    def renamed(self, said: Said) -> bytes:
        """The message with the ids that it and what it speaks of have here."""
        match said.message:
            case Request(id=id) if id is not None:
                new = written(self._next)
                self._next += 1
                self._of_request[said.index] = self._of_id[type(id), id] = new
                return spliced(said.raw, {ID: new})
            case Notification(params={"requestId": int() | str() as id}):
                new = self._of_id.get((type(id), id))
                return spliced(said.raw, {REQUEST_ID: new}) if new else said.raw
            case _ if said.answers is not None and (new := self._of_request.get(said.answers)):
                return spliced(said.raw, {ID: new})
            case _:
                return said.raw


def _records(trace: Trace, extra: list[Frame]) -> "list[bytes]":
    """The lines of the joint trace."""
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
