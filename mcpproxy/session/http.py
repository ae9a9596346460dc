"""What has happened so far over HTTP: exchanges, sessions, streams. Plain state, no I/O, no clock.

An exchange is one HTTP request with its response. A session is what the stateful revisions open with
initialize; a stateless request is a session of its own, because its ids mean nothing to the next.
Order is certain only within one body or one SSE stream.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

from mcpproxy.protocol.jsonrpc import Batch, ErrorResponse, Malformed, Notification, Request, Response, Single
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.session.frame import Event, Finding, Frame, Headers, RequestHead, ResponseHead

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"


class Judge(Protocol):
    """What judges the messages of one session."""

    @property
    def revision(self) -> str | None: ...

    def observe(self, event: Event) -> list[Finding]: ...


class Fields:
    """Header fields by name, whatever the case. A name may stand more than once."""

    __slots__ = ("_values",)

    def __init__(self, headers: Headers = ()) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in headers:
            self._values.setdefault(name.lower(), []).append(value.strip(" \t"))

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of ``name`` (lower case), in order."""
        return tuple(self._values.get(name, ()))

    def get(self, name: str) -> str | None:
        """The first value of ``name`` (lower case)."""
        values = self._values.get(name)
        return values[0] if values else None

    def __contains__(self, name: object) -> bool:
        return name in self._values

    @property
    def media_type(self) -> str:
        """The content type in lower case, without parameters; empty if there is none."""
        return (self.get("content-type") or "").partition(";")[0].strip().lower()

    def tokens(self, name: str) -> tuple[str, ...]:
        """The comma-separated members of all values of ``name``, parameters cut off, in lower case."""
        return tuple(
            item.partition(";")[0].strip().lower()
            for value in self.all(name)
            for item in value.split(",")
            if item.strip()
        )


@dataclass(slots=True, eq=False)
class HttpSession:
    """One MCP session over HTTP.

    ``id`` is its session id (masked, if the recording masks), ``None`` while or if there is none.
    ``late`` sessions began before the recording, ``stateless`` ones last for one exchange.
    ``ended_seq`` is the frame or head that terminated it (a DELETE's 2xx, a first 404). ``event_ids``
    maps each SSE event id to the exchange that carried it first and to its data.
    """

    judge: Judge
    late: bool = False
    stateless: bool = False
    id: str | None = None
    issued_seq: int = 0
    initialized_ns: int | None = None  # when the initialize result had been handed over
    ended_seq: int | None = None
    ended_by: str = ""  # "DELETE" or "404"
    event_ids: dict[str, tuple[int, bytes]] = field(
        default_factory=dict[str, tuple[int, bytes]]
    )  # -> exchange, data
    exchanges: int = 0

    @property
    def revision(self) -> str | None:
        """The revision negotiated, or the one a stateless request named."""
        return self.judge.revision


@dataclass(slots=True, eq=False)
class HttpExchange:
    """One HTTP request with its response, as far as it has come.

    ``messages`` are those of the request body. ``answered`` are the requests among them that have
    their response on this exchange. ``resumes`` is the exchange whose stream a Last-Event-ID goes on
    with, 0 if that is not known. ``events`` counts the SSE events so far.
    """

    request: RequestHead
    fields: Fields
    session: HttpSession | None = None
    body: Frame | None = None
    settled: bool = False
    messages: tuple[Single, ...] = ()
    batched: bool = False
    response: ResponseHead | None = None
    response_fields: Fields = field(default_factory=Fields)
    answered: set[object] = field(default_factory=set[object])
    events: int = 0
    named_events: int = 0  # events with an id
    last_retry_ms: int | None = None
    first_event: Frame | None = None
    resumes: int | None = None
    replayed: bool = False  # the frame at hand has been seen before, on the stream that this one resumes
    cut: bool = False
    by: str | None = None
    ended_ns: int | None = None

    @property
    def number(self) -> int:
        return self.request.exchange

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(m for m in self.messages if isinstance(m, Request))

    @property
    def initialize(self) -> Request | None:
        return next((m for m in self.requests if m.method == "initialize"), None)

    @property
    def only_notifies(self) -> bool:
        """Whether the body holds notifications and responses alone, so that nothing is to be answered."""
        return bool(self.messages) and all(
            isinstance(m, Notification | Response | ErrorResponse) for m in self.messages
        )

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
    def stateless(self) -> bool:
        return self.session is not None and self.session.stateless


@dataclass(slots=True)
class HttpHistory:
    """Everything about HTTP that outlives an exchange."""

    exchanges: dict[int, HttpExchange] = field(default_factory=dict[int, HttpExchange])  # those under way
    sessions: dict[str, HttpSession] = field(default_factory=dict[str, HttpSession])  # by session id
    by_connection: dict[int, HttpSession] = field(default_factory=dict[int, HttpSession])
    endpoints: dict[int, str] = field(default_factory=dict[int, str])  # HTTP+SSE: stream -> its URI
    challenged: bool = False  # a 401 was seen
    authorized: set[int] = field(default_factory=set[int])  # connections that have carried Authorization
    metadata_found: bool = False  # a well-known document of the resource was served
    modern_seq: int | None = None  # the first request of a stateless revision
    blind: bool = False


def singles(frame: Frame) -> tuple[tuple[Single, ...], bool]:
    """The messages in a frame, and whether they came as a batch; no message that is malformed."""
    message = frame.message
    if isinstance(message, Batch):
        return tuple(m for m in message.items if not isinstance(m, Malformed)), True
    return (() if isinstance(message, Malformed) else (message,)), False


def looks_stateless(fields: Fields) -> bool:
    """Whether headers alone mark a request as one of a stateless revision."""
    return fields.get(VERSION) in STATELESS or "mcp-method" in fields
