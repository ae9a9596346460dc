"""A recording with faults as one of its peers saw it: what this peer sent, and what it received.

If mcpproxy altered messages on purpose (``--fault``, ``--break``, ``--addon``), the recording has both what
one peer sent and what the other peer received instead. A replay that replaces the server has to send what the
recorded client received: without the dropped messages, with the edited ones, and with the answers that
mcpproxy gave itself. A replay that replaces the client has to send what the recorded server received, because
the recorded answers are answers to that.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mcpproxy.judge.observer.two_views import CUT
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Eof,
    Event,
    ExchangeEnd,
    FaultMark,
    Finding,
    Frame,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
    other,
)
from mcpproxy.record.trace.reader import Trace

_ANSWERED_BY_PROXY: Final = FaultMark("", "answer", 0)
"""The mark for the head of an answer that mcpproxy gave itself, if the recording has no mark."""


def seen_by(peer: Sender, trace: Trace) -> Iterator[Event | Finding]:
    """Yield the events of ``trace`` as ``peer`` saw them; all events if the recording has no faults.

    What mcpproxy gave the peer appears as sent by the other peer, but keeps its mark ``fault``. A message
    that was given in pieces becomes one frame.

    Raises:
        TraceError: the file cannot be read, or a line of it is damaged.
    """
    if not trace.header.faults:
        yield from trace.events()
        return
    reached = _reached_exchanges(trace) if peer == SERVER else None
    pieces: dict[Sender, list[bytes]] = {CLIENT: [], SERVER: []}
    cut_sender: Sender = SERVER  # the sender of the message at which mcpproxy cut the streams
    for event in trace.events():
        match event:
            case Frame() | RequestHead() | ResponseHead() | ExchangeEnd() if (
                reached is not None and event.exchange and event.exchange not in reached
            ):
                continue
            case Frame():
                if event.fault is not None and event.fault.action == "disconnect":
                    cut_sender = event.sender
                if _is_seen(peer, event.sender, event) and (frame := _joined(event, pieces)) is not None:
                    yield frame
            case RequestHead() | ResponseHead():
                if (head := _seen_head(peer, event)) is not None:
                    yield head
            case Note() if event.what == CUT:
                yield event
                # A half-close ends only the stream from that sender to the other peer.
                if not event.why.endswith("half-close") or cut_sender == other(peer):
                    yield Eof(other(peer), event.observed_at_ns)
            case _:
                yield event


def _is_seen(peer: Sender, sender: Sender, event: Frame | RequestHead | ResponseHead) -> bool:
    """Whether ``peer`` sent ``event`` itself, or received it: unchanged, or from mcpproxy as a replacement.

    ``sender`` is the peer that sent it, or in whose place mcpproxy sent it.
    """
    return not event.by_proxy if sender == peer else event.by_proxy or event.fault is None


def _seen_head(peer: Sender, head: RequestHead | ResponseHead) -> RequestHead | ResponseHead | None:
    """Return a head as ``peer`` saw it; ``None`` if it did not see it."""
    sender: Sender = CLIENT if isinstance(head, RequestHead) else SERVER
    if not _is_seen(peer, sender, head):
        return None
    is_given = head.by_proxy and sender != peer
    return replace(head, by_proxy=False, fault=head.fault or _ANSWERED_BY_PROXY) if is_given else head


def _joined(frame: Frame, pieces: dict[Sender, list[bytes]]) -> Frame | None:
    """Return a frame, joined if mcpproxy gave it in pieces; ``None`` for a piece that is not the last.

    ``pieces`` has the earlier pieces of each sender's current frame.
    """
    if not frame.by_proxy:
        return frame
    earlier = pieces[frame.sender]
    if frame.fault is not None and frame.continues:
        earlier.append(frame.raw)
        return None
    joined = Frame(
        frame.seq,
        frame.sender,
        b"".join((*earlier, frame.raw)),
        frame.observed_at_ns,
        terminated=frame.terminated,
        exchange=frame.exchange,
        connection=frame.connection,
        event=frame.event,
        fault=frame.fault,
    )
    earlier.clear()
    return joined


def _reached_exchanges(trace: Trace) -> frozenset[int]:
    """Return the exchanges that the server itself answered; the others may not have reached it."""
    return frozenset(
        event.exchange for event in trace.events() if isinstance(event, ResponseHead) and not event.by_proxy
    )
