"""How much a judge may remember of a session.

What peers send is remembered in many tables: unanswered requests, used ids, tool definitions, URIs, tokens.
Their entries can be of any size, so one limit bounds all of them together. When they exceed it, the judge
forgets them and continues as if it had joined the session late: it concludes nothing from what it does not
know, so no finding follows from what was forgotten.

The size is measured only when what was added since the last time could exceed the limit. It depends only on
the messages, so a recording gets the same findings at any time and on any machine.
"""

from collections import deque
from functools import cache
from typing import Any, Final, cast

from mcpproxy.session.history import History, SentRequest, UsedIds

MOST_BYTES: Final = 24 << 20
"""The limit for all sessions of a recording together."""

_TEXT_BYTES: Final = 60
"""About how many bytes a string takes in addition to its characters."""

_EACH_BYTES: Final = 90
"""About how many bytes any other entry of a table takes."""

_SMALL_BYTES: Final = 256


class MemoryUse:
    """Shared by all judges of a recording. At most ``added`` bytes were added since the last measurement."""

    __slots__ = ("added",)

    def __init__(self) -> None:
        self.added = 0


def weight(raw: bytes) -> int:
    """Return an estimate, rather too high than too low, of the bytes that it takes to remember a message.

    The factors are the memory that CPython needs for each object, array, element and member.
    """
    size = len(raw)
    if size <= _SMALL_BYTES:
        return 600 + 16 * size
    # One wide character makes its string take four bytes for every character.
    text = size if raw.isascii() and raw.find(b"\\u") < 0 else 4 * size
    objects, arrays = 256 * raw.count(b"{"), 80 * raw.count(b"[")
    return 600 + text + objects + arrays + 64 * raw.count(b",") + 80 * raw.count(b":")


def measure(value: object, most: int = MOST_BYTES) -> int:
    """Return about how many bytes ``value`` takes with all it refers to; counting stops above ``most``."""
    total = 0
    seen: set[int] = set()
    todo: list[Any] = [value]
    while todo and total <= most:
        item = todo.pop()
        if isinstance(item, str | bytes):
            total += _TEXT_BYTES + len(item)
            continue
        total += _EACH_BYTES
        if isinstance(item, int | float) or item is None or isinstance(item, type) or callable(item):
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(history := getattr(item, "history", None), History):
            todo.append(history)  # A judge counts by its history: it also refers to the shared catalogue.
        elif isinstance(item, SentRequest):
            total += item.weight
        elif isinstance(item, UsedIds):
            total += item.size
        elif isinstance(item, dict):
            items = cast("dict[Any, Any]", item)
            todo += items.keys()
            todo += items.values()
        elif isinstance(item, list | tuple | set | frozenset | deque):
            todo += cast("list[Any]", item)
        else:
            todo += [getattr(item, name, None) for name in _slots(type(item))]
            todo += getattr(item, "__dict__", {}).values()
    return total


@cache
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
