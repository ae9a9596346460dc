"""The interfaces by which a proxy, its tunnels (one for each client connection) and its gate use each other.

A gate holds messages until it has decided whether they pass; most proxies have none. The module contains only
types: nothing imports it at run time. ``now`` and ``at_ns`` are times in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mcpproxy.record.relay.http.dial import Dialer
from mcpproxy.record.relay.http.loop import Loop, Timers
from mcpproxy.record.relay.http.request_head import Refusal
from mcpproxy.record.relay.http.rewrite import Rewriting
from mcpproxy.record.relay.http.route import Route, Router
from mcpproxy.record.relay.http.socket import TunnelSocket

Record: TypeAlias = Callable[[int, int, bytes, int], None]
"""Adds a record to the journal (the copy of the traffic), ``(kind, at_ns, payload, connection)``; bytes of a
peer are recorded before they are forwarded."""


class StoppableTunnel(Protocol):
    """The part of a tunnel that its proxy uses."""

    def stop(self, why: str) -> None:
        """Close both connections. ``why`` is recorded, unless nothing of the client is recorded yet."""
        ...


class ProxyInterface(Protocol):
    """The part of a proxy that its tunnels use; all tunnels share it."""

    loop: Loop
    timers: Timers
    router: Router
    dialer: Dialer
    upstream: str
    rewriting: Rewriting | None
    record: Record
    tunnels: set[StoppableTunnel]  # those that have not ended
    gate: ProxyGate | None
    last_number: int  # the number of the last connection that has records

    def on_upstream_failed(self, address: str, why: str) -> None:
        """Note that no connection to ``address`` could be opened, for the reason ``why``."""
        ...

    def on_upstream_reached(self, address: str) -> None:
        """Note that a connection to ``address`` is open."""
        ...


class TunnelRecords(Protocol):
    """The part of ``ConnectionRecords`` that a gate uses; see there."""

    number: int

    def begin(self, at_ns: int) -> None: ...
    def add(self, kind: int, at_ns: int, payload: bytes = b"") -> None: ...
    def note(self, what: str, why: str, at_ns: int) -> None: ...


class GatedTunnel(Protocol):
    """The part of a ``Tunnel`` that its gate uses; see there."""

    client: TunnelSocket
    holds_client: bool
    holds_upstream: bool
    is_over: bool

    @property
    def records(self) -> TunnelRecords: ...
    def forward(self, data: bytes, now: int, *, is_recorded: bool = False) -> None: ...
    def give_down(self, data: bytes) -> None: ...
    def refuse(self, refusal: Refusal, now: int) -> None: ...
    def end_upstream(self) -> None: ...
    def finish(self, *, is_reset: bool) -> None: ...
    def watch(self) -> None: ...
    def close(self) -> None: ...


class TunnelGate(Protocol):
    """Gets the bytes of both peers of one tunnel, and gives the tunnel the bytes that may pass."""

    def take_client(self, data: bytes, now: int) -> None:
        """Take bytes that the client has sent."""
        ...

    def take_client_end(self, now: int) -> None:
        """Forward or refuse the held bytes, because the client sends nothing more."""
        ...

    def on_request(self, route: Route, now: int) -> None:
        """Take note of a request that is forwarded now."""
        ...

    def lets_upstream_pass(self, *, is_upgrade: bool) -> bool:
        """Return whether the bytes of upstream pass the gate unseen from now on.

        ``is_upgrade``: they answer a request to upgrade the connection.
        """
        ...

    def take_upstream(self, data: bytes, now: int) -> None:
        """Take bytes that upstream has sent; no bytes mean that upstream has ended its side."""
        ...

    def drop_upstream(self) -> None:
        """Record the bytes of upstream that were not forwarded, because its connection is closed."""
        ...

    def close(self) -> None:
        """Hold nothing any more, because the tunnel is over."""
        ...


class StderrWriter(Protocol):
    """The part of ``StderrLog`` that a gate uses."""

    def say(self, text: str) -> None: ...


class GatedProxy(Protocol):
    """The part of a ``Proxy`` that its gate uses."""

    loop: Loop
    timers: Timers
    router: Router
    record: Record

    @property
    def stderr_log(self) -> StderrWriter: ...


class ProxyGate(Protocol):
    """The gate of a proxy, which makes the gates of its tunnels."""

    def tunnel_gate(self, tunnel: GatedTunnel) -> TunnelGate:
        """Return the gate of a new tunnel."""
        ...

    def read_recorded(self) -> None:
        """Read the records of the loop's last turn."""
        ...

    def run_due(self, limit_s: float | None) -> float | None:
        """Do what is due. Return how many seconds the proxy may wait, at most ``limit_s``.

        ``None`` means no limit.
        """
        ...

    def close(self) -> None:
        """Stop everything that the gate has started."""
        ...


MakeProxyGate: TypeAlias = Callable[[GatedProxy], ProxyGate]
