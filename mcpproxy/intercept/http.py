"""The HTTP proxy with fault rules, and what all its connections share.

This module is imported only with ``--faults``, ``--fault`` or ``--break``. It holds requests as
``mcpproxy.enforce`` does; a `FaultTunnel` does to them what rules say."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from mcpproxy.intercept.addons.closed_gate import ClosedGate
from mcpproxy.intercept.control import answered, control_path, listen
from mcpproxy.intercept.held_messages import HeldMessages
from mcpproxy.intercept.http_answer_side import SharedByTunnels
from mcpproxy.intercept.http_enforcer import FaultEnforcer
from mcpproxy.intercept.http_tunnel import FaultTunnel
from mcpproxy.relay import journal as journals

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from mcpproxy.intercept.addons.addon_calls import MakeAddons
    from mcpproxy.intercept.control import Command, Control
    from mcpproxy.intercept.fault_rules import FaultRules
    from mcpproxy.intercept.live.live_exchanges import LiveExchanges
    from mcpproxy.intercept.live.live_judge import MakeLiveJudge
    from mcpproxy.intercept.policies import Refused
    from mcpproxy.relay.http.proxy import Settings
    from mcpproxy.relay.journal import Journal

_ALTERED: Final = (journals.CLIENT_ALTERED, journals.SERVER_ALTERED)
_GIVEN: Final = (journals.CLIENT_GIVEN, journals.SERVER_GIVEN)


class FaultProxy(SharedByTunnels):
    """A proxy that does to requests to ``endpoint``, and to their answers, what ``rules`` say."""

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        journal: Journal | None,
        rules: FaultRules,
        endpoint: str,
        trace: str = "",
        make_addons: MakeAddons | None = None,
        make_judge: MakeLiveJudge | None = None,
    ) -> None:
        self.faults = FaultEnforcer(rules)
        super().__init__(settings, listener, journal, self.faults, endpoint)
        self.faults.say = self.stderr_log.say
        self.tunnel = FaultTunnel
        self.held = HeldMessages()
        self.addons = make_addons(self.stderr_log.say, trace) if make_addons is not None else None
        if self.addons is not None:
            self.addons.attach(self._watch, self.loop.forget)
            self.faults.wants, self.faults.on_deleted = self.addons.wants, self.addons.close_session
            if self.addons.closed:
                self.faults.gate = ClosedGate(self.addons.closed, self.stderr_log.say)
                self.faults.paths.add(endpoint)
                # So that servers send what addons can read.
                self.router.left_out = frozenset((b"accept-encoding",))
        self.live: LiveExchanges | None = None
        self._read_ahead: set[int] = set()
        """The connections on which what the server sends is judged when it is read."""
        if make_judge is not None:
            from mcpproxy.intercept.live.live_exchanges import LiveExchanges

            self.live = LiveExchanges(make_judge(self.stderr_log.say), endpoint)
            self.faults.found = self.live.sent
        self._control: Control | None = None
        if any(rule.action.verb == "pause" for rule in rules.rules):
            self._control = listen(
                control_path(trace), self._watch, self.loop.forget, self._on_command, self.faults.say
            )

    def _watch(self, fd: int, handler: Callable[[int], None], events: int) -> None:
        self.loop.watch(fd, events, handler)

    def _on_command(self, command: Command) -> Command:
        """Do what a command of ``mcpproxy breakpoints`` says, and return the answer."""
        now_ns = time.monotonic_ns()
        return answered(command, self.held.messages, now_ns, lambda asked: self.held.release(asked, now_ns))

    def _turn(self, limit_s: float | None) -> None:
        due = (self.held.next_due_ns, None if self.addons is None else self.addons.next_due_ns)
        for due_ns in due:
            if due_ns is not None:
                left_s = max(0, due_ns - time.monotonic_ns()) / 1e9
                limit_s = left_s if limit_s is None else min(limit_s, left_s)
        super()._turn(limit_s)
        self.held.release_due(time.monotonic_ns())
        if self.addons is not None:
            self.addons.due(time.monotonic_ns())

    def finish(self) -> None:
        super().finish()
        if self.addons is not None:
            self.addons.close()
            self.addons = None
        if self._control is not None:
            self._control.close()

    def judge(self, data: bytes, at_ns: int, number: int) -> Refused | None:
        self.judge_recorded()  # what it says belongs to earlier bytes
        self.faults.begin()
        super().judge(data, at_ns, number)
        self.faults.deny_unjudged(is_broken=self._enforcer is None)
        return self.faults.response

    def judge_answer(self, data: bytes, at_ns: int, number: int) -> None:
        """Judge bytes of a server that were read, if a breakpoint asks for findings."""
        if self.live is not None:
            self.judge_recorded()
            self._read_ahead.add(number)
            super()._judge_record(journals.SERVER, at_ns, data, number)

    def stop_judging_answers(self, number: int) -> None:
        """Judge what the server of a connection sends when it is recorded, because it passes in any case."""
        self.judge_recorded()
        self._read_ahead.discard(number)

    def _judge_record(self, kind: int, at_ns: int, payload: bytes, number: int) -> Refused | None:
        if kind == journals.SERVER and number in self._read_ahead:
            return None  # ``judge_answer`` had it
        if kind == journals.SERVER_EOF:
            self._read_ahead.discard(number)
        return super()._judge_record(kind, at_ns, payload, number)

    def _record(self, kind: int, at_ns: int, payload: bytes, number: int) -> None:
        self._record_and_judge(kind, at_ns, payload, number)
        if self.live is not None and number:
            self.live.recorded(kind, at_ns, payload, number)

    def _record_and_judge(self, kind: int, at_ns: int, payload: bytes, number: int) -> None:
        if kind not in _ALTERED and kind not in _GIVEN:
            super()._record(kind, at_ns, payload, number)
            return
        self._journal_record(kind, at_ns, payload, number)
        sent = payload.partition(b"\n")[2]
        if kind == journals.CLIENT_ALTERED:  # its bytes were judged before
            left_bytes = self._unjournaled_bytes.get(number, 0) - len(sent)
            self._unjournaled_bytes[number] = max(0, left_bytes)
        elif kind == journals.SERVER_ALTERED:
            self._unjudged.append((journals.SERVER, at_ns, sent, number))
