"""Trim a recording to the wanted frames and everything that they depend on, so that it still replays.

If a frame is kept, these are kept as well:

- the response to it, or the request that it answers;
- the other pieces of a message that is too long for one frame; on stdio, for a line that is not a message,
  also the lines right before and after it that are none;
- over HTTP all heads of its exchange, and all frames of that exchange, except those of a GET stream;
- on stdio, messages that the server sent while a kept request was open, with the responses to them, and the
  request that alone was open when the server sent the frame;
- the request to which a progress token or a subscription id belongs, and cancellations of a request;
- the frame that issued an identifier (a cursor, a request state, a task id, an ACP session id) which the
  frame uses, for a task also the earlier messages about it, and the ``resources/subscribe`` for a resource
  that the frame announces as updated;
- the handshake of the session (with the ``endpoint`` event of the old HTTP+SSE transport), or its
  ``server/discover``;
- the frames that a recorded finding about the frame refers to;
- if mcpproxy changed, held or dropped the frame because the user asked for it (a fault), the frames that were
  sent in its place.

Frames keep their numbers and times. If a frame is left out, the header marks the recording as partial, so
that no rule draws a conclusion from its absence.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from mcpproxy.errors import UsageError
from mcpproxy.judge.observer.two_views import CUT, KILLED
from mcpproxy.judge.session.frame import (
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
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Absent,
    JSONObject,
    Malformed,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.protocol.message_parts import answers_in, member, singles, target_of, updated_resource
from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.record.trace.conversation import Conversation
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Encoded, Header
from mcpproxy.record.trace.session_labels import exchanges_of

FrameFilter: TypeAlias = Callable[[int], bool]
"""Whether the frame or head with this number is wanted."""


_ISSUING_PATHS: Final = (("nextCursor",), ("requestState",), ("taskId",), ("task", "taskId"), ("sessionId",))
"""Paths of members of a result that issue an identifier."""
_USING_MEMBERS: Final = ("cursor", "requestState", "taskId", "sessionId")
"""Members of params that use an issued identifier."""


@dataclass(slots=True)
class _Exchange:
    """An HTTP exchange and the numbers of its heads and frames."""

    method: str
    session: str
    heads: list[int] = field(default_factory=list[int])
    frames: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class _FrameNode:
    """A frame in the index. ``needs`` are the numbers of the frames that must be kept with it."""

    sender: Sender
    exchange: int
    session: str
    needs: list[int] = field(default_factory=list[int])


class _DependencyIndex:
    """The dependencies between the frames of a trace. The trace is read twice to find them.

    Frames and heads are identified by their frame numbers, exchanges by their exchange numbers, and sessions
    by their names.
    """

    def __init__(self, trace: Trace) -> None:
        self.frames: Final[dict[int, _FrameNode]] = {}
        self.exchanges: Final[dict[int, _Exchange]] = {}
        self.heads: Final[dict[int, int]] = {}  # head -> its exchange
        # Frame -> the other frames that findings about this frame refer to.
        self.related: Final[defaultdict[int, list[int]]] = defaultdict(list)
        # Session -> the frames of its handshake, or of its ``server/discover``.
        self.openings: Final[defaultdict[str, list[int]]] = defaultdict(list)
        self._session_names: Final = {
            exchange: name
            for name, exchanges in exchanges_of(trace.events()).items()
            for exchange in exchanges
        }
        self._conversation: Final = Conversation()
        # (session, sender) -> frame -> the open requests in the frame
        self._open: Final[dict[tuple[str, Sender], dict[int, list[Request]]]] = {}
        self._issued: Final[dict[tuple[str, str], int]] = {}  # (session, issued identifier) -> frame
        # Stream -> the last frame, if that frame is a piece of a message and not its end.
        self._last_piece: Final[dict[tuple[int, Sender, bool], int]] = {}
        self._faulted: Final[dict[int, int]] = {}  # number of a fault -> the last frame with it
        self._last_malformed: Final[dict[Sender, int]] = {}  # the last line on stdio, if it was not a message
        for event in trace.events():
            self._add_event(event)

    def _add_event(self, event: Event | Finding) -> None:
        self._conversation.track_session(event)
        match event:
            case RequestHead() if not event.by_proxy:
                session = self._session_names.get(event.exchange, "")
                self.exchanges[event.exchange] = _Exchange(event.method, session, [event.seq])
                self.heads[event.seq] = event.exchange
            case RequestHead() | ResponseHead() if exchange := self.exchanges.get(event.exchange):
                exchange.heads.append(event.seq)
                self.heads[event.seq] = event.exchange
            case Frame():
                self._add_frame(event)
            case Finding():
                self.related[event.frame] += event.related
            case _:
                pass

    def _add_frame(self, frame: Frame) -> None:
        """Add a frame, and its dependencies on earlier frames."""
        session = self._session_names.get(frame.exchange, "")
        node = self.frames[frame.seq] = _FrameNode(frame.sender, frame.exchange, session)
        if exchange := self.exchanges.get(frame.exchange):
            exchange.frames.append(frame.seq)
        if frame.fault is not None:
            self._bind_frames(self._faulted.get(frame.fault.number, frame.seq), frame.seq)
            self._faulted[frame.fault.number] = frame.seq
        if self._bind_pieces(frame):
            return
        if frame.event is not None and frame.event.name == "endpoint":
            self.openings[session].append(frame.seq)
        message = frame.message
        if not frame.exchange:
            self._bind_malformed_lines(frame)
        for single, turn in zip(singles(message), self._conversation.turns(frame), strict=True):
            if turn.answers is None and isinstance(member(_result_of(single), "protocolVersion"), str):
                self.openings[session].append(frame.seq)  # a response to initialize that has a wrong id
            if turn.answers is not None:
                self._bind_frames(turn.answers, frame.seq)
                if turn.method in OPENINGS and isinstance(single, Response):
                    self.openings[session].append(frame.seq)
                self._remove_answered(turn.answers, frame, session)
            self._add_message(single, frame, node)

    def _bind_pieces(self, frame: Frame) -> bool:
        """Make the pieces of a long message depend on each other; return whether the frame is a piece."""
        stream = (frame.exchange, frame.sender, frame.by_proxy)
        previous_piece = self._last_piece.pop(stream, None)
        if previous_piece is not None:
            self._bind_frames(previous_piece, frame.seq)
        if frame.continues:
            self._last_piece[stream] = frame.seq
        return frame.continues or previous_piece is not None

    def _bind_malformed_lines(self, frame: Frame) -> None:
        """Make consecutive malformed lines depend on each other: together they may be one message."""
        previous_line = self._last_malformed.pop(frame.sender, None)
        if isinstance(frame.message, Malformed):
            self._last_malformed[frame.sender] = frame.seq
            if previous_line is not None:
                self._bind_frames(previous_line, frame.seq)

    def _bind_frames(self, earlier: int, later: int) -> None:
        """Make two frames depend on each other."""
        if earlier in self.frames and earlier != later:
            self.frames[earlier].needs.append(later)
            self.frames[later].needs.append(earlier)

    def _add_message(self, message: Single, frame: Frame, node: _FrameNode) -> None:
        """Add the dependencies between a message and the open requests and issued identifiers."""
        session, seq = node.session, frame.seq
        own_requests = self._open.setdefault((session, frame.sender), {})
        peer_requests = self._open.setdefault((session, other(frame.sender)), {})
        if isinstance(message, Request | Notification):
            if message.method == "notifications/initialized":
                self.openings[session].append(seq)
            params = message.params if isinstance(message.params, dict) else {}
            for name in _USING_MEMBERS:
                if isinstance(value := params.get(name), str) and (
                    issued_at := self._issued.get((session, value))
                ):
                    node.needs.append(issued_at)
                    if name == "taskId":  # a message about a task needs every earlier message about it
                        self._issued[session, value] = seq
            if message.method == "notifications/cancelled":
                for request_seq, requests in own_requests.items():
                    if any(request.id == params.get("requestId") for request in requests):
                        self._bind_frames(request_seq, seq)
            for request_seq, requests in peer_requests.items():
                if self._concerns(message, params, requests):
                    self._bind_frames(request_seq, seq)
                elif self._may_concern(message, params, requests, frame):
                    self.frames[request_seq].needs.append(seq)
                    if len(peer_requests) == 1:  # of several requests, any may have caused it
                        node.needs.append(request_seq)
        if isinstance(message, Request):
            own_requests.setdefault(seq, []).append(message)
            uri = target_of(message.method, message.params)
            if message.method == "resources/subscribe" and uri is not None:
                self._issued[session, uri] = seq
        elif uri := updated_resource(message):
            if issued_at := self._issued.get((session, uri)):
                node.needs.append(issued_at)
        elif isinstance(message, Response):
            for path in _ISSUING_PATHS:
                if isinstance(value := member(message.result, *path), str):
                    self._issued[session, value] = seq

    def _concerns(self, message: Request | Notification, params: JSONObject, requests: list[Request]) -> bool:
        """Whether ``message`` refers to one of ``requests``, by progress token or subscription id."""
        if (id := member(params, "_meta", SUBSCRIPTION_ID_KEY)) is not None:
            return any(request.id == id for request in requests)
        if message.method != "notifications/progress":
            return False
        token = params.get("progressToken")
        return any(member(request.params, "_meta", "progressToken") == token for request in requests)

    def _may_concern(
        self, message: Request | Notification, params: JSONObject, requests: list[Request], frame: Frame
    ) -> bool:
        """Whether the server may have sent ``message`` because of ``requests``, which are open.

        False if ``message`` names its request, or all ``requests`` are subscriptions. False over HTTP: there
        the message is in the exchange of its request, which is kept whole.
        """
        names_its_request = (
            message.method == "notifications/progress"
            or member(params, "_meta", SUBSCRIPTION_ID_KEY) is not None
        )
        are_subscriptions = all(request.method.startswith("subscriptions/") for request in requests)
        return not (names_its_request or are_subscriptions or frame.exchange or frame.sender == CLIENT)

    def _remove_answered(self, request_seq: int, answer: Frame, session: str) -> None:
        """Remove the requests of frame ``request_seq`` that ``answer`` answers from the open requests."""
        ids = [single.id for single in answers_in(answer.message)]
        open_requests = self._open.get((session, other(answer.sender)), {})
        if request_seq in open_requests:
            unanswered = [request for request in open_requests[request_seq] if request.id not in ids]
            open_requests[request_seq] = unanswered
            if not unanswered:
                del open_requests[request_seq]

    def with_dependencies(self, wanted: Iterable[int]) -> tuple[set[int], set[int]]:
        """Return the frames and heads, and the exchanges, to keep if the ``wanted`` frames are kept."""
        kept: set[int] = set()
        exchanges: set[int] = set()
        sessions: set[str] = set()
        todo = list(wanted)
        while todo:
            seq = todo.pop()
            frame = self.frames.get(seq)
            exchange_number = frame.exchange if frame else self.heads.get(seq)
            if seq in kept or exchange_number is None:
                continue
            kept.add(seq)
            todo += self.related[seq]
            todo += frame.needs if frame else ()
            exchange = self.exchanges.get(exchange_number)
            if exchange is not None and exchange_number not in exchanges:
                exchanges.add(exchange_number)
                todo += exchange.heads
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

    ``wanted`` says which frames are wanted. If all frames are kept, the header is that of ``trace``. The
    trace is read here, and again while the iterator is consumed.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: no frame is wanted.
    """
    index = _DependencyIndex(trace)
    numbers = sorted({*index.frames, *index.heads})
    wanted_numbers = [seq for seq in numbers if wanted(seq)]
    if not wanted_numbers:
        available = f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it has no frames at all"
        raise UsageError(trace.path, "it has none of these frames", available)
    kept, exchanges = index.with_dependencies(wanted_numbers)
    if len(kept) == len(numbers):
        return trace.header, trace.lines()
    note = f"trimmed to frames {spans(kept, numbers)} of {numbers[-1]}"
    partial = "; ".join(filter(None, (trace.header.partial, note)))
    return replace(trace.header, partial=partial), _trimmed_lines(trace, index, kept, exchanges)


def spans(kept: set[int], numbers: list[int]) -> str:
    """Return the ``numbers`` that are in ``kept`` as ranges, such as ``1-4,9``."""
    ranges: list[tuple[int, int]] = []
    is_previous_kept = False
    for seq in numbers:
        if seq not in kept:
            is_previous_kept = False
            continue
        if is_previous_kept:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
        is_previous_kept = True
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in ranges)


def _trimmed_lines(
    trace: Trace, index: _DependencyIndex, kept: set[int], exchanges: set[int]
) -> Iterator[tuple[Event | Finding | Encoded, bytes]]:
    connections: set[int] = set()
    is_previous_kept = False  # whether the previous frame or head was kept
    for record, line in trace.lines():
        match record:
            case Frame() | RequestHead() | ResponseHead():
                is_kept = is_previous_kept = record.seq in kept
                if is_kept and record.exchange:
                    connections.add(record.connection)
            case ExchangeEnd():
                is_kept = record.exchange in exchanges
            case Encoded():
                # A compressed body cannot be divided, so it is kept only if all of its frames are kept.
                exchange = index.exchanges.get(record.exchange)
                is_whole = exchange is not None and kept.issuperset(exchange.frames)
                is_kept = record.exchange in exchanges and is_whole
            case Note(what=what) if what in (CUT, KILLED):  # of a session on stdio
                is_kept = True
            case Note() | Opaque():
                is_kept = record.connection in connections
            case Finding():
                is_kept = record.frame in kept
            case Stderr():
                is_kept = is_previous_kept
            case _:
                is_kept = True  # such as gaps and the end of the session
        if is_kept:
            yield record, line


def _result_of(message: Single) -> "JSON | Absent":
    return message.result if isinstance(message, Response) else None
