"""What addons make of a message."""

from collections.abc import Callable
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.gate.intercept.fault_effects import error_effect
from mcpproxy.gate.intercept.policies import Instead
from mcpproxy.judge.session.frame import Sender
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Notification, Request, Response

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
"""Asks addons by a hook about a message: its sender, its bytes, and what is called once with their answer."""


def addon_hook(message: Message) -> str | None:
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


def instead_after(outcome: AddonOutcome, raw: bytes, message: Message) -> Instead | None:
    """Return what addons put in the place of a message; ``None`` if it passes."""
    given: bytes | None = None
    answer: bytes | None = None
    match outcome.how:
        case "same":
            return None
        case "new":
            given = outcome.raw
        case "answer":
            answer = outcome.raw
        case "error" if (effect := error_effect(_FAILED, raw, message)) is not None:
            given, answer = (effect.given[0][1] if effect.given else None), effect.answer
        case _:
            pass
    return None if given == raw else Instead(f"addon {outcome.addon}", outcome.how, given, answer)
