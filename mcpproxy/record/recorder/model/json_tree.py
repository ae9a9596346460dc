"""JSON text as a tree of places, so that parts of it are replaced and every other byte stays as it is.

A parsed value does not say where in the text a string stands, and has only one of two members of one name.
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
"""Text that nests deeper is not read: trees are walked by functions that call themselves."""


@slotted(eq=False)
class JsonPlace:
    """A value in the text: ``text[start:end]``. The text of a string is without its quotes.

    ``kind`` is the first character of an object, an array or a string, and ``v`` for any other value.
    ``name`` is that of the member, empty in an array. ``inner`` are the members or items.
    """

    kind: str
    start: int
    end: int
    name: str = ""
    inner: "list[JsonPlace]" = field(default_factory=list["JsonPlace"])

    def named(self, name: str) -> "JsonPlace | None":
        """Return the member ``name`` of an object, of several the last; ``None`` without one."""
        if self.kind != "{":
            return None
        return next((one for one in reversed(self.inner) if one.name == name), None)

    def string(self, text: str, name: str) -> str:
        """Return the member ``name`` if it is a string, else an empty string."""
        found = self.named(name)
        return text[found.start : found.end] if found is not None and found.kind == '"' else ""


def tree_of(text: str, most: int) -> JsonPlace | None:
    """Return the object or array that is all of ``text``; ``None`` if it is not JSON, or has more values than
    ``most``, each of which takes about 300 bytes.

    Everything in the text but its places and the names of members is a literal or punctuation.
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


def strings(place: JsonPlace) -> Iterator[JsonPlace]:
    """Yield the strings and the other single values in a place, in the order of the text."""
    if place.kind in "[{":
        for one in place.inner:
            yield from strings(one)
    else:
        yield place
