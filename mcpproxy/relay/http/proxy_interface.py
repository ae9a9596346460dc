"""What a tunnel needs of the proxy that it belongs to: types, which nothing imports at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from mcpproxy.relay.http.dial import Dialer
from mcpproxy.relay.http.loop import Loop, Timers
from mcpproxy.relay.http.rewrite import Rewriting
from mcpproxy.relay.http.route import Router

Record: TypeAlias = Callable[[int, int, bytes, int], None]
"""Takes ``(kind, at_ns, payload, connection)``."""


class StoppableTunnel(Protocol):
    """A tunnel, as the proxy sees it."""

    def stop(self, why: str) -> None:
        """End it from our side."""
        ...

    def abandon(self, why: str) -> None:
        """End it after a fault of ours, in whatever state that has left it."""
        ...


class ProxyInterface(Protocol):
    """What all tunnels share."""

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

    def forget(self, tunnel: StoppableTunnel) -> None:
        """This tunnel is over."""
        ...
