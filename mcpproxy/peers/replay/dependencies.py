"""Find the client messages on which each message of a recorded server depends, as far as the recording shows.

A message is due when the client has sent every message that it depends on. A response depends on its request,
on a cancellation of it, and on the client's answers to requests that the server sent in between. Some
messages belong to a request of the client and depend on it: a progress notification on the request with its
token, a subscription event on the request that opened the subscription, and over HTTP every message in the
response to a POST on the request in that POST. A sampling or elicitation request depends on the latest open
request of the client during which a server may ask. Any other message is due when the client has sent the
message that came before it in the recording, or a later message.

So a client that sends its requests in another order than the recorded client is still answered: no message
depends on an unrelated message.
"""

from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage
from mcpproxy.protocol.jsonrpc import ErrorResponse, Malformed, Notification, Request, Response
from mcpproxy.protocol.methods import ACKNOWLEDGED, LISTEN

_MAY_ASK_BACK: Final = ("tools/call", "prompts/get", "resources/read", "tasks/result", "completion/complete")
"""Methods of the client during which a server may send requests."""

_UNRELATED: Final = ("roots/list", "ping")
"""Server requests that do not belong to a request of the client."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """When a message of the server is due. All numbers are indices of client messages in the session.

    The client must have sent every message in ``needs``, and the message ``after`` or a later one (``None``:
    no condition). ``owner`` is the client message to which the message of the server belongs; ``None`` if
    there is none.
    """

    needs: tuple[int, ...] = ()
    after: int | None = None
    owner: int | None = None


def dependencies(session: RecordedSession) -> dict[int, Dependency]:
    """Return the dependency of every server message, by the index of the message."""
    finder = _DependencyFinder(session)
    by_index: dict[int, Dependency] = {}
    for entry in session.messages:
        if entry.sender == CLIENT:
            finder.add_client_message(entry)
        else:
            by_index[entry.index] = finder.add_server_message(entry)
    return by_index


class _DependencyFinder:
    """Finds the dependencies of server messages. The caller adds all messages of the session in order."""

    def __init__(self, session: RecordedSession) -> None:
        self._messages: Final = session.messages
        # In all dictionaries, a message is identified by its index in the session.
        self._open: Final[dict[int, SessionMessage]] = {}  # client requests without a response
        self._by_exchange: Final[dict[int, int]] = {}  # number of an exchange -> its client message
        self._owner_of_request: Final[dict[int, int | None]] = {}  # server request -> its owner
        # Client request -> the client's answers to server requests that the client request owns, and its
        # cancellations.
        self._client_replies: Final[dict[int, list[int]]] = {}
        self._last_client_message: int | None = None

    def add_client_message(self, entry: SessionMessage) -> None:
        """Add a message of the client."""
        index = entry.index
        if entry.exchange:
            owner = self._by_exchange.get(entry.exchange)
            if owner is None or not isinstance(self._messages[owner].message, Request):
                self._by_exchange[entry.exchange] = index
        match entry.message:
            case Request(method=method):
                self._open[index] = entry
                if method == "ping":
                    return  # no message depends on a ping, except its response
            case Notification(method="notifications/cancelled") if entry.names is not None:
                self._client_replies.setdefault(entry.names, []).append(index)
            case Response() | ErrorResponse() if entry.answers is not None:
                owner = self._owner_of_request.get(entry.answers)
                if owner is not None:
                    self._client_replies.setdefault(owner, []).append(index)
            case _:
                pass
        self._last_client_message = index

    def add_server_message(self, entry: SessionMessage) -> Dependency:
        """Add a message of the server and return its dependency."""
        owner = self._owner(entry)
        if isinstance(entry.message, Request):
            self._owner_of_request[entry.index] = owner
        if owner is None:
            return Dependency(after=self._last_client_message)
        if entry.answers is not None:
            self._open.pop(owner, None)
        needs = (owner, *self._client_replies.get(owner, ()))
        # Another client message may have caused a subscription event, so the event also waits for the latest
        # client message before it. The acknowledgement of the subscription does not wait.
        if entry.answers is None and entry.method not in (None, ACKNOWLEDGED) and self._is_listening(owner):
            return Dependency(needs, self._last_client_message, owner)
        return Dependency(needs, None, owner)

    def _owner(self, entry: SessionMessage) -> int | None:
        """Return the client message to which a server message belongs; ``None`` if there is none."""
        if entry.answers is not None:
            return entry.answers
        if entry.names is not None:
            # If the server cancels its own request, the notification has the owner of that request.
            return self._owner_of_request.get(entry.names, entry.names)
        match entry.message:
            case Request(method=method) if (
                method not in _UNRELATED and entry.exchange not in self._by_exchange
            ):
                return self._open_caller()
            # An event without data belongs to the exchange in which it was sent.
            case Malformed() if not entry.raw and entry.exchange in self._by_exchange:
                return self._by_exchange[entry.exchange]
            case _:
                pass
        return self._by_exchange.get(entry.exchange) if entry.exchange else None

    def _open_caller(self) -> int | None:
        """Return the latest open request during which a server may send requests."""
        for index in reversed(self._open):
            if self._open[index].method in _MAY_ASK_BACK:
                return index
        return None

    def _is_listening(self, owner: int) -> bool:
        return self._messages[owner].method == LISTEN
