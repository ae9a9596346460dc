"""Find faults in the bytes of a message that its parsed value does not show: repeated names, truncated JSON,
several texts.

Source: RFC 8259 section 4, the names within an object should be unique.
"""

import json
import re
from collections import Counter
from typing import Final, TypeAlias, cast

import orjson

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.wording import token

LIMIT: Final = 20
"""The maximum number of repeated names reported for one frame."""

MAX_CHECKED_BYTES: Final = 1 << 20
"""Longer texts are not checked for truncation or for several JSON texts."""


def compact_json(value: JSON) -> bytes:
    """Return ``value`` as compact JSON. Equal values with members in the same order give equal bytes.

    The result is empty if orjson cannot write the value.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return b""


def unescaped(content: str) -> str:
    """Unescape the text between the quotes of a JSON string; return it unchanged if it is not valid JSON."""
    if "\\" not in content:
        return content
    try:
        return str(json.loads(f'"{content}"', strict=False))
    except ValueError:
        return content


def may_repeat(raw: bytes, value: JSON) -> bool:
    """Whether ``raw`` may have repeated names. This test is much faster than ``repeated_names``."""
    try:
        # Parsing drops a repeated member and so a colon. The counts are equal nevertheless if an escaped
        # colon (\u003a) becomes a plain colon.
        if raw.count(b":") != orjson.dumps(value).count(b":"):
            return True
    except orjson.JSONEncodeError:
        return True  # orjson cannot write this number or depth, so the test is not possible
    return raw.find(b"\\u003") >= 0 and (b"\\u003a" in raw or b"\\u003A" in raw)


def repeated_names(raw: bytes, value: JSON) -> list[str]:
    """Return JSON Pointers of the members whose name occurs more than once in their object.

    ``value`` is the parsed ``raw``. The list has at most ``LIMIT`` pointers. It is empty for text that is not
    JSON, or that nests too deeply for ``json``.
    """
    if not may_repeat(raw, value):
        return []
    try:
        # The values of numbers do not matter here, and ``int`` rejects numbers with thousands of digits.
        tree: object = json.loads(raw, object_pairs_hook=_Members, parse_int=float)
    except (ValueError, RecursionError):
        return []
    return _pointers_of_repeated(tree)


class _Members(list["tuple[str, object]"]):
    """All members of an object in the order of the text, repeated ones included."""


_Place: TypeAlias = "tuple[str, object]"
"""A JSON Pointer, and the value at this pointer."""


def _pointers_of_repeated(tree: object) -> list[str]:
    """Return the JSON Pointers of the repeated members in ``tree``, at most ``LIMIT``."""
    pointers: list[str] = []
    stack: list[_Place] = [("", tree)]
    while stack and len(pointers) < LIMIT:
        pointer, value = stack.pop()
        children: list[_Place]
        if isinstance(value, _Members):
            last_members = dict(value)
            if len(last_members) < len(value):
                counts = Counter(name for name, _ in value)
                pointers += [pointer + token(name) for name in last_members if counts[name] > 1]
            children = [(pointer + token(name), child) for name, child in last_members.items()]
        elif isinstance(value, list):
            items = cast("list[object]", value)
            children = [(f"{pointer}/{index}", child) for index, child in enumerate(items)]
        else:
            continue
        stack.extend(reversed(children))
    return pointers[:LIMIT]


_TOKEN: Final = pattern(
    rb"""
      (?P<space> [ \t\r\n]+ )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<other> [:,]
        | "(?: [^"\\] | \\. )*+ (?: " | \\? \Z )   # a string may be cut off in the middle
        | -? [0-9] [0-9.eE+-]*
        | true | false | null
      )
    """,
    re.VERBOSE | re.DOTALL,
)

_SPACE: Final = pattern(r"[ \t\r\n]*")


def several_texts(raw: bytes) -> bool:
    """Whether ``raw`` is several consecutive JSON texts: first an object, later at least one other.

    False for text longer than ``MAX_CHECKED_BYTES``.
    """
    if not raw.lstrip().startswith(b"{") or len(raw) > MAX_CHECKED_BYTES:
        return False
    decoder, objects, position = json.JSONDecoder(parse_int=float), 0, 0
    try:
        text = raw.decode("utf-8").strip()
        while position < len(text):
            value, position = cast("tuple[object, int]", decoder.raw_decode(text, position))
            objects += isinstance(value, dict)
            space = _SPACE.match(text, position)
            position = space.end() if space else position
    except (ValueError, RecursionError):
        return False
    return objects > 1


_OPENING_BRACKETS: Final = {b"}": b"{", b"]": b"["}


def unclosed(text: bytes) -> bool:
    """Whether ``text`` begins a JSON object or array and ends before the object or array does.

    This is true for the first line of pretty-printed JSON. It is false for a complete value, for a log line
    that begins with a bracket, for text that ends within ``true``, ``false`` or ``null``, and for text longer
    than ``MAX_CHECKED_BYTES``. Only tokens and brackets are checked, not the positions of commas and colons.
    """
    if len(text) > MAX_CHECKED_BYTES:
        return False
    opened: list[bytes] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return False
        position = match.end()
        kind = match.lastgroup
        if kind == "open":
            opened.append(match[0])
        elif kind == "close":
            if not opened or opened.pop() != _OPENING_BRACKETS[match[0]] or not opened:
                return False
        elif kind == "other" and not opened:
            return False
    return bool(opened)
