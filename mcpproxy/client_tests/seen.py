"""What a client did in a scenario, by the frames of its recordings."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, singles
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, CLIENT_INFO_KEY, STATELESS, VERSION_KEY
from mcpproxy.session.frame import (
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
from mcpproxy.trace.reader import Trace

_OPENING: Final = ("initialize", "server/discover")
"""What is sent before there is a session, or to begin another one."""

NAMELESS: Final = "a client without name"
"""What a client is called whose ``clientInfo`` has no name."""


@dataclass(slots=True)
class SeenClient:
    """Counts over the sessions of one scenario.

    ``requests`` and ``notifications`` count those of the client by method. ``pages`` is how many pages of the
    list of tools it read at most, from the first on, ``with_token`` how many calls carry a progress token.
    ``last_ns`` is the time of
    its last message, ``asked_ns`` that of its first call, ``gave_up_ns`` when it cancelled a call or left the
    connection of one without an answer, and ``over_ns`` when it or mcpproxy began to end the session; all
    since the recording started, 0 if there is none. ``sessions_ended`` is how many sessions it has ended over
    HTTP. ``open_calls`` are the ids of calls that had no answer when the session was over. ``pings`` counts
    those of the server; ``open_pings`` are those without an answer: recording and frame by id. Over HTTP,
    ``refusals`` are how many requests to the endpoint were answered with 401, ``with_login`` how many had a
    token, ``resumed`` how often it came for the rest of a stream, and ``found`` says of each path beside the
    endpoint whether it is there. ``fell_back_ns`` is the time of the first ``initialize`` after a first
    ``server/discover``, whose time is ``probed_ns``. ``stateless`` is how many requests were stateless.
    ``without_session`` are messages over HTTP that lack the id of the session that they belong to: recording
    and frame.
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
    probed_ns: int = 0
    fell_back_ns: int = 0

    def has_sent(self, method: str) -> bool:
        """Whether the client sent a request or a notification of this method."""
        return bool(self.requests[method] or self.notifications[method])


def seen_in(traces: Iterable[Trace]) -> SeenClient:
    """Return what the client did in these recordings."""
    seen = SeenClient()
    for trace in traces:
        seen.sessions += 1
        calls: set[int] = set()
        heads: dict[int, RequestHead] = {}
        pages, issued, bare = 0, False, set[int]()
        for event in trace.events():
            if type(event) is Frame and event.sender == CLIENT:
                _take(event, seen, calls)
                pages = _pages(event, pages)
                seen.pages = max(seen.pages, pages)
                if event.exchange in bare and not _opens(event):
                    seen.without_session.append((trace.path, event.seq))
            elif type(event) is Frame and event.sender == SERVER:
                for message in singles(event.message):
                    if isinstance(message, Response | ErrorResponse) and not seen.over_ns:
                        seen.open_calls.discard(repr(message.id))
                    if isinstance(message, Request) and message.method == "ping":
                        seen.pings += 1
                        seen.open_pings[str(message.id)] = trace.path, event.seq
            elif isinstance(event, RequestHead):
                seen.sessions_ended += event.method == "DELETE"
                heads[event.exchange] = event
                _take_head(event, seen)
                fields = {name.lower(): value for name, value in event.headers}
                if event.method == "DELETE":
                    issued = False
                elif issued and SESSION_ID not in fields and fields.get(PROTOCOL_VERSION) not in STATELESS:
                    bare.add(event.exchange)
            elif isinstance(event, ResponseHead) and (head := heads.get(event.exchange)):
                if head.endpoint:
                    seen.refusals += event.status == HTTPStatus.UNAUTHORIZED
                    # After 404 the session is over, and what its client does then is another matter.
                    issued = event.status != HTTPStatus.NOT_FOUND and (issued or _issues(event))
                else:
                    seen.found[urlsplit(head.target).path] = event.status < HTTPStatus.BAD_REQUEST
            elif isinstance(event, ExchangeEnd):
                if event.cut and event.by == CLIENT and event.exchange in calls:
                    seen.gave_up_ns = seen.gave_up_ns or event.left_ns or event.observed_at_ns
            elif isinstance(event, Eof | Signal | Close) or (isinstance(event, Note) and not event.exchange):
                seen.over_ns = seen.over_ns or event.observed_at_ns
    return seen


def _issues(head: ResponseHead) -> bool:
    return any(name.lower() == SESSION_ID for name, _ in head.headers)


def _opens(frame: Frame) -> bool:
    """Whether all messages in a frame may be sent without a session."""
    return all(
        isinstance(message, Request) and message.method in _OPENING for message in singles(frame.message)
    )


def _take(frame: Frame, seen: SeenClient, calls: set[int]) -> None:
    """Take up a frame of the client; the exchanges of its calls over HTTP are added to ``calls``."""
    seen.messages += 1
    seen.last_ns = frame.observed_at_ns
    for message in singles(frame.message):
        if isinstance(message, Notification):
            seen.notifications[message.method] += 1
            if message.method == "notifications/cancelled":
                seen.gave_up_ns = seen.gave_up_ns or frame.observed_at_ns
        if isinstance(message, Response | ErrorResponse):
            seen.open_pings.pop(str(message.id), None)
        if not isinstance(message, Request):
            continue
        seen.requests[message.method] += 1
        params = as_object(message.params) or {}
        if meta := as_object(params.get("_meta")):
            seen.stateless += VERSION_KEY in meta
            seen.client = seen.client or as_object(meta.get(CLIENT_INFO_KEY)) or {}
            seen.capabilities = as_object(meta.get(CAPABILITIES_KEY)) or seen.capabilities
        if message.method == "server/discover":
            seen.probed_ns = seen.probed_ns or frame.observed_at_ns
        if message.method == "initialize":
            seen.fell_back_ns = seen.fell_back_ns or (frame.observed_at_ns if seen.probed_ns else 0)
            seen.client = as_object(params.get("clientInfo")) or seen.client
            seen.capabilities = as_object(params.get("capabilities")) or seen.capabilities
            wanted = params.get("protocolVersion")
            seen.wanted = wanted if isinstance(wanted, str) else seen.wanted
        elif message.method == "tools/call":
            seen.open_calls.add(repr(message.id))
            seen.asked_ns = seen.asked_ns or frame.observed_at_ns
            calls.update((frame.exchange,) if frame.exchange else ())
            seen.with_token += "progressToken" in (as_object(params.get("_meta")) or {})


def _take_head(head: RequestHead, seen: SeenClient) -> None:
    names = {name.lower() for name, _ in head.headers}
    seen.with_login += head.endpoint and "authorization" in names
    seen.resumed += head.method == "GET" and "last-event-id" in names


def _pages(frame: Frame, pages: int) -> int:
    """Return how many pages were asked for since the list was last begun, with those of this frame."""
    for message in singles(frame.message):
        if isinstance(message, Request) and message.method == "tools/list":
            pages = pages + 1 if "cursor" in (as_object(message.params) or {}) else 1
    return pages
