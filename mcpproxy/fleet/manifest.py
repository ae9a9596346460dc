"""Manifests: one for each file that was shipped, in numbered chains.

A manifest says what is in a file, and is written after the file. Each names the SHA-256 of the manifest
before it and has one of its own members, so that no manifest can be changed, left out or moved without a
trace. A chain belongs to the folder of one machine; its manifests are ``manifests/CHAIN/000000000001.json``
and so on.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, cast

import orjson

from mcpproxy.errors import McpProxyError

FOLDER: Final = "manifests"
FILES: Final = "recordings"
"""The folder of the files that manifests are about."""
VERSION: Final = 1
"""The version of the format. Members are only added; a reader ignores those that it does not know."""

LIMIT_BYTES: Final = 1 << 20
_DIGEST: Final = re.compile(rb',"digest":"([0-9a-f]{64})"\}\n')
_KEY: Final = re.compile(rf"{FOLDER}/([A-Za-z0-9._=-]+)/(\d{{12}})\.json")


class ManifestError(McpProxyError):
    """What is stored as a manifest is none, or was changed. The text is a phrase."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known of one file that was shipped.

    ``key`` is the object, ``name`` the file as it was called where it was recorded. ``recording`` is the same
    for all files of one recording, of which this is number ``part``; ``continues`` names the file before it.
    Counts of frames and findings are those of the last record: in a recording of several files, from its
    beginning on. ``rules`` counts the findings that are in this file. ``sha256`` and ``bytes`` are of the
    content, ``packed_sha256`` and ``packed_bytes`` of the object. Times are ISO 8601 in UTC; ``first_ns`` and
    ``last_ns`` are times of records since ``started_at``.
    """

    chain: str
    number: int
    previous: str
    key: str
    name: str
    recording: str
    part: int
    continues: str
    label: str
    server: str
    client: str
    revision: str
    transport: str
    started_at: str
    first_ns: int
    last_ns: int
    ending: str
    """``exited``, ``signalled``, ``cut``; ``continued`` if another file follows; empty if unknown."""
    frames: Mapping[str, int] | None
    findings: Mapping[str, int] | None
    rules: Mapping[str, int]
    bytes: int
    sha256: str
    packed_bytes: int
    packed_sha256: str
    redaction: str
    recorded_by: str
    shipped_by: str
    shipped_at: str
    version: int = VERSION
    digest: str = field(default="", compare=False)
    """The SHA-256 of the manifest without this member."""

    @property
    def first_name(self) -> str:
        """The name of the first file of the recording, of which ``NAME.2.jsonl`` is a later one."""
        stem = self.name.removesuffix(".jsonl")
        return stem if self.part == 1 else stem.rpartition(".")[0]


def key_of(chain: str, number: int) -> str:
    """Return the key of a manifest."""
    return f"{FOLDER}/{chain}/{number:012}.json"


def place_of(key: str) -> tuple[str, int] | None:
    """Return the chain and the number that the key of a manifest names; ``None`` if it is no such key."""
    found = _KEY.fullmatch(key)
    return (found[1], int(found[2])) if found else None


def encode(manifest: Manifest) -> bytes:
    """Return the manifest as it is stored: one line of JSON that ends with its digest."""
    members = asdict(manifest)
    del members["digest"]
    body = orjson.dumps(members)
    return body[:-1] + b',"digest":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


def decode(data: bytes) -> Manifest:
    """Read a stored manifest.

    Raises:
        ManifestError: it is not a manifest, was changed, or is of a later version.
    """
    digest = _DIGEST.search(data, len(data) - 80 if len(data) > 80 else 0)
    if digest is None or digest.end() != len(data):
        raise ManifestError("is not a manifest")
    body = data[: digest.start()] + b"}"
    if hashlib.sha256(body).hexdigest().encode() != digest[1]:
        raise ManifestError("was changed: its digest is not that of its content")
    try:
        loaded: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise ManifestError("is not a manifest") from None
    members = cast("dict[str, object]", loaded) if isinstance(loaded, dict) else {}
    version = _counted("version", members.get("version"))
    if version > VERSION:
        raise ManifestError(f"has the later format {version}; please update mcpproxy")
    taken = {name: _CHECKS[kind](name, members.get(name)) for name, kind in _KINDS.items()}
    return Manifest(**cast("dict[str, Any]", taken), version=version, digest=digest[1].decode())


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ManifestError(f"is not a manifest: {name} is not a string")
    return value


def _counted(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise ManifestError(f"is not a manifest: {name} is not a number from 0 to 2^63")
    return value


def _counts(name: str, value: object) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise ManifestError(f"is not a manifest: {name} is not an object of numbers")
    given = cast("dict[str, object]", value)
    return {key: _counted(f"{name}.{key}", number) for key, number in given.items()}


def _counts_or_none(name: str, value: object) -> Mapping[str, int] | None:
    return None if value is None else _counts(name, value)


def _key(name: str, value: object) -> str:
    """Return the key of an object: it is in the folder of the files, and has no part that leads out of it."""
    key = _text(name, value)
    first, *parts = key.split("/")
    if first != FILES or not parts or any(part in ("", ".", "..") for part in parts) or not key.isprintable():
        raise ManifestError(f"is not a manifest: {name} is not a key below {FILES}/")
    return key


_MOST: Final = 1 << 63
_CHECKS: Final[Mapping[object, Callable[[str, object], object]]] = {
    "key": _key,
    str: _text,
    int: _counted,
    Mapping[str, int]: _counts,
    Mapping[str, int] | None: _counts_or_none,
}
_KINDS: Final[Mapping[str, object]] = {
    each.name: "key" if each.name == "key" else each.type
    for each in fields(Manifest)
    if each.name not in ("version", "digest")
}
"""How each member is checked: by its type, and the key as a key."""


def link_of(data: bytes) -> str:
    """Return what the next manifest of the chain says of this one."""
    return hashlib.sha256(data).hexdigest()
