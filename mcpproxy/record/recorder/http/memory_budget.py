"""Estimate how much memory it takes to judge a text, before the text is parsed.

The recorder, which judges, shares its memory limit with the relay, which forwards the traffic, and in a
container the limit is often small. Parsing may need three times the length of a body (one long string) or
forty times (many small objects). So the estimate depends on the content, not on the length alone."""

import re
from collections.abc import Callable
from typing import Final

from mcpproxy.protocol.jsonrpc import has_large_integer

BUDGET_BYTES: Final = 72 << 20
"""How much memory the bodies and events that are judged may take at a time, parsed values included."""

SMALL_BYTES: Final = 256 << 10
"""A text up to this length is always judged: it takes at most about 10 MiB."""

HELD_BYTES: Final = 24 << 20
"""How many bytes of incomplete heads, bodies and events may be held, over all connections.

Open exchanges (requests with their responses) count as well, except one on each connection."""

DECODED_BYTES: Final = 8 << 20
DECODED_RATIO: Final = 16
"""At most ``DECODED_BYTES`` of decoded content are recorded, over all connections, and ``DECODED_RATIO`` more
for each byte that has passed."""

# Measured with CPython 3.11 and orjson 3.11, in bytes: memory for the parser's own tree, for the values, and
# for the text that is written again to find repeated names. ``_COPIES`` is for each byte of the text. Every
# value but the first follows a comma, a colon or an opening bracket, so these characters are counted instead
# of values.
_COPIES: Final = 4
_BYTES_BY_SIGN: Final = {b",": 80, b":": 80, b"{": 256, b"[": 80}

_READ_AGAIN_FACTOR: Final = 3
"""Factor for texts that the fast parser cannot read exactly: they are parsed again by a slower one."""

_STRUCTURE: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,:]', re.DOTALL)

# Whole texts are searched with functions in C: a regular expression would take a second for 16 MiB.
_BLOCK_BYTES: Final = 64 << 10
_ONE_BYTE_WIDE: Final = bytes(range(0xC4))  # bytes, in UTF-8, of characters that take one byte in memory
_TWO_BYTES_WIDE: Final = bytes(range(0xF0))  # bytes of characters that take at most two bytes in memory


class Budget:
    """The memory for judging that all connections share.

    ``spent`` is the part that open exchanges need, in bytes. ``decoded_left`` is how many bytes of decoded
    content may still be recorded."""

    spent = 0
    decoded_left = DECODED_BYTES

    def count_passed(self, size: int) -> None:
        """Allow more decoded content for ``size`` bytes that have passed."""
        self.decoded_left += DECODED_RATIO * size

    def cost(self, raw: bytes, held: Callable[[], int] = lambda: 0) -> int | None:
        """Return how many bytes of memory it takes to judge ``raw``: 0 for a small text, ``None`` if the
        budget has less.

        ``held`` returns how many bytes of incomplete heads, bodies, events and exchanges are held.
        """
        if len(raw) <= SMALL_BYTES:
            return 0
        total = estimate_cost(raw)
        return None if self.spent + held() + total > BUDGET_BYTES else total


def estimate_cost(raw: bytes) -> int:
    """Return about how many bytes of memory it takes to judge ``raw``, including ``raw``.

    The estimate may be too high. Above ``BUDGET_BYTES`` it only says that the budget is exceeded.
    """
    text = len(raw) * (_COPIES + _width(raw))
    rough = sum(raw.count(sign) * size for sign, size in _BYTES_BY_SIGN.items())
    if text > BUDGET_BYTES or text + _READ_AGAIN_FACTOR * rough <= BUDGET_BYTES:
        return text + rough
    factor = _READ_AGAIN_FACTOR if _is_read_again(raw) else 1
    if text + factor * rough <= BUDGET_BYTES:
        return text + factor * rough
    # Many of these characters may be inside strings, where they need no memory.
    total = text
    for match in _STRUCTURE.finditer(raw):
        total += factor * _BYTES_BY_SIGN.get(match[0], 0)
        if total > BUDGET_BYTES:
            break
    return total


def _is_read_again(raw: bytes) -> bool:
    """Whether a slower parser may read a text again: because of an escaped surrogate, an integer beyond 64
    bits, or an escaped colon (see ``mcpproxy.protocol.jsontext.may_repeat``)."""
    if any(escape in raw for escape in (b"\\ud", b"\\uD", b"\\u003a", b"\\u003A")):
        return True
    # A block overlaps the next one by the length of the shortest such integer.
    starts = range(0, len(raw), _BLOCK_BYTES)
    return any(has_large_integer(raw[start : start + _BLOCK_BYTES + 20]) for start in starts)


def _width(raw: bytes) -> int:
    """Return the width of a character in memory: 4, 2, or 0 for one that ``_COPIES`` covers.

    One wide character makes its whole string wide.
    """
    if b"\\u" in raw:
        return 4 if b"\\ud" in raw or b"\\uD" in raw else 2
    if raw.isascii():
        return 0
    width = 0
    for start in range(0, len(raw), _BLOCK_BYTES):
        if wide := raw[start : start + _BLOCK_BYTES].translate(None, _ONE_BYTE_WIDE):
            if wide.translate(None, _TWO_BYTES_WIDE):
                return 4
            width = 2
    return width
