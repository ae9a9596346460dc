"""The messages that breakpoints hold, and how each is released: by a command, or when its time is up."""

from collections.abc import Callable
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.errors import McpProxyError
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import error_effect
from mcpproxy.gate.intercept.policies import Passing
from mcpproxy.judge.session.frame import FaultMark, Finding, Sender
from mcpproxy.protocol.jsonrpc import Message

_INTERNAL_ERROR: Final = FaultAction("error", text="Internal error")


class NotDoneError(McpProxyError):
    """A command that cannot be carried out; the text tells its sender why."""


class NothingHeldError(NotDoneError):
    """Nothing is held under the ``number`` that a command names."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@slotted(frozen=True)
class HeldMessage:
    """A message that is held from ``since_ns`` until somebody releases it, or until ``until_ns``.

    ``mark`` marks it in the recording, and has the ``number`` that a ``Release`` names. ``then`` says how it
    is released at ``until_ns``, as ``Release.how`` does. Times are of the monotonic clock. ``raw`` are its
    bytes, on stdio with the line feed. ``findings`` are the findings about it, if messages are judged before
    they are forwarded.
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
    """A command to release the message that is held under ``number``.

    ``how``: ``pass`` forwards it, ``edit`` forwards ``data`` instead, ``drop`` forwards nothing. ``error``
    answers a request with ``error``, replaces an answer by it, and drops any other message.
    """

    number: int
    how: str
    data: bytes = b""
    error: FaultAction = _INTERNAL_ERROR


@slotted(frozen=True)
class Released:
    """The bytes that the receiver of a released message gets, and our answer to its sender.

    Each is ``None`` if that peer gets nothing, and has no framing: on stdio a line feed is added.
    """

    given: bytes | None = None
    answer: bytes | None = None


def _apply_release(held: HeldMessage, release: Release) -> Released:
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
    """The messages that a session holds. Times are of one monotonic clock, in ns."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[HeldMessage, Callable[[Released, int], None]]] = {}

    @property
    def messages(self) -> list[HeldMessage]:
        """The held messages, in the order in which they came."""
        return [held for held, _ in self._held.values()]

    @property
    def next_due_ns(self) -> int | None:
        """When ``release_due`` has to be called next; ``None`` if nothing is held."""
        return min((held.until_ns for held, _ in self._held.values()), default=None)

    def hold(
        self,
        mark: FaultMark,
        passing: Passing,
        decision: FaultDecision,
        now_ns: int,
        on_release: Callable[[Released, int], None],
        raw: bytes | None = None,
    ) -> None:
        """Hold a message as the breakpoint in ``decision`` says.

        ``on_release`` is called once when it is released, with what becomes of it and the time of the
        release. ``raw`` are its bytes with the line feed, on stdio.
        """
        action = decision.rule.action
        held = HeldMessage(
            mark,
            passing.sender,
            passing.raw if raw is None else raw,
            passing.message,
            since_ns=now_ns,
            until_ns=now_ns + action.gap_ns,
            then=action.text,
            findings=decision.findings,
        )
        self._held[mark.number] = held, on_release

    def forget(self, number: int) -> None:
        """Forget a held message without releasing it, because its connection has ended."""
        self._held.pop(number, None)

    def release(self, release: Release, now_ns: int) -> None:
        """Release a message.

        Raises:
            NothingHeldError: nothing is held under this number.
        """
        if release.number not in self._held:
            raise NothingHeldError(release.number)
        held, on_release = self._held[release.number]
        outcome = _apply_release(held, release)  # if it fails, the message is still held
        del self._held[release.number]
        on_release(outcome, now_ns)

    def release_due(self, now_ns: int) -> None:
        """Release each message whose time is up, as its breakpoint says."""
        for held in self.messages:
            if held.until_ns <= now_ns:
                self.release(Release(held.mark.number, held.then), now_ns)
