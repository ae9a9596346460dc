"""The subscriptions of a session of a stateless revision.

A subscription is a subscriptions/listen request that stays open while the server sends notifications. It is
identified by the id of the request; ``1`` and ``"1"`` are different ids.
"""

from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.history import SentRequest
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, RequestId, with_other_type

MAX_REMEMBERED: Final = 1_024
"""The number of subscriptions of a session that are remembered."""


@slotted(eq=False)
class Subscription:
    """One subscription.

    ``asked`` is the request that opened the subscription. ``wanted`` is the filter in that request, and
    ``acknowledged`` the filter that the server agreed to; each is ``None`` if it is unknown or not an object.
    ``begun`` is set once the server has sent a notification on it that only subscriptions have.
    ``cancelled_ns`` is the time at which the client cancelled the subscription. ``closed_seq`` is the frame
    in which the server ended it without answering the request; 0 if there is none.
    """

    asked: SentRequest
    wanted: JSONObject | None
    acknowledged: JSONObject | None = None
    begun: bool = False
    cancelled_ns: int | None = None
    closed_seq: int = 0

    @property
    def ended_seq(self) -> int:
        """The frame in which the server ended the subscription; 0 if it has not done so."""
        return self.asked.answered_seq or self.closed_seq


@slotted()
class Subscriptions:
    """The subscriptions by id. If several had the same id, only the latest is kept.

    ``forgot_some`` is set if a subscription was not recorded or had to be forgotten, so that an unknown id
    may be valid. ``modern`` is set once the server has shown that it supports a revision with subscriptions.
    """

    by_id: dict[RequestId, Subscription] = field(default_factory=dict[RequestId, Subscription])
    forgot_some: bool = False
    modern: bool = False

    def add(self, subscription: Subscription) -> None:
        """Remember ``subscription``, and forget the oldest one if there are too many."""
        self.by_id.pop(subscription.asked.id, None)
        self.by_id[subscription.asked.id] = subscription
        if len(self.by_id) > MAX_REMEMBERED:
            del self.by_id[next(iter(self.by_id))]
            self.forgot_some = True

    def retyped(self, id: JSON) -> Subscription | None:
        """Return the subscription whose id differs from ``id`` only in the JSON type (``1`` and ``"1"``).

        It is ``None`` if there is none.
        """
        retyped_id = with_other_type(id) if type(id) is int or isinstance(id, str) else None
        return None if retyped_id is None else self.by_id.get(retyped_id)
