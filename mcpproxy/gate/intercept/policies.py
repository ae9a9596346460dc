"""Policies: they decide what becomes of each message of a session. No I/O and no clock.

A message enters the gate when it arrives, and leaves the gate just before its receiver gets it. A policy can
act at either place:

    sender ─► enter: live judge, fault rules and breakpoints, addons ─► leave: enforcement ─► receiver

A message that enters is shown to one policy after the other until one acts on it; that policy decides alone,
and may let the message wait. A message that leaves, changed or not, is shown to one policy after the other
until one refuses it; our own answer to its sender is not.

Both transports, stdio (``lanes``) and HTTP (``http_gate``), ask the same ``Policies`` and carry out what they
decide."""

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.addons.closed_gate import ClosedGate, Withheld
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_effects import FaultEffect
from mcpproxy.judge.session.frame import Event, FaultMark, Finding, Frame, RequestHead, Sender
from mcpproxy.protocol.error_message import error_message
from mcpproxy.protocol.jsonrpc import Batch, Message, Request
from mcpproxy.protocol.message_parts import singles, target_of
from mcpproxy.protocol.raw_json import elements, value_bytes


@slotted()
class Passing:
    """A message on its way through the gate.

    ``session`` is the ``Mcp-Session-Id`` over HTTP. ``findings`` are the findings about it, if messages are
    judged before they are forwarded. ``is_gated``: an addon that fails closed has to see it. ``unfit`` are
    the verbs of fault rules that cannot act on it.
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
        """Its bytes, without a line feed or other framing."""
        return self.frame.raw

    @property
    def at_ns(self) -> int:
        """When it arrived, or is to be given to its receiver; 0 for an answer over HTTP."""
        return self.frame.observed_at_ns

    @property
    def message(self) -> Message:
        return self.frame.message

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the request, or the requests of the batch in order, call.

        A name is empty if the call has none.
        """
        return tuple(
            target_of(one.method, one.params) or ""
            for one in singles(self.message)
            if isinstance(one, Request) and one.method == "tools/call"
        )


@slotted(frozen=True)
class Refused:
    """The refusal of a request. ``answer`` is our answer to its sender, for a batch to all of its requests.

    ``by`` and ``why`` are for the recording. ``status`` is the HTTP status of the answer.
    """

    by: str
    why: str
    answer: bytes
    status: int = 200


@slotted(frozen=True)
class Instead:
    """A replacement for a message: ``given`` is for its receiver, ``answer`` for its sender.

    Each is ``None`` if that peer gets nothing. ``by`` and ``how`` are the mark in the recording.
    """

    by: str
    how: str
    given: bytes | None = None
    answer: bytes | None = None


@slotted(frozen=True)
class AppliedFault:
    """The fault rule or breakpoint that acts on a message, and its effect on the message's bytes."""

    decision: FaultDecision
    effect: FaultEffect

    @property
    def is_breakpoint(self) -> bool:
        """Whether the message is held until somebody decides what becomes of it."""
        return self.decision.rule.is_breakpoint


@slotted(frozen=True)
class Asked:
    """Addons have to be asked about a message, by their hook of this name."""

    hook: str


Action: TypeAlias = Withheld | Instead | AppliedFault | Asked
"""What a policy does with a message; ``Withheld``: an addon that fails closed cannot see the message."""


class Policy:
    """Sees the messages of all sessions, in both directions. A policy overrides the methods that it needs."""

    def enter(self, passing: Passing) -> Action | None:
        """Return what becomes of a message that has arrived; ``None`` leaves it to the next policy."""
        del passing

    def leave(self, passing: Passing) -> Refused | None:
        """Return a refusal of a request that is about to be given to its receiver; ``None`` lets it pass."""
        del passing

    def enter_head(self, head: RequestHead) -> Action | None:
        """Return what becomes of an HTTP request, seeing its head only; ``None`` leaves it to others."""
        del head

    def observe(self, event: Event, *, leaves: bool) -> None:
        """Take note of an event that no policy can act on, such as a piece of a message, or an end.

        ``leaves`` says at which place of the gate: where messages leave, or where they enter.
        """
        del event, leaves

    def enter_after_failure(self, passing: Passing) -> Withheld | None:
        """Return what becomes of a message after a policy has failed; ``None`` lets it pass."""
        del passing


def refusal(passing: Passing, by: str, code: int, text: str) -> Refused | None:
    """Return a refusal with a JSON-RPC error; ``None`` if the message has no request.

    A batch is refused as a whole, with an error for each of its requests. ``code`` and ``text`` are those of
    the error, and ``by`` names in the recording what refuses the request.
    """
    raw, is_batch = passing.raw, isinstance(passing.message, Batch)
    # The ids are copied as they were written: reading and writing them again could change a large number.
    errors = [
        error_message(code, text, value_bytes(one, ("id",)) or b"null")
        for one, message in zip(elements(raw) if is_batch else (raw,), singles(passing.message), strict=False)
        if isinstance(message, Request)
    ]
    if not errors:
        return None
    return Refused(by, text, b"[%b]" % b",".join(errors) if is_batch else errors[0])


def marked(fault: FaultMark, data: bytes, part: str = "", *, has_more: bool = False) -> bytes:
    """Return the payload of a journal record about a fault: its mark as JSON on one line, then ``data``.

    ``part`` says what ``data`` is: a ``head``, a ``body`` or an ``event``; empty on stdio, and for bytes that
    do not pass. With ``has_more``, a record with the same fault follows.
    """
    mark = fault.members
    if part:
        mark["part"] = part
    if has_more:
        mark["more"] = True
    return json.dumps(mark).encode() + b"\n" + data


class Policies:
    """The policies of a session in their order. ``gate`` withholds messages that no addon can be asked about.

    A policy raises only because of a bug in mcpproxy: ``say`` reports it on stderr, and no policy acts at
    that place any more; where messages enter, ``enter_after_failure`` is asked instead.
    """

    def __init__(
        self, policies: Sequence[Policy], say: Callable[[str], None], gate: ClosedGate | None = None
    ) -> None:
        self.gate: Final = gate or ClosedGate()
        self._policies: Final = policies
        self._say = say
        self._failed: set[str] = set()
        """The places at which a policy has raised: ``entry``, ``exit``."""
        self.has_entry: Final = any(type(policy).enter is not Policy.enter for policy in policies)
        """Whether a policy acts on messages that enter."""
        self.has_exit: Final = any(type(policy).leave is not Policy.leave for policy in policies)
        """Whether a policy acts on messages that leave."""

    def enter(self, passing: Passing) -> Action | None:
        """Return what becomes of a message that has arrived; ``None`` if it passes."""
        if "entry" not in self._failed:
            try:
                for policy in self._policies:
                    if (action := policy.enter(passing)) is not None:
                        return action
            except Exception as fault:
                self._disable("entry", "no rule acts any more", fault)
            else:
                return None
        return next(filter(None, (policy.enter_after_failure(passing) for policy in self._policies)), None)

    def enter_head(self, head: RequestHead) -> Action | None:
        """Return what becomes of an HTTP request, if a policy decides by its head; otherwise ``None``."""
        if "entry" not in self._failed:
            try:
                for policy in self._policies:
                    if (action := policy.enter_head(head)) is not None:
                        return action
            except Exception as fault:
                self._disable("entry", "no rule acts any more", fault)
        return None

    def leave(self, passing: Passing) -> Refused | None:
        """Return a refusal of a message that is about to be given to its receiver; ``None`` if it passes."""
        if "exit" not in self._failed:
            try:
                for policy in self._policies:
                    if (refused := policy.leave(passing)) is not None:
                        return refused
            except Exception as fault:
                self._disable("exit", "nothing is refused any more", fault)
        return None

    def observe(self, event: Event, *, leaves: bool) -> None:
        """Let all policies take note of an event that no policy can act on; ``leaves`` as for
        ``Policy.observe``.
        """
        place = "exit" if leaves else "entry"
        if place not in self._failed:
            try:
                for policy in self._policies:
                    policy.observe(event, leaves=leaves)
            except Exception as fault:
                self._disable(
                    place, "nothing is refused any more" if leaves else "no rule acts any more", fault
                )

    def _disable(self, place: str, then: str, fault: Exception) -> None:
        self._failed.add(place)
        self._say(f"a fault of mcpproxy, {then}: {type(fault).__name__}: {fault}")
