"""The gate of a proxy in front of an HTTP server: what the gates of its tunnels share.

This module is imported only with an option that holds messages. Requests and answers are held until it is
decided what to do with them; ``http_request_side`` and ``http_answer_side`` then have the tunnel do it.

If a policy or a reader of messages fails because of a bug in mcpproxy, stderr says so once, and everything
passes from then on, unless an addon fails closed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.addons.closed_gate import A_FAULT, TOO_LONG
from mcpproxy.gate.intercept.addons.closed_gate_http import GatedPaths
from mcpproxy.gate.intercept.held_messages import HeldMessages
from mcpproxy.gate.intercept.http.http_events import HttpEvents
from mcpproxy.gate.intercept.policies import Action, Asked, Passing, Policies, Policy, Refused
from mcpproxy.judge.session.frame import CLIENT, Event, FaultMark, Frame, RequestHead, ResponseHead
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.protocol.raw_json import value_bytes

if TYPE_CHECKING:
    from mcpproxy.gate.intercept.addons.addon_calls import AddonCalls
    from mcpproxy.gate.intercept.control import Command, Control
    from mcpproxy.gate.intercept.gate_options import GateOptions
    from mcpproxy.gate.intercept.live.live_exchanges import LiveExchanges
    from mcpproxy.record.relay.http.proxy_interface import GatedProxy, GatedTunnel, TunnelGate


@slotted()
class EnteredRequest:
    """An HTTP request that has arrived: ``passing`` is its message, if it has one.

    ``action`` is what becomes of the request, ``None`` if it passes. ``id`` is the id, in JSON, of a JSON-RPC
    request that passes or that addons are asked about; otherwise empty. ``session`` is its
    ``Mcp-Session-Id``. ``is_gated``: an addon that fails closed has to see it. ``is_post``: it is a POST, so
    it should have a message.
    """

    action: Action | None = None
    passing: Passing | None = None
    id: bytes = b""
    session: str = ""
    is_gated: bool = True
    is_post: bool = True


class HttpGate:
    """Applies the policies of ``options`` to requests and answers. ``endpoint`` is the path of the endpoint.

    It implements ``ProxyGate``, which describes the methods without a docstring here. In its methods,
    ``number`` is the number of a connection, and ``now_ns`` a time of the monotonic clock. ``trace`` is the
    path of the recording. ``make_tunnel_gate`` makes the gate of a tunnel.
    """

    def __init__(
        self,
        proxy: GatedProxy,
        options: GateOptions,
        endpoint: str,
        trace: str,
        make_tunnel_gate: Callable[[HttpGate, GatedTunnel], TunnelGate],
    ) -> None:
        self._make_tunnel_gate = make_tunnel_gate
        self.proxy = proxy
        self.say = proxy.stderr_log.say
        self.held = HeldMessages()
        self.paths = GatedPaths()
        self.addons: AddonCalls | None = None
        if options.make_addons is not None:
            self.addons = options.make_addons(self.say, trace)
            self.addons.attach(self._watch, proxy.loop.forget)
        policies: list[Policy] = []
        self._live: LiveExchanges | None = None
        if options.make_judge is not None:
            from mcpproxy.gate.intercept.live.live_exchanges import LiveExchanges

            policies.append(live := LiveExchanges(options.make_judge(self.say), endpoint))
            self._live = live
        gate = options.add_policies(policies, self.say, self.addons, is_http=True)
        self.policies = Policies(policies, self.say, gate)
        if gate.addons:
            self.paths.add(endpoint)
            proxy.router.left_out = frozenset((b"accept-encoding",))  # so that servers do not compress bodies
        # The events of what senders have sent, and of what receivers are given; ``None`` if no policy needs
        # them.
        self._entering = HttpEvents(endpoint, are_given=False) if self.policies.has_entry else None
        self._leaving = HttpEvents(endpoint, are_given=True) if self.policies.has_exit else None
        self._number = 0
        self._journal = proxy.record
        proxy.record = self._record
        self._control: Control | None = None
        if options.rules is not None and options.rules.have_breakpoints:
            from mcpproxy.gate.intercept.control import control_path, listen

            path = control_path(trace)
            self._control = listen(path, self._watch, proxy.loop.forget, self._on_command, self.say)

    def tunnel_gate(self, tunnel: GatedTunnel) -> TunnelGate:
        return self._make_tunnel_gate(self, tunnel)

    def mark(self, rule: str, action: str) -> FaultMark:
        """Return the mark of a new fault; faults are numbered from 1."""
        self._number += 1
        return FaultMark(rule, action, self._number)

    def _watch(self, fd: int, handler: Callable[[int], None], events: int) -> None:
        self.proxy.loop.watch(fd, events, handler)

    def _on_command(self, command: Command) -> Command:
        """Carry out a command from the control socket, and return the answer."""
        from mcpproxy.gate.intercept.control import do_command

        now_ns = time.monotonic_ns()
        return do_command(
            command, self.held.messages, now_ns, lambda release: self.held.release(release, now_ns)
        )

    def run_due(self, limit_s: float | None) -> float | None:
        now_ns = time.monotonic_ns()
        self.held.release_due(now_ns)
        if self.addons is not None:
            self.addons.give_up_late(now_ns)
        due = (self.held.next_due_ns, None if self.addons is None else self.addons.next_due_ns)
        left_s = min((max(0, each - now_ns) / 1e9 for each in due if each is not None), default=None)
        return left_s if limit_s is None or (left_s is not None and left_s < limit_s) else limit_s

    def close(self) -> None:
        if self.addons is not None:
            self.addons.close()
            self.addons = None
        if self._control is not None:
            self._control.close()

    # Events of what passes

    def _record(self, kind: int, at_ns: int, payload: bytes, number: int) -> None:
        self._journal(kind, at_ns, payload, number)
        for events in (self._entering, self._leaving):
            if events is not None:
                events.record(kind, at_ns, payload, number)
        if self._live is not None and number:
            self._live.take_record(kind, at_ns, payload, number)

    def read_recorded(self) -> None:
        for is_given, events in enumerate((self._entering, self._leaving)):
            if events is not None:
                try:
                    for event in events.read_recorded():
                        self._observe_event(event, is_given=bool(is_given))
                except Exception as fault:
                    self._stop_events(fault, is_given=bool(is_given))

    def _observe_event(self, event: Event, *, is_given: bool) -> None:
        """Let policies take note of an event; at the exit, no policy sees a withheld message."""
        if is_given and isinstance(event, Frame | RequestHead | ResponseHead) and event.fault is not None:
            if not event.by_proxy:
                return
            event = replace(event, by_proxy=False, fault=None)
        self.policies.observe(event, leaves=is_given)

    def _stop_events(self, fault: Exception, *, is_given: bool) -> None:
        """Stop making events, because of a bug in mcpproxy."""
        if is_given:
            self._leaving, then = None, "nothing is refused any more"
        else:
            self._entering, then = None, "no rule acts any more"
        self.say(f"a fault of mcpproxy, {then}: {type(fault).__name__}: {fault}")

    def enter(self, data: bytes, now_ns: int, number: int) -> EnteredRequest:
        """Return what becomes of a request that has arrived and is complete in ``data``."""
        self.read_recorded()  # the records are of earlier bytes
        entered = EnteredRequest()
        if self._entering is not None:
            try:
                for event in self._entering.read_client(data, now_ns, number):
                    entered = self._updated_request(event, entered)
            except Exception as fault:
                self._stop_events(fault, is_given=False)
                entered = EnteredRequest()
        gate = self.policies.gate
        is_unseen = entered.passing is None and entered.is_gated and entered.is_post
        if gate.addons and entered.action is None and is_unseen:
            entered.action = gate.withhold(CLIENT, b"", A_FAULT)
        return entered

    def _updated_request(self, event: Event, entered: EnteredRequest) -> EnteredRequest:
        """Return the facts about a request after one of its events, given the facts before it."""
        if isinstance(event, RequestHead) and not event.by_proxy:
            session = _session_of(event)
            if event.method == "DELETE" and session and self.addons is not None:
                self.addons.close_session(session)
            is_gated, action = self.paths.has(event.target), self.policies.enter_head(event)
            return EnteredRequest(action, None, b"", session, is_gated, event.method == "POST")
        if not isinstance(event, Frame) or event.sender != CLIENT or entered.action is not None:
            self.policies.observe(event, leaves=False)
            return entered
        gate, passing = self.policies.gate, Passing(event, entered.session, is_gated=entered.is_gated)
        if event.continues:  # the message is too long to hold
            self.policies.observe(event, leaves=False)
            if gate.addons and entered.is_gated:
                entered.action = gate.withhold(CLIENT, event.raw, TOO_LONG, b"")
        else:
            entered.action = self.policies.enter(passing)
        if not event.continues or entered.action is not None:
            entered.passing = passing
        if isinstance(event.message, Request) and isinstance(entered.action, Asked | None):
            entered.id = value_bytes(event.raw, ("id",)) or b""
        return entered

    def leave(self, data: bytes, now_ns: int, number: int, *, is_altered: bool) -> Refused | None:
        """Return a refusal of a request that is about to be forwarded as ``data``; ``None`` if it passes.

        ``is_altered``: ``data`` is not what the client sent, so it is recorded in another way.
        """
        refused: Refused | None = None
        if self._leaving is None:
            return None
        self.read_recorded()
        try:
            events = self._leaving.read_client(data, now_ns, number, is_recorded_later=not is_altered)
            session = ""
            for event in events:
                if isinstance(event, RequestHead):
                    session = _session_of(event)
                if isinstance(event, Frame) and event.sender == CLIENT:
                    refused = self.policies.leave(Passing(event, session)) or refused
                else:
                    self._observe_event(event, is_given=True)
        except Exception as fault:
            self._stop_events(fault, is_given=True)
            return None
        return refused

    def read_early(self, data: bytes, now_ns: int, number: int) -> None:
        """Make events of a client's bytes that pass, which came before a request that is held."""
        self.read_recorded()
        for is_given, events in enumerate((self._entering, self._leaving)):
            if events is not None:
                try:
                    for event in events.read_client(data, now_ns, number):
                        self._observe_event(event, is_given=bool(is_given))
                except Exception as fault:
                    self._stop_events(fault, is_given=bool(is_given))

    def skip_recorded(self, number: int, size: int) -> None:
        """Make no events of the next ``size`` recorded bytes of a client, because they were withheld."""
        if self._leaving is not None:
            self._leaving.skip(number, size)

    def read_answer(self, data: bytes, now_ns: int, number: int) -> None:
        """Make events of a server's bytes that are held, if a breakpoint asks for findings."""
        if self._live is not None and self._entering is not None:
            self.read_recorded()
            for event in self._entering.read_server(data, now_ns, number):
                self.policies.observe(event, leaves=False)

    def stop_reading_answers(self, number: int) -> None:
        """Take note that all further bytes from the server of a connection pass."""
        self.read_recorded()
        if self._entering is not None:
            self._entering.stop_reading_ahead(number)


def _session_of(head: RequestHead) -> str:
    """Return the session id in a request's head; empty if there is none."""
    return next((value for name, value in head.headers if name.lower() == SESSION_ID), "")
