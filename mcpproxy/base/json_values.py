"""Write any value that a peer sent as JSON.

Some values that were read cannot be written: a number too large for a double was read as infinity, or the
nesting is too deep. A part that cannot be written is replaced by the name of its kind. The rest is unchanged.
"""

import json
import math
from typing import Final, cast

_MAX_DEPTH: Final = 100
"""The depth to which a value is written if it cannot be written completely."""


def dumps(value: object, *, indent: int | None = None, compact: bool = False) -> str:
    """Return ``value`` as JSON text in ASCII. Any value that ``protocol.jsonrpc`` has read can be written."""
    separators = (",", ":") if compact else None
    try:
        return json.dumps(value, indent=indent, separators=separators, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(_writable(value, _MAX_DEPTH), indent=indent, separators=separators)


def _writable(value: object, depth: int) -> object:
    match value:
        case float() if not math.isfinite(value):
            return "a very large number"
        case dict():
            members = cast("dict[str, object]", value)
            return (
                {name: _writable(one, depth - 1) for name, one in members.items()} if depth else "an object"
            )
        case list() | tuple():
            items = cast("list[object]", value)
            return [_writable(one, depth - 1) for one in items] if depth else "an array"
        case _:
            return value
