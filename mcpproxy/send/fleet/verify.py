"""Verify shipped recordings: every file is there and unchanged, and the chains of manifests are whole.

The store alone is enough to find changed, missing and reordered objects. Somebody who may write to it could
cut off the end of a chain, or write a new one: keep the printed heads elsewhere, and name them the next time.
"""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final, Literal

from mcpproxy.base.byte_budget import ByteBudget
from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet import manifest, urls
from mcpproxy.send.fleet.manifest import Manifest, ManifestError
from mcpproxy.send.fleet.object_contents import decompress_pieces
from mcpproxy.send.fleet.store import Store, StoredObject, StoreError, TooLargeError, is_missing, is_temporary

Kind = Literal["changed", "missing", "reordered", "doubled", "unlisted"]

_READERS: Final = 8


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that is not as it was shipped."""

    kind: Kind
    key: str
    text: str


@dataclass(slots=True)
class Verified:
    """Totals, faults and ``heads``: chain -> its length and the link of its last manifest."""

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
    files = {each.key: each for each in store.list(manifest.FILES)}
    chains: dict[str, dict[int, StoredObject]] = {}
    found = Verified()
    for each in store.list(manifest.FOLDER):
        if place := manifest.place_of(each.key):
            chains.setdefault(place[0], {})[place[1]] = each
        else:
            found.faults.append(Fault("unlisted", each.key, "is no manifest, by its name"))
    shipped: dict[str, Manifest] = {}
    links: set[str] = set()
    with ThreadPoolExecutor(_READERS) as pool:
        for name, numbers in sorted(chains.items()):
            _read_chain(store, name, numbers, pool, found, shipped, links)
        for faults in pool.map(partial(_check_file, store), shipped.values()):
            found.faults += faults
    for key, stored in sorted(files.items()):
        if key in shipped:
            continue
        if now_s - stored.written_s < grace_s:
            found.awaited.append(key)
        else:
            text = "no manifest names it: ship it again, or its manifest is gone"
            found.faults.append(Fault("unlisted", key, text))
    _check_parts(store, shipped.values(), files, found, now_s - grace_s)
    for head in expected:
        if head not in links:
            text = "no manifest has this head: the end of its chain is gone, or was written anew"
            found.faults.append(Fault("missing", head, text))
    found.files = len(shipped)
    found.bytes = sum(one.bytes for one in shipped.values())
    found.recordings = len({(one.recording, one.first_name) for one in shipped.values()})
    return found


def _check_parts(
    store: Store, shipped: Collection[Manifest], files: Collection[str], found: Verified, since_s: float
) -> None:
    """Find files of rotated recordings that were never shipped: a later one continues them.

    Two files are shipped at a time, and the earlier one may finish last. So it is no fault yet if the later
    one was shipped after ``since_s`` (Unix time).
    """
    named = {(one.key.rpartition("/")[0], one.name) for one in shipped}
    for one in shipped:
        folder = one.key.rpartition("/")[0]
        if not one.continues or (folder, one.continues) in named:
            continue
        key = f"{folder}/{urls.escaped(one.continues)}.zst"
        if key in files or store.head(key) is not None:
            continue  # it has no manifest, which is a fault of its own, or was just shipped
        later = store.head(one.key)
        if later is None or later.written_s > since_s:
            found.awaited.append(key)
        else:
            found.faults.append(Fault("missing", key, f"is not there; {one.name} continues it"))


def _read_chain(
    store: Store,
    name: str,
    numbers: Mapping[int, StoredObject],
    pool: ThreadPoolExecutor,
    found: Verified,
    shipped: dict[str, Manifest],
    links: set[str],
) -> None:
    """Read the manifests of a chain in order; add the files that they name to ``shipped``."""
    keys = [numbers[number].key for number in sorted(numbers)]
    link, before = "", 0
    for number, data in zip(sorted(numbers), pool.map(partial(_read_manifest, store), keys), strict=True):
        key = manifest.key_of(name, number)
        for gone in range(before + 1, min(number, before + 1 + _MOST_MISSING)):
            found.faults.append(Fault("missing", manifest.key_of(name, gone), "this manifest is not there"))
        is_next, before = number == before + 1, number
        expected, link = link, manifest.link_of(data)
        links.add(link)
        try:
            one = manifest.decode(data)
        except ManifestError as fault:
            found.faults.append(Fault("changed", key, str(fault)))
            continue
        if (one.chain, one.number) != (name, number):
            place = f"manifest {one.number} of {one.chain}"
            found.faults.append(Fault("reordered", key, f"is {place}, moved to here"))
        elif is_next and one.previous != expected:
            text = f"does not follow manifest {number - 1}, which was changed or replaced"
            found.faults.append(Fault("changed", key, text))
        before_one = shipped.get(one.key)
        if before_one is None:
            shipped[one.key] = one
        elif _content(before_one) != _content(one):  # the same file may be shipped from two machines
            found.faults.append(Fault("doubled", key, f"names {one.key}, as another manifest does"))
    found.heads[name] = before, link


_MOST_MISSING: Final = 100
"""How many missing manifests in a row are named."""


def _read_manifest(store: Store, key: str) -> bytes:
    try:
        return store.read(key, manifest.LIMIT_BYTES)
    except StoreError as fault:
        if is_temporary(fault):
            raise
        return b""  # it was deleted since it was listed, or is too large for a manifest


def _content(one: Manifest) -> tuple[int, str, int, str]:
    return one.bytes, one.sha256, one.packed_bytes, one.packed_sha256


def _check_file(store: Store, one: Manifest) -> list[Fault]:
    """Compare a file with its manifest."""
    packed, plain = sha256(), sha256()
    size = 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        for piece in store.stream(one.key, one.packed_bytes):
            packed.update(piece)
            size += len(piece)
            yield piece

    try:
        for piece in decompress_pieces(pieces(), one.key, ByteBudget(one.bytes)):
            plain.update(piece)
    except StoreError as fault:
        if is_missing(fault):
            return [Fault("missing", one.key, f"is not there; {_place(one)} names it")]
        if isinstance(fault, TooLargeError):
            return [Fault("changed", one.key, f"is longer than in {_place(one)}")]
        if is_temporary(fault):
            raise
        return [Fault("changed", one.key, f"cannot be read ({fault.fact}); {_place(one)} names it")]
    except McpProxyError:
        return [Fault("changed", one.key, f"is damaged; {_place(one)} has its sha256")]
    if packed.hexdigest() != one.packed_sha256 or plain.hexdigest() != one.sha256:
        return [Fault("changed", one.key, f"has another sha256 than in {_place(one)}")]
    return []


def _place(one: Manifest) -> str:
    return f"manifest {one.number} of {one.chain}"
