"""The memory limit of a judge.

A judge remembers what peers send in many tables: unanswered requests, used ids, tool definitions, URIs and
tokens. The entries can have any size, so one limit bounds all tables together. When the tables exceed the
limit, the judge forgets answered requests. If that is not enough, it forgets all tables (of a session whose
used ids take most of the memory, only these), and continues as if it had joined the session late. Such a
judge concludes nothing from the absence of a message, so no finding is false because something was forgotten.

Measuring takes long. So each message adds to an estimate, and the size is measured only when the estimate
exceeds the limit. Both depend only on the messages, so a recording gets the same findings at any time and on
any machine.
"""

from collections import deque
from functools import cache
from typing import Any, Final, cast

from mcpproxy.judge.session.history import History, SentRequest, UsedIds

MOST_BYTES: Final = 24 << 20
"""The limit, in bytes, for all sessions of a recording together."""

_TEXT_BYTES: Final = 60
"""The approximate size, in bytes, of a string in addition to its characters."""

_ENTRY_BYTES: Final = 90
"""The approximate size, in bytes, of a value other than a string, without the values inside it."""

_SMALL_BYTES: Final = 256
"""Messages up to this length get a simpler estimate."""


class MemoryUse:
    """The estimate that all judges of a recording share.

    ``added`` grows by the estimated size of everything that is remembered. When it exceeds the limit, the
    state is measured.
    """

    __slots__ = ("added",)

    def __init__(self) -> None:
        self.added = 0


def weight(raw: bytes) -> int:
    """Estimate the bytes of memory that a message takes, too high rather than too low.

    The numbers are the bytes that CPython needs for each message, object, array, element and member.
    """
    length = len(raw)
    if length <= _SMALL_BYTES:
        return 600 + 16 * length
    # If a string contains one wide character, CPython uses four bytes for each of its characters.
    text_bytes = length if raw.isascii() and raw.find(b"\\u") < 0 else 4 * length
    objects, arrays = 256 * raw.count(b"{"), 80 * raw.count(b"[")
    return 600 + text_bytes + objects + arrays + 64 * raw.count(b",") + 80 * raw.count(b":")


def measure(value: object, most: int = MOST_BYTES) -> int:
    """Return the approximate size, in bytes, of ``value`` with everything that it refers to.

    Of a judge only its history counts; a request and the used ids state their own sizes. Counting stops as
    soon as the size exceeds ``most``.
    """
    total = 0
    measured_ids: set[int] = set()
    todo: list[Any] = [value]
    while todo and total <= most:
        item = todo.pop()
        if isinstance(item, str | bytes):
            total += _TEXT_BYTES + len(item)
            continue
        total += _ENTRY_BYTES
        if isinstance(item, int | float) or item is None or isinstance(item, type) or callable(item):
            continue
        if id(item) in measured_ids:
            continue
        measured_ids.add(id(item))
        if isinstance(history := getattr(item, "history", None), History):
            todo.append(history)  # Only the history of a judge counts: all judges share the rest.
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
    """Return the names in ``__slots__`` of a class and of its base classes."""
    return tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
