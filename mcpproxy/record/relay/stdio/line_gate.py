"""The interfaces by which a relay and its gate use each other.

A gate holds messages until it has decided whether they pass; most sessions have none. The module contains
only types: nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from mcpproxy.record.relay.stdio.sinks import RelaySource, Sink


class GatedRelay(Protocol):
    """The part of a ``Relay`` that its gate uses; see there."""

    peers: list[Sink]
    sources: list[RelaySource]

    def deliver(self, sink: Sink, kind: int, read_ns: int, data: bytes | memoryview) -> bool: ...
    def record(self, kind: int, at_ns: int, payload: bytes | memoryview = b"") -> None: ...
    def pause(self, sink: Sink) -> None: ...
    def watch(self, source: RelaySource) -> None: ...
    def disconnect(self, kinds: Collection[int]) -> None: ...
    def kill(self, number: int) -> None: ...
    def register(self, fd: int, handler: Callable[[int], None], events: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def say(self, text: str) -> None: ...


class LineGate(Protocol):
    """Gets the bytes of both peers, and gives the relay the bytes that may pass (``deliver``)."""

    def begin(self) -> None:
        """Prepare, while the new process of the server loads."""
        ...

    def take_bytes(self, source: RelaySource, now_ns: int, data: bytes) -> None:
        """Take bytes that a peer has sent."""
        ...

    def take_end(self, source: RelaySource, now_ns: int) -> bool:
        """Take the end of a peer's stream; return whether it may be forwarded now.

        Otherwise the source is held or paused, and its end is read again later.
        """
        ...

    def run_queue(self, sink: Sink) -> bool:
        """Deliver the bytes that wait for ``sink``, which has room; return whether all were delivered."""
        ...

    def run_due(self, timeout_s: float | None) -> float | None:
        """Do what is due. Return how many seconds the relay may wait, at most ``timeout_s``.

        ``None`` means no limit.
        """
        ...

    @property
    def is_host_behind(self) -> bool:
        """Whether bytes of the server still have to be given to the host."""
        ...

    def stop(self) -> None:
        """Take nothing any more, because the session is over."""
        ...

    def close(self) -> None:
        """Stop everything that the gate has started. The recording is complete."""
        ...


MakeLineGate: TypeAlias = Callable[[GatedRelay], LineGate]
