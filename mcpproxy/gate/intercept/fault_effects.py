"""Apply a fault to one message: the bytes that its receiver gets instead, and our answer to its sender.

Edits are spliced into the bytes of the message; all its other bytes stay as they are, except that ``replace``
makes a space of each line feed.
"""

import re
from itertools import pairwise
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.fault_actions import FaultAction
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.protocol.error_message import error_message
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Request, Response
from mcpproxy.protocol.raw_json import locate, value_bytes, with_value, without_value

_NOISE: Final = b"abcdefghijklmnopqrstuvwxyz0123456789 <>#"
"""The characters of which ``garbage`` consists."""


@slotted(frozen=True)
class FaultEffect:
    """What a fault makes of a message.

    ``given`` are the bytes for the receiver, in parts, each with the time to wait before it, in nanoseconds.
    With ``is_framed`` each part is a message, to which the transport adds its framing; otherwise the parts
    are pieces of one message. ``answer`` is our answer to the sender, without a line end.
    """

    given: tuple[tuple[int, bytes], ...] = ()
    answer: bytes | None = None
    is_framed: bool = True


def effect_of(decision: FaultDecision, raw: bytes, message: Message) -> FaultEffect | None:
    """Return what becomes of ``message``, whose bytes are ``raw``.

    Return ``None`` if the action does not fit the message, or an edit changes nothing.

    The delay, and what concerns more than this message (its connection or its process, say), are left to the
    transport.
    """
    action = decision.rule.action
    match action.verb:
        case "drop" | "disconnect" | "kill" | "status" | "cut" | "lose-session" | "expire-token":
            return FaultEffect()
        case "duplicate":
            return FaultEffect(((0, raw), *((action.gap_ns, raw) for _ in range(action.count))))
        case "error":
            return error_effect(action, raw, message)
        case "set" | "merge" | "remove":
            edited = _edited(action, raw)
            return None if edited is None or edited == raw else FaultEffect(((0, edited),))
        case "replace":
            edited = raw
            for expression, new in action.replacements:
                edited = re.sub(expression.encode(), new.encode(), edited)
            return None if edited == raw else FaultEffect(((0, edited.replace(b"\n", b" ")),))
        case "raw":
            return FaultEffect(((0, action.text.encode()),))
        case "truncate":
            return FaultEffect(((0, raw[: action.count]),))
        case "corrupt":
            return FaultEffect(((0, _corrupted(decision, raw)),))
        case "garbage":
            return FaultEffect(((0, _noise(decision)), (0, raw)))
        case "split":
            return FaultEffect(_pieces(raw, action.count, action.gap_ns), is_framed=False)
        case "oversize":
            end = len(raw.rstrip())
            return FaultEffect(((0, raw[:end] + b" " * max(0, action.count - len(raw)) + raw[end:]),))
        case (
            _
        ):  # verbs that do not change the message: delay, reorder, join, stall, bandwidth, pause, headers
            return FaultEffect(((0, raw),))


def error_effect(action: FaultAction, raw: bytes, message: Message) -> FaultEffect | None:
    """Return the error that replaces an answer, or answers a request; ``None`` for any other message."""
    # The id is copied as it was written: reading and writing it again could change a large number.
    if not isinstance(message, Request | Response | ErrorResponse):
        return None
    id = value_bytes(raw, ("id",)) or b"null"
    error = error_message(action.code, action.text or "Internal error", id, action.data or None)
    return FaultEffect(answer=error) if isinstance(message, Request) else FaultEffect(((0, error),))


def _edited(action: FaultAction, raw: bytes) -> bytes | None:
    """Return ``raw`` with all edits.

    Return ``None`` if ``raw`` is not an object or array, or has no place for one of the edits.
    """
    if locate(raw, ()) is None or raw.lstrip()[:1] not in (b"{", b"["):
        return None
    edited: bytes | None = raw
    for tokens, text in action.edits:
        if edited is None:
            return None
        is_removal = text is None or (action.verb == "merge" and text == b"null")
        if is_removal:
            without = without_value(edited, tokens)
            # A merge patch may remove what is not there.
            edited = edited if without is None and action.verb == "merge" else without
        else:
            assert text is not None
            edited = with_value(edited, tokens, text)
    return edited


def _corrupted(decision: FaultDecision, raw: bytes) -> bytes:
    """Return ``raw`` with some bytes changed, never into a line end."""
    changed = bytearray(raw)
    for index in range(min(decision.rule.action.count, len(raw))):
        place = int(decision.draw(f"place {index}") * len(raw))
        flip = 1 + int(decision.draw(f"flip {index}") * 255)
        while changed[place] ^ flip in b"\r\n":
            flip = flip % 255 + 1
        changed[place] ^= flip
    return bytes(changed)


def _noise(decision: FaultDecision) -> bytes:
    """Return ``count`` bytes of text that is not JSON: a #, then up to 64 drawn characters that repeat."""
    count = decision.rule.action.count
    start = bytes(
        _NOISE[int(decision.draw(f"noise {index}") * len(_NOISE))] for index in range(min(count, 64))
    )
    return (b"#" + start * (count // len(start) + 1))[:count]


def _pieces(raw: bytes, count: int, gap_ns: int) -> tuple[tuple[int, bytes], ...]:
    count = min(count, max(len(raw), 1))
    cuts = [len(raw) * index // count for index in range(count + 1)]
    return tuple((gap_ns if start else 0, raw[start:end]) for start, end in pairwise(cuts))
