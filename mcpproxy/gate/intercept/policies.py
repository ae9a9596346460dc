"""Who decides what becomes of a message: the policies of a session, in a list. No I/O and no clock.

A message enters the gate when it has come, and leaves it when it is about to be given to its receiver. A
policy may act at either place:

    sender ─► enter: live judge, fault rules and breakpoints, addons ─► leave: enforcement ─► receiver

A message that enters is shown to one policy after the other until one acts on it; that one decides alone. It
may wait meanwhile. What leaves, whoever made it, is shown to one policy after the other until one refuses it.

Lines (``lanes``) and requests, bodies and events over HTTP (``http_gate``) ask the same ``Policies``, and do
what they say."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.addons.closed_gate import ClosedGate, Withheld
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import FaultEffect, error_effect
from mcpproxy.judge.session.frame import Event, Finding, Frame, RequestHead, Sender
from mcpproxy.protocol.jsonrpc import Message, Request
from mcpproxy.protocol.message_parts import target_of


@slotted()
class Passing:
    """A message on its way.

    ``session`` is the ``Mcp-Session-Id`` over HTTP. ``findings`` are what is wrong with it, if it is judged
    before it passes. ``is_gated``: an addon that fails closed has to see it. ``unfit`` are verbs of
    fault rules that cannot be done to it.
    """

    frame: Frame
    session: str = ""
    findings: tuple[Finding, ...] = ()
    is_gated: bool = True
    unfit: tuple[str, ...] = ()

    @property
    def sender(self) -> Sender:
        return self.frame.sender

    @property
    def raw(self) -> bytes:
        """Its bytes, without the line feed or what else frames it."""
        return self.frame.raw

    @property
    def at_ns(self) -> int:
        """When it came, or is to be given."""
        return self.frame.observed_at_ns

    @property
    def message(self) -> Message:
        return self.frame.message

    @property
    def tool(self) -> str:
        """The tool that a request calls; empty for anything else."""
        message = self.message
        if not isinstance(message, Request) or message.method != "tools/call":
            return ""
        return target_of(message.method, message.params) or ""


@slotted(frozen=True)
class Refused:
    """A request does not pass: ``answer`` is our answer to its sender, of a batch to all of its requests.

    ``by`` and ``why`` are for the recording, ``status`` is that of the answer over HTTP.
    """

    by: str
    why: str
    answer: bytes
    status: int = 200


@slotted(frozen=True)
class Instead:
    """Other bytes in the place of a message: for its receiver, and for its sender; ``None`` for nothing.

    ``by`` and ``how`` are the mark in the recording.
    """

    by: str
    how: str
    given: bytes | None = None
    answer: bytes | None = None


@slotted(frozen=True)
class MetFault:
    """A fault rule acts on a message, or a breakpoint holds it. ``effect`` is what becomes of its bytes."""

    decision: FaultDecision
    effect: FaultEffect


@slotted(frozen=True)
class Asked:
    """Addons are asked by ``hook`` about a message."""

    hook: str


Action: TypeAlias = Withheld | Instead | MetFault | Asked
"""What becomes of a message; ``Withheld``: an addon that fails closed cannot see it."""


class Policy:
    """Sees the messages of all sessions, in both directions. A policy overrides what it needs."""

    def enter(self, passing: Passing) -> Action | None:
        """Return what becomes of a message that has come; ``None`` lets the next policy see it."""
        del passing

    def leave(self, passing: Passing) -> Refused | None:
        """Return a refusal for a request that its receiver would now be given; ``None`` lets it pass."""
        del passing

    def enter_head(self, head: RequestHead) -> Action | None:
        """Do as ``enter`` for the head of an HTTP request, before its message."""
        del head

    def observe(self, event: Event, *, leaves: bool) -> None:
        """Take note of an event that nobody can act on, such as a part of a message, or an end."""
        del event, leaves

    def enter_after_failure(self, passing: Passing) -> Withheld | None:
        """Return what becomes of a message when the policies have failed; ``None`` lets it pass."""
        del passing


def refusal(passing: Passing, by: str, code: int, text: str) -> Refused | None:
    """Return a refusal with a JSON-RPC error; ``None`` for what is not a request."""
    effect = error_effect(FaultAction("error", text=text, code=code), passing.raw, passing.message)
    return Refused(by, text, effect.answer) if effect is not None and effect.answer is not None else None


class Policies:
    """The policies of a session in their order. ``gate`` withholds what no addon can be asked about.

    A policy that raises is a bug in mcpproxy: ``say`` says so once, and at that place none acts any more.
    """

    def __init__(
        self, policies: Sequence[Policy], say: Callable[[str], None], gate: ClosedGate | None = None
    ) -> None:
        self.gate: Final = gate or ClosedGate()
        self._policies: Final = policies
        self._say = say
        self._failed: set[str] = set()
        """The places at which a policy has raised."""
        self.has_entry: Final = any(type(each).enter is not Policy.enter for each in policies)
        """Whether one acts on what enters."""
        self.has_exit: Final = any(type(each).leave is not Policy.leave for each in policies)
        """Whether one acts on what leaves."""

    def enter(self, passing: Passing) -> Action | None:
        """Return what becomes of a message that has come; ``None`` if it passes."""
        if "entry" not in self._failed:
            try:
                for policy in self._policies:
                    if (action := policy.enter(passing)) is not None:
                        return action
            except Exception as fault:
                self._fail("entry", "no rule acts any more", fault)
            else:
                return None
        return next(filter(None, (policy.enter_after_failure(passing) for policy in self._policies)), None)

    def enter_head(self, head: RequestHead) -> Action | None:
        """Return what becomes of an HTTP request, if its head decides that."""
        if "entry" not in self._failed:
            try:
                for policy in self._policies:
                    if (action := policy.enter_head(head)) is not None:
                        return action
            except Exception as fault:
                self._fail("entry", "no rule acts any more", fault)
        return None

    def leave(self, passing: Passing) -> Refused | None:
        """Return a refusal for what its receiver would now be given; ``None`` if it passes."""
        if "exit" not in self._failed:
            try:
                for policy in self._policies:
                    if (refused := policy.leave(passing)) is not None:
                        return refused
            except Exception as fault:
                self._fail("exit", "nothing is refused any more", fault)
        return None

    def observe(self, event: Event, *, leaves: bool) -> None:
        """Let all policies take note of an event that nobody can act on."""
        place = "exit" if leaves else "entry"
        if place not in self._failed:
            try:
                for policy in self._policies:
                    policy.observe(event, leaves=leaves)
            except Exception as fault:
                self._fail(place, "nothing is refused any more" if leaves else "no rule acts any more", fault)

    def _fail(self, place: str, then: str, fault: Exception) -> None:
        self._failed.add(place)
        self._say(f"a fault of mcpproxy, {then}: {type(fault).__name__}: {fault}")
