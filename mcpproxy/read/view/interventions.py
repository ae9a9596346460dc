"""Describe what mcpproxy did to the messages of a call because the user asked for it.

A frame on which a fault rule, a breakpoint or an addon acted has a fault mark. It is the message as it was
sent; the receiver got it changed or later, or did not get it. The frames that mcpproxy gave a peer in its
place are ``by_proxy``, and their marks have the same number.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.judge.session.frame import FaultMark, Frame, Sender

MOST_FRAMES: Final = 20
"""How many frames with a fault mark are examined of a call."""

_EDITS: Final = ("set", "remove", "merge", "replace", "pause")
"""The actions that edit a message. ``pause`` is a breakpoint, at which the user may edit it."""


def interventions(frames: Iterable[Frame], sender: Sender, *, is_running: bool) -> str:
    """Return what mcpproxy did to the messages of a call: ``request edited by mcpproxy``; empty if nothing.

    ``frames`` are the frames of the call with a fault mark, in order. ``sender`` is the peer that made the
    call. While the recording runs (``is_running``), a message that was not given to its receiver is held.
    """
    sent: dict[int, tuple[FaultMark, Frame]] = {}
    given: dict[int, list[Frame]] = {}
    for frame in frames:
        if frame.fault is not None and frame.by_proxy:
            given.setdefault(frame.fault.number, []).append(frame)
        elif frame.fault is not None:
            sent.setdefault(frame.fault.number, (frame.fault, frame))
    clauses: dict[str, None] = {}  # ordered, without repetitions
    for number, (mark, frame) in sent.items():
        side = "request" if frame.sender == sender else "answer"
        if words := _clause(mark.action, side, frame, given.get(number, ()), is_running=is_running):
            clauses[words] = None
    return f"{', '.join(clauses)} by mcpproxy" if clauses else ""


def given_instead(frames: Iterable[Frame], seq: int | None) -> Frame | None:
    """Return the frame that mcpproxy gave in place of the frame ``seq``; ``None`` if it gave none.

    ``frames`` are the frames of a call with a fault mark.
    """
    marked = [(frame.fault.number, frame) for frame in frames if frame.fault is not None]
    replaced = {number for number, frame in marked if frame.seq == seq and not frame.by_proxy}
    return next((frame for number, frame in marked if number in replaced and frame.by_proxy), None)


def _clause(action: str, side: str, sent: Frame, given: Sequence[Frame], *, is_running: bool) -> str:
    """Return what was done to one message; empty if it only waited behind another message."""
    if any(frame.answers_instead(sent.sender) for frame in given):
        return "answered"
    if not given:
        return f"{side} held" if is_running else f"{side} not passed on"
    if b"".join(frame.raw for frame in given) != sent.raw:
        return f"{side} {'edited' if action in _EDITS else 'changed'}"
    return "" if action == "wait" else f"{side} {'held' if action == 'pause' else 'delayed'}"
