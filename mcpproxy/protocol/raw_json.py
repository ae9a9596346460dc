"""JSON changed as text: what is to change is replaced, and every other byte stays.

To read a message and write it again loses something, and fails for some of what a parser reads: integers
beyond 64 bits, half a surrogate pair, repeated names, hundreds of levels. So whatever is made of a peer's
message is cut out of its bytes. All that is taken here has been read as JSON before.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON

Path: TypeAlias = tuple[str, ...]
"""Names of members, from the outermost object inwards."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET: Final = re.compile(rb'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[^\s,\]}]++")


def spliced(raw: bytes, edits: Mapping[Path, bytes]) -> bytes:
    """The JSON object ``raw`` with the values at these paths replaced; a path that is not there is left."""
    places = [(span, new) for path, new in edits.items() if (span := find(raw, path))]
    for (start, end), new in sorted(places, reverse=True):
        raw = raw[:start] + new + raw[end:]
    return raw


def find(raw: bytes, path: Path) -> tuple[int, int] | None:
    """Where in the JSON object ``raw`` the value at ``path`` stands; of a repeated member the last."""
    at = _space(raw, 0)
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


def taken(raw: bytes, path: Path) -> bytes | None:
    """The bytes of the value at ``path``."""
    span = find(raw, path)
    return raw[slice(*span)] if span else None


def written(value: JSON) -> bytes:
    """A scalar as JSON text, for where its own bytes are not known."""
    return json.dumps(value).encode()


def elements(raw: bytes) -> Iterator[bytes]:
    """The elements of the JSON array ``raw``, each as it stands there."""
    at = _space(raw, _space(raw, 0) + 1)
    while (end := _value_end(raw, at)) is not None:
        yield raw[at:end]
        at = _space(raw, end)
        if raw[at : at + 1] != b",":
            return
        at = _space(raw, at + 1)


def put(raw: bytes, path: Path, text: bytes) -> bytes:
    """The JSON object ``raw`` with ``text`` at ``path``, whether there is something or not.

    What stands in the way of the path and is no object is replaced.
    """
    name, *below = path
    old = taken(raw, (name,))
    if below:
        is_object = old is not None and old.startswith(b"{")
        text = put(old if old is not None and is_object else b"{}", tuple(below), text)
    if old is not None:
        return spliced(raw, {(name,): text})
    body = raw.rstrip(b" \t\r\n")[:-1].rstrip(b" \t\r\n")
    comma = b"" if body.endswith(b"{") else b","
    return body + comma + written(name) + b":" + text + b"}"


def renamed(raw: bytes, names: Mapping[str, str]) -> bytes:
    """The JSON object ``raw`` with its own members called what ``names`` says; the values stay."""
    members = (
        written(names.get(name, name)) + b":" + raw[start:end]
        for name, start, end in _members(raw, _space(raw, 0))
    )
    return b"{" + b",".join(members) + b"}"


def _members(raw: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    """The members of the object that begins at ``at``: name, and where the value begins and ends."""
    if raw[at : at + 1] != b"{":
        return
    at = _space(raw, at + 1)
    while key := _STRING.match(raw, at):
        start = _space(raw, _space(raw, key.end()) + 1)
        end = _value_end(raw, start)
        if end is None:
            return
        yield json.loads(key[0]), start, end
        at = _space(raw, end)
        if raw[at : at + 1] != b",":
            return
        at = _space(raw, at + 1)


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


def _space(raw: bytes, at: int) -> int:
    found = _SPACE.match(raw, at)
    return found.end() if found else at
