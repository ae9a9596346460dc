"""What a tunnel needs of its proxy. Only types: nothing imports this module at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mcpproxy.relay.http.dial import Dialer
from mcpproxy.relay.http.loop import Loop, Timers
from mcpproxy.relay.http.rewrite import Rewriting
from mcpproxy.relay.http.route import Router

Record: TypeAlias = Callable[[int, int, bytes, int], None]
"""Appends a record to the journal, or keeps one: ``(kind, at_ns, payload, connection)``."""


class StoppableTunnel(Protocol):
    """What the proxy needs of a tunnel."""

    def stop(self, why: str) -> None:
        """Close both connections from our side; ``why`` is recorded."""
        ...

    def abandon(self, why: str) -> None:
        """Close both connections after a fault of ours, whatever state they are in."""
        ...


class ProxyInterface(Protocol):
    """What a tunnel needs of its proxy; all tunnels share it."""

    loop: Loop
    timers: Timers
    router: Router
    dialer: Dialer
    upstream: str
    rewriting: Rewriting | None
    record: Record
    keep_until_journaled: Record

    def next_number(self) -> int:
        """A number for a connection that has something to record."""
        ...

    def on_upstream_failed(self, address: str, why: str) -> None:
        """No connection to ``address`` could be opened."""
        ...

    def on_upstream_reached(self, address: str) -> None:
        """A connection to ``address`` is open."""
        ...

    def forget(self, tunnel: StoppableTunnel) -> None:
        """Remove a tunnel that has ended."""
        ...
