"""Recorded bytes for a live client: what must change changes, every other byte stays.

What must change are names that the client chose this time: the id of its request in the answer, its
progress token in notifications of progress, its request's id where a server refers to it. They are
replaced in the text of the message, so that the order of members, spacing and escapes are the server's.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON

Path: TypeAlias = tuple[str, ...]
"""Names of members, from the outermost object inwards."""

ID: Final[Path] = ("id",)
PROGRESS_TOKEN: Final[Path] = ("params", "progressToken")
REQUEST_ID: Final[Path] = ("params", "requestId")
OWN_TOKEN: Final[Path] = ("params", "_meta", "progressToken")
"""Where a request says under which token it wants to hear of its progress."""
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
"""The member of ``_meta`` that names the request which opened a subscription."""

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
