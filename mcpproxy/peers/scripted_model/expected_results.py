"""Compares the results that a host gives the model with the expectations of the script.

The text of a result is as the host has written it.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

from mcpproxy.base.json_values import dumps
from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.turns import ModelResult
from mcpproxy.peers.scripted_model.model_script import Expectation
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.protocol.wording import pointer_steps

_SHOWN: Final = 300
"""How many characters of a result are quoted."""

_BEGINNING: Final = pattern(r'(?m)^[^\S\n]*(?=\{\s*["}]|\[\s*(?:["\[{\]\d-]|true|false|null))')
"""Where a JSON object or array may begin in a text: at the start of any line, because some hosts put a line
of their own before it."""

_MOST_BEGINNINGS: Final = 1000
"""How many such places are tried: a failed try takes time in proportion to the text before the place."""

_ABSENT: Final = object()


@slotted(frozen=True)
class GivenResult:
    """The result of a call that the model was given: the text, whether the call failed, and the original.

    ``tool`` is the name in the script. ``is_error`` is ``None`` if the interface of the model does not say.
    """

    tool: str
    text: str
    is_error: bool | None
    result: ModelResult

    @property
    def value(self) -> JSON:
        """The JSON in the text; ``None`` if there is none, or if it is null."""
        value = _json_in(self.text)
        return None if value is _ABSENT else cast("JSON", value)


def given_result(tool: str, result: ModelResult) -> GivenResult:
    """Return a result that the model was given for a call of ``tool``."""
    text = "\n".join(piece.text for piece in result.content if piece.kind == "text")
    return GivenResult(tool, text, result.failed, result)


def unmet(expected: Expectation, result: GivenResult) -> Iterator[str]:
    """Yield a sentence for each part of an expectation that does not hold.

    Whether the call failed is compared only if the interface of the model says it.
    """
    if expected.is_error is not None and result.is_error is not None and expected.is_error != result.is_error:
        yield "the result is an error" if result.is_error else "the result is no error"
    if expected.at is None:
        value: object = result.text
        where = ""
    else:
        value = _value_at(_json_in(result.text), expected.at)
        where = f" at {expected.at}" if expected.at else ""
        if value is _ABSENT:
            yield f"there is no JSON value{where} in {_shown(result.text)}"
            return
    if expected.equals is not None and not _same(value, expected.equals[0]):
        yield f"expected {_shown(expected.equals[0])}{where}, got {_shown(value)}"
    if expected.contains is not None:
        text = value if isinstance(value, str) else dumps(value)
        if expected.contains not in text:
            yield f"expected {_shown(expected.contains)} in the result{where}, got {_shown(value)}"


def _shown(value: object) -> str:
    text = dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _same(first: object, second: object) -> bool:
    """Whether two JSON values are equal, at every depth: 1 equals 1.0, but not true."""
    if (members := as_object(first)) is not None and (others := as_object(second)) is not None:
        return members.keys() == others.keys() and all(_same(members[name], others[name]) for name in members)
    if isinstance(first, list) and isinstance(second, list):
        items, other_items = cast("list[object]", first), cast("list[object]", second)
        return len(items) == len(other_items) and all(map(_same, items, other_items))
    return first == second and isinstance(first, bool) == isinstance(second, bool)


def _json_in(text: str) -> object:
    """Return ``text`` as JSON, else the first JSON object or array that begins a line, else ``_ABSENT``."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    for beginning in islice(_BEGINNING.finditer(text), _MOST_BEGINNINGS):
        try:
            return json.JSONDecoder().raw_decode(text, beginning.end())[0]
        except (ValueError, RecursionError):
            continue
    return _ABSENT


def _value_at(value: object, pointer: str) -> object:
    """Return the value at a pointer (RFC 6901); ``_ABSENT`` if there is none."""
    for name in pointer_steps(pointer):
        if (members := as_object(value)) is not None:
            value = members.get(name, _ABSENT)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(name)]
        else:
            return _ABSENT
    return value
