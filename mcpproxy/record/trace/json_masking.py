"""Mask values in a JSON text, and leave all its other bytes unchanged.

``secrets_masked`` masks everything that looks like a secret. ``JsonMasking`` masks the values that its caller
selects.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from mcpproxy.base.secret_names import MAX_NAME_CHARACTERS, credential_kind, is_credential
from mcpproxy.base.secret_values import mask_secrets
from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.protocol.jsontext import unescaped
from mcpproxy.protocol.wording import token

_JSON_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
"""Matches a string (the group is the text between its quotes), a bracket or separator, or another scalar.

A string that is cut off goes to the end, so that no quote in it is tried again.
"""
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members of a JSON Schema that map the name of a value to the schema of that value."""


_MAX_NESTED_JSON: Final = 4
"""How many levels of JSON are searched: the outermost, and those inside its strings."""

_OPENING: Final = re.compile(r"\{(?=\s*\")|\[(?=\s*[\"{\[])")
"""Where an object or an array with names or texts in it may begin."""
_MOST_TRIES: Final = 64
"""How often a text is tried as JSON."""
_DECODER: Final = json.JSONDecoder()

NAMING_MEMBERS: Final = frozenset({"name", "key"})
VALUE_MEMBER: Final = "value"
"""An object may have the name of a value in one member and the value in another, for example in environments
of Kubernetes, header lists of HTTP Archives, and settings. The members may be in upper or lower case. A list
or an object as the value is masked only if it comes after its name."""


def secrets_masked(text: str, mask: Callable[[str], str]) -> str:
    """Return a text in which everything that looks like a secret is replaced by its ``mask``.

    In JSON objects and arrays within the text, members are also masked by their names.
    """
    return JsonMasking((), names_credential, mask, lambda plain: mask_secrets(plain, mask)).in_text(text)


def names_credential(name: str, value: str) -> bool:
    """Whether a member of this name with this value is a credential (see ``is_credential``)."""
    return is_credential(kind_of_name(name), value)


def kind_of_name(name: str) -> str:
    """Return ``credential_kind`` of a name, from a cache, because the same names come again and again.

    It is empty for a name that is longer than ``MAX_NAME_CHARACTERS``.
    """
    return _cached_kind(name) if len(name) <= MAX_NAME_CHARACTERS else ""


_cached_kind: Final = lru_cache(maxsize=1024)(credential_kind)


class JsonMasking:
    """Masks values by their names, by their paths, and by the text in them.

    The JSON is not parsed but read token by token, so that all other bytes stay unchanged. ``pointers`` are
    JSON Pointers in which ``*`` stands for one step and ``**`` for any number of steps. ``has_secret_name``
    says whether the value of a member is masked: it gets the name, and the text or number that is the value,
    or an empty text for an object or an array. ``mask`` returns the mask of a value, and ``text`` returns
    plain text with the secrets in it masked.
    """

    def __init__(
        self,
        pointers: Sequence[str],
        has_secret_name: Callable[[str, str], bool],
        mask: Callable[[str], str],
        text: Callable[[str], str],
    ) -> None:
        self._pointers: Final = [re.compile(_pointer_regex(pointer)) for pointer in pointers]
        self._has_secret_name: Final = has_secret_name
        self._mask: Final = mask
        self._text: Final = text

    def masked(self, text: str, protected: Sequence[str] = ()) -> str:
        """Return JSON with its values masked; the same object if there is nothing to mask.

        ``protected`` are JSON Pointers of values that are not masked. Each has at most three steps.
        """
        return self._mask_json(text, self._pointers, 0, protected)

    def in_text(self, text: str, depth: int = 0) -> str:
        """Return a text with the JSON in it masked, and then all of it masked as plain text.

        ``depth`` says in how many JSON strings the text is nested.
        """
        if depth < _MAX_NESTED_JSON:
            edits = {
                start: (end, self._mask_json(text[start:end], (), depth)) for start, end in _json_in(text)
            }
            text = _apply_edits(text, edits) if edits else text
        return self._text(text)

    def _mask_json(
        self, text: str, pointers: Sequence[re.Pattern[str]], depth: int, protected: Sequence[str] = ()
    ) -> str:
        """Like ``masked``; ``depth`` says in how many JSON strings the text is nested."""
        edits: dict[int, tuple[int, str]] = {}  # start in the text -> end, and the text to put there
        names: list[str | int] = []  # for each open container, the current member or element
        key_names: list[str] = [""]  # for each open container, the nearest member name around its values
        pairs: list[_Pair] = [_Pair()]  # for each open container, its members ``name`` and ``value``
        masked_depth: int | None = None  # the depth of the container in which every value is masked
        is_name = False  # whether the next string is the name of a member
        for json_token in _JSON_TOKEN.finditer(text):
            match json_token[0][0]:
                case "}" | "]":
                    if names:
                        names.pop()
                        key_names.pop()
                        pair = pairs.pop()
                        if pair.names_secret and (value := pair.value) is not None:
                            edits[value.start()] = value.end(), self._mask_value(value, True, depth)
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
                    is_container = first_char in "{["
                    is_protected = _is_protected(names, protected)
                    is_selected = not is_protected and (
                        masked_depth is not None
                        or self._is_selected(key_names[-1], json_token, names, pointers)
                        or self._is_paired(pairs[-1], names, json_token)
                    )
                    if is_container:
                        if is_selected and masked_depth is None and not _is_schema(names):
                            masked_depth = len(names)
                        names.append("" if first_char == "{" else 0)
                        key_names.append("" if first_char == "{" else key_names[-1])
                        pairs.append(_Pair())
                        is_name = first_char == "{"
                        continue
                    if is_protected:
                        continue
                    masked = self._mask_value(json_token, is_selected, depth)
                    if masked != json_token[0]:
                        edits[json_token.start()] = json_token.end(), masked
        return _apply_edits(text, edits) if edits else text

    def _is_paired(self, pair: "_Pair", names: list[str | int], json_token: re.Match[str]) -> bool:
        """Whether this is the member ``value`` of an object whose ``name`` names a secret. Note either
        member in ``pair``."""
        member = names[-1].lower() if names and isinstance(names[-1], str) else ""
        if member in NAMING_MEMBERS and json_token[1] is not None and not pair.names_secret:
            pair.names_secret = self._has_secret_name(unescaped(json_token[1]), "")
        elif member == VALUE_MEMBER:
            pair.value = json_token if json_token[0] not in ("{", "[") else None
            return pair.names_secret
        return False

    def _is_selected(
        self,
        name: str,
        json_token: re.Match[str],
        names: list[str | int],
        pointers: Sequence[re.Pattern[str]],
    ) -> bool:
        """Whether a value is masked because of its member name, or because of its path ``names``."""
        value = json_token[0] if json_token[1] is None else json_token[1]
        if name and self._has_secret_name(name, "" if value in ("{", "[") else value):
            return True
        if not pointers:
            return False
        # In a batch, a pointer starts at the item of the batch.
        path = names[1:] if names and isinstance(names[0], int) else names
        pointer = "".join(map(token, path))
        return any(pattern.fullmatch(pointer) for pattern in pointers)

    def _mask_value(self, json_token: re.Match[str], is_selected: bool, depth: int) -> str:
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
        masked = self.in_text(value, depth + 1)
        if masked == value:
            return recorded
        # Lone surrogates can only be written as escapes.
        as_ascii = json_token[1].isascii() or any("\ud800" <= char <= "\udfff" for char in masked)
        return json.dumps(masked, ensure_ascii=as_ascii)


class _Pair:
    """Whether the member ``name`` of an object names a secret, and the value of the member ``value``
    unless that is a list or an object."""

    __slots__ = ("names_secret", "value")

    def __init__(self) -> None:
        self.names_secret = False
        self.value: re.Match[str] | None = None


def _apply_edits(text: str, edits: dict[int, tuple[int, str]]) -> str:
    parts: list[str] = []
    copied = 0  # how many characters of ``text`` are in ``parts``
    for start, (end, masked) in sorted(edits.items()):
        parts += (text[copied:start], masked)
        copied = end
    return "".join((*parts, text[copied:]))


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


def _json_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where JSON objects and arrays begin and end in a text: a log line or an error may quote one."""
    end = tries = 0
    while tries < _MOST_TRIES and (opening := _OPENING.search(text, end)):
        tries += 1
        try:
            _, end = _DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            end = opening.end()
        else:
            yield opening.start(), end
