"""Judge a session in which mcpproxy altered messages on purpose: each peer is judged by what it saw.

A peer can only be judged by the messages that it sent and received. If mcpproxy altered a message, the peer
that received it did not get what the other peer sent. So there is one observer for each peer. It sees the
messages that its peer sent, and those that its peer received, as if the other peer had sent them in that
form. Only findings that blame the observer's own peer count, so nobody is blamed for mcpproxy's changes;
those that blame the proxy count in the client's view.
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
"""The ``what`` of the notes that mcpproxy closed the streams of a session, or ended its server."""

_LINE_BYTES: Final = 16 << 20
"""The length, in bytes, of the longest line whose pieces are joined, so that it is judged."""


class TwoViews:
    """Judges like an ``Observer``, with one observer for each peer. ``make_observer`` makes both."""

    def __init__(self, make_observer: Callable[[], Observer]) -> None:
        self._views: Final[dict[Sender, Observer]] = {CLIENT: make_observer(), SERVER: make_observer()}
        self._pieces: Final[dict[Sender, list[bytes]]] = {CLIENT: [], SERVER: []}
        """By sender: the pieces so far of a line that mcpproxy sent in place of this sender's message."""
        self._ended_by_us = False
        """Whether mcpproxy has closed the streams or ended the server, as a fault rule asked."""

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
        """The protocol revision that the client has agreed to, or else the server; ``None`` if unknown."""
        return self._views[CLIENT].revision or self._views[SERVER].revision

    @property
    def more(self) -> tuple[Repeated, ...]:
        """As in ``Observer``, but of each view only the findings that count in it."""
        return tuple(
            repeated
            for peer, view in self._views.items()
            for repeated in view.more
            if _in_view_of(repeated.blame, peer)
        )

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event, as each peer saw it."""
        if isinstance(event, Frame) and event.fault is not None:
            if event.by_proxy:  # the receiver got this frame, which its sender did not send
                return self._observe_altered(event)
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
            # The client did not end the server, so for its view the recording stops here.
            client = self.observe_as(CLIENT, Close("cut", observed_at_ns=event.observed_at_ns))
            return client + self.observe_as(SERVER, event)
        return self.observe_as(CLIENT, event) + self.observe_as(SERVER, event)

    def _observe_altered(self, frame: Frame) -> list[Finding]:
        """Judge a frame that mcpproxy altered, for the receiver's view. Join the pieces of a line first."""
        pieces = self._pieces[frame.sender]
        if frame.continues and sum(map(len, pieces)) + len(frame.raw) <= _LINE_BYTES:
            pieces.append(frame.raw)
            return []
        received = _as_sent(frame, b"".join((*pieces, frame.raw)))
        pieces.clear()
        return self.observe_as(other(frame.sender), received)

    def observe_as(self, peer: Sender, event: Event) -> list[Finding]:
        """Judge an event as ``peer`` saw it, and return the findings that count in the view of this peer.

        The event must not mention faults.
        """
        return [finding for finding in self._views[peer].observe(event) if _in_view_of(finding.blame, peer)]


def _in_view_of(blame: str, peer: Sender) -> bool:
    """Whether the view of ``peer`` reports a finding with this blame; the client's reports the proxy, too."""
    return blame == peer or (blame == "proxy" and peer == CLIENT)


def _as_sent(frame: Frame, raw: bytes | None = None) -> Frame:
    """Return the frame as if its sender had sent it without a fault, with the bytes ``raw`` if given."""
    return replace(frame, raw=frame.raw if raw is None else raw, by_proxy=False, refused=False, fault=None)
