"""What a client did in a scenario, by the frames of its recordings."""

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
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, CLIENT_INFO_KEY, STATELESS, VERSION_KEY
from mcpproxy.record.trace.reader import Trace

_OPENING: Final = ("initialize", "server/discover")
"""What is sent before there is a session, or to begin another one."""

NAMELESS: Final = "a client without name"
"""What a client is called whose ``clientInfo`` has no name."""


@dataclass(slots=True)
class LastRequest:
    """The last request of the client, its recording and frame, and for how long it had no answer.

    ``waited_ns`` is until the answer, or until the client gave the request up or the session was over. What
    the server waited for answers of the client does not count. ``is_answered`` is also true if the answer
    came too late.
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
    """Counts over the sessions of one scenario.

    ``requests`` and ``notifications`` count those of the client by method. ``pages`` is how many pages of
    the list of tools it read at most, from the first on, ``with_token`` how many calls carry a progress
    token. ``last_ns`` is the time of its last message. The other times are of the first session with a
    call, or with one that it gave up: ``asked_ns`` is that of its first call, ``gave_up_ns`` when it
    cancelled a call or left the connection of one without an answer, and ``over_ns`` when it or mcpproxy
    began to end the session. All are since the recording started, 0 if there is none. ``sessions_ended``
    is how many sessions it has ended over HTTP. ``open_calls`` are the calls that had no answer when
    their session was over. ``pings`` counts those of the server; ``open_pings`` are those without an
    answer: recording and frame by session and id. Over HTTP, ``refusals`` are how many requests to the
    endpoint were answered with 401, ``with_login`` how many had a token, ``resumed`` how often it came
    for the rest of a stream, and ``found`` says of each path beside the endpoint whether it is there.
    ``has_probed`` says that there was a ``server/discover``, ``fell_back`` that an ``initialize`` came
    after it, in the same session after ``fell_back_ns``. ``stateless`` is how many requests were
    stateless. ``without_session`` are messages over HTTP that lack the id of the session that they belong
    to: recording and frame. ``last`` is the last request of the client.
    """

    sessions: int = 0
    messages: int = 0
    requests: Counter[str] = field(default_factory=Counter[str])
    notifications: Counter[str] = field(default_factory=Counter[str])
    pages: int = 0
    with_token: int = 0
    pings: int = 0
    open_pings: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    client: JSONObject = field(default_factory=dict[str, JSON])
    capabilities: JSONObject = field(default_factory=dict[str, JSON])
    wanted: str = ""
    asked_ns: int = 0
    last_ns: int = 0
    gave_up_ns: int = 0
    over_ns: int = 0
    sessions_ended: int = 0
    open_calls: set[str] = field(default_factory=set[str])
    without_session: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    refusals: int = 0
    with_login: int = 0
    resumed: int = 0
    found: dict[str, bool] = field(default_factory=dict[str, bool])
    stateless: int = 0
    has_probed: bool = False
    fell_back: bool = False
    fell_back_ns: int = 0
    last: LastRequest | None = None

    @property
    def knows_no_session(self) -> bool:
        """Whether it sent stateless requests, and no ``initialize``."""
        return bool(self.stateless) and not self.requests["initialize"]

    def has_sent(self, method: str) -> bool:
        """Whether the client sent a request or a notification of this method."""
        return bool(self.requests[method] or self.notifications[method])


@dataclass(slots=True)
class _Session:
    """One recording while it is read. Its times begin with it, and its ids mean nothing elsewhere.

    ``calls`` are the exchanges of calls over HTTP, ``call_ids`` the ids of all calls, and ``open_asks`` those
    of requests of the server without an answer; ``has_id`` is whether the server has given a session id that
    holds, and ``bare`` are the exchanges of requests without it. ``heads`` are the requests over HTTP by
    exchange, and ``pages`` is how many pages of the list of tools were asked for since it was last begun.
    """

    path: str
    calls: set[int] = field(default_factory=set[int])
    call_ids: set[str] = field(default_factory=set[str])
    open_asks: set[str] = field(default_factory=set[str])
    has_id: bool = False
    bare: set[int] = field(default_factory=set[int])
    heads: dict[int, RequestHead] = field(default_factory=dict[int, RequestHead])
    pages: int = 0
    probed_ns: int = 0
    asked_ns: int = 0
    gave_up_ns: int = 0
    over_ns: int = 0

    def key(self, message_id: object) -> str:
        """Return an id that is told from those of other sessions."""
        return f"{self.path} {message_id!r}"


def seen_in(traces: Iterable[Trace]) -> SeenClient:
    """Return what the client did in these recordings."""
    seen = SeenClient()
    for trace in traces:
        seen.sessions += 1
        session = _Session(trace.path)
        for event in trace.events():
            if type(event) is Frame and event.sender == CLIENT:
                _take(event, seen, session)
            elif type(event) is Frame and event.sender == SERVER:
                _take_of_server(event, seen, session)
            elif isinstance(event, RequestHead):
                _take_request_head(event, seen, session)
            elif isinstance(event, ResponseHead):
                _take_response_head(event, seen, session)
            elif isinstance(event, ExchangeEnd):
                left_ns = event.left_ns or event.observed_at_ns
                if event.cut and event.by == CLIENT and event.exchange in session.calls:
                    session.gave_up_ns = session.gave_up_ns or left_ns
                if seen.last and event.exchange == seen.last.exchange:
                    _end_wait(left_ns, seen, session)
            elif isinstance(event, Eof | Signal | Close | Note) and _ends(event):
                session.over_ns = session.over_ns or event.observed_at_ns
                _end_wait(session.over_ns, seen, session)
        if session.asked_ns and (not seen.asked_ns or (session.gave_up_ns and not seen.gave_up_ns)):
            seen.asked_ns, seen.gave_up_ns, seen.over_ns = (
                session.asked_ns,
                session.gave_up_ns,
                session.over_ns,
            )
    return seen


def _issues(head: ResponseHead) -> bool:
    return any(name.lower() == SESSION_ID for name, _ in head.headers)


def _ends(event: Eof | Signal | Close | Note) -> bool:
    """Whether a session is over with this.

    A note is about a connection or an exchange over HTTP, or about the whole recording. Of one that is cut,
    only the last message is known.
    """
    if isinstance(event, Note):
        return not event.exchange and not event.connection
    return not isinstance(event, Close) or event.ending != "cut"


def _opens(frame: Frame) -> bool:
    """Whether all messages in a frame may be sent without a session."""
    return all(
        isinstance(message, Request) and message.method in _OPENING for message in singles(frame.message)
    )


def _take(frame: Frame, seen: SeenClient, session: _Session) -> None:
    """Take up a frame of the client."""
    seen.messages += 1
    seen.last_ns = frame.observed_at_ns
    if frame.exchange in session.bare and not _opens(frame):
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
            session.open_asks.discard(session.key(message.id))
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


def _take_of_server(frame: Frame, seen: SeenClient, session: _Session) -> None:
    """Take up a frame of the server."""
    for message in singles(frame.message):
        if isinstance(message, Response | ErrorResponse):
            key = session.key(message.id)
            if not session.over_ns:
                seen.open_calls.discard(key)
            if seen.last and seen.last.key == key:
                _end_wait(frame.observed_at_ns, seen, session)
                seen.last.is_answered = True
        elif isinstance(message, Request):
            session.open_asks.add(session.key(message.id))
            if message.method == "ping":
                seen.pings += 1
                seen.open_pings[session.key(message.id)] = session.path, frame.seq


def _end_wait(at_ns: int, seen: SeenClient, session: _Session) -> None:
    """End the wait of the client for the answer to its last request, unless it is over already, or the server
    waits for the client.
    """
    if seen.last and seen.last.path == session.path and not session.open_asks:
        seen.last.waited_ns = seen.last.waited_ns or at_ns - seen.last.since_ns


def _take_request_head(head: RequestHead, seen: SeenClient, session: _Session) -> None:
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


def _take_response_head(head: ResponseHead, seen: SeenClient, session: _Session) -> None:
    asked = session.heads.get(head.exchange)
    if asked is None:
        return
    if not asked.endpoint:
        seen.found[urlsplit(asked.target).path] = head.status < HTTPStatus.BAD_REQUEST
        return
    seen.refusals += head.status == HTTPStatus.UNAUTHORIZED
    # After 404 the session is over, and what its client does then is another matter.
    session.has_id = head.status != HTTPStatus.NOT_FOUND and (session.has_id or _issues(head))
