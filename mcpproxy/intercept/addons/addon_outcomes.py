"""What addons make of a message: the bytes for its receiver, and the answer to its sender."""

from collections.abc import Callable
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.intercept.fault_actions import FaultAction
from mcpproxy.intercept.fault_effects import error_effect
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Notification, Request, Response
from mcpproxy.session.frame import Sender

_FAILED: Final = FaultAction("error", text="An addon failed")


@slotted(frozen=True)
class AddonOutcome:
    """What becomes of a message.

    ``how``: ``same``, ``new``, ``answer``, ``drop``, or ``error`` for a hook that failed. ``raw`` is the new
    message, or the answer to its sender.
    """

    how: str
    addon: str = ""
    raw: bytes = b""


AskAddons: TypeAlias = Callable[[str, Sender, bytes, Callable[[AddonOutcome], None]], None]
"""Asks addons about a message by a hook; the function is called once with what they say."""


def addon_kind(message: Message) -> str | None:
    """Return the hook for a message; ``None`` for a batch, and for what is not a message."""
    match message:
        case Request():
            return "request"
        case Response() | ErrorResponse():
            return "response"
        case Notification():
            return "notification"
        case _:
            return None


def outcome_of(outcome: AddonOutcome, raw: bytes, message: Message) -> tuple[bytes | None, bytes | None]:
    """Return the bytes for the receiver, and the answer to the sender; ``None`` for nothing."""
    match outcome.how:
        case "same":
            return raw, None
        case "new":
            return outcome.raw, None
        case "answer":
            return None, outcome.raw
        case "error" if (effect := error_effect(_FAILED, raw, message)) is not None:
            return (effect.given[0][1] if effect.given else None), effect.answer
        case _:
            return None, None
