"""JSON text as a tree of places, so that parts of it can be replaced while every other byte is unchanged.

A parsed value does not say where in the text a string is, and keeps only one of two members with one name.
"""

import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.protocol.jsontext import unescaped

_TOKEN: Final = pattern(
    r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*+:)?|\\?\Z)|[\[\]{}]|[^\s,:\[\]{}"]++', re.DOTALL
)

_LITERAL: Final = pattern(r"true|false|null|NaN|-?Infinity|-?[0-9][0-9.eE+-]*+")

_DEEPEST: Final = 500
"""Text that nests so deep is not read: recursive functions walk the trees."""


@slotted(eq=False)
class JsonPlace:
    """A value in the text: ``text[start:end]``. The text of a string is without its quotes.

    ``kind`` is the first character of an object, an array or a string, and ``v`` for any other value.
    ``name`` is the member's name; empty in an array. ``inner`` are the members of an object, or the items of
    an array.
    """

    kind: str
    start: int
    end: int
    name: str = ""
    inner: "list[JsonPlace]" = field(default_factory=list["JsonPlace"])

    def named(self, name: str) -> "JsonPlace | None":
        """Return the member ``name`` of an object, the last one if several have that name; else ``None``."""
        if self.kind != "{":
            return None
        return next((member for member in reversed(self.inner) if member.name == name), None)

    def string(self, text: str, name: str) -> str:
        """Return the value of the member ``name`` if it is a string, else an empty string."""
        member = self.named(name)
        return text[member.start : member.end] if member is not None and member.kind == '"' else ""


def tree_of(text: str, most: int = 150_000) -> JsonPlace | None:
    """Return the object or array that ``text`` consists of, or ``None``.

    ``None`` means that the text is not an object or array, is nested too deeply, or has more than ``most``
    values. Each value takes about 300 bytes of memory. No content is overlooked: apart from the values and
    the names of members, the text has only punctuation and white space.
    """
    root = JsonPlace("", 0, len(text))
    above = [root]
    name: str | None = None
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if token[2] is not None:
            if name is not None or above[-1].kind != "{":
                return None
            name = unescaped(token[1])
            continue
        if first in "]}":
            if len(above) == 1 or name is not None:
                return None
            above.pop().end = token.end()
            continue
        most -= 1
        if most < 0 or (name is None) == (above[-1].kind == "{"):
            return None
        start, end = token.span(1) if first == '"' else token.span()
        place = JsonPlace(first if first in '"{[' else "v", start, end, name or "")
        if place.kind == "v" and not _LITERAL.fullmatch(token[0]):
            return None
        above[-1].inner.append(place)
        if first in "[{":
            above.append(place)
            if len(above) > _DEEPEST:
                return None
        name = None
    if len(above) > 1 or len(root.inner) != 1 or root.inner[0].kind not in "[{":
        return None
    return root.inner[0]


def single_values(place: JsonPlace) -> Iterator[JsonPlace]:
    """Yield the values in a place that are neither objects nor arrays, in the order of the text."""
    if place.kind in "[{":
        for inner in place.inner:
            yield from single_values(inner)
    else:
        yield place
