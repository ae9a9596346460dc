"""Edit JSON as text: replace some values and leave every other byte as it is.

Parsing a message and writing it again would change or refuse some valid messages: those with integers beyond
64 bits, lone surrogates, repeated names or hundreds of levels. So a message that is derived from a peer's
message is made from its bytes. These functions expect bytes that are known to be valid JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON

Path: TypeAlias = tuple[str, ...]
"""Member names, from the outermost object inwards."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET: Final = re.compile(rb'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[^\s,\]}]++")


def spliced(raw: bytes, edits: Mapping[Path, bytes]) -> bytes:
    """Return the JSON object ``raw`` with the values at these paths replaced; absent paths are ignored."""
    places = [(span, new) for path, new in edits.items() if (span := find(raw, path))]
    for (start, end), new in sorted(places, reverse=True):
        raw = raw[:start] + new + raw[end:]
    return raw


def find(raw: bytes, path: Path) -> tuple[int, int] | None:
    """Return the start and end of the value at ``path`` in ``raw``; of a repeated member, the last counts.

    ``None`` if there is no such value.
    """
    at = _skip_space(raw, 0)
    end = len(raw)
    for name in path:
        wanted = None
        for key, start, stop in _members(raw, at):
            if key == name:
                wanted = (start, stop)
        if wanted is None:
            return None
        at, end = wanted
    return at, end


def value_bytes(raw: bytes, path: Path) -> bytes | None:
    """Return the bytes of the value at ``path``; ``None`` if there is no such value."""
    span = find(raw, path)
    return raw[slice(*span)] if span else None


def written(value: JSON) -> bytes:
    """Return a scalar as JSON text, for use when its original bytes are unknown."""
    return json.dumps(value).encode()


def elements(raw: bytes) -> Iterator[bytes]:
    """Yield the elements of the JSON array ``raw``, each as its original bytes."""
    at = _skip_space(raw, _skip_space(raw, 0) + 1)
    while (end := _value_end(raw, at)) is not None:
        yield raw[at:end]
        at = _skip_space(raw, end)
        if raw[at : at + 1] != b",":
            return
        at = _skip_space(raw, at + 1)


def put(raw: bytes, path: Path, text: bytes) -> bytes:
    """Return the JSON object ``raw`` with the value ``text`` at ``path``.

    An existing value is replaced. Missing objects on the way are added; other values there are replaced.
    """
    name, *below = path
    old = value_bytes(raw, (name,))
    if below:
        is_object = old is not None and old.startswith(b"{")
        text = put(old if old is not None and is_object else b"{}", tuple(below), text)
    if old is not None:
        return spliced(raw, {(name,): text})
    body = raw.rstrip(b" \t\r\n")[:-1].rstrip(b" \t\r\n")
    comma = b"" if body.endswith(b"{") else b","
    return body + comma + written(name) + b":" + text + b"}"


def renamed(raw: bytes, names: Mapping[str, str]) -> bytes:
    """Return the JSON object ``raw`` with its top-level members renamed by ``names``; the values stay."""
    members = (
        written(names.get(name, name)) + b":" + raw[start:end]
        for name, start, end in _members(raw, _skip_space(raw, 0))
    )
    return b"{" + b",".join(members) + b"}"


def _members(raw: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield the members of the object that begins at ``at``: name, start and end of the value."""
    if raw[at : at + 1] != b"{":
        return
    at = _skip_space(raw, at + 1)
    while key := _STRING.match(raw, at):
        start = _skip_space(raw, _skip_space(raw, key.end()) + 1)
        end = _value_end(raw, start)
        if end is None:
            return
        yield json.loads(key[0]), start, end
        at = _skip_space(raw, end)
        if raw[at : at + 1] != b",":
            return
        at = _skip_space(raw, at + 1)


def _value_end(raw: bytes, at: int) -> int | None:
    if raw[at : at + 1] not in (b"{", b"["):
        found = _STRING.match(raw, at) or _SCALAR.match(raw, at)
        return found.end() if found else None
    depth = 0
    for found in _BRACKET.finditer(raw, at):
        match raw[found.start() : found.start() + 1]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if not depth:
                    return found.end()
            case _:
                pass
    return None


def _skip_space(raw: bytes, at: int) -> int:
    found = _SPACE.match(raw, at)
    return found.end() if found else at
