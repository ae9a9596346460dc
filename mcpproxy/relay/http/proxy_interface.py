"""The part of a proxy that its tunnels use. The module holds only types: nothing imports it at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mcpproxy.relay.http.dial import Dialer
from mcpproxy.relay.http.loop import Loop, Timers
from mcpproxy.relay.http.rewrite import Rewriting
from mcpproxy.relay.http.route import Router

Record: TypeAlias = Callable[[int, int, bytes, int], None]
"""Records what was received, before it is forwarded: ``(kind, at_ns, payload, connection)``."""


class StoppableTunnel(Protocol):
    """The part of a tunnel that its proxy uses."""

    def stop(self, why: str) -> None:
        """Close both connections; ``why`` is recorded."""
        ...

    def abandon(self, why: str) -> None:
        """Close both connections after a fault (a bug in mcpproxy), in whatever state they are."""
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

    def next_number(self) -> int:
        """Return a number for a connection that has something to record."""
        ...

    def on_upstream_failed(self, address: str, why: str) -> None:
        """Note that no connection to ``address`` could be opened, for the reason ``why``."""
        ...

    def on_upstream_reached(self, address: str) -> None:
        """Note that a connection to ``address`` is open."""
        ...

    def forget(self, tunnel: StoppableTunnel) -> None:
        """Remove a tunnel that has ended."""
        ...
