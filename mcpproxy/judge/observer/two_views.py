"""The judge of a session in which mcpproxy altered messages on purpose: each peer is judged by what it saw.

A peer can only be judged by what it sent and by what it was given. Where messages were altered, what one peer
sent is not what the other was given. So there are two observers: to the client's, the server says what the
client was given; to the server's, the client says what the server was given. Of each observer only those
findings count that blame its own peer. What only mcpproxy did is in neither, so nobody is blamed for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Note,
    Repeated,
    RequestHead,
    ResponseHead,
    Sender,
    Signal,
    other,
)

CUT: Final = "disconnect"
KILLED: Final = "kill"
"""The words of the notes that say that mcpproxy closed the streams of a session, or ended its server."""

_LINE_BYTES: Final = 16 << 20
"""The longest line that is judged."""


class TwoViews:
    """Judges like an ``Observer``, with one observer for each peer that ``make_observer`` makes."""

    def __init__(self, make_observer: Callable[[], Observer]) -> None:
        self._views: Final[dict[Sender, Observer]] = {CLIENT: make_observer(), SERVER: make_observer()}
        self._pieces: Final[dict[Sender, list[bytes]]] = {CLIENT: [], SERVER: []}
        """What was given of an incomplete line in the place of each peer."""
        self._ended_by_us = False

    @property
    def left_out(self) -> Sequence[str]:
        """As in ``Observer``."""
        return self._views[CLIENT].left_out

    @property
    def forgot(self) -> str:
        """As in ``Observer``."""
        return self._views[CLIENT].forgot or self._views[SERVER].forgot

    @property
    def revision(self) -> str | None:
        """The protocol revision that the client has agreed to, or else the server."""
        return self._views[CLIENT].revision or self._views[SERVER].revision

    @property
    def more(self) -> tuple[Repeated, ...]:
        """As in ``Observer``; of each view the findings that blame its own peer."""
        return tuple(
            repeated
            for peer, view in self._views.items()
            for repeated in view.more
            if _counts(repeated.blame, peer)
        )

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event, as each peer saw it."""
        if isinstance(event, Frame) and event.fault is not None:
            if event.by_proxy:  # what the receiver was given; the sender knows nothing of it
                return self._observe_given(event)
            return self.observe_as(event.sender, _as_sent(event))
        if isinstance(event, RequestHead | ResponseHead) and event.fault is not None:
            sender: Sender = CLIENT if isinstance(event, RequestHead) else SERVER
            peer = other(sender) if event.by_proxy else sender
            return self.observe_as(peer, replace(event, by_proxy=False, fault=None))
        if isinstance(event, Note) and event.what == CUT:
            self._ended_by_us = True
            return self.observe_as(CLIENT, Eof(SERVER, event.observed_at_ns)) + self.observe_as(
                SERVER, Eof(CLIENT, event.observed_at_ns)
            )
        if isinstance(event, Note) and event.what == KILLED:
            self._ended_by_us = True
            return self.observe_as(SERVER, Signal("SIGTERM", event.observed_at_ns))
        if isinstance(event, Close) and self._ended_by_us:
            # How the server ended is not the client's doing: to it, the recording stops here.
            client = self.observe_as(CLIENT, Close("cut", observed_at_ns=event.observed_at_ns))
            return client + self.observe_as(SERVER, event)
        return self.observe_as(CLIENT, event) + self.observe_as(SERVER, event)

    def _observe_given(self, frame: Frame) -> list[Finding]:
        """Judge what the receiver was given for a peer's message; pieces of a line as one line."""
        pieces = self._pieces[frame.sender]
        if frame.continues and sum(map(len, pieces)) + len(frame.raw) <= _LINE_BYTES:
            pieces.append(frame.raw)
            return []
        given = _as_sent(frame, b"".join((*pieces, frame.raw)))
        pieces.clear()
        return self.observe_as(other(frame.sender), given)

    def observe_as(self, peer: Sender, event: Event) -> list[Finding]:
        """Judge an event that only ``peer`` saw, and return the findings that blame this peer.

        The event says nothing of faults.
        """
        return [finding for finding in self._views[peer].observe(event) if _counts(finding.blame, peer)]


def _counts(blame: str, peer: Sender) -> bool:
    return blame == peer or (blame == "proxy" and peer == CLIENT)


def _as_sent(frame: Frame, raw: bytes | None = None) -> Frame:
    """Return the frame, with the bytes ``raw``, as one of its sender's that no fault has met."""
    return replace(frame, raw=frame.raw if raw is None else raw, by_proxy=False, refused=False, fault=None)
