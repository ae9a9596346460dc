"""A recording with faults as one of its peers saw it: what this peer sent, and what it was given.

Where mcpproxy altered messages on purpose (``--fault``, ``--break``, ``--addon``), what one peer sent is not
what the other was given, and the recording has both. A replay that stands in the server's place has to give a
client what the recorded client was given: messages that were dropped are missing, edited ones are edited, and
answers of mcpproxy come from it. A replay that stands in the client's place has to send what the recorded
server was given, because the answers in the recording are answers to that.
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
"""The mark of the head of an answer that mcpproxy gave itself, if the recording has none."""


def seen_by(peer: Sender, trace: Trace) -> Iterator[Event | Finding]:
    """Yield the events of ``trace`` as ``peer`` saw them; all events if the recording has no faults.

    What the peer was given looks like something that the other peer sent; its mark ``fault`` stays. A message
    that was given in pieces is one frame.

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
                if _is_seen(peer, event.sender, event) and (frame := _whole(event, pieces)) is not None:
                    yield frame
            case RequestHead() | ResponseHead():
                if (head := _head(peer, event)) is not None:
                    yield head
            case Note() if event.what == CUT:
                yield event
                # A half-close ends only the stream of that sender, which the other peer reads.
                if not event.why.endswith("half-close") or cut_sender == other(peer):
                    yield Eof(other(peer), event.observed_at_ns)
            case _:
                yield event


def _is_seen(peer: Sender, sender: Sender, event: Frame | RequestHead | ResponseHead) -> bool:
    """Whether ``peer`` has sent ``event`` or was given it, and not something in its place.

    ``sender`` is the peer that sent it, or in whose place mcpproxy did.
    """
    return not event.by_proxy if sender == peer else event.by_proxy or event.fault is None


def _head(peer: Sender, head: RequestHead | ResponseHead) -> RequestHead | ResponseHead | None:
    """Return a head as ``peer`` saw it; ``None`` if it did not see it."""
    sender: Sender = CLIENT if isinstance(head, RequestHead) else SERVER
    if not _is_seen(peer, sender, head):
        return None
    is_given = head.by_proxy and sender != peer
    return replace(head, by_proxy=False, fault=head.fault or _ANSWERED_BY_PROXY) if is_given else head


def _whole(frame: Frame, pieces: dict[Sender, list[bytes]]) -> Frame | None:
    """Return a frame, whole if mcpproxy gave it in pieces; ``None`` for a piece that is not the last.

    ``pieces`` holds the earlier pieces of each sender.
    """
    if not frame.by_proxy:
        return frame
    held = pieces[frame.sender]
    if frame.fault is not None and frame.continues:
        held.append(frame.raw)
        return None
    whole = Frame(
        frame.seq,
        frame.sender,
        b"".join((*held, frame.raw)),
        frame.observed_at_ns,
        terminated=frame.terminated,
        exchange=frame.exchange,
        connection=frame.connection,
        event=frame.event,
        fault=frame.fault,
    )
    held.clear()
    return whole


def _reached_exchanges(trace: Trace) -> frozenset[int]:
    """Return the exchanges that the server has answered itself; it may not have got the others."""
    return frozenset(
        event.exchange for event in trace.events() if isinstance(event, ResponseHead) and not event.by_proxy
    )
