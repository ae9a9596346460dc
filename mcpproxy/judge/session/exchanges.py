"""The state of HTTP traffic: exchanges, sessions and streams. No I/O, no clock.

An exchange is one HTTP request with its response. In the stateful revisions, initialize opens a session. A
stateless request is a session of its own, because it shares no ids with other requests. A POST or GET opens
a stream, and a GET with Last-Event-ID resumes the stream in another exchange. The order of messages is
certain only within one body or one SSE stream.
"""

from re import Pattern
from typing import Final, Literal, Protocol, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import Event, Finding, Frame, Headers, RequestHead, ResponseHead
from mcpproxy.judge.session.history import History, ModernAnswer, SentRequest
from mcpproxy.judge.session.issuers import Issuers
from mcpproxy.protocol.header_names import METHOD, PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import (
    ErrorResponse,
    Request,
    RequestId,
    Response,
    Single,
)
from mcpproxy.protocol.message_parts import WellFormed
from mcpproxy.protocol.mirrors import Mirrors
from mcpproxy.protocol.revisions import STATEFUL, STATELESS

MAX_REMEMBERED: Final = 65_536
"""How many event ids of a session are remembered, and how many sessions, connections and lost requests."""

Route: TypeAlias = tuple[str, Headers]
"""The target of a request, and the header fields by which a gateway may choose one of several servers."""

Traffic = Literal["stateful", "stateless", "http+sse", "other"]
"""The kind of an exchange: stateful or stateless Streamable HTTP, HTTP+SSE of 2024-11-05, or not MCP."""


class SessionJudge(Protocol):
    """The part of a session's judge (``observer``) that the judge of HTTP exchanges uses."""

    @property
    def revision(self) -> str | None: ...

    @property
    def asked(self) -> str:
        """The negotiated revision, or else the one that the client requested; empty if neither is known."""
        ...

    @property
    def history(self) -> History: ...

    def observe(self, event: Event) -> list[Finding]: ...

    def undo_refused_frame(self, frame: Frame, messages: tuple[Single, ...]) -> None:
        """Treat ``messages``, those of a frame that was refused, redirected or unanswered, as never sent."""
        ...


class Fields:
    """Header fields by name, ignoring case. A name may occur more than once."""

    __slots__ = ("_values", "facts", "media_type")

    def __init__(self, headers: Headers = ()) -> None:
        values: dict[str, tuple[str, ...]] = {}
        for name, value in headers:
            key = name.lower()
            text = (value.strip(" \t"),)
            values[key] = values[key] + text if key in values else text
        self._values = values
        # The content type in lower case, without parameters; empty if there is none.
        self.media_type = (self.get("content-type") or "").partition(";")[0].strip().lower()
        # Caches the facts (bits, see ``checks.engine.http_facts``) that follow from these fields alone.
        self.facts: int | None = None

    @property
    def is_event_stream(self) -> bool:
        """Whether the content type is that of a stream of SSE events."""
        return self.media_type == "text/event-stream"

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of ``name`` (lower case), in order."""
        return self._values.get(name, ())

    def get(self, name: str) -> str | None:
        """Return the first value of ``name`` (lower case); ``None`` if there is none."""
        values = self._values.get(name)
        return values[0] if values else None

    def starting(self, prefix: str) -> dict[str, tuple[str, ...]]:
        """Return the fields whose name (in lower case) begins with ``prefix``, each with all its values."""
        return {name: values for name, values in self._values.items() if name.startswith(prefix)}

    def besides(self, names: Pattern[str]) -> Headers:
        """Return the fields, sorted, whose name (in lower case) does not match ``names`` in full.

        The values of one name are joined with commas.
        """
        return tuple(sorted((k, ", ".join(v)) for k, v in self._values.items() if not names.fullmatch(k)))

    def __contains__(self, name: object) -> bool:
        return name in self._values


NO_FIELDS: Final = Fields()

# A head is cached if it has at most this many fields and characters. The cache has at most ``_MAX_CACHED``
# heads.
_MAX_CACHED_FIELDS: Final = 32
_MAX_CACHED_LENGTH: Final = 1 << 10
_MAX_CACHED: Final = 256
_cache: Final[dict[Headers, Fields]] = {}


def fields_of(headers: Headers) -> Fields:
    """Return the fields of a head. Equal short heads, which one session often has, mostly share them."""
    fields = _cache.get(headers)
    if fields is None:
        fields = Fields(headers)
        if (
            len(headers) <= _MAX_CACHED_FIELDS
            and sum(len(name) + len(value) for name, value in headers) <= _MAX_CACHED_LENGTH
        ):
            if len(_cache) >= _MAX_CACHED:
                _cache.clear()
            _cache[headers] = fields
    return fields


@slotted(eq=False)
class HttpStream:
    """A stream that a POST or GET opened. Other exchanges may resume the stream."""

    number: int  # the exchange that opened the stream
    posted: bool  # a POST opened the stream
    request_ids: tuple[RequestId | None, ...] = ()  # the requests that the server answers on the stream
    event_count: int = 0  # events with a new id, so far
    retry_ms: int | None = None  # the latest ``retry`` field of an event: the time to wait before resuming
    closed_ns: int | None = None  # when the latest exchange that carried the stream ended
    left_by_client: bool = False  # the client ended the latest exchange with the stream

    def excludes(self, id: RequestId | None) -> bool:
        """Whether the request ``id`` is certainly not one that the server answers on the stream.

        If a POST seems to have no request, nothing is certain: the server may have read its body differently.
        """
        return id not in self.request_ids and (bool(self.request_ids) or not self.posted)


@slotted(frozen=True)
class LostRequest:
    """A stateless request whose stream ended before its answer came, and the connection of the request."""

    asked: SentRequest
    connection: int


@slotted(frozen=True)
class SentEvent:
    """One SSE event with an id, and the stream and exchange in which the event was first sent.

    ``position`` counts, from 1, the events of the stream that have a new id. ``data_hash`` is the hash of its
    data, by which a repeated event is recognised.
    """

    stream: HttpStream
    exchange: int
    position: int
    data_hash: int


@slotted(eq=False)
class HttpSession:
    """One MCP session over HTTP.

    ``id`` is the session id (masked if the recording masks values); ``None`` until the server gives one.
    ``joined_late`` is set if the start of the session, or a later part, was not recorded. A ``stateless``
    session lasts for one exchange. An ``is_http_sse`` session uses HTTP+SSE, the transport of 2024-11-05.
    """

    judge: SessionJudge
    joined_late: bool = False
    stateless: bool = False
    is_http_sse: bool = False
    id: str | None = None
    ended_seq: int | None = None  # the response head that ended the session
    ended_by: str = ""  # "DELETE" or "404"
    ended_ns: int = 0
    authorized_seq: int | None = None  # the first request of the session with Authorization
    refused_deletion: bool = False  # a DELETE was answered with an error status
    events: dict[str, SentEvent] = field(default_factory=dict[str, SentEvent])  # by event id
    forgot_some: bool = False  # event ids are missing: there were too many, or one may be in an unread body
    delivered: dict[tuple[str, RequestId], int] = field(
        default_factory=dict[tuple[str, RequestId], int]
    )  # by kind ("request" or "response") and id of a server message: the open exchange that carried it
    last_exchange: "HttpExchange | None" = None  # the latest exchange of the session
    last_ended_ns: int = 0  # when an exchange of the session last ended

    @property
    def revision(self) -> str | None:
        """The negotiated revision, or the revision that a stateless request named; ``None`` if unknown."""
        return self.judge.revision

    def pending(self, id: RequestId | None) -> SentRequest | None:
        """Return the client's unanswered request with this id; ``None`` if there is none."""
        return None if id is None else self.judge.history.client.pending.get(id)

    def asked_for(self, id: RequestId | None) -> bool:
        """Whether a request of the client with this id has reached the server, as far as is known."""
        return id is not None and self.judge.history.client.used_ids.first_use(id) is not None


@slotted(eq=False)
class HttpExchange:
    """One HTTP request with its response, as far as they have been recorded.

    ``fields`` are the header fields of the request, ``response_fields`` those of the response. ``messages``
    are the messages in the request body; ``requests`` and ``initialize`` are among them. ``answered`` are the
    ids of the requests whose response came in this exchange. ``cursor`` is the event that the request's
    Last-Event-ID names, if that event was recorded.
    """

    request: RequestHead
    fields: Fields
    number: int
    method: str
    session: HttpSession | None = None
    traffic: Traffic = "other"
    body: Frame | None = None
    request_judged: bool = False  # the request was complete and has been judged
    masked: bool = False  # values in the bodies and events may be masked
    messages: tuple[WellFormed, ...] = ()
    requests: tuple[Request, ...] = ()
    initialize: Request | None = None
    facts: int = 0  # the known facts about the exchange, as bits (see ``checks.engine.http_facts``)
    in_pieces: frozenset[str] = frozenset()  # senders that are in the middle of a body recorded in pieces
    has_several_texts: bool = False  # the request body is several JSON texts one after the other
    response: ResponseHead | None = None
    response_fields: Fields = NO_FIELDS
    broken_rules: frozenset[str] = frozenset()  # rules that the exchange has broken so far
    answered: frozenset[RequestId] = frozenset()
    answered_ns: int | None = None  # the time at which the last request was answered
    error_codes: frozenset[int] = frozenset()  # the codes of the server's JSON-RPC errors
    body_count: int = 0  # the number of bodies, except empty ones, that the server has sent
    event_count: int = 0  # the number of SSE events with content that the server has sent
    event_id_count: int = 0  # the number of events with an id
    unfinished_seq: int = 0  # the frame of an event with an answer, but without a blank line at its end
    late_messages: int = 0  # the number of frames with messages after all requests were answered
    stream: HttpStream | None = None
    cursor: SentEvent | None = None
    earlier_event: SentEvent | None = None  # the earlier event with the id of the current event
    repeats_earlier_event: bool = False  # the earlier event had the same data as the current event
    # Another exchange with an open stream that also carried the current message; 0 if there is none.
    also_carried_by: int = 0
    # The keys of this exchange in ``HttpSession.delivered``; ``None`` until there is one.
    delivered: list[tuple[str, RequestId]] | None = None
    cut: bool = False  # the exchange ended before it was complete
    ended_by: str | None = None  # if ``cut``, who ended the exchange
    ended_ns: int | None = None
    left_ns: int | None = None  # the time at which the client closed its side of the connection
    forwarded_ns: int = 0  # the time at which the server got the request, if it got it late; otherwise 0

    @property
    def server(self) -> str:
        """The server, as ``scheme://authority``; empty unless the target is a URL, as at a forward proxy."""
        scheme, separator, after_scheme = self.request.target.partition("://")
        return f"{scheme}://{after_scheme.partition('/')[0]}" if separator and scheme.isalpha() else ""

    def set_messages(self, messages: tuple[WellFormed, ...]) -> None:
        """Set the messages of the request body."""
        self.messages = messages
        self.requests = tuple([message for message in messages if isinstance(message, Request)])
        self.initialize = next((message for message in self.requests if message.method == "initialize"), None)

    @property
    def only_notifies(self) -> bool:
        """Whether the request body has messages but no request, so that no answer is needed."""
        return bool(self.messages) and not self.requests

    @property
    def last_event_id(self) -> str:
        """The id of the event after which the client resumes; empty if it does not resume.

        The SSE standard encodes the header in UTF-8, but clients that cannot write UTF-8 there send Latin-1.
        """
        value = self.fields.get("last-event-id") or ""
        try:
            return value.encode("latin-1").decode()
        except UnicodeError:
            return value

    @property
    def status(self) -> int:
        """The response's status; 0 if there is no response yet."""
        return self.response.status if self.response else 0

    @property
    def succeeded(self) -> bool:
        """Whether the status means success (2xx)."""
        return 200 <= self.status < 300

    @property
    def response_is_sse(self) -> bool:
        """Whether the response is an SSE stream."""
        return self.response_fields.is_event_stream

    @property
    def unanswered(self) -> tuple[Request, ...]:
        """The requests of this exchange that were neither answered, in any exchange, nor cancelled.

        There are none while the session of the exchange is unknown.
        """
        session = self.session
        return tuple(
            request
            for request in self.requests
            if session
            and (sent_request := session.pending(request.id)) is not None
            and not sent_request.cancelled
        )

    def join(self, session: HttpSession) -> None:
        """Attribute the exchange to this session."""
        self.session = session
        if session.is_http_sse:
            self.traffic = "http+sse"
        else:
            self.traffic = "stateless" if session.stateless else "stateful"


@slotted(frozen=True)
class HeaderMismatch:
    """A tool call that was refused because of its headers: the error's frame and the Mcp-Param headers."""

    seq: int
    headers: dict[str, tuple[str, ...]]


@slotted()
class HttpHistory:
    """The state that is kept across exchanges.

    Facts that a server has shown about itself are stored by server (see ``HttpExchange.server``). Facts that
    a client can know are stored by connection, because nothing else identifies a client. In names, "modern"
    means "of a stateless revision".
    """

    exchanges: dict[int, HttpExchange] = field(
        default_factory=dict[int, HttpExchange]
    )  # the open exchanges, by number
    sessions: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])  # by session id
    # By connection: the session that was opened on it last.
    by_connection: dict[int, HttpSession] = field(default_factory=dict[int, HttpSession])
    initializing: dict[int, HttpSession] = field(
        default_factory=dict[int, HttpSession]
    )  # by exchange: sessions to whose initialize no response has begun
    shared_connections: set[int] = field(
        default_factory=set[int]
    )  # connections that carry messages of several sessions without an id
    has_unattributed: bool = False  # there was a request whose session is unknown
    http_sse_sessions: dict[str, HttpSession] = field(
        default_factory=dict[str, HttpSession]
    )  # by the target of their POSTs
    saw_streamable_http: bool = False  # there was a request that was certainly one of Streamable HTTP
    challenges: list[ResponseHead] = field(default_factory=list[ResponseHead])  # the first 401s and the last
    challenged: bool = False  # a request of some session was answered with 401
    authorized: dict[int, int] = field(
        default_factory=dict[int, int]
    )  # by connection: the first stateless request with Authorization
    proofs: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # by DPoP proof, masked or not: the request that had it, once it was answered
    gave_nonce: bool = False  # some response has given the client a nonce for its DPoP proofs
    issuers: Issuers = field(default_factory=Issuers)
    metadata: str = ""  # "served" or "refused", once a client has requested the authorization metadata
    refused_to_pages: dict[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]]
    )  # by origin of web pages: the methods and headers that MCP needs, but that preflights did not allow
    hid_session_id: bool = False  # a page got a session id that its browser does not show to it
    modern_answers: dict[int, ModernAnswer] = field(
        default_factory=dict[int, ModernAnswer]
    )  # by connection: the answer that shows that its server supports a stateless revision
    modern_servers: set[str] = field(
        default_factory=set[str]
    )  # servers that have shown that they support a stateless revision
    modern_only: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # by server: the frame that shows that it supports stateless revisions only
    stateful_servers: set[str] = field(default_factory=set[str])  # servers that have accepted an initialize
    supported_versions: dict[str, dict[str, int]] = field(
        default_factory=dict[str, dict[str, int]]
    )  # by server and version: the frame in which the server listed the version
    mirrors: dict[tuple[str, str], dict[str, Mirrors]] = field(
        default_factory=dict[tuple[str, str], dict[str, Mirrors]]
    )  # by server and Authorization: for each listed tool, the arguments that calls repeat in headers
    header_mismatches: dict[tuple[int, str], HeaderMismatch] = field(
        default_factory=dict[tuple[int, str], HeaderMismatch]
    )  # by connection and tool; cleared when tools are listed again
    memories: dict[type, object] = field(
        default_factory=dict[type, object]
    )  # by class: the state of families of checks; all stateless requests share this state
    endpoint_memories: dict[Route, dict[type, object]] = field(
        default_factory=dict[Route, dict[type, object]]
    )  # by route and class: the state of families of checks that sessions begun there without an id share
    lost_requests: dict[tuple[str, RequestId], LostRequest] = field(
        default_factory=dict[tuple[str, RequestId], LostRequest]
    )  # by caller (``History.caller``) and id: stateless requests whose stream ended before the answer came
    has_gap: bool = False  # events are missing, so nothing is concluded from the absence of an event


def is_answer(message: WellFormed) -> bool:
    """Whether the message is a result or an error."""
    return isinstance(message, Response | ErrorResponse)


def looks_stateless(fields: Fields) -> bool:
    """Whether the headers of a request show that it is one of a stateless revision.

    The version header decides if it names a known revision, and otherwise ``Mcp-Method``. Some clients send
    ``Mcp-Method`` in stateful sessions, too. So if the request has no version header, it counts only if there
    is no session id either.
    """
    if (version := fields.get(PROTOCOL_VERSION)) is not None:
        return version in STATELESS or (version not in STATEFUL and METHOD in fields)
    return METHOD in fields and SESSION_ID not in fields
