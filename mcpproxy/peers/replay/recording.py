"""A recording as sessions of messages, in order, with each response linked to its request.

A trace contains frames. A replay works on messages (a frame with a batch has several) and, over HTTP, on the
exchanges in which the messages were sent.
"""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    CLIENT,
    Eof,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Headers,
    RequestHead,
    ResponseHead,
    Sender,
    Signal,
    SseEvent,
)
from mcpproxy.peers.replay.delivered import seen_by
from mcpproxy.peers.replay.named_requests import NamedRequests
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import (
    Batch,
    ErrorResponse,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.protocol.raw_json import messages_with_bytes
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.conversation import Conversation
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Header
from mcpproxy.record.trace.session_labels import exchanges_of


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One message of a session, or one line that is not a JSON-RPC message.

    ``index`` is its position in the messages of the session, from 0. ``seq`` is the number of its frame, and
    ``raw`` are its bytes as sent. ``at_ns`` is its time in nanoseconds, on a clock of the session.
    ``answers`` is the index of the request that a response answers, and ``names`` the index of the request
    that a notification names (see ``NamedRequests``). ``batch`` is 0 if the frame is no batch. Otherwise it
    is the number of the frame, or in joined recordings another number that is unique to the batch.
    ``exchange`` and ``event`` are those of the frame.
    """

    index: int
    seq: int
    sender: Sender
    message: Single
    raw: bytes
    at_ns: int
    answers: int | None = None
    names: int | None = None
    batch: int = 0
    exchange: int = 0
    event: SseEvent | None = None

    @property
    def method(self) -> str | None:
        """The method of a request or notification; ``None`` for other messages."""
        return self.message.method if isinstance(self.message, Request | Notification) else None


@dataclass(slots=True)
class Exchange:
    """One HTTP exchange of a session.

    ``opened`` says how many messages the session had before the request, and ``ended`` how many it had when
    the exchange ended. ``status`` is 0 until there is a response. ``is_altered``: a fault changed the
    response, or mcpproxy gave the response itself.
    """

    number: int
    request: RequestHead
    opened: int
    status: int = 0
    headers: Headers = ()
    ended: int | None = None
    end: ExchangeEnd | None = None
    is_altered: bool = False

    @property
    def is_cut_by_proxy(self) -> bool:
        """Whether mcpproxy closed the connection before the response was complete."""
        return self.end is not None and self.end.cut and self.end.by == "proxy"

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream of Server-Sent Events."""
        return Fields(self.headers).is_event_stream

    @property
    def is_resumption(self) -> bool:
        """Whether it resumes a stream: its request has ``Last-Event-ID``."""
        return any(name.lower() == "last-event-id" for name, _ in self.request.headers)


@dataclass(slots=True)
class RecordedSession:
    """One MCP session: its messages in the order in which they were sent, and over HTTP its exchanges.

    ``name`` is empty on stdio and for HTTP messages without a session id. ``server_left`` says that the
    server ended the session (it exited or closed its stdout) before the client did.
    """

    name: str = ""
    messages: list[SessionMessage] = field(default_factory=list[SessionMessage])
    exchanges: dict[int, Exchange] = field(default_factory=dict[int, Exchange])
    server_left: bool = False

    @property
    def issued_session_id(self) -> str:
        """The session id that the server issued, masked or not; empty if it issued none.

        A header of a response with a status from 300 on does not count, because no session began with it.
        With HTTP+SSE the id is in the query of the URL to which the client posts.
        """
        for exchange in self.exchanges.values():
            for name, value in exchange.headers:
                if name.lower() == SESSION_ID and exchange.status < 300:
                    return value
            for name, value in parse_qsl(exchange.request.target.partition("?")[2]):
                if name.lower() in ("sessionid", "session_id"):  # the transport before Streamable HTTP
                    return value
        return ""

    @property
    def uses_http_sse(self) -> bool:
        """Whether it used HTTP+SSE, the transport before Streamable HTTP."""
        return any(entry.event is not None and entry.event.name == "endpoint" for entry in self.messages)

    def answer_to(self, request: SessionMessage) -> SessionMessage | None:
        """Return the first recorded response to ``request``; ``None`` if there is none."""
        return next(
            (entry for entry in self.messages[request.index :] if entry.answers == request.index), None
        )

    def first_answers(self) -> dict[int, SessionMessage]:
        """Return the first recorded response to each request, by the index of the request."""
        return {entry.answers: entry for entry in reversed(self.messages) if entry.answers is not None}

    def latency_ns(self, answer: SessionMessage) -> int | None:
        """Return the time from the request to ``answer``; ``None`` if ``answer`` answers no request."""
        return None if answer.answers is None else answer.at_ns - self.messages[answer.answers].at_ns


@dataclass(slots=True)
class LoadedTrace:
    """All sessions of one trace, in the order in which they began.

    Each of ``notes`` is a clause about something that cannot be replayed: a gap, a message too long to be
    recorded in full, a masked credential. ``complete`` is false if anything is missing in the trace.
    """

    path: str
    header: Header
    sessions: list[RecordedSession]
    complete: bool
    notes: list[str]

    @property
    def transport(self) -> str:
        """``stdio`` or ``http``."""
        return self.header.transport


def of_a_model(path: str) -> TraceError:
    """Return the error for a recording of a model's interface, which has no MCP messages."""
    fact = "is of a model's interface, and has no message of MCP"
    return TraceError(path, None, fact, f"see what the model saw: mcpproxy prompt {shlex.quote(path)}")


def load(path: str | os.PathLike[str], peer: Sender | None = None) -> LoadedTrace:
    """Read a trace for replay. ``peer`` means the same as for ``from_trace``.

    Raises:
        TraceError: there is no trace at ``path``, or it cannot be read.
    """
    return from_trace(open_trace(path), peer=peer)


def from_trace(
    trace: Trace,
    masked: Callable[[Event | Finding], Event | Finding] | None = None,
    peer: Sender | None = None,
) -> LoadedTrace:
    """Return the sessions of an open trace, as ``load`` does for a path.

    ``masked`` returns an event in which the values that the caller must not see are masked. If the recording
    has faults, the sessions contain what each peer sent, or with ``peer`` what this peer sent and received.

    Raises:
        TraceError: the file cannot be read, or a line of it is damaged.
    """
    session_names = {
        exchange: name for name, exchanges in exchanges_of(trace.events()).items() for exchange in exchanges
    }
    own_answers = frozenset[int]() if peer == CLIENT else _answered_by_us(trace)
    reader = _SessionReader(session_names, own_answers)
    for event in trace.events() if peer is None else seen_by(peer, trace):
        reader.add(masked(event) if masked else event)
    notes = [*trace.notes, *reader.notes()]
    sessions = [session for session in reader.sessions.values() if session.messages or session.exchanges]
    return LoadedTrace(trace.path, trace.header, sessions, trace.complete, notes)


def _answered_by_us(trace: Trace) -> frozenset[int]:
    """Return the exchanges that mcpproxy refused or answered itself; none if ``trace`` has faults."""
    if trace.header.transport != "http" or trace.header.faults:
        return frozenset()
    return frozenset(
        event.exchange for event in trace.events() if isinstance(event, ResponseHead) and event.by_proxy
    )


class _SessionReader:
    """Sorts the events of a trace into sessions.

    ``session_names`` maps the number of an exchange to the name of its session. The messages of the exchanges
    in ``own_answers`` are left out.
    """

    def __init__(self, session_names: Mapping[int, str], own_answers: frozenset[int]) -> None:
        self.sessions: Final[dict[str, RecordedSession]] = {}
        self._session_names = session_names
        self._own_answers = own_answers
        self._conversation = Conversation()
        self._named_requests = NamedRequests()
        self._indices_of: Final[dict[int, list[int]]] = {}  # number of a frame -> indices of its messages
        self._in_pieces: set[tuple[int, Sender]] = set()  # streams in the middle of an overlong message
        self._overlong_count = 0
        self._has_masked_headers = False
        self._client_left = False

    def notes(self) -> list[str]:
        """Return clauses about what cannot be replayed."""
        notes: list[str] = []
        if self._overlong_count:
            notes.append(f"{self._overlong_count} messages were too long to be kept whole; they are left out")
        if self._has_masked_headers:
            notes.append("credentials are masked; they are not sent again")
        return notes

    def add(self, event: object) -> None:
        """Add an event of the trace to its session."""
        if isinstance(event, Finding | Gap):
            return
        self._conversation.track_session(event)
        match event:
            case Frame():
                self._add_frame(event)
            case RequestHead() if not event.by_proxy:
                session = self._session_of(event.exchange)
                session.exchanges[event.exchange] = Exchange(event.exchange, event, len(session.messages))
                if any("masked(" in value for _, value in event.headers):
                    self._has_masked_headers = True
            case ResponseHead() if event.status >= 200 and not event.by_proxy:
                if exchange := self._session_of(event.exchange).exchanges.get(event.exchange):
                    exchange.status, exchange.headers = event.status, event.headers
                    exchange.is_altered = event.fault is not None
            case ExchangeEnd():
                session = self._session_of(event.exchange)
                if exchange := session.exchanges.get(event.exchange):
                    exchange.ended, exchange.end = len(session.messages), event
            case Signal() | Eof(sender="client"):
                self._client_left = True
            case Eof(sender="server") if not self._client_left:
                self._session_of(0).server_left = True
            case _:
                pass

    def _session_of(self, exchange: int) -> RecordedSession:
        name = self._session_names.get(exchange, "")
        return self.sessions.setdefault(name, RecordedSession(name))

    def _add_frame(self, frame: Frame) -> None:
        if frame.by_proxy or frame.refused or frame.exchange in self._own_answers:
            return
        stream = (frame.exchange, frame.sender)
        if frame.continues or stream in self._in_pieces:
            if stream not in self._in_pieces:
                self._overlong_count += 1
            if frame.continues:
                self._in_pieces.add(stream)
            else:
                self._in_pieces.discard(stream)
            return
        session, message = self._session_of(frame.exchange), frame.message
        batch = frame.seq if isinstance(message, Batch) else 0
        indices: list[int] = []
        turns = self._conversation.turns(frame)
        for (single, raw), turn in zip(messages_with_bytes(message, frame.raw), turns, strict=True):
            answers = self._index_of_request(session, turn.answers, single)
            index = len(session.messages)
            session.messages.append(
                SessionMessage(
                    index,
                    frame.seq,
                    frame.sender,
                    single,
                    raw,
                    at_ns=frame.observed_at_ns,
                    answers=answers,
                    names=self._named_requests.track_message(frame, single, index, session.name),
                    batch=batch,
                    exchange=frame.exchange,
                    event=frame.event,
                )
            )
            indices.append(index)
        self._indices_of[frame.seq] = indices

    def _index_of_request(self, session: RecordedSession, frame: int | None, answer: Single) -> int | None:
        """Return the index of the request that ``answer`` answers: the request with its id in ``frame``.

        Return ``None`` if there is none, or if ``answer`` is not a response.
        """
        if frame is None or not isinstance(answer, Response | ErrorResponse):
            return None
        for index in self._indices_of.get(frame, ()):
            if index < len(session.messages):  # the frame may belong to another, longer session
                request = session.messages[index].message
                if isinstance(request, Request) and request.id == answer.id:
                    return index
        return None
