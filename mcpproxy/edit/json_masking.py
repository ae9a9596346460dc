"""The values of a JSON text are masked; all its other bytes are unchanged."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

from mcpproxy.protocol.jsontext import unescaped
from mcpproxy.protocol.wording import token
from mcpproxy.session.masked_values import is_masked

_JSON_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
"""Matches a string (the group is the text between its quotes), a bracket or separator, or another scalar."""
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members of a JSON Schema that map the name of a value to the schema of that value."""


_MAX_NESTED_JSON: Final = 3
"""How many levels of JSON inside JSON strings are searched."""


class JsonMasking:
    """Masks values by their names, by their paths, and by the text in them.

    The JSON is not parsed but read token by token, so that all other bytes stay as they are. ``pointers`` are
    JSON Pointers in which ``*`` stands for one step and ``**`` for any number of steps. ``has_secret_name``
    says whether the value of a member is masked, ``mask`` returns the mask of a value, and ``text`` returns
    plain text with the secrets in it masked.
    """

    def __init__(
        self,
        pointers: Sequence[str],
        has_secret_name: Callable[[str], bool],
        mask: Callable[[str], str],
        text: Callable[[str], str],
    ) -> None:
        self._pointers: Final = [re.compile(_pointer_regex(pointer)) for pointer in pointers]
        self._has_secret_name: Final = has_secret_name
        self._mask: Final = mask
        self._text: Final = text

    def masked(self, text: str, protected: Sequence[str] = ()) -> str:
        """Return JSON with its values masked; the same object if there is nothing to mask.

        ``protected`` are JSON Pointers of values that are not masked.
        """
        return self._masked(text, self._pointers, 0, protected)

    def _masked(
        self, text: str, pointers: Sequence[re.Pattern[str]], depth: int, protected: Sequence[str] = ()
    ) -> str:
        """Like ``masked``; ``depth`` says in how many JSON strings the text is nested."""
        parts: list[str] = []
        copied = 0  # how many characters of ``text`` are in ``parts``
        names: list[str | int] = []  # for each open container, the current member or element
        key_names: list[str] = [""]  # for each open container, the nearest member name around its values
        masked_depth: int | None = None  # the depth of the container in which every value is masked
        is_name = False  # whether the next string is the name of a member
        for json_token in _JSON_TOKEN.finditer(text):
            match json_token[0][0]:
                case "}" | "]":
                    if names:
                        names.pop()
                        key_names.pop()
                    if masked_depth is not None and len(names) <= masked_depth:
                        masked_depth = None
                    is_name = False
                case ",":
                    is_name = bool(names) and isinstance(names[-1], str)
                    if names and isinstance(names[-1], int):
                        names[-1] += 1
                case ":":
                    is_name = False
                case '"' if is_name:
                    names[-1] = key_names[-1] = unescaped(json_token[1])
                case first_char:
                    is_protected = _is_protected(names, protected)
                    is_selected = not is_protected and (
                        masked_depth is not None or self._is_selected(key_names[-1], names, pointers)
                    )
                    if first_char in "{[":
                        if is_selected and masked_depth is None and not _is_schema(names):
                            masked_depth = len(names)
                        names.append("" if first_char == "{" else 0)
                        key_names.append("" if first_char == "{" else key_names[-1])
                        is_name = first_char == "{"
                        continue
                    if is_protected:
                        continue
                    masked = self._value(json_token, is_selected, depth)
                    if masked != json_token[0]:
                        parts += (text[copied : json_token.start()], masked)
                        copied = json_token.end()
        return "".join((*parts, text[copied:])) if parts else text

    def _is_selected(self, name: str, names: list[str | int], pointers: Sequence[re.Pattern[str]]) -> bool:
        """Whether a value is masked because of its member name, or because of its path ``names``."""
        if name and self._has_secret_name(name):
            return True
        if not pointers:
            return False
        # In a batch, a pointer starts at the item of the batch.
        path = names[1:] if names and isinstance(names[0], int) else names
        pointer = "".join(map(token, path))
        return any(pattern.fullmatch(pointer) for pattern in pointers)

    def _value(self, json_token: re.Match[str], is_selected: bool, depth: int) -> str:
        """Return the JSON that replaces a string, a number or a literal.

        A selected string or number is masked as a whole. In any other string only matching text is masked.
        """
        recorded = json_token[0]
        if json_token[1] is None:
            is_number = recorded[0] in "-0123456789"
            return f'"{self._mask(recorded)}"' if is_selected and is_number else recorded
        value = unescaped(json_token[1])
        if is_selected:
            return f'"{self._mask(value)}"' if value and not is_masked(value) else recorded
        masked = value
        if depth < _MAX_NESTED_JSON and value[:1] in ("{", "[") and _is_json(value):
            masked = self._masked(value, (), depth + 1)
        masked = self._text(masked)
        if masked == value:
            return recorded
        # Lone surrogates can only be written as escapes.
        as_ascii = json_token[1].isascii() or any("\ud800" <= char <= "\udfff" for char in masked)
        return json.dumps(masked, ensure_ascii=as_ascii)


def _is_protected(names: list[str | int], protected: Sequence[str]) -> bool:
    if not protected or len(names) > 4:  # every protected pointer is shorter
        return False
    path = names[1:] if names and isinstance(names[0], int) else names
    return "".join(map(token, path)) in protected


def _is_schema(names: list[str | int]) -> bool:
    """Whether the value at the path ``names`` is the JSON Schema of a value, and not the value itself."""
    return len(names) > 1 and names[-2] in _SCHEMA_MAPS


def _pointer_regex(pointer: str) -> str:
    """Return the regular expression for a pointer with ``*`` and ``**``."""
    steps = {"*": "/[^/]*", "**": "(?:/[^/]*)*"}
    return "".join(steps.get(step, "/" + re.escape(step)) for step in pointer.split("/")[1:])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
