"""The outcome of asking addons about a message."""

from collections.abc import Callable
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.gate.intercept.fault_effects import error_effect
from mcpproxy.gate.intercept.policies import Instead
from mcpproxy.judge.session.frame import Sender
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Notification, Request, Response

_ADDON_ERROR: Final = FaultAction("error", text="An addon failed")


@slotted(frozen=True)
class AddonOutcome:
    """What becomes of a message, because of which addon.

    ``how``: ``same`` (it passes), ``new``, ``answer``, ``drop``, or ``error`` for a failed hook. ``raw`` is
    the new message, or the answer to its sender.
    """

    how: str
    addon: str = ""
    raw: bytes = b""


AskAddons: TypeAlias = Callable[[str, Sender, bytes, Callable[[AddonOutcome], None]], None]
"""Asks addons about a message: hook, sender, bytes, and a function to call once with the outcome."""


def addon_hook(message: Message) -> str | None:
    """Return the name of the hook for a message; ``None`` for a batch, and for bytes that are no message."""
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
    """Return the replacement of a message after addons were asked; ``None`` if it passes unchanged."""
    given: bytes | None = None
    answer: bytes | None = None
    match outcome.how:
        case "same":
            return None
        case "new":
            given = outcome.raw
        case "answer":
            answer = outcome.raw
        case "error" if (effect := error_effect(_ADDON_ERROR, raw, message)) is not None:
            given, answer = (effect.given[0][1] if effect.given else None), effect.answer
        case _:
            pass
    return None if given == raw else Instead(f"addon {outcome.addon}", outcome.how, given, answer)
