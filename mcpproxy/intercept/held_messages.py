"""The messages that breakpoints hold, and what somebody wants to become of one."""

from collections.abc import Callable
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.intercept.fault_actions import FaultAction
from mcpproxy.intercept.fault_effects import error_effect
from mcpproxy.protocol.jsonrpc import Message
from mcpproxy.session.frame import FaultMark, Finding, Sender

_INTERNAL_ERROR: Final = FaultAction("error", text="Internal error")


@slotted(frozen=True)
class HeldMessage:
    """A message that is held until somebody releases it, or until ``until_ns``.

    ``then`` says how it is released at that time. ``raw`` are its bytes, on stdio with the line feed.
    ``findings`` are what was found in it, if the session judges messages before it forwards them.
    """

    mark: FaultMark
    sender: Sender
    raw: bytes
    message: Message
    since_ns: int
    until_ns: int
    then: str
    findings: tuple[Finding, ...] = ()


@slotted(frozen=True)
class Release:
    """What becomes of the message that fault ``number`` holds.

    ``how``: ``pass`` gives it, ``edit`` gives ``data`` instead, ``drop`` gives nothing, and ``error`` answers
    a request or replaces an answer; any other message is dropped.
    """

    number: int
    how: str
    data: bytes = b""
    error: FaultAction = _INTERNAL_ERROR


@slotted(frozen=True)
class Released:
    """What the receiver of a message is given, and its sender is answered; ``None`` for nothing."""

    given: bytes | None = None
    answer: bytes | None = None


def released(held: HeldMessage, release: Release) -> Released:
    """Return what becomes of a message; all bytes are without a line feed at their end."""
    raw = held.raw.removesuffix(b"\n")
    if release.how == "pass":
        return Released(raw)
    if release.how == "edit":
        return Released(release.data)
    effect = error_effect(release.error, raw, held.message) if release.how == "error" else None
    if effect is None:
        return Released()
    return Released(effect.given[0][1] if effect.given else None, effect.answer)


class HeldMessages:
    """The messages that an HTTP proxy holds. ``start_timer`` calls a function after so many seconds."""

    def __init__(self, start_timer: Callable[[float, Callable[[], None]], object]) -> None:
        self._start_timer = start_timer
        self._held: dict[int, tuple[HeldMessage, Callable[[Released], None]]] = {}

    @property
    def messages(self) -> list[HeldMessage]:
        """What is held, in the order in which it came."""
        return [held for held, _ in self._held.values()]

    def hold(self, held: HeldMessage, go_on: Callable[[Released], None]) -> None:
        """Hold a message; ``go_on`` is called once when it is released."""
        number = held.mark.number
        self._held[number] = held, go_on

        def time_is_over() -> None:
            if number in self._held:
                self.release(Release(number, held.then))

        self._start_timer((held.until_ns - held.since_ns) / 1e9, time_is_over)

    def forget(self, number: int) -> None:
        """Hold a message no longer, because its connection has ended."""
        self._held.pop(number, None)

    def release(self, release: Release) -> None:
        """Release a message.

        Raises:
            LookupError: nothing is held by this number.
        """
        held, go_on = self._held[release.number]
        outcome = released(held, release)  # if it fails, the message is still held
        del self._held[release.number]
        go_on(outcome)
