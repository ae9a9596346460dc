"""Verifies shipped recordings: every file is there and unchanged, and the chains of manifests are whole.

The store alone is enough to find changed, missing and reordered objects. Somebody who may write to it could
cut off the end of a chain, or write a new one: keep the printed heads elsewhere, and name them the next time.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet import manifest, urls
from mcpproxy.send.fleet.manifest import Manifest, ManifestError
from mcpproxy.send.fleet.object_contents import digests
from mcpproxy.send.fleet.store import Store, StoredObject, StoreError, TooLargeError, is_missing, is_temporary

Kind = Literal["changed", "missing", "reordered", "doubled", "unlisted"]
"""A manifest is ``reordered`` if it was moved, and ``doubled`` if another one names the same file with other
content. An object is ``unlisted`` if no manifest names it."""

_READERS: Final = 8
"""How many objects are read at once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that is not as it was shipped; ``key`` is its key, or the head that no manifest has.

    ``text`` is a clause whose subject is ``key``.
    """

    kind: Kind
    key: str
    text: str


@dataclass(slots=True)
class Verified:
    """Totals, faults and ``heads``: chain -> the number and the link of its last manifest.

    ``bytes`` is the size of all files, decompressed.
    """

    files: int = 0
    bytes: int = 0
    recordings: int = 0
    heads: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    faults: list[Fault] = field(default_factory=list[Fault])
    awaited: list[str] = field(default_factory=list[str])
    """The keys of files that are so new that their manifest, or the file itself, may still come."""


def verify(store: Store, *, now_s: float, grace_s: float = 0, expected: Collection[str] = ()) -> Verified:
    """Read all shipped files, and compare them with their manifests.

    ``now_s`` is Unix time. A file without a manifest is no fault for ``grace_s`` seconds. ``expected`` are
    heads that were printed earlier: each must still be the link of a manifest.

    Raises:
        StoreError: the store cannot be read.
    """
    # The files are listed first, so a file that is shipped meanwhile is not missed in the manifests.
    files = {stored.key: stored for stored in store.list(manifest.FILES)}
    chains: dict[str, dict[int, StoredObject]] = {}
    verified = Verified()
    for stored in store.list(manifest.FOLDER):
        if place := manifest.place_of(stored.key):
            chains.setdefault(place[0], {})[place[1]] = stored
        else:
            verified.faults.append(Fault("unlisted", stored.key, "is no manifest, by its name"))
    shipped: dict[str, Manifest] = {}
    links: set[str] = set()
    with ThreadPoolExecutor(_READERS) as pool:
        for name, numbers in sorted(chains.items()):
            _read_chain(store, name, numbers, pool, verified, shipped, links)
        for faults in pool.map(partial(_check_file, store), shipped.values()):
            verified.faults += faults
    for key, stored in sorted(files.items()):
        if key in shipped:
            continue
        if now_s - stored.written_s < grace_s:
            verified.awaited.append(key)
        else:
            text = "no manifest names it: ship it again, or its manifest is gone"
            verified.faults.append(Fault("unlisted", key, text))
    _check_parts(store, shipped.values(), files, verified, now_s - grace_s)
    for head in expected:
        if head not in links:
            text = "no manifest has this head: the end of its chain is gone, or was written anew"
            verified.faults.append(Fault("missing", head, text))
    verified.files = len(shipped)
    verified.bytes = sum(entry.bytes for entry in shipped.values())
    verified.recordings = len({(entry.recording, entry.first_name) for entry in shipped.values()})
    return verified


def _check_parts(
    store: Store, shipped: Collection[Manifest], files: Collection[str], verified: Verified, since_s: float
) -> None:
    """Find files of rotated recordings that were never shipped: a later one continues them.

    Two files are shipped at a time, and the earlier one may finish last. So it is no fault yet if the later
    one was shipped after ``since_s`` (Unix time).
    """
    named = {(entry.key.rpartition("/")[0], entry.name) for entry in shipped}
    for entry in shipped:
        folder = entry.key.rpartition("/")[0]
        if not entry.continues or (folder, entry.continues) in named:
            continue
        key = f"{folder}/{urls.escaped(entry.continues)}.zst"
        if key in files or store.head(key) is not None:
            continue  # it has no manifest, which is a fault of its own, or was just shipped
        later = store.head(entry.key)
        if later is None or later.written_s > since_s:
            verified.awaited.append(key)
        else:
            verified.faults.append(Fault("missing", key, f"is not there; {entry.name} continues it"))


def _read_chain(
    store: Store,
    name: str,
    numbers: Mapping[int, StoredObject],
    pool: ThreadPoolExecutor,
    verified: Verified,
    shipped: dict[str, Manifest],
    links: set[str],
) -> None:
    """Read the manifests of a chain in order.

    Add them to ``shipped`` by the keys of their files, their links to ``links``, and the chain's head and
    faults to ``verified``.
    """
    keys = [numbers[number].key for number in sorted(numbers)]
    link, before = "", 0
    for number, data in zip(sorted(numbers), pool.map(partial(_read_manifest, store), keys), strict=True):
        key = manifest.key_of(name, number)
        for gone in range(before + 1, min(number, before + 1 + _MOST_MISSING)):
            verified.faults.append(
                Fault("missing", manifest.key_of(name, gone), "this manifest is not there")
            )
        is_next, before = number == before + 1, number
        expected, link = link, manifest.link_of(data)
        links.add(link)
        try:
            entry = manifest.decode(data)
        except ManifestError as fault:
            verified.faults.append(Fault("changed", key, str(fault)))
            continue
        if (entry.chain, entry.number) != (name, number):
            place = f"manifest {entry.number} of {entry.chain}"
            verified.faults.append(Fault("reordered", key, f"is {place}, moved to here"))
        elif is_next and entry.previous != expected:
            text = f"does not follow manifest {number - 1}, which was changed or replaced"
            verified.faults.append(Fault("changed", key, text))
        earlier = shipped.get(entry.key)
        if earlier is None:
            shipped[entry.key] = entry
        elif _digests(earlier) != _digests(entry):  # the same file may be shipped from two machines
            verified.faults.append(Fault("doubled", key, f"names {entry.key}, as another manifest does"))
    verified.heads[name] = before, link


_MOST_MISSING: Final = 100
"""How many missing manifests in a row are named."""


def _read_manifest(store: Store, key: str) -> bytes:
    try:
        return store.read(key, manifest.LIMIT_BYTES)
    except StoreError as fault:
        if is_temporary(fault):
            raise
        return b""  # it was deleted since it was listed, or is too large for a manifest


def _digests(entry: Manifest) -> tuple[int, str, int, str]:
    return entry.bytes, entry.sha256, entry.packed_bytes, entry.packed_sha256


def _check_file(store: Store, entry: Manifest) -> list[Fault]:
    """Compare a file with its manifest. Return what is wrong with it; an empty list if nothing is."""
    try:
        _, packed, plain = digests(store, entry.key, entry.packed_bytes, entry.bytes)
    except StoreError as fault:
        if is_missing(fault):
            return [Fault("missing", entry.key, f"is not there; {_place(entry)} names it")]
        if isinstance(fault, TooLargeError):
            return [Fault("changed", entry.key, f"is longer than in {_place(entry)}")]
        if is_temporary(fault):
            raise
        return [Fault("changed", entry.key, f"cannot be read ({fault.fact}); {_place(entry)} names it")]
    except McpProxyError:
        return [Fault("changed", entry.key, f"is damaged; {_place(entry)} has its sha256")]
    if (packed, plain) != (entry.packed_sha256, entry.sha256):
        return [Fault("changed", entry.key, f"has another sha256 than in {_place(entry)}")]
    return []


def _place(entry: Manifest) -> str:
    return f"manifest {entry.number} of {entry.chain}"
