"""Which request a notification names: by its id, its progress token, or as the one that subscribed.

Unlike an answer, a notification may name a request that has been answered. Ids and tokens are those of the
peer that sent the request; of several requests with one id, the latest is meant.
"""

from typing import Final

from mcpproxy.judge.session.frame import Frame, other
from mcpproxy.judge.session.unanswered_requests import ONE_SESSION, UnansweredRequests
from mcpproxy.peers.replay.message_paths import SUBSCRIPTION_ID
from mcpproxy.protocol.jsonrpc import Notification, Request, Single
from mcpproxy.protocol.message_parts import member


class NamedRequests:
    """All requests of a recording, given by numbers."""

    def __init__(self) -> None:
        # Nothing is taken out of these.
        self._by_id: Final[UnansweredRequests[int]] = UnansweredRequests()
        self._by_token: Final[UnansweredRequests[int]] = UnansweredRequests()

    def track_message(self, frame: Frame, message: Single, number: int, session: str) -> int | None:
        """Take the next message, and return the request that it names if it is a notification.

        ``number`` is that of the message, which is in ``frame``. ``session`` is the name of its session.
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
                own = self._by_id.find(sender, id, scopes)
                # A server cancels a subscription, which is a request of the client.
                return self._by_id.find(other(sender), id, scopes) if own is None else own
            case Notification(params=params):
                return self._by_id.find(other(sender), member(params, "_meta", SUBSCRIPTION_ID), scopes)
            case _:
                pass
        return None
