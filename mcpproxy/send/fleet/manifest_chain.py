"""One chain of manifests in a store: finds a manifest, and adds the next one.

Only the store knows how long a chain is; the machine that ships keeps nothing. A chain may have two writers:
a number belongs to whoever creates its object first.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final

from mcpproxy.send.fleet import manifest
from mcpproxy.send.fleet.manifest import Manifest, ManifestError
from mcpproxy.send.fleet.object_contents import LARGEST_FILE_BYTES
from mcpproxy.send.fleet.store import NoSuchObjectError, Store, TooLargeError

_READERS: Final = 16
"""How many manifests are read at once."""
_CLOCK_S: Final = 900.0
"""How much later than its manifest a file may seem to be written, because the clocks of a store differ."""


class ManifestChain:
    """The chain ``name`` of a store.

    Raises:
        StoreError: the store cannot be listed.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.name: Final = name
        self._store = store
        self._written_s: Final[dict[int, float]] = {}
        """Number of a manifest -> when it was written (Unix time)."""
        for stored in store.list(f"{manifest.FOLDER}/{name}"):
            if place := manifest.place_of(stored.key):
                self._written_s[place[1]] = stored.written_s
        self._unread: Final = sorted(self._written_s)
        self._by_key: Final[dict[str, Manifest]] = {}
        self._last_link = ""

    @property
    def length(self) -> int:
        """The number of the last manifest; 0 if there is none."""
        return max(self._written_s, default=0)

    def find(self, key: str, written_s: float) -> Manifest | None:
        """Return the manifest of the object ``key``, which was written at ``written_s`` (Unix time).

        Manifests are read from the newest, in batches and each once, down to those that are older than the
        object. ``None`` if none of them names it.

        Raises:
            StoreError: a manifest cannot be read. The next call reads it.
        """
        while key not in self._by_key and self._unread:
            batch = self._unread[-_READERS:]
            if self._written_s[batch[-1]] < written_s - _CLOCK_S:
                break
            with ThreadPoolExecutor(_READERS) as pool:
                read = list(pool.map(self._read_if_there, batch))
            del self._unread[-_READERS:]  # only now: a manifest that was not read may name the object
            for data in read:
                self._remember_manifest(data)
        return self._by_key.get(key)

    def add(self, describe: Callable[[int, str], Manifest]) -> Manifest:
        """Add the manifest that ``describe`` makes of its number and the link to the one before.

        If another writer has meanwhile added a manifest of the same object, return that one.

        Raises:
            StoreError: it cannot be written, or the last one cannot be read.
        """
        if not self._last_link and self.length:
            self._last_link = self._link(self.length)
        while True:
            number = self.length + 1
            added = describe(number, self._last_link)
            if (existing := self._by_key.get(added.key)) is not None:  # another writer has added it meanwhile
                return existing
            data = manifest.encode(added)
            if not self._store.create(manifest.key_of(self.name, number), data):
                # Another writer was first, or an answer to us was lost.
                self._last_link = self._link(number)
                if self._last_link != manifest.link_of(data):
                    self._written_s[number] = 0.0  # the time is not needed: it is not in ``_unread``
                    self._remember_manifest(self._read_if_there(number))
                    continue
            self._written_s[number] = 0.0
            self._last_link = manifest.link_of(data)
            self._by_key[added.key] = added
            return added

    def _read_manifest(self, number: int) -> bytes:
        return self._store.read(manifest.key_of(self.name, number), manifest.LIMIT_BYTES)

    def _read_if_there(self, number: int) -> bytes:
        try:
            return self._read_manifest(number)
        except (NoSuchObjectError, TooLargeError):
            return b""  # verify reports it

    def _link(self, number: int) -> str:
        """Return the link to a manifest (the SHA-256 of its bytes), even one that is damaged or too long."""
        digest = sha256()
        for piece in self._store.stream(manifest.key_of(self.name, number), LARGEST_FILE_BYTES):
            digest.update(piece)
        return digest.hexdigest()

    def _remember_manifest(self, data: bytes) -> None:
        try:
            entry = manifest.decode(data)
        except ManifestError:
            return  # verify reports it
        self._by_key[entry.key] = entry
