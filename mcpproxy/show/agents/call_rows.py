"""Calls as rows of answers."""

import json
import math
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from mcpproxy.base.visible import visible_lines
from mcpproxy.protocol.jsonrpc import refuse_constant
from mcpproxy.read.view.call_members import call_members, milliseconds
from mcpproxy.read.view.calls import Call
from mcpproxy.show.agents.answer_types import CallRow

_INTEGERS: Final = range(-(1 << 63), 1 << 63)
"""The integers of 64 bits. Many readers of JSON would change a larger one."""


def call_row(call: Call) -> CallRow:
    """Return a call of a recording as a row. Its view has masked and shortened the texts."""
    row = CallRow(call=call.number, at_ms=milliseconds(call.started_ns), **call_members(call))
    return replace(
        row,
        id=_json_value(call.id) if call.id else None,
        arguments=_json_value(call.arguments) if call.arguments[:1] in ("{", "[") else call.arguments,
    )


def _json_value(text: str) -> JsonValue:
    """Return the value of a JSON text, with hidden characters as escapes.

    Return ``text`` itself if it is cut or nested too deep, or has a number that ``_escaped`` or
    ``refuse_constant`` refuses.
    """
    try:
        return _escaped(json.loads(text, parse_constant=refuse_constant))
    except (ValueError, RecursionError):
        return text


def _escaped(value: JsonValue) -> JsonValue:
    """Return ``value`` with hidden characters in its texts as escapes.

    Raises:
        ValueError: a number is not finite, or has more than 64 bits.
    """
    match value:
        case str():
            return visible_lines(value)
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {visible_lines(name): _escaped(member) for name, member in value.items()}
        case int() if value not in _INTEGERS:
            raise ValueError
        case float() if not math.isfinite(value):
            raise ValueError
        case _:
            return value
