"""Finds out what a client did in a scenario (one test), from the frames of its recordings.

A stateless request belongs to no session: it names its revision itself, and there was no handshake.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    ExchangeEnd,
    Frame,
    Note,
    RequestHead,
    ResponseHead,
    Signal,
)
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, singles, text_member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.record.trace.reader import Trace

NAMELESS: Final = "a client without name"
"""The name in reports of a client whose ``clientInfo`` has none."""


@dataclass(slots=True)
class LastRequest:
    """The last request of the client, its recording and frame, and how long it waited for its answer.

    ``key`` is its id with the recording, and ``exchange`` its HTTP exchange, if any. ``since_ns`` is the
    start of the wait: the request, or the last answer that the client sent after it, because until then the
    server may have waited for that. ``waited_ns`` is the time until the answer, or until the client gave up
    the request or the session was over. ``is_answered`` is also true if the answer came too late.
    """

    method: str
    path: str
    frame: int
    key: str
    exchange: int
    since_ns: int
    waited_ns: int = 0
    is_answered: bool = False


@dataclass(slots=True)
class SeenClient:
    """What a client did in all recordings of one scenario.

    Times are in nanoseconds since their recording started, 0 if there is none. ``asked_ns``, ``gave_up_ns``
    and ``over_ns`` are from one recording: the first with a call that the client gave up, else the first with
    a call. A listed message is a pair: the path of its recording, and the number of its frame.
    """

    sessions: int = 0
    """How many recordings there are."""
    messages: int = 0
    """How many frames the client sent."""
    requests: Counter[str] = field(default_factory=Counter[str])
    """Its requests, by method."""
    notifications: Counter[str] = field(default_factory=Counter[str])
    """Its notifications, by method."""
    pages: int = 0
    """How many pages of the list of tools it read at most, from the first on."""
    with_token: int = 0
    """How many of its calls had a progress token."""
    pings: int = 0
    """How many pings the server sent."""
    open_pings: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """The pings that it did not answer, by recording and id."""
    client: JSONObject = field(default_factory=dict[str, JSON])
    """Its ``clientInfo``."""
    capabilities: JSONObject = field(default_factory=dict[str, JSON])
    """The capabilities that it declared."""
    wanted: str = ""
    """The revision that it asked for."""
    asked_ns: int = 0
    """When it sent its first call."""
    last_ns: int = 0
    """When it sent its last message."""
    gave_up_ns: int = 0
    """When it cancelled a call, or closed the connection of a call without an answer."""
    over_ns: int = 0
    """When the session began to end, for example because one side on stdio sent nothing more, or mcpproxy
    passed a signal on."""
    sessions_ended: int = 0
    """How often it asked over HTTP to end a session."""
    open_calls: set[str] = field(default_factory=set[str])
    """Its calls that had no answer when their session was over."""
    without_session: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Its messages over HTTP that lacked the id of their session."""
    refusals: int = 0
    """How many of its requests to the endpoint were answered with 401."""
    with_login: int = 0
    """How many of its requests to the endpoint had an ``Authorization`` header."""
    resumed: int = 0
    """How often it resumed a stream."""
    found: dict[str, bool] = field(default_factory=dict[str, bool])
    """By path that it requested, besides the endpoint: whether the server has something there."""
    stateless: int = 0
    """How many of its requests were stateless."""
    has_probed: bool = False
    """Whether it sent ``server/discover``."""
    fell_back: bool = False
    """Whether it sent ``initialize`` after ``server/discover``."""
    fell_back_ns: int = 0
    """The time between these two, if they were in the same recording."""
    last: LastRequest | None = None
    """Its last request."""

    @property
    def knows_no_session(self) -> bool:
        """Whether it sent stateless requests, and no ``initialize``."""
        return bool(self.stateless) and not self.requests["initialize"]

    def has_sent(self, method: str) -> bool:
        """Whether the client sent a request or a notification of this method."""
        return bool(self.requests[method] or self.notifications[method])


@dataclass(slots=True)
class _Session:
    """The state of one recording while it is read. Its ids and times mean nothing in other recordings."""

    path: str
    calls: set[int] = field(default_factory=set[int])
    """The HTTP exchanges of the calls."""
    call_ids: set[str] = field(default_factory=set[str])
    """The keys of all calls."""
    open_server_requests: set[str] = field(default_factory=set[str])
    """The keys of the server's requests that have no answer."""
    has_id: bool = False
    """Whether the server has issued a session id that is still valid."""
    bare: set[int] = field(default_factory=set[int])
    """The exchanges of requests that lack that id."""
    heads: dict[int, RequestHead] = field(default_factory=dict[int, RequestHead])
    """The heads of HTTP requests, by exchange."""
    pages: int = 0
    """How many pages of the list of tools were requested since the first page was last requested."""
    probed_ns: int = 0
    asked_ns: int = 0
    gave_up_ns: int = 0
    over_ns: int = 0

    def key(self, message_id: object) -> str:
        """Return a key for a message id: unique among all recordings, unlike the id."""
        return f"{self.path} {message_id!r}"


def seen_in(traces: Iterable[Trace]) -> SeenClient:
    """Return what the client did in these recordings."""
    seen = SeenClient()
    for trace in traces:
        seen.sessions += 1
        session = _Session(trace.path)
        for event in trace.events():
            if type(event) is Frame and event.sender == CLIENT:
                _note_client_frame(event, seen, session)
            elif type(event) is Frame and event.sender == SERVER:
                _note_server_frame(event, seen, session)
            elif isinstance(event, RequestHead):
                _note_request_head(event, seen, session)
            elif isinstance(event, ResponseHead):
                _note_response_head(event, seen, session)
            elif isinstance(event, ExchangeEnd):
                left_ns = event.left_ns or event.observed_at_ns
                if event.cut and event.by == CLIENT and event.exchange in session.calls:
                    session.gave_up_ns = session.gave_up_ns or left_ns
                if seen.last and event.exchange == seen.last.exchange:
                    _end_wait(left_ns, seen, session)
            elif isinstance(event, Eof | Signal | Close | Note) and _ends_session(event):
                session.over_ns = session.over_ns or event.observed_at_ns
                _end_wait(session.over_ns, seen, session)
        if session.asked_ns and (not seen.asked_ns or (session.gave_up_ns and not seen.gave_up_ns)):
            seen.asked_ns, seen.gave_up_ns, seen.over_ns = (
                session.asked_ns,
                session.gave_up_ns,
                session.over_ns,
            )
    return seen


def _issues_session_id(head: ResponseHead) -> bool:
    return any(name.lower() == SESSION_ID for name, _ in head.headers)


def _ends_session(event: Eof | Signal | Close | Note) -> bool:
    """Whether an event ends its session.

    A note ends it if it is about the whole recording, not about one connection or exchange. The end of a
    recording that was cut does not count: when the session ended is unknown.
    """
    if isinstance(event, Note):
        return not event.exchange and not event.connection
    return not isinstance(event, Close) or event.ending != "cut"


def _needs_no_session(frame: Frame) -> bool:
    """Whether all messages in a frame may be sent without a session."""
    return all(
        isinstance(message, Request) and message.method in OPENINGS for message in singles(frame.message)
    )


def _note_client_frame(frame: Frame, seen: SeenClient, session: _Session) -> None:
    seen.messages += 1
    seen.last_ns = frame.observed_at_ns
    if frame.exchange in session.bare and not _needs_no_session(frame):
        seen.without_session.append((session.path, frame.seq))
    for message in singles(frame.message):
        if isinstance(message, Notification):
            seen.notifications[message.method] += 1
            params = as_object(message.params) or {}
            cancelled = message.method == "notifications/cancelled" and params.get("requestId")
            if session.key(cancelled) in session.call_ids:
                session.gave_up_ns = session.gave_up_ns or frame.observed_at_ns
            if seen.last and session.key(cancelled) == seen.last.key:
                _end_wait(frame.observed_at_ns, seen, session)
        if isinstance(message, Response | ErrorResponse):
            seen.open_pings.pop(session.key(message.id), None)
            session.open_server_requests.discard(session.key(message.id))
            if seen.last:
                seen.last.since_ns = frame.observed_at_ns
        if not isinstance(message, Request):
            continue
        seen.requests[message.method] += 1
        key = session.key(message.id)
        at_ns = frame.observed_at_ns
        seen.last = LastRequest(message.method, session.path, frame.seq, key, frame.exchange, at_ns)
        params = as_object(message.params) or {}
        if meta := as_object(params.get("_meta")):
            seen.stateless += VERSION_KEY in meta
            seen.wanted = seen.wanted or text_member(meta, VERSION_KEY) or ""
            seen.client = seen.client or as_object(meta.get(CLIENT_INFO_KEY)) or {}
            seen.capabilities = as_object(meta.get(CAPABILITIES_KEY)) or seen.capabilities
        if message.method == "server/discover":
            seen.has_probed = True
            session.probed_ns = session.probed_ns or frame.observed_at_ns
        if message.method == "initialize":
            if session.probed_ns and not seen.fell_back:
                seen.fell_back_ns = frame.observed_at_ns - session.probed_ns
            seen.fell_back = seen.has_probed
            seen.client = as_object(params.get("clientInfo")) or seen.client
            seen.capabilities = as_object(params.get("capabilities")) or seen.capabilities
            wanted = params.get("protocolVersion")
            seen.wanted = wanted if isinstance(wanted, str) else seen.wanted
        elif message.method == "tools/list":
            session.pages = session.pages + 1 if "cursor" in params else 1
            seen.pages = max(seen.pages, session.pages)
        elif message.method == "tools/call":
            seen.open_calls.add(session.key(message.id))
            session.call_ids.add(session.key(message.id))
            session.asked_ns = session.asked_ns or frame.observed_at_ns
            session.calls.update((frame.exchange,) if frame.exchange else ())
            seen.with_token += "progressToken" in (as_object(params.get("_meta")) or {})


def _note_server_frame(frame: Frame, seen: SeenClient, session: _Session) -> None:
    for message in singles(frame.message):
        if isinstance(message, Response | ErrorResponse):
            key = session.key(message.id)
            if not session.over_ns:
                seen.open_calls.discard(key)
            if seen.last and seen.last.key == key:
                _end_wait(frame.observed_at_ns, seen, session)
                seen.last.is_answered = True
        elif isinstance(message, Request):
            session.open_server_requests.add(session.key(message.id))
            if message.method == "ping":
                seen.pings += 1
                seen.open_pings[session.key(message.id)] = session.path, frame.seq


def _end_wait(at_ns: int, seen: SeenClient, session: _Session) -> None:
    """End the wait for the answer to the client's last request, unless it has ended already.

    While the server waits for an answer of the client, the wait does not end.
    """
    if seen.last and seen.last.path == session.path and not session.open_server_requests:
        seen.last.waited_ns = seen.last.waited_ns or at_ns - seen.last.since_ns


def _note_request_head(head: RequestHead, seen: SeenClient, session: _Session) -> None:
    fields = {name.lower(): value for name, value in head.headers}
    session.heads[head.exchange] = head
    if not head.endpoint:
        return  # a login belongs to no session
    seen.sessions_ended += head.method == "DELETE"
    seen.with_login += "authorization" in fields
    seen.resumed += head.method == "GET" and "last-event-id" in fields
    if head.method == "DELETE":
        session.has_id = False
    elif session.has_id and SESSION_ID not in fields and fields.get(PROTOCOL_VERSION) not in STATELESS:
        session.bare.add(head.exchange)


def _note_response_head(head: ResponseHead, seen: SeenClient, session: _Session) -> None:
    request = session.heads.get(head.exchange)
    if request is None:
        return
    if not request.endpoint:
        seen.found[urlsplit(request.target).path] = head.status < HTTPStatus.BAD_REQUEST
        return
    seen.refusals += head.status == HTTPStatus.UNAUTHORIZED
    # After 404 the session is over, so later requests need no id.
    session.has_id = head.status != HTTPStatus.NOT_FOUND and (session.has_id or _issues_session_id(head))
