"""Whether the model was given for a call what the script expects. The text is the one that the host made."""

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

_SHOWN: Final = 300
"""How many characters of a result stand in a sentence about it."""

_BEGINNING: Final = pattern(r'(?m)^[^\S\n]*(?=\{\s*["}]|\[\s*(?:["\[{\]\d-]|true|false|null))')
"""Where JSON may begin in a text. Some hosts put a line of their own before it."""

_MOST_BEGINNINGS: Final = 1000
"""How many of these are looked at: one without JSON costs as much as all of the text before it."""

_ABSENT: Final = object()


@slotted(frozen=True)
class GivenResult:
    """What the model was given for a call: its text, whether it says that the call failed, and the rest.

    ``is_error`` is ``None`` where the interface does not say so.
    """

    tool: str
    text: str
    is_error: bool | None
    result: ModelResult

    @property
    def value(self) -> JSON:
        """The JSON in the text; ``None`` without any."""
        found = _json_in(self.text)
        return None if found is _ABSENT else cast("JSON", found)


def given(tool: str, result: ModelResult) -> GivenResult:
    """Return what the model was given for a call of ``tool``."""
    text = "\n".join(piece.text for piece in result.content if piece.kind == "text")
    return GivenResult(tool, text, result.failed, result)


def unmet(expected: Expectation, result: GivenResult) -> Iterator[str]:
    """Yield a sentence for each part of an expectation that does not hold.

    Whether a call failed is not compared in an interface that does not say so.
    """
    if expected.is_error is not None and result.is_error is not None and expected.is_error != result.is_error:
        yield "the result is an error" if result.is_error else "the result is no error"
    if expected.at is None:
        text: object = result.text
        where = ""
    else:
        text = _at(_json_in(result.text), expected.at)
        where = f" at {expected.at}" if expected.at else ""
        if text is _ABSENT:
            yield f"there is no JSON value{where} in {_shown(result.text)}"
            return
    if expected.equals is not None and not _same(text, expected.equals[0]):
        yield f"expected {_shown(expected.equals[0])}{where}, got {_shown(text)}"
    if expected.contains is not None:
        words = text if isinstance(text, str) else dumps(text)
        if expected.contains not in words:
            yield f"expected {_shown(expected.contains)} in the result{where}, got {_shown(text)}"


def _shown(value: object) -> str:
    text = dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, at every depth: 1 is 1.0, and neither is true."""
    if (members := as_object(one)) is not None and (others := as_object(other)) is not None:
        return members.keys() == others.keys() and all(_same(members[name], others[name]) for name in members)
    if isinstance(one, list) and isinstance(other, list):
        items, found = cast("list[object]", one), cast("list[object]", other)
        return len(items) == len(found) and all(map(_same, items, found))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _json_in(text: str) -> object:
    """Return the first JSON object or array in ``text``, or the whole of it, if it is JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    for found in islice(_BEGINNING.finditer(text), _MOST_BEGINNINGS):
        try:
            return json.JSONDecoder().raw_decode(text, found.end())[0]
        except (ValueError, RecursionError):
            continue
    return _ABSENT


def _at(value: object, pointer: str) -> object:
    """Return the value at a pointer (RFC 6901)."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if (members := as_object(value)) is not None:
            value = members.get(name, _ABSENT)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(name)]
        else:
            return _ABSENT
    return value
