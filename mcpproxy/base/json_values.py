"""JSON for programs, of whatever peers have said.

A peer's value may be one that JSON cannot say (a number beyond what a double holds was read as infinity) or
that nests too deep to be written. What cannot be written is named by its kind, and all else stays.
"""

import json
import math
from typing import Final, cast

_DEPTH: Final = 100
"""Deeper than that nothing is written of a value that cannot be written as a whole."""


def dumps(value: object, *, indent: int | None = None, compact: bool = False) -> str:
    """``value`` as JSON text in ASCII. Never raises for what ``mcpproxy.protocol.jsonrpc`` has read."""
    separators = (",", ":") if compact else None
    try:
        return json.dumps(value, indent=indent, separators=separators, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(_sayable(value, _DEPTH), indent=indent, separators=separators)


def _sayable(value: object, depth: int) -> object:
    match value:
        case float() if not math.isfinite(value):
            return "a very large number"
        case dict():
            members = cast("dict[str, object]", value)
            return {name: _sayable(one, depth - 1) for name, one in members.items()} if depth else "an object"
        case list() | tuple():
            items = cast("list[object]", value)
            return [_sayable(one, depth - 1) for one in items] if depth else "an array"
        case _:
            return value
