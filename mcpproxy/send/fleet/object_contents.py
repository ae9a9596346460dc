"""Reads objects of a store: decompresses them, and takes their bytes from a budget."""

import os
import shutil
from collections.abc import Iterable, Iterator
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Final

from mcpproxy.base import paths
from mcpproxy.base.byte_budget import ByteBudget
from mcpproxy.base.files import create
from mcpproxy.errors import UsageError

if TYPE_CHECKING:
    from mcpproxy.send.fleet.store import Store

LARGEST_FILE_BYTES: Final = 8 << 30
"""How many bytes one file of a recording may have, decompressed."""
CACHE_BYTES: Final = 16 << 30
"""How many bytes may be fetched into one folder, if that is at most half of the free disk."""

_STEP_BYTES: Final = 1024
"""How many bytes are decompressed at once. Even hostile ones become at most 32 MiB."""
_WINDOW_BYTES: Final = 128 << 20
"""The largest window of zstd, which takes as much memory."""


class DiskBudget(ByteBudget):
    """The bytes that all threads may fetch into ``folder``: at most ``limit`` and half of the free disk."""

    __slots__ = ("_lock",)

    def __init__(self, folder: str, limit: int = CACHE_BYTES) -> None:
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        super().__init__(min(limit, shutil.disk_usage(folder).free // 2))
        self._lock: Final = Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            return super().take(size) or self._make_room()

    def _make_room(self) -> bool:
        """Make room if too much was taken, and return whether that succeeded. Here nothing can be deleted."""
        return False


def stream_content(
    store: "Store", key: str, budget: ByteBudget, known: bytes | None = None
) -> Iterator[bytes]:
    """Yield the content of an object in pieces, decompressed. ``known`` is the object if it was read already.

    Raises:
        StoreError: the object cannot be read.
        UsageError: the object is damaged, or too large, or the budget is used up.
    """
    where = store.where(key)
    own = ByteBudget(LARGEST_FILE_BYTES)
    pieces = store.stream(key, LARGEST_FILE_BYTES) if known is None else (known,)
    for piece in decompress_pieces(pieces, where, own) if key.endswith(".zst") else pieces:
        if not budget.take(len(piece)):
            raise UsageError(where, "there is no room for what is fetched", "name fewer recordings")
        yield piece


def decompress_pieces(pieces: Iterable[bytes], where: str, budget: ByteBudget) -> Iterator[bytes]:
    """Yield the decompressed content of the ``pieces`` of a zstd object; errors name ``where``.

    Raises:
        UsageError: the pieces are not zstd, end in the middle, or hold more than ``budget`` allows.
    """
    import zstandard

    frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
    has_begun = False
    try:
        for piece in pieces:
            for start in range(0, len(piece), _STEP_BYTES):
                step = piece[start : start + _STEP_BYTES]
                while step:
                    if frame.eof:  # another frame follows
                        frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
                    has_begun = True
                    if data := frame.decompress(step):
                        if not budget.take(len(data)):
                            raise UsageError(where, "becomes too long when decompressed", "it is not read")
                        yield data
                    step = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError:
        has_begun = False
    if not has_begun or not frame.eof:
        raise UsageError(where, "is not whole zstd data", "it is damaged: see mcpproxy verify")


def digests(store: "Store", key: str, limit: int, content_bytes: int) -> tuple[int, str, str]:
    """Return the size of a zstd object, its SHA-256, and that of its content, both in hexadecimal.

    Raises:
        StoreError: the object cannot be read, or has more than ``limit`` bytes.
        UsageError: it is damaged, or its content has more than ``content_bytes`` bytes.
    """
    packed, plain = sha256(), sha256()
    size = 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        for piece in store.stream(key, limit):
            packed.update(piece)
            size += len(piece)
            yield piece

    for piece in decompress_pieces(pieces(), key, ByteBudget(content_bytes)):
        plain.update(piece)
    return size, packed.hexdigest(), plain.hexdigest()


def download(store: "Store", key: str, path: str, budget: ByteBudget, known: bytes | None = None) -> None:
    """Fetch an object into the new file ``path``, decompressed.

    Raises:
        StoreError, UsageError: as ``stream_content``.
        OSError: the file exists already, or cannot be written.
    """
    paths.make_private(os.path.dirname(path))
    with open(create(path), "wb") as file:
        file.writelines(stream_content(store, key, budget, known))
