"""Pages: parts of answers that fit into ``ANSWER_BYTES``.

The result of a tool holds the same object twice, as structured content and as a JSON text, for clients that
know only texts. Both count.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Final, TypeVar, cast

import orjson

from mcpproxy.show.agents.answer_types import ALWAYS

_T = TypeVar("_T")

ANSWER_BYTES: Final = 23_000
"""How many bytes the object of an answer may take; the rest of a result takes less than 2,000."""

FRAME_BYTES: Final = 2_500
"""How many bytes of a record's text are shown beside others."""


def as_json(value: object) -> Any:
    """Return a value, such as a dataclass, with everything in it as JSON values.

    Members that have their default value are left out, unless their metadata has ``ALWAYS``.
    """
    if dataclasses.is_dataclass(value):
        members = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: as_json(member) for field, member in members if not _is_default(field, member)}
    if isinstance(value, dict):
        return {key: as_json(member) for key, member in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in cast("list[object]", value)]
    return value


def _is_default(field: "dataclasses.Field[Any]", member: object) -> bool:
    if ALWAYS in field.metadata:
        return False
    if field.default is not dataclasses.MISSING:
        return bool(member == field.default)
    return field.default_factory is not dataclasses.MISSING and member == field.default_factory()


def text_of(value: object) -> str:
    """Return ``as_json(value)`` as a JSON text."""
    return orjson.dumps(as_json(value), option=orjson.OPT_NON_STR_KEYS).decode()


def cost(value: object) -> int:
    """Return how many bytes a value takes in an answer: as JSON, and as JSON within a JSON text."""
    text = orjson.dumps(as_json(value))
    return len(text) + len(orjson.dumps(text.decode())) + 2


class AnswerPage:
    """A page that is being filled with up to ``limit`` items.

    ``used`` is the rest of the answer, whose bytes count, too.
    """

    def __init__(self, limit: int, used: object = None) -> None:
        self._left_items = limit
        self._left_bytes = ANSWER_BYTES - (0 if used is None else cost(used))
        self._is_empty = True

    def count_item(self, item: object) -> bool:
        """Count ``item``, and return whether there was room for it. The first item always has room."""
        self._left_bytes -= cost(item)
        self._left_items -= 1
        has_room = self._is_empty or (self._left_bytes >= 0 and self._left_items >= 0)
        self._is_empty = False
        return has_room

    def fill(self, items: Iterable[_T]) -> tuple[list[_T], bool]:
        """Return the items that have room, and whether others are left."""
        fitting: list[_T] = []
        for item in items:
            if not self.count_item(item):
                return fitting, True
            fitting.append(item)
        return fitting, False


def beginning(text: str, limit: int) -> str:
    """Return the longest beginning of a text that costs at most ``limit`` bytes, or a little less of it."""
    part = text[:limit]
    while part and (size := cost(part)) > limit:
        part = part[: min(len(part) - 1, len(part) * limit // size)]
    return part
