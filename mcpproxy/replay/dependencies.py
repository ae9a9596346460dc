"""Which client messages each message of a recorded server depends on, as far as a recording can tell.

A response depends on its request, and on the client's answers to requests that the server sent in between.
A progress notification belongs to the request with its token, a subscription event to the request that
opened the subscription, and over HTTP everything in the response to a POST to the request in that POST.
Sampling and elicitation belong to the call in progress. All other messages are unsolicited: they are
due as soon as the client has sent the message before them, or any later one.

A client that sends its requests in another order than the recorded client is still answered, because no
message depends on an unrelated one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Malformed, Notification, Request, Response
from mcpproxy.replay.message_paths import SUBSCRIPTION_ID
from mcpproxy.replay.recording import RecordedSession, SessionMessage, TypedId
from mcpproxy.session.frame import CLIENT

_MAY_ASK_BACK: Final = ("tools/call", "prompts/get", "resources/read", "tasks/result", "completion/complete")
"""Requests during which a server may send requests of its own."""

_UNRELATED: Final = ("roots/list", "ping")
"""Server requests that belong to no request of the client."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """When a message of the server is due. All numbers are places of client messages.

    The client must have sent every message in ``needs``, and the message ``after`` or a later one (``None``:
    no condition). ``owner`` is the message that this one belongs to, if known.
    """

    needs: tuple[int, ...] = ()
    after: int | None = None
    owner: int | None = None


def dependencies(session: RecordedSession) -> dict[int, Dependency]:
    """Return the dependency of every server message, by its place."""
    finder = _DependencyFinder(session)
    found: dict[int, Dependency] = {}
    for entry in session.messages:
        if entry.sender == CLIENT:
            finder.client(entry)
        else:
            found[entry.index] = finder.server(entry)
    return found


class _DependencyFinder:
    """Finds the dependencies of server messages. It is given all messages, in order."""

    def __init__(self, session: RecordedSession) -> None:
        self._messages: Final = session.messages
        self._open: Final[dict[int, SessionMessage]] = {}  # client requests without a response, by place
        self._by_id: Final[dict[TypedId, int]] = {}
        self._by_token: Final[dict[TypedId, int]] = {}
        self._by_exchange: Final[dict[int, int]] = {}
        self._server_requests: Final[dict[TypedId, int]] = {}
        self._owner_of_request: Final[dict[int, int | None]] = {}
        # Client request -> answers to server requests that belong to it, and its cancellations.
        self._client_replies: Final[dict[int, list[int]]] = {}
        self._last: int | None = None  # the latest client message

    def client(self, entry: SessionMessage) -> None:
        """Take a message of the client."""
        place = entry.index
        if entry.exchange:
            known = self._by_exchange.get(entry.exchange)
            if known is None or not isinstance(self._messages[known].message, Request):
                self._by_exchange[entry.exchange] = place
        match entry.message:
            case Request(id=id, method=method, params=params):
                self._open[place] = entry
                if id is not None:
                    self._by_id[type(id), id] = place
                if typed_id := _typed_id(params, "_meta", "progressToken"):
                    self._by_token[typed_id] = place
                if method == "ping":
                    return  # only its own response depends on a ping
            case Notification(method="notifications/cancelled", params=params):
                typed_id = _typed_id(params, "requestId")
                if typed_id and (owner := self._by_id.get(typed_id)) is not None:
                    self._client_replies.setdefault(owner, []).append(place)
            case Response() | ErrorResponse() if entry.answers is not None:
                owner = self._owner_of_request.get(entry.answers)
                if owner is not None:
                    self._client_replies.setdefault(owner, []).append(place)
            case _:
                pass
        self._last = place

    def server(self, entry: SessionMessage) -> Dependency:
        """Take a message of the server and return its dependency."""
        owner = self._owner(entry)
        match entry.message:
            case Request(id=id):
                if id is not None:
                    self._server_requests[type(id), id] = entry.index
                self._owner_of_request[entry.index] = owner
            case _:
                pass
        if owner is None:
            return Dependency(after=self._last)
        if entry.answers is not None:
            self._open.pop(owner, None)
        needs = (owner, *self._client_replies.get(owner, ()))
        # A subscription event may be caused by another client message, so it also waits for the latest one
        # before it. The acknowledgement of the subscription does not.
        if entry.answers is None and entry.method not in (None, _ACKNOWLEDGED) and self._is_listening(owner):
            return Dependency(needs, self._last, owner)
        return Dependency(needs, None, owner)

    def _owner(self, entry: SessionMessage) -> int | None:
        if entry.answers is not None:
            return entry.answers
        match entry.message:
            case Notification(method="notifications/progress", params=params):
                typed_id = _typed_id(params, "progressToken")
                if typed_id and typed_id in self._by_token:
                    return self._by_token[typed_id]
            case Notification(method="notifications/cancelled", params=params):
                typed_id = _typed_id(params, "requestId")
                if typed_id and typed_id in self._server_requests:
                    return self._owner_of_request.get(self._server_requests[typed_id])
                if typed_id and typed_id in self._by_id:
                    return self._by_id[typed_id]
            case Notification(params=params):
                typed_id = _typed_id(params, "_meta", SUBSCRIPTION_ID)
                if typed_id and typed_id in self._by_id:
                    return self._by_id[typed_id]
            case Request(method=method) if (
                method not in _UNRELATED and entry.exchange not in self._by_exchange
            ):
                return self._open_caller()
            case Malformed() if not entry.raw and entry.exchange in self._by_exchange:
                return self._by_exchange[entry.exchange]
            case _:
                pass
        return self._by_exchange.get(entry.exchange) if entry.exchange else None

    def _open_caller(self) -> int | None:
        """Return the latest open request during which a server may send requests."""
        for place in reversed(self._open):
            if self._open[place].method in _MAY_ASK_BACK:
                return place
        return None

    def _is_listening(self, owner: int) -> bool:
        return self._messages[owner].method == "subscriptions/listen"


_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


def _typed_id(params: "JSON | Absent", *path: str) -> TypedId | None:
    found: JSON | Absent = params
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return (type(found), found) if isinstance(found, int | str) and not isinstance(found, bool) else None
