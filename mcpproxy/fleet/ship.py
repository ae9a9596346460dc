"""Ship closed files of recordings to an object store, each exactly once.

For each file: the object is created, which fails if there is one; then its manifest is added to the chain.
A shipper that was killed in between finds the object without a manifest, compares it, and adds the manifest.
All state is in the store, so shipping goes on after any kill, also on a disk that is full.
"""

import os
import socket
import sys
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Final

from mcpproxy import __version__
from mcpproxy.errors import McpProxyError
from mcpproxy.fleet import urls
from mcpproxy.fleet.closed_files import ClosedFile, Signature, closed_files, signature_of
from mcpproxy.fleet.fetch import decompressed
from mcpproxy.fleet.manifest import Manifest
from mcpproxy.fleet.manifest_chain import ManifestChain
from mcpproxy.fleet.packing import Facts, key_of, label_of, pack, recording_id
from mcpproxy.fleet.store import Store
from mcpproxy.view.folder import RecordingEntry, recording

_WORKERS: Final = 2
"""How many files are shipped at once; each may take 32 MiB of memory."""
_KEY_NAME: Final = ".ship-key"
_CHAIN_CHARACTERS: Final = 40


class NotShippedError(McpProxyError):
    """A file cannot be shipped as it is; the text says why."""


@dataclass(slots=True)
class Shipped:
    """What one pass over the folder has done."""

    files: list[Manifest] = field(default_factory=list[Manifest])
    deleted: int = 0
    running: int = 0
    """How many recordings are still being made."""
    strangers: list[str] = field(default_factory=list[str])
    """The names of files that are no recordings of mcpproxy, and are not shipped."""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """The name of a file -> why it was not shipped, or not deleted."""


class Shipper:
    """Ships the closed files of ``folder``; with ``only``, those of the recording with this first file.

    With ``delete_after_s``, a file is deleted that was shipped, was not changed for so many seconds, and
    whose object was read back; not before its recording has ended. With ``masks``, what looks like a secret
    is masked in what is shipped.

    Raises:
        StoreError: the store cannot be reached.
        UsageError: the URL cannot be used.
    """

    def __init__(
        self,
        folder: str,
        url: str,
        *,
        only: str = "",
        masks: bool = False,
        delete_after_s: float | None = None,
        chain: str = "",
    ) -> None:
        self.folder: Final = os.path.abspath(folder)
        self.store: Final = Store(url, creates=True)
        self._only: Final = only
        self._delete_after_s: Final = delete_after_s
        self._mask_key: Final = _mask_key(self.folder) if masks else None
        self._chain: Final = ManifestChain(self.store, chain or chain_of(self.folder))
        self._lock: Final = Lock()
        self._settled: Final[set[tuple[str, Signature]]] = set()

    @property
    def chain(self) -> str:
        return self._chain.name

    def ship(self) -> Shipped:
        """Ship what is closed and not yet shipped, and delete what may be deleted.

        Raises:
            StoreError: the store cannot be used. What was shipped before stays shipped.
            OSError: the folder cannot be read.
        """
        found = closed_files(self.folder, self._settled, self._only)
        done = Shipped(running=found.running, strangers=found.strangers, faults=found.faults)
        with ThreadPoolExecutor(_WORKERS) as pool:
            waiting = [(file, pool.submit(self._ship, file)) for file in found.closed]
            try:
                stored: list[tuple[ClosedFile, Manifest]] = []
                for file, future in waiting:
                    try:
                        manifest, is_new = future.result()
                    except NotShippedError as fault:
                        done.faults[file.name] = str(fault)
                        continue
                    except OSError as fault:
                        done.faults[file.name] = (fault.strerror or str(fault)).lower()
                        continue
                    stored.append((file, manifest))
                    if is_new:
                        done.files.append(manifest)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        # The first file is deleted last: without it, the others would look like recordings of their own.
        for file, manifest in sorted(stored, key=lambda pair: pair[0].part, reverse=True):
            self._settle(file, manifest, done)
        return done

    def _ship(self, file: ClosedFile) -> tuple[Manifest, bool]:
        """Ship one file. Return its manifest, and whether it is new.

        Raises:
            NotShippedError: the file was changed, another process ships it, or the store has another.
        """
        with _alone(file):
            key = key_of(file, label_of(file, self._mask_key))
            if (stored := self.store.head(key)) is not None:
                with self._lock:
                    known = self._chain.find(key, stored.written_s)
                if known is not None:
                    if known.bytes != file.signature[2] and self._mask_key is None:
                        raise self._another(key)
                    return known, False
            try:
                packed = pack(file, self._mask_key)
            except McpProxyError as fault:
                raise NotShippedError(str(fault)) from None
            with packed.content as content:
                if _changed(file):
                    raise NotShippedError("was changed while it was read; it is tried again")
                content.seek(0)
                if stored is not None or not self.store.create(key, content):
                    self._adopt(key, packed.facts)
            entry = recording(file.first)
            with self._lock:
                added = self._chain.add(
                    lambda number, previous: self._described(
                        file,
                        packed.facts,
                        packed.header.label,
                        packed.header.redaction,
                        entry,
                        key,
                        number,
                        previous,
                    )
                )
            return added, True

    def _adopt(self, key: str, facts: Facts) -> None:
        """Check that the object that is there has the content of the file, and take its packed form over.

        Raises:
            NotShippedError: it has another content.
        """
        packed, plain = sha256(), sha256()
        size = 0

        def pieces() -> Iterator[bytes]:
            nonlocal size
            for piece in self.store.stream(key):
                packed.update(piece)
                size += len(piece)
                yield piece

        try:
            for piece in decompressed(pieces(), key):
                plain.update(piece)
        except McpProxyError as fault:
            raise NotShippedError(str(fault)) from None
        if plain.hexdigest() != facts.sha256:
            raise self._another(key)
        facts.packed_bytes, facts.packed_sha256 = size, packed.hexdigest()

    def _another(self, key: str) -> NotShippedError:
        return NotShippedError(f"{self.store.where(key)} has another content; nothing is changed there")

    def _described(
        self,
        file: ClosedFile,
        facts: Facts,
        label: str,
        redaction: str,
        entry: RecordingEntry,
        key: str,
        number: int,
        previous: str,
    ) -> Manifest:
        return Manifest(
            chain=self._chain.name,
            number=number,
            previous=previous,
            key=key,
            name=file.name,
            recording=recording_id(file),
            part=file.part,
            continues=file.header.continues,
            label=label,
            server=f"{entry.server} {entry.server_version}".strip(),
            client=f"{entry.client} {entry.client_version}".strip(),
            revision=entry.revision,
            transport=file.header.transport,
            started_at=file.header.started_at,
            first_ns=facts.first_ns,
            last_ns=facts.last_ns,
            ending=facts.ending,
            frames=facts.frames,
            findings=facts.findings,
            rules=facts.rules or {},
            bytes=facts.bytes,
            sha256=facts.sha256,
            packed_bytes=facts.packed_bytes,
            packed_sha256=facts.packed_sha256,
            redaction=redaction,
            recorded_by=file.header.mcpproxy,
            shipped_by=__version__,
            shipped_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )

    def _settle(self, file: ClosedFile, manifest: Manifest, done: Shipped) -> None:
        """Delete a file that was shipped, if it may be deleted, or else remember it."""
        age_s = time.time() - file.signature[3] / 1e9
        if self._delete_after_s is None or not file.has_ended:
            if file.has_ended or self._delete_after_s is None:
                self._settled.add((file.name, file.signature))
            return
        if age_s < self._delete_after_s:
            return
        if (fault := self._fault_of(manifest)) or _changed(file):
            done.faults[file.name] = f"kept: {fault or 'it was changed'}"
            return
        try:
            os.unlink(file.path)
        except FileNotFoundError:
            return
        except OSError as fault:
            done.faults[file.name] = f"cannot be deleted: {(fault.strerror or str(fault)).lower()}"
            return
        done.deleted += 1

    def _fault_of(self, manifest: Manifest) -> str:
        """Return why the object cannot stand for the file; empty if it has what its manifest says."""
        packed = sha256()
        for piece in self.store.stream(manifest.key):
            packed.update(piece)
        if packed.hexdigest() == manifest.packed_sha256:
            return ""
        return f"{self.store.where(manifest.key)} is not what was shipped; see mcpproxy verify"


def chain_of(folder: str) -> str:
    """Return the name of the chain of a folder on this machine."""
    host = urls.escaped(socket.gethostname())[:_CHAIN_CHARACTERS] or "host"
    place = sha256(f"{socket.gethostname()}\0{os.path.realpath(folder)}".encode()).hexdigest()[:8]
    return f"{host}-{place}"


def _changed(file: ClosedFile) -> bool:
    try:
        return signature_of(file.path) != file.signature
    except OSError:
        return True


def _mask_key(folder: str) -> bytes:
    """Return the key of the masks of this folder, which is made once and stays in it.

    With one key, a file that is packed again after a kill has the masks that it had before.

    Raises:
        NotShippedError: it cannot be read or written.
    """
    path = os.path.join(folder, _KEY_NAME)
    try:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            with open(path, "rb") as file:
                key = file.read()
            if len(key) == 32:
                return key
            os.unlink(path)  # a kill or a full disk has cut it: nothing was masked with it
            return _mask_key(folder)
        key = os.urandom(32)
        with open(fd, "wb") as file:
            file.write(key)
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise NotShippedError(
            f"{path}: the key of the masks cannot be kept ({reason}); make room there"
        ) from None
    return key


if sys.platform == "win32":

    @contextmanager
    def _alone(file: ClosedFile) -> Generator[None]:
        """Windows has no lock that leaves a file readable: there, one shipper works on a folder at a time."""
        del file
        yield
else:
    import fcntl

    @contextmanager
    def _alone(file: ClosedFile) -> Generator[None]:
        """Hold a lock of the file, so that no other shipper ships it at the same time.

        Raises:
            NotShippedError: another process ships it.
        """
        fd = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise NotShippedError("another process ships it at the moment") from None
            yield
        finally:
            os.close(fd)
