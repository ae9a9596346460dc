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
    last_number: int  # of the last connection that had something to record

    def on_upstream_failed(self, address: str, why: str) -> None:
        """Note that no connection to ``address`` could be opened, for the reason ``why``."""
        ...

    def on_upstream_reached(self, address: str) -> None:
        """Note that a connection to ``address`` is open."""
        ...
