"""What it would take to judge a text, before it is parsed.

The recorder shares its memory limit with the relay, in a container often a small one. A body of a given
length may take three times that to parse (one long string) or forty times (many small objects), so what
decides is not how long it is but what is in it.
"""

import re
from typing import Final

BUDGET_BYTES: Final = 72 << 20
"""All that may be spent at a time on bodies and events that are judged: their bytes and what they become."""

SMALL_BYTES: Final = 1 << 20
"""What is no longer than this is within the budget whatever it holds."""

# Measured with CPython 3.11 and orjson 3.11: the parser's own tree, the values, and the text written once more
# to see whether a name is repeated. Every value but the first stands behind a comma or an opening.
_COPIES: Final = 4
_EACH_BYTES: Final = {b",": 64, b":": 80, b"{": 256, b"[": 80}

_WIDE: Final = re.compile(rb"[\xc4-\xff]|\\u")
_WIDEST: Final = re.compile(rb"[\xf0-\xff]|\\u[dD]")
_READ_AGAIN: Final = re.compile(rb"\\u[dD]|\\u003[aA]|[0-9]{20}")
"""What the fast parser does not read, or not exactly."""

_READ_AGAIN_FACTOR: Final = 3
_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,:]', re.DOTALL)


class Budget:
    """The memory for judging that all connections share. ``spent`` is what is held for longer."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0

    def cost(self, raw: bytes) -> int | None:
        """What it costs to judge ``raw`` now, 0 if that is not worth counting; ``None`` if it is too much."""
        if len(raw) <= SMALL_BYTES:
            return 0
        total = cost(raw)
        return None if self.spent + total > BUDGET_BYTES else total


def cost(raw: bytes) -> int:
    """About how many bytes of memory it takes to judge ``raw``, its own included, rather too many than too few.

    More than ``BUDGET_BYTES`` means just that.
    """
    # One wide character makes all of its string as wide.
    width = 1 if _WIDE.search(raw) is None else 2 if _WIDEST.search(raw) is None else 4
    text = len(raw) * (_COPIES + (0 if width == 1 else width))
    factor = 1 if _READ_AGAIN.search(raw) is None else _READ_AGAIN_FACTOR
    rough = factor * sum(raw.count(sign) * size for sign, size in _EACH_BYTES.items())
    if text > BUDGET_BYTES or text + rough <= BUDGET_BYTES:
        return text + rough
    # Much of that may stand within strings, where it costs nothing.
    total = text
    for found in _STRUCTURE.finditer(raw):
        total += factor * _EACH_BYTES.get(found[0], 0)
        if total > BUDGET_BYTES:
            break
    return total
