"""Manifests: one for each shipped file, in numbered chains.

A manifest describes a file, and is written after the file. It has the SHA-256 of the manifest before it and
one of its own members, so that ``verify`` notices a manifest that was changed, left out or moved. A chain
belongs to a folder of one machine; its manifests are ``manifests/CHAIN/000000000001.json`` and so on.
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
"""The folder of the files that manifests describe."""
VERSION: Final = 1
"""The version of the format. Members are only added; a reader ignores those that it does not know."""

LIMIT_BYTES: Final = 1 << 20
"""A larger object is no manifest."""
_DIGEST: Final = re.compile(rb',"digest":"([0-9a-f]{64})"\}\n')
_KEY: Final = re.compile(rf"{FOLDER}/([A-Za-z0-9._=-]+)/(\d{{12}})\.json")


class ManifestError(McpProxyError):
    """A stored object is not a manifest, or was changed. The text has no subject: it follows a key."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts about one shipped file.

    ``number`` is its place in ``chain``, and ``previous`` the SHA-256 of the manifest before it, or empty.
    ``key`` names the object, ``name`` the file on the machine that recorded it. The files of one recording
    share ``recording``; this is number ``part`` of them, and ``continues`` names the one before. ``frames``
    and ``findings`` are the counts in its last record, from the start of the recording, or ``None`` if it has
    none; ``rules`` counts the findings in this file alone. ``sha256`` and ``bytes`` are of the content,
    ``packed_sha256`` and ``packed_bytes`` of the object. ``redaction`` says what is masked in it,
    ``recorded_by`` and ``shipped_by`` are versions of mcpproxy. Times are ISO 8601 in UTC; ``first_ns`` and
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
    """``exited``, ``signalled``, ``not started`` or ``cut``, as in ``Close``; ``continued`` if another file
    follows; empty if unknown."""
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
        """The name of the first file without ``.jsonl``: ``NAME`` also for the file ``NAME.2.jsonl``."""
        stem = self.name.removesuffix(".jsonl")
        return stem if self.part == 1 else stem.rpartition(".")[0]


def key_of(chain: str, number: int) -> str:
    """Return the key of a manifest."""
    return f"{FOLDER}/{chain}/{number:012}.json"


def place_of(key: str) -> tuple[str, int] | None:
    """Return the chain and the number in the key of a manifest; ``None`` for any other key."""
    match = _KEY.fullmatch(key)
    return (match[1], int(match[2])) if match else None


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
    checked = {name: _CHECKS[kind](name, members.get(name)) for name, kind in _KINDS.items()}
    return Manifest(**cast("dict[str, Any]", checked), version=version, digest=digest[1].decode())


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
    numbers = cast("dict[str, object]", value)
    return {key: _counted(f"{name}.{key}", number) for key, number in numbers.items()}


def _counts_or_none(name: str, value: object) -> Mapping[str, int] | None:
    return None if value is None else _counts(name, value)


def _key(name: str, value: object) -> str:
    """Check a key: it is in the folder of the files, and no part of it leads out of that folder.

    Raises:
        ManifestError: it is not such a key.
    """
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
    member.name: "key" if member.name == "key" else member.type
    for member in fields(Manifest)
    if member.name not in ("version", "digest")
}
"""By name of a member: the key in ``_CHECKS`` of the check that its value must pass."""


def link_of(data: bytes) -> str:
    """Return the link by which the next manifest of the chain names this one: its SHA-256."""
    return hashlib.sha256(data).hexdigest()
