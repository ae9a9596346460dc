"""Calls as rows of answers."""

import json
import math
from dataclasses import replace
from typing import Final, NoReturn

from pydantic import JsonValue

from mcpproxy.base.visible import visible_lines
from mcpproxy.read.view.call_members import call_members, milliseconds
from mcpproxy.read.view.calls import Call
from mcpproxy.show.agents.answer_types import CallRow

_INTEGERS: Final = range(-(1 << 63), 1 << 63)
"""Those that every reader of JSON keeps, or refuses."""


def call_row(call: Call) -> CallRow:
    """Return a call of a recording. Its texts are masked and shortened by the view."""
    row = CallRow(call=call.number, at_ms=milliseconds(call.started_ns), **call_members(call))
    return replace(
        row,
        id=_value(call.id) if call.id else None,
        arguments=_value(call.arguments) if call.arguments[:1] in ("{", "[") else call.arguments,
    )


def _value(text: str) -> JsonValue:
    """Return the value of a JSON text, with hidden characters as escapes; ``text`` if it is cut."""
    try:
        return _shown(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return text


def _shown(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return visible_lines(value)
        case list():
            return [_shown(item) for item in value]
        case dict():
            return {visible_lines(name): _shown(member) for name, member in value.items()}
        case int() if value not in _INTEGERS:
            raise ValueError
        case float() if not math.isfinite(value):
            raise ValueError
        case _:
            return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
