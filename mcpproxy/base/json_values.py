"""Turn any value from a peer into JSON text.

JSON has no infinity, and the ``json`` module refuses values that are nested too deeply. Both may come from a
peer: a number too large for a double is read as infinity. Such a part is replaced by words
(``"an object"``). Everything else is kept.
"""

import json
import math
from typing import Final, cast

_MAX_DEPTH: Final = 100
"""In a value that ``json`` refuses, objects and arrays nested deeper than this are replaced by words."""


def dumps(value: object, *, indent: int | None = None, compact: bool = False) -> str:
    """Return ``value``, which ``protocol.jsonrpc`` has parsed, as JSON text in ASCII.

    With ``compact`` there is no space after a comma or colon.
    """
    separators = (",", ":") if compact else None
    try:
        return json.dumps(value, indent=indent, separators=separators, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(_writable(value, _MAX_DEPTH), indent=indent, separators=separators)


def _writable(value: object, depth: int) -> object:
    """Return ``value`` with words for parts that ``json`` refuses; ``depth`` is how many levels are kept."""
    match value:
        case float() if not math.isfinite(value):
            return "a very large number"
        case dict():
            members = cast("dict[str, object]", value)
            return (
                {name: _writable(item, depth - 1) for name, item in members.items()} if depth else "an object"
            )
        case list() | tuple():
            items = cast("list[object]", value)
            return [_writable(item, depth - 1) for item in items] if depth else "an array"
        case _:
            return value
