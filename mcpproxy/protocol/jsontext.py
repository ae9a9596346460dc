"""What only the text of a frame shows, and a parser hides: repeated names, JSON that stops halfway.

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
"""No more repeated names than this are told of one frame."""

PREFIX_BYTES: Final = 1 << 20
"""A longer text is not looked at to see whether it stops halfway."""


def written(value: JSON) -> bytes:
    """``value`` as JSON without spaces, so that equal ones are equal to the letter; empty if it has none."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return b""


def unescaped(inside: str) -> str:
    """What stands between the quotes of a JSON string, as it is meant; as it stands if that is no JSON."""
    if "\\" not in inside:
        return inside
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        return inside


def may_repeat(raw: bytes, value: JSON) -> bool:
    """Whether ``repeated_names`` may find any, told in a fraction of its time."""
    try:
        # A repeated name costs the parsed value a colon, and nothing gives it one but an escape.
        if raw.count(b":") != orjson.dumps(value).count(b":"):
            return True
    except orjson.JSONEncodeError:
        return True  # a number or a nesting that only the other parser knows
    return raw.find(b"\\u003") >= 0 and (b"\\u003a" in raw or b"\\u003A" in raw)


def repeated_names(raw: bytes, value: JSON) -> list[str]:
    """JSON Pointers of the members whose name occurs more than once in their object.

    ``value`` is what ``raw`` parsed to, where the last of the members with one name has won. Empty
    for text that cannot be read as JSON after all.
    """
    if not may_repeat(raw, value):
        return []
    try:
        # Numbers only have to be swallowed: int() refuses those with thousands of digits.
        tree: object = json.loads(raw, object_pairs_hook=_Members, parse_int=float)
    except (ValueError, RecursionError):
        return []
    return _walk(tree)


class _Members(list["tuple[str, object]"]):
    """An object with every member that was written, in order."""


_Open: TypeAlias = "tuple[str, object]"


def _walk(tree: object) -> list[str]:
    found: list[str] = []
    stack: list[_Open] = [("", tree)]
    while stack and len(found) < LIMIT:
        pointer, value = stack.pop()
        children: list[_Open]
        if isinstance(value, _Members):
            winners = dict(value)
            if len(winners) < len(value):
                times = Counter(name for name, _ in value)
                found += [pointer + token(name) for name in winners if times[name] > 1]
            children = [(pointer + token(name), child) for name, child in winners.items()]
        elif isinstance(value, list):
            items = cast("list[object]", value)
            children = [(f"{pointer}/{index}", child) for index, child in enumerate(items)]
        else:
            continue
        stack.extend(reversed(children))
    return found[:LIMIT]


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
    """Whether ``raw`` is more than one JSON text, one after the other, of which two are objects."""
    if not raw.lstrip().startswith(b"{") or len(raw) > PREFIX_BYTES:
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


_CLOSES: Final = {b"}": b"{", b"]": b"["}


def unclosed(text: bytes) -> bool:
    """Whether ``text`` begins a JSON object or array and ends before it does.

    True of the first line of pretty-printed JSON, false of a whole value, of a log line that happens
    to begin with a bracket and of text longer than ``PREFIX_BYTES``. Looks at tokens and brackets
    alone: whether commas and colons stand where they should is not asked.
    """
    if len(text) > PREFIX_BYTES:
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
            if not opened or opened.pop() != _CLOSES[match[0]] or not opened:
                return False
        elif kind == "other" and not opened:
            return False
    return bool(opened)
