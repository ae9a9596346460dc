"""What each message of a recorded server waited for, as far as a recording can tell.

An answer waits for its request, and for the client's answers to what the server asked in between. A
notification of progress belongs to the request whose token it bears, an event of a subscription to the
request that opened it, and over HTTP what came in the answer to a POST to the request in it. Sampling and
elicitation belong to the call that is under way. All other messages came of the server's own accord: they
wait for the client's message that they followed, or for any later one.

So a client that asks in another order than the recorded one is still answered: nothing waits for a
message that it has nothing to do with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Malformed, Notification, Request, Response
from mcpproxy.replay.message_paths import SUBSCRIPTION_ID
from mcpproxy.replay.recording import Said, Session
from mcpproxy.session.frame import CLIENT

_Named: TypeAlias = tuple[type, int | str]
"""An id or a token with its JSON type: 1 and "1" are two."""

_ASKING: Final = ("tools/call", "prompts/get", "resources/read", "tasks/result", "completion/complete")
"""Requests during which a server may ask back."""

_ALONE: Final = ("roots/list", "ping")
"""What servers ask whenever they like."""


@dataclass(frozen=True, slots=True)
class Cause:
    """When a message of the server is due: places in the session, all of the client's messages.

    ``needs`` must all have been seen. ``after``, or a later one, must have been seen; ``None`` is from the
    beginning. ``owner`` is the message that this one belongs to, if it is known.
    """

    needs: tuple[int, ...] = ()
    after: int | None = None
    owner: int | None = None


def causes(session: Session) -> dict[int, Cause]:
    """The cause of every message of the server, by its place."""
    reading = _Reading(session)
    found: dict[int, Cause] = {}
    for said in session.messages:
        if said.sender == CLIENT:
            reading.client(said)
        else:
            found[said.index] = reading.server(said)
    return found


class _Reading:
    def __init__(self, session: Session) -> None:
        self._messages: Final = session.messages
        self._open: Final[dict[int, Said]] = {}
        self._by_id: Final[dict[_Named, int]] = {}
        self._by_token: Final[dict[_Named, int]] = {}
        self._by_exchange: Final[dict[int, int]] = {}
        self._own: Final[dict[_Named, int]] = {}
        self._owner_of_own: Final[dict[int, int | None]] = {}
        self._heard: Final[dict[int, list[int]]] = {}
        self._last: int | None = None

    def client(self, said: Said) -> None:
        place = said.index
        if said.exchange:
            known = self._by_exchange.get(said.exchange)
            if known is None or not isinstance(self._messages[known].message, Request):
                self._by_exchange[said.exchange] = place
        match said.message:
            case Request(id=id, method=method, params=params):
                self._open[place] = said
                if id is not None:
                    self._by_id[type(id), id] = place
                if named := _named(params, "_meta", "progressToken"):
                    self._by_token[named] = place
                if method == "ping":
                    return  # nothing follows from a ping but its answer
            case Notification(method="notifications/cancelled", params=params):
                named = _named(params, "requestId")
                if named and (owner := self._by_id.get(named)) is not None:
                    self._heard.setdefault(owner, []).append(place)
            case Response() | ErrorResponse() if said.answers is not None:
                owner = self._owner_of_own.get(said.answers)
                if owner is not None:
                    self._heard.setdefault(owner, []).append(place)
            case _:
                pass
        self._last = place

    def server(self, said: Said) -> Cause:
        owner = self._owner(said)
        match said.message:
            case Request(id=id):
                if id is not None:
                    self._own[type(id), id] = said.index
                self._owner_of_own[said.index] = owner
            case _:
                pass
        if owner is None:
            return Cause(after=self._last)
        if said.answers is not None:
            self._open.pop(owner, None)
        needs = (owner, *self._heard.get(owner, ()))
        # What a subscription tells of came of something else: it keeps its place. Its beginning does not.
        if said.answers is None and said.method not in (None, _ACKNOWLEDGED) and self._is_listening(owner):
            return Cause(needs, self._last, owner)
        return Cause(needs, None, owner)

    def _owner(self, said: Said) -> int | None:
        if said.answers is not None:
            return said.answers
        match said.message:
            case Notification(method="notifications/progress", params=params):
                named = _named(params, "progressToken")
                if named and named in self._by_token:
                    return self._by_token[named]
            case Notification(method="notifications/cancelled", params=params):
                named = _named(params, "requestId")
                if named and named in self._own:
                    return self._owner_of_own.get(self._own[named])
                if named and named in self._by_id:
                    return self._by_id[named]
            case Notification(params=params):
                named = _named(params, "_meta", SUBSCRIPTION_ID)
                if named and named in self._by_id:
                    return self._by_id[named]
            case Request(method=method) if method not in _ALONE and said.exchange not in self._by_exchange:
                return self._asking()
            case Malformed() if not said.raw and said.exchange in self._by_exchange:
                return self._by_exchange[said.exchange]
            case _:
                pass
        return self._by_exchange.get(said.exchange) if said.exchange else None

    def _asking(self) -> int | None:
        """The latest open request that a server may ask something about."""
        for place in reversed(self._open):
            if self._open[place].method in _ASKING:
                return place
        return None

    def _is_listening(self, owner: int) -> bool:
        return self._messages[owner].method == "subscriptions/listen"


_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


def _named(params: "JSON | Absent", *path: str) -> _Named | None:
    found: JSON | Absent = params
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return (type(found), found) if isinstance(found, int | str) and not isinstance(found, bool) else None
