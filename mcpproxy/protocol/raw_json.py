"""Edit JSON as text: replace some values and leave every other byte as it is.

Parsing a message and writing it again would change or refuse some valid messages: those with integers beyond
64 bits, lone surrogates, repeated names or hundreds of levels. So these functions make a new message from the
bytes of a peer's message. They expect valid JSON, except for ``readable_members`` and ``value_end``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON, Batch, Message, Single
from mcpproxy.protocol.message_parts import singles

Path: TypeAlias = tuple[str, ...]
"""Member names, from the outermost object inwards."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET: Final = re.compile(rb'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
"""A bracket, or a string. A string that is cut off matches to the end, so no quote in it is tried again."""
_STRING_OR_SPACE: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))|[ \t\r\n]++', re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[^\s,\]}]++")


def spliced(raw: bytes, edits: Mapping[Path, bytes]) -> bytes:
    """Return the JSON object ``raw`` with the values at these paths replaced; absent paths are ignored.

    No path may lead into the value of another.
    """
    replacements = [(span, new) for path, new in edits.items() if (span := find(raw, path))]
    for (start, end), new in sorted(replacements, reverse=True):
        raw = raw[:start] + new + raw[end:]
    return raw


def find(raw: bytes, path: Path) -> tuple[int, int] | None:
    """Return the start and end of the value at ``path`` in ``raw``; ``None`` if there is no such value.

    Of members with the same name, the last counts.
    """
    start, end = _skip_space(raw, 0), len(raw)
    for name in path:
        value_span = None
        for member_name, value_start, value_end in _members(raw, start):
            if member_name == name:
                value_span = (value_start, value_end)
        if value_span is None:
            return None
        start, end = value_span
    return start, end


def value_bytes(raw: bytes, path: Path) -> bytes | None:
    """Return the bytes of the value at ``path``; ``None`` if there is no such value."""
    span = find(raw, path)
    return raw[slice(*span)] if span else None


def value_end(raw: bytes, start: int) -> int | None:
    """Return the end of the value that begins at ``start``.

    The result is ``None`` if no value begins there, or if it is an object or array that is cut off.

    The value need not be valid JSON: of an object or array, only the strings and brackets are read. A string
    that is cut off ends before its first white space, comma or closing bracket, or with the text.
    """
    if raw[start : start + 1] not in (b"{", b"["):
        scalar = _STRING.match(raw, start) or _SCALAR.match(raw, start)
        return scalar.end() if scalar else None
    depth = 0
    for bracket in _BRACKET.finditer(raw, start):
        match raw[bracket.start() : bracket.start() + 1]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if not depth:
                    return bracket.end()
            case _:
                pass
    return None


def without_spaces(raw: bytes) -> bytes:
    """Return a JSON text without the white space between its tokens."""
    return _STRING_OR_SPACE.sub(rb"\1", raw)


def written(value: JSON) -> bytes:
    """Return a scalar as JSON text, for use when its original bytes are unknown."""
    return json.dumps(value).encode()


def elements(raw: bytes) -> Iterator[bytes]:
    """Yield the elements of the JSON array ``raw``, each as its original bytes."""
    position = _skip_space(raw, _skip_space(raw, 0) + 1)
    while (end := value_end(raw, position)) is not None:
        yield raw[position:end]
        position = _skip_space(raw, end)
        if raw[position : position + 1] != b",":
            return
        position = _skip_space(raw, position + 1)


def messages_with_bytes(message: Message, raw: bytes) -> Iterator[tuple[Single, bytes]]:
    """Yield the messages of a frame (a line, body or event), each with its own bytes; a batch has several."""
    parts = elements(raw) if isinstance(message, Batch) else (raw,)
    return zip(singles(message), parts, strict=True)


def readable_members(raw: bytes) -> dict[str, bytes]:
    """Return the top-level members of an object as far as they can be read, by name, each value as bytes.

    The text need not be valid JSON: it may be cut off or contain ``NaN``. The value of a member that is cut
    off is empty or, for a string, perhaps its beginning. Of members with the same name, the last counts.
    """
    members: dict[str, bytes] = {}
    position = _skip_space(raw, 0)
    begin = b"{"
    while raw[position : position + 1] == begin:
        begin = b","
        if (key := _STRING.match(raw, _skip_space(raw, position + 1))) is None:
            break
        colon = _skip_space(raw, key.end())
        if raw[colon : colon + 1] != b":":
            break
        start = _skip_space(raw, colon + 1)
        end = value_end(raw, start)
        try:
            name = str(json.loads(key[0], strict=False))
        except ValueError:  # it is not UTF-8
            name = key[0].decode("utf-8", "replace")
        # An object does not end with a number, so a number at the end of the text may be cut off.
        members[name] = raw[start:end] if end is not None and end < len(raw) else b""
        if end is None:
            break
        position = _skip_space(raw, end)
    return members


def put(raw: bytes, path: Path, text: bytes) -> bytes:
    """Return the JSON object ``raw`` with the value ``text`` at ``path``, in place of any earlier value.

    Objects that are missing on the path are added. A value on the path that is not an object is replaced by
    an object.
    """
    name, *inner_path = path
    old_value = value_bytes(raw, (name,))
    if inner_path:
        is_object = old_value is not None and old_value.startswith(b"{")
        text = put(old_value if old_value is not None and is_object else b"{}", tuple(inner_path), text)
    if old_value is not None:
        return spliced(raw, {(name,): text})
    body = raw.rstrip(b" \t\r\n")[:-1].rstrip(b" \t\r\n")
    comma = b"" if body.endswith(b"{") else b","
    return body + comma + written(name) + b":" + text + b"}"


def renamed(raw: bytes, names: Mapping[str, str]) -> bytes:
    """Return the JSON object ``raw`` with its top-level members renamed. ``names`` maps old to new names.

    The white space around the members is lost.
    """
    members = (
        written(names.get(name, name)) + b":" + raw[start:end]
        for name, start, end in _members(raw, _skip_space(raw, 0))
    )
    return b"{" + b",".join(members) + b"}"


class JsonEntry(NamedTuple):
    """The position of a member of an object, or of an element of an array, in a text.

    ``name`` is the name of the member, or the index of the element in decimal. ``start`` is the offset of the
    name; for an element it is that of the value. The value extends from ``value_start`` to ``end``.
    """

    name: str
    start: int
    value_start: int
    end: int


def locate(raw: bytes, tokens: Sequence[str]) -> tuple[int, int] | None:
    """Return the start and end of the value at the JSON Pointer with these ``tokens``; ``None`` if absent.

    Unlike ``find``, this function searches arrays, too. Of members with the same name, the last counts.
    """
    start, end = _skip_space(raw, 0), len(raw.rstrip(b" \t\r\n"))
    for token in tokens:
        entry = next((entry for entry in reversed(list(_entries(raw, start))) if entry.name == token), None)
        if entry is None:
            return None
        start, end = entry.value_start, entry.end
    return start, end


def with_value(raw: bytes, tokens: Sequence[str], text: bytes) -> bytes | None:
    """Return ``raw`` with the value ``text`` at the JSON Pointer ``tokens``, every other byte unchanged.

    An existing value is replaced. A new member is added at the end of its object. A new element is added at
    the end of its array; its token is ``-`` or the next index. Return ``None`` if there is no object or
    array that could contain the value, or if the token is another index of an array.
    """
    if span := locate(raw, tokens):
        return raw[: span[0]] + text + raw[span[1] :]
    if not tokens or (container := locate(raw, tokens[:-1])) is None:
        return None
    start, end = container
    entries = list(_entries(raw, start))
    match raw[start : start + 1]:
        case b"{":
            text = written(tokens[-1]) + b":" + text
        case b"[" if tokens[-1] in ("-", str(len(entries))):
            pass
        case _:
            return None
    last = entries[-1].end if entries else start + 1
    return raw[:last] + (b"," if entries else b"") + text + raw[last:end] + raw[end:]


def without_value(raw: bytes, tokens: Sequence[str]) -> bytes | None:
    """Return ``raw`` without the member or element at the JSON Pointer ``tokens``; ``None`` if absent."""
    if not tokens or (container := locate(raw, tokens[:-1])) is None:
        return None
    entries = list(_entries(raw, container[0]))
    index = next((n for n in reversed(range(len(entries))) if entries[n].name == tokens[-1]), None)
    if index is None:
        return None
    entry = entries[index]
    if index:  # with the comma before it
        return raw[: entries[index - 1].end] + raw[entry.end :]
    return raw[: entry.start] + raw[entries[1].start if len(entries) > 1 else entry.end :]


def _entries(raw: bytes, position: int) -> Iterator[JsonEntry]:
    """Yield the members of the object, or the elements of the array, that begins at ``position``."""
    is_object = raw[position : position + 1] == b"{"
    if not is_object and raw[position : position + 1] != b"[":
        return
    position = _skip_space(raw, position + 1)
    index = 0
    while True:
        start, name = position, str(index)
        if is_object:
            if (key := _STRING.match(raw, position)) is None:
                return
            start, name = _skip_space(raw, _skip_space(raw, key.end()) + 1), json.loads(key[0])
        if (end := value_end(raw, start)) is None:
            return
        yield JsonEntry(name, position, start, end)
        position = _skip_space(raw, end)
        if raw[position : position + 1] != b",":
            return
        position, index = _skip_space(raw, position + 1), index + 1


def _members(raw: bytes, position: int) -> Iterator[tuple[str, int, int]]:
    """Yield the members of the object that begins at ``position``: name, start and end of the value."""
    if raw[position : position + 1] == b"{":
        for name, _, start, end in _entries(raw, position):
            yield name, start, end


def _skip_space(raw: bytes, position: int) -> int:
    space = _SPACE.match(raw, position)
    return space.end() if space else position
