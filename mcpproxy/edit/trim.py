"""Trims a recording to the wanted frames and everything that they depend on, so that it still replays.

With a frame are kept:

- the response to a request, and the request of a response; over HTTP the heads and bodies of the exchange,
but
  of a GET stream only the frames that are needed;
- unsolicited server messages during an open request, with the responses to them; the request that a progress
  token or a subscription belongs to; cancellations;
- the frame that issued a name which the frame uses: a cursor, a request state, a task id, an ACP session id;
- the handshake of the session, or its ``server/discover``;
- the frames that a recorded finding about the frame refers to.

Frames keep their numbers and times. The header marks the recording as partial, so that no rule draws a
conclusion from a missing frame.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from mcpproxy.errors import UsageError
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Batch,
    ErrorResponse,
    JSONObject,
    Malformed,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.session.frame import (
    CLIENT,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
    Stderr,
    other,
)
from mcpproxy.trace.conversation import Conversation
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.records import Encoded, Header
from mcpproxy.trace.session_labels import exchanges_of

FrameFilter: TypeAlias = Callable[[int], bool]
"""Whether the frame or head with this number is wanted."""

SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_ISSUED: Final = (("nextCursor",), ("requestState",), ("taskId",), ("task", "taskId"), ("sessionId",))
_USED: Final = ("cursor", "requestState", "taskId", "sessionId")
_OPENING: Final = ("initialize", "server/discover")


@dataclass(slots=True)
class _Exchange:
    """An HTTP exchange and the numbers of its heads and frames."""

    method: str
    session: str
    seqs: list[int] = field(default_factory=list[int])  # of its heads
    frames: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class _Frame:
    """A frame. ``needs`` are the numbers of the frames that must be kept with it."""

    sender: Sender
    exchange: int
    session: str
    needs: list[int] = field(default_factory=list[int])


class _DependencyIndex:
    """The dependencies between the frames of a trace, found in one pass over it."""

    def __init__(self, trace: Trace) -> None:
        self.frames: Final[dict[int, _Frame]] = {}
        self.exchanges: Final[dict[int, _Exchange]] = {}
        self.heads: Final[dict[int, int]] = {}  # head -> exchange
        self.related: Final[defaultdict[int, list[int]]] = defaultdict(list)
        self.openings: Final[defaultdict[str, list[int]]] = defaultdict(list)
        self._names: Final = {x: name for name, xs in exchanges_of(trace.events()).items() for x in xs}
        self._conversation: Final = Conversation()
        self._open: Final[dict[tuple[str, Sender], dict[int, list[Request]]]] = {}
        self._issued: Final[dict[tuple[str, str], int]] = {}  # (session, issued name) -> frame
        self._pieces: Final[dict[tuple[int, Sender], int]] = {}
        self._broken: Final[dict[Sender, int]] = {}  # the last line on stdio, if it was not a message
        for event in trace.events():
            self._add(event)

    def _add(self, event: Event | Finding) -> None:
        self._conversation.look(event)
        match event:
            case RequestHead():
                name = self._names.get(event.exchange, "")
                self.exchanges[event.exchange] = _Exchange(event.method, name, [event.seq])
                self.heads[event.seq] = event.exchange
            case ResponseHead() if exchange := self.exchanges.get(event.exchange):
                exchange.seqs.append(event.seq)
                self.heads[event.seq] = event.exchange
            case Frame():
                self._add_frame(event)
            case Finding():
                self.related[event.frame] += event.related
            case _:
                pass

    def _add_frame(self, frame: Frame) -> None:
        session = self._names.get(frame.exchange, "")
        known = self.frames[frame.seq] = _Frame(frame.sender, frame.exchange, session)
        if exchange := self.exchanges.get(frame.exchange):
            exchange.frames.append(frame.seq)
        if self._in_pieces(frame):
            return
        if frame.event is not None and frame.event.name == "endpoint":
            self.openings[session].append(frame.seq)
        message = frame.message
        if not frame.exchange:
            self._bind_broken_lines(frame)
        singles = message.items if isinstance(message, Batch) else (message,)
        for single, turn in zip(singles, self._conversation.turns(frame), strict=True):
            if turn.answers is None and isinstance(_member_at(_result(single), "protocolVersion"), str):
                self.openings[session].append(frame.seq)  # An answer to initialize with a wrong id.
            if turn.answers is not None:
                self._bind(turn.answers, frame.seq)
                if turn.method in _OPENING and isinstance(single, Response):
                    self.openings[session].append(frame.seq)
                self._answered(turn.answers, frame, session)
            self._add_message(single, frame, known)

    def _in_pieces(self, frame: Frame) -> bool:
        """Whether it is a piece of a longer message; the pieces are kept together."""
        stream = (frame.exchange, frame.sender)
        before = self._pieces.pop(stream, None)
        if before is not None:
            self._bind(before, frame.seq)
        if frame.continues:
            self._pieces[stream] = frame.seq
        return frame.continues or before is not None

    def _bind_broken_lines(self, frame: Frame) -> None:
        """Keep consecutive malformed lines together: they may be one message with line breaks in it."""
        before = self._broken.pop(frame.sender, None)
        if isinstance(frame.message, Malformed):
            self._broken[frame.sender] = frame.seq
            if before is not None:
                self._bind(before, frame.seq)

    def _bind(self, one: int, another: int) -> None:
        """Make two frames depend on each other."""
        if one in self.frames and one != another:
            self.frames[one].needs.append(another)
            self.frames[another].needs.append(one)

    def _add_message(self, message: Single, frame: Frame, known: _Frame) -> None:
        session, seq = known.session, frame.seq
        own_requests = self._open.setdefault((session, frame.sender), {})
        peer_requests = self._open.setdefault((session, other(frame.sender)), {})
        if isinstance(message, Request | Notification):
            if message.method == "notifications/initialized":
                self.openings[session].append(seq)
            params = message.params if isinstance(message.params, dict) else {}
            for name in _USED:
                if isinstance(value := params.get(name), str) and (
                    issued_at := self._issued.get((session, value))
                ):
                    known.needs.append(issued_at)
                    if name == "taskId":  # Every later message about the task is needed.
                        self._issued[session, value] = seq
            if message.method == "notifications/cancelled":
                for asked, requests in own_requests.items():
                    if any(request.id == params.get("requestId") for request in requests):
                        self._bind(asked, seq)
            for asked, requests in peer_requests.items():
                if self._concerns(message, params, requests):
                    self._bind(asked, seq)
                elif self._may_concern(message, params, requests, frame):
                    self.frames[asked].needs.append(seq)
                    if len(peer_requests) == 1:
                        known.needs.append(asked)
        if isinstance(message, Request):
            own_requests.setdefault(seq, []).append(message)
            uri = _member_at(message.params, "uri")
            if message.method == "resources/subscribe" and isinstance(uri, str):
                self._issued[session, uri] = seq
        elif isinstance(message, Notification) and message.method == "notifications/resources/updated":
            uri = _member_at(message.params, "uri")
            if isinstance(uri, str) and (issued_at := self._issued.get((session, uri))):
                known.needs.append(issued_at)
        elif isinstance(message, Response):
            for path in _ISSUED:
                if isinstance(value := _member_at(message.result, *path), str):
                    self._issued[session, value] = seq

    def _concerns(self, message: Request | Notification, params: JSONObject, requests: list[Request]) -> bool:
        """Whether ``message`` refers to one of ``requests``, by progress token or subscription id."""
        if (id := _member_at(params, "_meta", SUBSCRIPTION)) is not None:
            return any(request.id == id for request in requests)
        if message.method != "notifications/progress":
            return False
        token = params.get("progressToken")
        return any(_member_at(request.params, "_meta", "progressToken") == token for request in requests)

    def _may_concern(
        self, message: Request | Notification, params: JSONObject, requests: list[Request], frame: Frame
    ) -> bool:
        """Whether the server may have sent ``message`` because of ``requests``, which were open.

        False over HTTP, where ``message`` is in the exchange of its request, which is kept as a whole.
        """
        names = (
            message.method == "notifications/progress"
            or _member_at(params, "_meta", SUBSCRIPTION) is not None
        )
        lasting = all(request.method.startswith("subscriptions/") for request in requests)
        return not (names or lasting or frame.exchange or frame.sender == CLIENT)

    def _answered(self, asked: int, answer: Frame, session: str) -> None:
        message = answer.message
        singles = message.items if isinstance(message, Batch) else (message,)
        ids = [single.id for single in singles if isinstance(single, Response | ErrorResponse)]
        waiting = self._open.get((session, other(answer.sender)), {})
        if asked in waiting:
            waiting[asked] = [request for request in waiting[asked] if request.id not in ids]
            if not waiting[asked]:
                del waiting[asked]

    def kept(self, wanted: Iterable[int]) -> tuple[set[int], set[int]]:
        """Return the numbers of the frames and heads to keep, and of the exchanges to keep."""
        kept: set[int] = set()
        exchanges: set[int] = set()
        sessions: set[str] = set()
        todo = [seq for one in wanted for seq in (one, *self.related[one])]
        while todo:
            seq = todo.pop()
            frame = self.frames.get(seq)
            number = frame.exchange if frame else self.heads.get(seq)
            if seq in kept or number is None:
                continue
            kept.add(seq)
            todo += frame.needs if frame else ()
            exchange = self.exchanges.get(number)
            if exchange is not None and number not in exchanges:
                exchanges.add(number)
                todo += exchange.seqs
                todo += () if exchange.method == "GET" else exchange.frames
            session = frame.session if frame else exchange.session if exchange else ""
            if session not in sessions:
                sessions.add(session)
                todo += self.openings[session]
        return kept, exchanges


def trimmed(
    trace: Trace, wanted: FrameFilter
) -> tuple[Header, Iterator[tuple[Event | Finding | Encoded, bytes]]]:
    """Return the header of the trimmed recording, and its records, each with its line.

    The trace is read while the iterator is consumed.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: none of its frames is wanted.
    """
    index = _DependencyIndex(trace)
    numbers = sorted({*index.frames, *index.heads})
    asked = [seq for seq in numbers if wanted(seq)]
    if not asked:
        available = f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it has no frames at all"
        raise UsageError(trace.path, "it has none of these frames", available)
    kept, exchanges = index.kept(asked)
    if len(kept) == len(numbers):
        return trace.header, trace.lines()
    note = f"trimmed to frames {spans(kept, numbers)} of {numbers[-1]}"
    partial = "; ".join(filter(None, (trace.header.partial, note)))
    return replace(trace.header, partial=partial), _lines(trace, index, kept, exchanges)


def spans(kept: set[int], numbers: list[int]) -> str:
    """Return the kept ones of ``numbers`` as ranges: ``1-4,9``."""
    runs: list[tuple[int, int]] = []
    before = False
    for seq in numbers:
        if seq not in kept:
            before = False
            continue
        runs = [*runs[:-1], (runs[-1][0], seq)] if before else [*runs, (seq, seq)]
        before = True
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _lines(
    trace: Trace, index: _DependencyIndex, kept: set[int], exchanges: set[int]
) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
    connections: set[int] = set()
    before = False  # whether the last frame or head was kept
    for record, line in trace.lines():
        match record:
            case Frame() | RequestHead() | ResponseHead():
                is_kept = before = record.seq in kept
                if is_kept and record.exchange:
                    connections.add(record.connection)
            case ExchangeEnd():
                is_kept = record.exchange in exchanges
            case Encoded():
                # The encoded body is kept only if all of its frames are.
                whole = index.exchanges.get(record.exchange)
                is_kept = record.exchange in exchanges and whole is not None and kept.issuperset(whole.frames)
            case Note() | Opaque():
                is_kept = record.connection in connections
            case Finding():
                is_kept = record.frame in kept
            case Stderr():
                is_kept = before
            case _:
                is_kept = True  # the end of the session, and gaps
        if is_kept:
            yield record, line


def _result(message: Single) -> object:
    return message.result if isinstance(message, Response) else None


def _member_at(value: object, *path: str) -> JSON:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value  # pyright: ignore[reportReturnType, reportUnknownVariableType] # JSON inside JSON
