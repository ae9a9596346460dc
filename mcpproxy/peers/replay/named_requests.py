"""Find the request that a notification names: by its id, its progress token, or its subscription.

Unlike a response, a notification may name a request that has been answered. Ids and tokens belong to the peer
that sent the request; if several requests have the same id, the latest is meant.
"""

from typing import Final

from mcpproxy.judge.session.frame import Frame, other
from mcpproxy.judge.session.unanswered_requests import ONE_SESSION, UnansweredRequests
from mcpproxy.protocol.jsonrpc import Notification, Request, Single
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY


class NamedRequests:
    """All requests of a recording, each identified by a number."""

    def __init__(self) -> None:
        # Nothing is removed from these: an answered request can still be named.
        self._by_id: Final[UnansweredRequests[int]] = UnansweredRequests()
        self._by_token: Final[UnansweredRequests[int]] = UnansweredRequests()

    def track_message(self, frame: Frame, message: Single, number: int, session: str) -> int | None:
        """Take the next message; if it is a notification, return the number of the request that it names.

        Return ``None`` for any other message, and if no request is named.

        ``number`` identifies the message, which is in ``frame``. ``session`` is the name of its session.
        """
        sender, scopes = frame.sender, (frame.exchange, session) if frame.exchange else ONE_SESSION
        match message:
            case Request(id=id, params=params):
                self._by_id.add(sender, id, number, scopes)
                token = member(params, "_meta", "progressToken")
                if type(token) is int or type(token) is str:
                    self._by_token.add(sender, token, number, scopes)
            case Notification(method="notifications/progress", params=params):
                return self._by_token.find(other(sender), member(params, "progressToken"), scopes)
            case Notification(method="notifications/cancelled", params=params):
                id = member(params, "requestId")
                own_request = self._by_id.find(sender, id, scopes)
                # A server cancels a subscription, which is a request of the client.
                return self._by_id.find(other(sender), id, scopes) if own_request is None else own_request
            case Notification(params=params):
                return self._by_id.find(other(sender), member(params, "_meta", SUBSCRIPTION_ID_KEY), scopes)
            case _:
                pass
        return None
