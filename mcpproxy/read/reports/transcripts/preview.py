"""Preview a JSON value: return its beginning as compact JSON without serialising the rest.

A result may be megabytes long, and a line has room for about eighty characters of it. So the text is produced
in pieces until there is enough of it. A value known to be short is serialised in one call, which takes a
fifth of the time.
"""

import json
from collections.abc import Iterator
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON

SHORT_BYTES: Final = 2048
"""Up to this size, serialising a value in one call is faster than in pieces."""

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def preview(value: JSON, limit: int, *, is_short: bool = False) -> str:
    """Return the beginning of ``value`` as compact JSON: at least ``limit`` characters of it, or all.

    ``is_short`` is true if the JSON is known to have at most ``SHORT_BYTES`` bytes.
    """
    if is_short:
        try:
            return _encode(value)
        except RecursionError:
            pass
    text = ""
    for piece in _pieces(value, limit):
        text += piece
        if len(text) > limit:
            break
    return text


def _pieces(value: JSON, limit: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield "{"
        for number, (name, member) in enumerate(value.items()):
            yield f"{',' if number else ''}{json.dumps(name[:limit], ensure_ascii=False)}:"
            yield from _pieces(member, limit)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, item in enumerate(value):
            if number:
                yield ","
            yield from _pieces(item, limit)
        yield "]"
    elif isinstance(value, str):
        yield json.dumps(value[: limit + 1], ensure_ascii=False)
    else:
        yield json.dumps(value)
