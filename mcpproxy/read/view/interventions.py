"""What mcpproxy did to the messages of a call because the user asked for it, in words.

A frame with a fault mark is what its sender sent; the receiver did not get it like that. A frame that also is
``by_proxy`` is what mcpproxy gave a peer in its place. The number of the mark holds both together.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.judge.session.frame import FaultMark, Frame, Sender

MOST_FRAMES: Final = 20
"""Of a call with more frames that met a fault, only the first ones are looked at."""

_EDITS: Final = ("set", "remove", "merge", "replace", "pause")


def interventions(frames: Iterable[Frame], sender: Sender, *, is_running: bool) -> str:
    """Return what mcpproxy did to the messages of a call: ``request edited by mcpproxy``; empty if nothing.

    ``frames`` are those of the call with a fault mark, in order. ``sender`` is the peer that made the call.
    """
    sent: dict[int, tuple[FaultMark, Frame]] = {}
    given: dict[int, list[Frame]] = {}
    for frame in frames:
        if frame.fault is not None and frame.by_proxy:
            given.setdefault(frame.fault.number, []).append(frame)
        elif frame.fault is not None:
            sent.setdefault(frame.fault.number, (frame.fault, frame))
    said: dict[str, None] = {}  # in order, each once
    for number, (mark, frame) in sent.items():
        side = "request" if frame.sender == sender else "answer"
        if words := _words(mark.action, side, frame, given.get(number, ()), is_running=is_running):
            said[words] = None
    return f"{', '.join(said)} by mcpproxy" if said else ""


def given_instead(frames: Iterable[Frame], seq: int | None) -> Frame | None:
    """Return what mcpproxy gave in the place of the frame ``seq``; ``None`` if it gave nothing else.

    ``frames`` are those of a call with a fault mark.
    """
    marked = [(frame.fault.number, frame) for frame in frames if frame.fault is not None]
    replaced = {number for number, frame in marked if frame.seq == seq and not frame.by_proxy}
    return next((frame for number, frame in marked if number in replaced and frame.by_proxy), None)


def _words(action: str, side: str, sent: Frame, given: Sequence[Frame], *, is_running: bool) -> str:
    """Return what was done to one message; empty if it only waited behind another one."""
    if any(frame.answers_instead(sent.sender) for frame in given):
        return "answered"
    if not given:
        return f"{side} held" if is_running else f"{side} not passed on"
    if b"".join(frame.raw for frame in given) != sent.raw:
        return f"{side} {'edited' if action in _EDITS else 'changed'}"
    return "" if action == "wait" else f"{side} {'held' if action == 'pause' else 'delayed'}"
