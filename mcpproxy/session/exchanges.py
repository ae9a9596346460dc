"""What has happened so far over HTTP: exchanges, sessions, streams. Plain state, no I/O, no clock.

An exchange is one HTTP request with its response. A session is what the stateful revisions open with
initialize; a stateless request is a session of its own, because its ids mean nothing to the next. A
stream is what one POST or GET opened; a GET with Last-Event-ID goes on with it in another exchange.
Order is certain only within one body or one SSE stream.
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
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.session.frame import Event, Finding, Frame, Headers, RequestHead, ResponseHead
from mcpproxy.session.history import History, ModernAnswer, SentRequest

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"

MAX_REMEMBERED: Final = 65_536
"""So many event ids of a session, and so many sessions, are remembered."""

Proper: TypeAlias = Request | Notification | Response | ErrorResponse
"""A message that can be told to be one."""

Traffic = Literal["stateful", "stateless", "http+sse", "other"]
"""What an exchange is: Streamable HTTP of either era, HTTP+SSE of 2024-11-05, or not MCP at all."""


class SessionJudge(Protocol):
    """What judges the messages of one session."""

    @property
    def revision(self) -> str | None: ...

    @property
    def history(self) -> History: ...

    def observe(self, event: Event) -> list[Finding]: ...

    def take_back(self, frame: Frame, messages: tuple[Single, ...]) -> None: ...


class Fields:
    """Header fields by name, whatever the case. A name may stand more than once."""

    __slots__ = ("_values", "media_type", "told")

    def __init__(self, headers: Headers = ()) -> None:
        values: dict[str, tuple[str, ...]] = {}
        for name, value in headers:
            key = name.lower()
            text = (value.strip(" \t"),)
            values[key] = values[key] + text if key in values else text
        self._values = values
        # The content type in lower case, without parameters; empty if there is none.
        self.media_type = (self.get("content-type") or "").partition(";")[0].strip().lower()
        # What the judge has told by them alone, for the next head that has them.
        self.told: int | None = None

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of ``name`` (lower case), in order."""
        return self._values.get(name, ())

    def get(self, name: str) -> str | None:
        """The first value of ``name`` (lower case)."""
        values = self._values.get(name)
        return values[0] if values else None

    def starting(self, prefix: str) -> dict[str, tuple[str, ...]]:
        """The fields whose name, in lower case, begins with ``prefix``."""
        return {name: values for name, values in self._values.items() if name.startswith(prefix)}

    def __contains__(self, name: object) -> bool:
        return name in self._values


NO_FIELDS: Final = Fields()

_USUAL_FIELDS: Final = 32
_USUAL_LENGTH: Final = 1 << 10
_REMEMBERED: Final = 256
_known: Final[dict[Headers, Fields]] = {}


def fields_of(headers: Headers) -> Fields:
    """The fields of a head; heads that are alike, as those of one session are, share them."""
    fields = _known.get(headers)
    if fields is None:
        fields = Fields(headers)
        if len(headers) <= _USUAL_FIELDS and sum(len(n) + len(v) for n, v in headers) <= _USUAL_LENGTH:
            if len(_known) >= _REMEMBERED:
                _known.clear()
            _known[headers] = fields
    return fields


@slotted(eq=False)
class HttpStream:
    """What one POST or GET opened, through however many exchanges it is resumed."""

    number: int  # the exchange that opened it
    posted: bool
    asked: tuple[RequestId | None, ...] = ()  # the requests that it is to answer
    events: int = 0  # those with an id, so far
    retry_ms: int | None = None  # the last reconnection time it named
    closed_ns: int | None = None  # when the exchange that carried it last was over
    left: bool = False  # it was the client that ended that exchange


@slotted(frozen=True)
class SentEvent:
    """One SSE event with an id: where it was sent first, as the how-manieth, and a hash of its data."""

    stream: HttpStream
    exchange: int
    position: int
    data: int


@slotted(eq=False)
class HttpSession:
    """One MCP session over HTTP.

    ``id`` is its session id (masked, if the recording masks), ``None`` while or if there is none.
    ``late`` sessions began before the recording, or nobody can say which one this is. ``stateless`` ones
    last for one exchange, ``legacy`` ones speak HTTP+SSE.
    """

    judge: SessionJudge
    late: bool = False
    stateless: bool = False
    legacy: bool = False
    id: str | None = None
    ended_seq: int | None = None  # the response head that showed that it is over
    ended_by: str = ""  # "DELETE" or "404"
    ended_ns: int = 0
    authorized_seq: int | None = None  # the first of its requests with Authorization
    refused_deletion: bool = False  # a DELETE was answered, but not with success
    events: dict[str, SentEvent] = field(default_factory=dict[str, SentEvent])  # by event id
    forgetful: bool = False  # more event ids passed than are remembered
    delivered: dict[tuple[str, RequestId], int] = field(
        default_factory=dict[tuple[str, RequestId], int]
    )  # server request or response -> the open stream that carried it
    last: "HttpExchange | None" = None
    last_ns: int = 0

    @property
    def revision(self) -> str | None:
        """The revision negotiated, or the one a stateless request named."""
        return self.judge.revision

    def pending(self, id: RequestId | None) -> SentRequest | None:
        """The client's request with this id, as long as it has no answer."""
        return None if id is None else self.judge.history.client.pending.get(id)

    def asked_for(self, id: RequestId | None) -> bool:
        """Whether the client ever sent a request with this id."""
        return id is not None and self.judge.history.client.used.first_use(id) is not None


@slotted(eq=False)
class HttpExchange:
    """One HTTP request with its response, as far as it has come.

    ``messages`` are those of the request body, ``requests`` and ``initialize`` are among them, and
    ``answered`` are the ids of those that have their response on this exchange. ``cursor`` is the event
    that Last-Event-ID names, if it was seen.
    """

    request: RequestHead
    fields: Fields
    number: int
    method: str
    session: HttpSession | None = None
    traffic: Traffic = "other"
    body: Frame | None = None
    settled: bool = False
    masked: bool = False  # values in what it carries were masked
    messages: tuple[Proper, ...] = ()
    requests: tuple[Request, ...] = ()
    initialize: Request | None = None
    known: int = 0  # what was told of it before any check looked: see ``checks.engine.http_facts``
    pieced: frozenset[str] = frozenset()  # whose body is in the middle of pieces
    several: bool = False  # the body is several JSON texts one after the other
    response: ResponseHead | None = None
    response_fields: Fields = NO_FIELDS
    reported: frozenset[str] = frozenset()  # rules that it has broken so far
    answered: frozenset[RequestId] = frozenset()
    answered_ns: int | None = None  # when the last of its requests had its response
    error_codes: frozenset[int] = frozenset()  # those of its JSON-RPC errors
    bodies: int = 0  # server frames with content
    events: int = 0
    named_events: int = 0  # events with an id
    late_messages: int = 0  # messages on the stream after everything was answered
    stream: HttpStream | None = None
    cursor: SentEvent | None = None
    seen: SentEvent | None = None  # the event at hand came before, under the same id
    replayed: bool = False  # and with the same data
    elsewhere: int = 0  # the other open stream that carries the message at hand, too
    delivered: list[tuple[str, RequestId]] | None = None  # what only one stream at a time may carry
    cut: bool = False
    by: str | None = None
    ended_ns: int | None = None

    @property
    def server(self) -> str:
        """The server asked, where one recording may see several: in forward mode, by absolute target."""
        scheme, found, rest = self.request.target.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}" if found and scheme.isalpha() else ""

    def say(self, messages: tuple[Proper, ...]) -> None:
        """Take what the request body holds."""
        self.messages = messages
        self.requests = tuple([m for m in messages if isinstance(m, Request)])
        self.initialize = next((m for m in self.requests if m.method == "initialize"), None)

    @property
    def only_notifies(self) -> bool:
        """Whether the body holds notifications and responses alone, so that nothing is to be answered."""
        return bool(self.messages) and not self.requests

    @property
    def last_event_id(self) -> str:
        """The event after which the client resumes; empty if it does not.

        The SSE standard has this field in UTF-8, and what can only write Latin-1 does that.
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
        """Its requests that still await their response, here or wherever it may come, and want it."""
        session = self.session
        return tuple(
            request
            for request in self.requests
            if session and (asked := session.pending(request.id)) is not None and not asked.cancelled
        )

    def join(self, session: HttpSession) -> None:
        """Take it for one of this session."""
        self.session = session
        if session.legacy:
            self.traffic = "http+sse"
        else:
            self.traffic = "stateless" if session.stateless else "stateful"


@slotted(frozen=True)
class HeaderMismatch:
    """A call that was refused for its headers: the frame that says so, and what it had for arguments."""

    seq: int
    headers: dict[str, tuple[str, ...]]


@slotted()
class HttpHistory:
    """Everything about HTTP that outlives an exchange.

    What a server said of itself is kept by server (see ``HttpExchange.server``), what a client may have
    learned of it by connection, since nothing else tells clients apart.
    """

    exchanges: dict[int, HttpExchange] = field(default_factory=dict[int, HttpExchange])  # those under way
    sessions: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])  # by session id
    by_connection: dict[int, HttpSession] = field(default_factory=dict[int, HttpSession])
    shared: set[int] = field(default_factory=set[int])  # connections of several clients without session id
    unattributed: bool = False  # some request belongs to nobody knows which client
    posting: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])  # HTTP+SSE: by target
    streamable: bool = False  # some request was certainly meant for Streamable HTTP
    challenges: list[ResponseHead] = field(default_factory=list[ResponseHead])  # 401s that led nowhere
    challenged: bool = False  # a 401 was seen
    authorized: dict[int, int] = field(default_factory=dict[int, int])  # connection -> first token sent
    metadata: str = ""  # "served" or "refused", once the well-known document was asked for
    modern: dict[int, ModernAnswer] = field(default_factory=dict[int, ModernAnswer])  # by connection
    modern_servers: set[str] = field(default_factory=set[str])  # those that have shown it
    modern_only: dict[str, int] = field(default_factory=dict[str, int])  # server -> frame that shows it
    dual_servers: set[str] = field(default_factory=set[str])  # those that have taken an initialize as well
    supported: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])  # by server
    mirrors: dict[tuple[str, str], dict[str, Mirrors]] = field(
        default_factory=dict[tuple[str, str], dict[str, Mirrors]]
    )  # by server and Authorization: the tools last listed, and which arguments they want in headers
    mismatched: dict[tuple[int, str], HeaderMismatch] = field(
        default_factory=dict[tuple[int, str], HeaderMismatch]
    )  # by connection and tool, until tools are listed again
    memories: dict[type, object] = field(default_factory=dict[type, object])  # of stateless requests
    lost: dict[tuple[str, RequestId], SentRequest] = field(
        default_factory=dict[tuple[str, RequestId], SentRequest]
    )  # by caller and id: stateless requests whose stream broke before their answer
    blind: bool = False


def singles(frame: Frame) -> tuple[tuple[Proper, ...], bool]:
    """The messages in a frame, and whether they came as a batch; no message that is malformed."""
    message = frame.message
    if isinstance(message, Batch):
        return tuple(m for m in message.items if not isinstance(m, Malformed)), True
    return (() if isinstance(message, Malformed) else (message,)), False


def is_answer(message: Proper) -> bool:
    return isinstance(message, Response | ErrorResponse)


def looks_stateless(fields: Fields) -> bool:
    """Whether headers alone mark a request as one of a stateless revision."""
    return fields.get(VERSION) in STATELESS or "mcp-method" in fields
