"""The state of HTTP traffic: exchanges, sessions and streams. No I/O, no clock.

An exchange is one HTTP request with its response. In the stateful revisions, initialize opens a session; a
stateless request is a session of its own, because its ids mean nothing to the next request. A stream is
opened by one POST or GET; a GET with Last-Event-ID resumes it in another exchange. The order of messages is
certain only within one body or one SSE stream.
"""

from typing import Final, Literal, Protocol, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
)
from mcpproxy.protocol.mirrors import Mirrors
from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from mcpproxy.session.frame import Event, Finding, Frame, Headers, RequestHead, ResponseHead
from mcpproxy.session.history import History, ModernAnswer, SentRequest

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"

MAX_REMEMBERED: Final = 65_536
"""How many event ids of a session, and how many sessions, are remembered."""

WellFormed: TypeAlias = Request | Notification | Response | ErrorResponse
"""A JSON-RPC message that is not malformed."""

Traffic = Literal["stateful", "stateless", "http+sse", "other"]
"""The kind of an exchange: Streamable HTTP (stateful or stateless), HTTP+SSE of 2024-11-05, or not MCP."""


class SessionJudge(Protocol):
    """The judge of the messages of one session, as far as HTTP needs it."""

    @property
    def revision(self) -> str | None: ...

    @property
    def history(self) -> History: ...

    def observe(self, event: Event) -> list[Finding]: ...

    def take_back(self, frame: Frame, messages: tuple[Single, ...]) -> None:
        """Treat the messages of a frame as never sent, because the server refused it with an HTTP status."""
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
        # The facts (bits, see ``checks.engine.http_facts``) that follow from the fields alone: a cache.
        self.facts: int | None = None

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of ``name`` (lower case), in order."""
        return self._values.get(name, ())

    def get(self, name: str) -> str | None:
        """Return the first value of ``name`` (lower case), ``None`` if there is none."""
        values = self._values.get(name)
        return values[0] if values else None

    def starting(self, prefix: str) -> dict[str, tuple[str, ...]]:
        """Return the values of each field whose name, in lower case, begins with ``prefix``."""
        return {name: values for name, values in self._values.items() if name.startswith(prefix)}

    def __contains__(self, name: object) -> bool:
        return name in self._values


NO_FIELDS: Final = Fields()

_MAX_CACHED_FIELDS: Final = 32
_MAX_CACHED_LENGTH: Final = 1 << 10
_MAX_CACHED: Final = 256
_cache: Final[dict[Headers, Fields]] = {}


def fields_of(headers: Headers) -> Fields:
    """Return the fields of a head. Equal heads, as in one session, share one ``Fields``."""
    fields = _cache.get(headers)
    if fields is None:
        fields = Fields(headers)
        if (
            len(headers) <= _MAX_CACHED_FIELDS
            and sum(len(n) + len(v) for n, v in headers) <= _MAX_CACHED_LENGTH
        ):
            if len(_cache) >= _MAX_CACHED:
                _cache.clear()
            _cache[headers] = fields
    return fields


@slotted(eq=False)
class HttpStream:
    """A stream that one POST or GET opened, including the exchanges that resume it."""

    number: int  # the exchange that opened it
    posted: bool
    request_ids: tuple[RequestId | None, ...] = ()  # the requests that it has to answer
    events: int = 0  # how many events with an id, so far
    retry_ms: int | None = None  # the latest reconnection time of an event
    closed_ns: int | None = None  # when the latest exchange that carried it ended
    left: bool = False  # the client ended that exchange


@slotted(frozen=True)
class LostRequest:
    """A stateless request whose stream ended without its answer, and the connection that had carried it."""

    asked: SentRequest
    connection: int


@slotted(frozen=True)
class SentEvent:
    """One SSE event with an id: where it was sent first, its position there, and a hash of its data."""

    stream: HttpStream
    exchange: int
    position: int
    data: int


@slotted(eq=False)
class HttpSession:
    """One MCP session over HTTP.

    ``id`` is its session id (masked, if the recording masks), ``None`` until or unless there is one. A
    ``late`` session began before the recording, or it is not known which session this is. A ``stateless`` one
    lasts for one exchange, the transport of an ``is_http_sse`` one is that of 2024-11-05.
    """

    judge: SessionJudge
    late: bool = False
    stateless: bool = False
    is_http_sse: bool = False
    id: str | None = None
    ended_seq: int | None = None  # the response head that ended it
    ended_by: str = ""  # "DELETE" or "404"
    ended_ns: int = 0
    authorized_seq: int | None = None  # the first of its requests with Authorization
    refused_deletion: bool = False  # a DELETE was answered, but not with success
    events: dict[str, SentEvent] = field(default_factory=dict[str, SentEvent])  # by event id
    forgetful: bool = False  # there were more event ids than are remembered
    delivered: dict[tuple[str, RequestId], int] = field(
        default_factory=dict[tuple[str, RequestId], int]
    )  # ("request" or "response", id) of a server message -> the exchange of the open stream that carried it
    last: "HttpExchange | None" = None  # its latest exchange
    last_ns: int = 0  # when an exchange of it ended last

    @property
    def revision(self) -> str | None:
        """The negotiated revision, or the one that a stateless request named."""
        return self.judge.revision

    def pending(self, id: RequestId | None) -> SentRequest | None:
        """Return the client's request with this id while it is unanswered."""
        return None if id is None else self.judge.history.client.pending.get(id)

    def asked_for(self, id: RequestId | None) -> bool:
        """Whether the client ever sent a request with this id."""
        return id is not None and self.judge.history.client.used.first_use(id) is not None


@slotted(eq=False)
class HttpExchange:
    """One HTTP request with its response, as far as they were seen.

    ``messages`` are those of the request body; ``requests`` and ``initialize`` are among them. ``answered``
    are the ids of the requests whose response came in this exchange. ``cursor`` is the event that
    Last-Event-ID names, if it was seen.
    """

    request: RequestHead
    fields: Fields
    number: int
    method: str
    session: HttpSession | None = None
    traffic: Traffic = "other"
    body: Frame | None = None
    settled: bool = False  # its whole request was seen and judged
    masked: bool = False  # values in its bodies and events may be masked
    messages: tuple[WellFormed, ...] = ()
    requests: tuple[Request, ...] = ()
    initialize: Request | None = None
    known: int = 0  # its facts: see ``checks.engine.http_facts``
    in_pieces: frozenset[str] = frozenset()  # the senders whose body is not complete: more pieces are to come
    several: bool = False  # the request body is several JSON texts one after the other
    response: ResponseHead | None = None
    response_fields: Fields = NO_FIELDS
    reported: frozenset[str] = frozenset()  # rules that it has broken so far
    answered: frozenset[RequestId] = frozenset()
    answered_ns: int | None = None  # when the last of its requests was answered
    error_codes: frozenset[int] = frozenset()  # those of its JSON-RPC errors
    bodies: int = 0  # how many bodies of the server
    events: int = 0
    named_events: int = 0  # events with an id
    late_messages: int = 0  # how many messages came after all requests were answered
    stream: HttpStream | None = None
    cursor: SentEvent | None = None
    seen: SentEvent | None = None  # the earlier event with the id of the current one
    replayed: bool = False  # that earlier event had the same data
    elsewhere: int = 0  # another exchange whose open stream carried the current message, too; 0 if none
    delivered: list[tuple[str, RequestId]] | None = (
        None  # its entries in ``HttpSession.delivered``; ``None`` until there is one
    )
    cut: bool = False  # it ended before it was complete
    by: str | None = None  # then: who ended it
    ended_ns: int | None = None

    @property
    def server(self) -> str:
        """The server, as ``scheme://authority``; empty unless a forward proxy recorded several servers."""
        scheme, found, rest = self.request.target.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}" if found and scheme.isalpha() else ""

    def set_messages(self, messages: tuple[WellFormed, ...]) -> None:
        """Set the messages of the request body."""
        self.messages = messages
        self.requests = tuple([m for m in messages if isinstance(m, Request)])
        self.initialize = next((m for m in self.requests if m.method == "initialize"), None)

    @property
    def only_notifies(self) -> bool:
        """Whether the request body contains only notifications and responses, which need no answer."""
        return bool(self.messages) and not self.requests

    @property
    def last_event_id(self) -> str:
        """The id of the event after which the client resumes; empty if it does not resume.

        The SSE standard encodes this field in UTF-8. Clients that cannot write UTF-8 in a field send Latin-1.
        """
        value = self.fields.get("last-event-id") or ""
        try:
            return value.encode("latin-1").decode()
        except UnicodeError:
            return value

    @property
    def status(self) -> int:
        """The response's status, 0 while there is none."""
        return self.response.status if self.response else 0

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def streams(self) -> bool:
        """Whether the response is an SSE stream."""
        return self.response_fields.media_type == "text/event-stream"

    @property
    def unanswered(self) -> tuple[Request, ...]:
        """Its requests that are neither answered (in any exchange) nor cancelled."""
        session = self.session
        return tuple(
            request
            for request in self.requests
            if session and (asked := session.pending(request.id)) is not None and not asked.cancelled
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
    """A call that was refused for its headers: the frame of the refusal, and the call's Mcp-Param headers."""

    seq: int
    headers: dict[str, tuple[str, ...]]


@slotted()
class HttpHistory:
    """The state of HTTP that outlives an exchange.

    What a server said about itself is stored by server (see ``HttpExchange.server``). What a client may have
    learned is stored by connection, because nothing else identifies a client.
    """

    exchanges: dict[int, HttpExchange] = field(
        default_factory=dict[int, HttpExchange]
    )  # the open ones, by number
    sessions: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])  # by session id
    by_connection: dict[int, HttpSession] = field(default_factory=dict[int, HttpSession])
    shared: set[int] = field(
        default_factory=set[int]
    )  # connections on which several sessions without an id were opened
    unattributed: bool = False  # some request belongs to an unknown client
    http_sse_sessions: dict[str, HttpSession] = field(
        default_factory=dict[str, HttpSession]
    )  # by the target of their POSTs
    streamable: bool = False  # some request was certainly one of Streamable HTTP
    challenges: list[ResponseHead] = field(default_factory=list[ResponseHead])  # 401 responses
    challenged: bool = False  # a 401 was seen
    authorized: dict[int, int] = field(
        default_factory=dict[int, int]
    )  # connection -> the first request with Authorization
    metadata: str = ""  # "served" or "refused", once the well-known document was asked for
    modern: dict[int, ModernAnswer] = field(
        default_factory=dict[int, ModernAnswer]
    )  # by connection, what shows that its server speaks a stateless revision
    modern_servers: set[str] = field(
        default_factory=set[str]
    )  # servers that have shown that they speak a stateless revision
    modern_only: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # server -> frame that shows that it speaks no other
    stateful_servers: set[str] = field(default_factory=set[str])  # servers that have accepted an initialize
    supported: dict[str, dict[str, int]] = field(
        default_factory=dict[str, dict[str, int]]
    )  # by server: version -> frame that listed it
    mirrors: dict[tuple[str, str], dict[str, Mirrors]] = field(
        default_factory=dict[tuple[str, str], dict[str, Mirrors]]
    )  # by server and Authorization: for each tool in the latest lists, the arguments it wants in headers
    mismatched: dict[tuple[int, str], HeaderMismatch] = field(
        default_factory=dict[tuple[int, str], HeaderMismatch]
    )  # by connection and tool, until tools are listed again
    memories: dict[type, object] = field(
        default_factory=dict[type, object]
    )  # what the families remember of stateless requests
    lost: dict[tuple[str, RequestId], LostRequest] = field(
        default_factory=dict[tuple[str, RequestId], LostRequest]
    )  # by caller and id: stateless requests whose stream broke before it brought the answer
    blind: bool = False  # there was a gap: from then on nothing is concluded from missing messages


def singles(frame: Frame) -> tuple[tuple[WellFormed, ...], bool]:
    """Return the messages in a frame, leaving out malformed ones, and whether they came as a batch."""
    message = frame.message
    if isinstance(message, Batch):
        return tuple(m for m in message.items if not isinstance(m, Malformed)), True
    return (() if isinstance(message, Malformed) else (message,)), False


def is_answer(message: WellFormed) -> bool:
    """Whether the message is a result or an error."""
    return isinstance(message, Response | ErrorResponse)


def looks_stateless(fields: Fields) -> bool:
    """Whether the headers of a request show that it is one of a stateless revision.

    ``Mcp-Method`` alone shows it only where nothing speaks of a session: some clients send it in each era.
    """
    if (version := fields.get(VERSION)) is not None:
        return version in STATELESS or (version not in STATEFUL and "mcp-method" in fields)
    return "mcp-method" in fields and SESSION not in fields
