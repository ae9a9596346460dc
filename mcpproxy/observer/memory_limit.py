"""How much a judge may remember of a session.

What peers send is remembered in many tables: requests without an answer, ids that were used, definitions of
tools, URIs, tokens. Their entries are of any size, so what bounds them is one measure over all of them. When
they outgrow it, the judge forgets them and goes on like one who joined the session late: then it concludes
nothing from what it does not know, so that no finding follows from what was forgotten.

The measure is taken now and then, when what may have been added since the last time could be too much. It
counts nothing but what was said, so that a recording is judged alike at any time and on any machine.
"""

from collections import deque
from typing import Any, Final, cast

from mcpproxy.session.history import History, SentRequest, UsedIds

MOST_BYTES: Final = 24 << 20
"""What may be remembered, of all sessions of a recording together."""

_TEXT_BYTES: Final = 60
_EACH_BYTES: Final = 90
"""About what a string takes beside its characters, and what anything else takes in a table."""

_SMALL_BYTES: Final = 2048


class Room:
    """What all judges of one recording share. ``added`` is what may be remembered since it was measured."""

    __slots__ = ("added",)

    def __init__(self) -> None:
        self.added = 0


def weight(raw: bytes) -> int:
    """About what it takes to remember what a message says, more rather than less."""
    size = len(raw)
    if size <= _SMALL_BYTES:
        return 600 + 16 * size
    objects, arrays = 256 * raw.count(b"{"), 80 * raw.count(b"[")
    return 600 + 4 * size + objects + arrays + 64 * raw.count(b",") + 80 * raw.count(b":")


def measure(value: object, most: int = MOST_BYTES) -> int:
    """About how many bytes ``value`` takes with all that it leads to; counting ends beyond ``most``."""
    total = 0
    seen: set[int] = set()
    todo: list[Any] = [value]
    while todo and total <= most:
        one = todo.pop()
        if isinstance(one, str):
            total += _TEXT_BYTES + len(one)
            continue
        if isinstance(one, bytes):
            total += _TEXT_BYTES + len(one)
            continue
        total += _EACH_BYTES
        if isinstance(one, int | float) or one is None or isinstance(one, type) or callable(one):
            continue
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(history := getattr(one, "history", None), History):
            todo.append(history)  # of a judge; it leads to the catalogue as well
        elif isinstance(one, SentRequest):
            total += one.weight
        elif isinstance(one, UsedIds):
            total += one.size
        elif isinstance(one, dict):
            items = cast("dict[Any, Any]", one)
            todo += items.keys()
            todo += items.values()
        elif isinstance(one, list | tuple | set | frozenset | deque):
            todo += cast("list[Any]", one)
        else:
            names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            todo += [getattr(one, name, None) for name in (*names, *getattr(one, "__dict__", ()))]
    return total
