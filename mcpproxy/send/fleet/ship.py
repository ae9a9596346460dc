"""Ships closed files of recordings to an object store, each exactly once.

For each file the shipper creates the object, which fails if it exists, and then adds a manifest to the chain.
After a kill in between, the next shipper finds the object without a manifest, compares it with the file, and
adds the manifest. All state but the key of the masks is in the store, so shipping resumes after any kill,
even on a full disk.
"""

import os
import socket
import stat
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Final, Literal, TypeAlias

from mcpproxy import __version__
from mcpproxy.base.files import Folder, is_mine
from mcpproxy.base.paths import rfc3339
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.closed_files import ClosedFile, Signature, closed_files
from mcpproxy.send.fleet.deletion import Deletion, remove_lone_notes
from mcpproxy.send.fleet.file_lock import lock_file
from mcpproxy.send.fleet.manifest import Manifest
from mcpproxy.send.fleet.manifest_chain import ManifestChain
from mcpproxy.send.fleet.object_contents import LARGEST_FILE_BYTES, digests
from mcpproxy.send.fleet.packing import Facts, key_of, label_of, pack, recording_id
from mcpproxy.send.fleet.store import Store, StoreError, TooLargeError

_WORKERS: Final = 2
"""How many files are shipped at once; each may take 32 MiB of memory."""
_KEY_NAME: Final = ".ship-key"
_KEY_BYTES: Final = 32
"""The name and the size of the file with the key of the masks."""
_OTHERS_PERMISSIONS: Final = stat.S_IRWXO
"""All permissions of others. Those of the group are not checked: volumes of containers belong to a group."""
_CHAIN_CHARACTERS: Final = 40
"""How many characters of the host name the name of a chain has."""

_How: TypeAlias = Literal["known", "adopted", "shipped"]
"""What the store had before: the object and its manifest, the object alone, or neither."""


class NotShippedError(McpProxyError):
    """A file cannot be shipped as it is; the text says why."""


@dataclass(slots=True)
class Shipped:
    """The result of one pass over the folder."""

    files: list[Manifest] = field(default_factory=list[Manifest])
    """The manifests that were added."""
    adopted: set[str] = field(default_factory=set[str])
    """The keys among ``files`` whose objects existed before."""
    deleted: int = 0
    running: int = 0
    """How many recordings are still being made."""
    strangers: list[str] = field(default_factory=list[str])
    """The names of files that mcpproxy did not record; they are not shipped."""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """The name of a file -> why it was not shipped, or not deleted."""


class Shipper:
    """Ships the closed files of ``folder`` to the store at ``url``.

    ``only``, the path of a first file, limits it to one recording. With ``delete_after_s``, a shipped file is
    deleted when it was not changed for that many seconds and its object was read back; the first file of a
    recording stays until the recording has ended. With ``masks``, secrets are masked in the shipped copies.
    ``chain`` names the chain of manifests, by default as ``chain_of`` returns it.

    Raises:
        StoreError: the store cannot be reached.
        UsageError: the URL cannot be used.
        NotShippedError: the key of the masks cannot be used.
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
        self._deletion: Final = None if delete_after_s is None else Deletion(self.store, delete_after_s)
        self._mask_key: Final = _mask_key(os.path.realpath(self.folder)) if masks else None
        self._chain: Final = ManifestChain(self.store, chain or chain_of(self.folder))
        self._lock: Final = Lock()
        self._settled: Final[set[tuple[str, Signature]]] = set()
        self._stored: Final[dict[tuple[str, Signature], Manifest]] = {}
        """The manifests of files that were shipped and may be deleted later."""

    @property
    def chain(self) -> str:
        return self._chain.name

    def ship(self) -> Shipped:
        """Ship the closed files that the store does not have, and delete the files that may be deleted.

        Raises:
            StoreError: the store cannot be used. Files that were shipped before stay shipped.
            OSError: the folder cannot be read.
        """
        found = closed_files(self.folder, self._settled, self._only)
        done = Shipped(running=found.running, strangers=found.strangers, faults=found.faults)
        with ThreadPoolExecutor(_WORKERS) as pool:
            stored: list[tuple[ClosedFile, Manifest]] = []
            waiting: list[tuple[ClosedFile, Future[tuple[Manifest, _How]]]] = []
            for file in found.closed:
                if known := self._stored.get((file.name, file.signature)):
                    stored.append((file, known))
                else:
                    waiting.append((file, pool.submit(self._ship_file, file)))
            try:
                for file, future in waiting:
                    try:
                        manifest, how = future.result()
                    except NotShippedError as fault:
                        done.faults[file.name] = str(fault)
                        continue
                    except OSError as fault:
                        done.faults[file.name] = os_reason(fault)
                        continue
                    stored.append((file, manifest))
                    if how != "known":
                        done.files.append(manifest)
                    if how == "adopted":
                        done.adopted.add(manifest.key)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        # The files of ended recordings are deleted in reverse order, the others in order; see ``Deletion``.
        for file, manifest in sorted(stored, key=_order_of_deletion):
            self._settle(file, manifest, done)
        if self._deletion is not None and not self._only:
            remove_lone_notes(self.folder)
        return done

    def _ship_file(self, file: ClosedFile) -> "tuple[Manifest, _How]":
        """Ship one file; return its manifest, and what the store had before.

        Raises:
            NotShippedError: the file was changed or cannot be masked, another process ships it, or its object
                has other content.
            StoreError: the store cannot be used.
            OSError: the file cannot be read.
        """
        with lock_file(file.path) as is_locked:
            if not is_locked:
                raise NotShippedError("another process ships it at the moment")
            key = key_of(file, label_of(file, self._mask_key))
            if (stored := self.store.head(key)) is not None:
                with self._lock:
                    known = self._chain.find(key, stored.written_s)
                if known is not None:
                    if known.bytes != file.signature[2] and self._mask_key is None:
                        raise self._content_differs(key)
                    return known, "known"
            try:
                packed = pack(file, self._mask_key)
            except McpProxyError as fault:
                raise NotShippedError(str(fault)) from None
            with packed.content as content:
                if file.is_changed:
                    raise NotShippedError("was changed while it was read; it is tried again")
                content.seek(0)
                how: _How = "shipped"
                if stored is not None or not self.store.create(key, content):
                    self._adopt_object(key, packed.facts)
                    how = "adopted"
            entry = recording(file.first)
            with self._lock:
                added = self._chain.add(
                    lambda number, previous: self._manifest_of(
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
            return added, how

    def _adopt_object(self, key: str, facts: Facts) -> None:
        """Check that the existing object has the content of the file; put its size and digest into ``facts``.

        Raises:
            NotShippedError: the object has other content.
            StoreError: the object cannot be read.
        """
        try:
            size, packed, plain = digests(self.store, key, LARGEST_FILE_BYTES, facts.bytes)
        except TooLargeError:
            raise self._content_differs(key) from None
        except StoreError:
            raise
        except McpProxyError:
            raise self._content_differs(key) from None
        if plain != facts.sha256:
            raise self._content_differs(key)
        facts.packed_bytes, facts.packed_sha256 = size, packed

    def _content_differs(self, key: str) -> NotShippedError:
        return NotShippedError(f"{self.store.where(key)} has different content; it is not changed")

    def _manifest_of(
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
            shipped_at=rfc3339(0),
        )

    def _settle(self, file: ClosedFile, manifest: Manifest, done: Shipped) -> None:
        """Delete a shipped file if it may be deleted, otherwise remember it."""
        if self._deletion is None:
            self._settled.add((file.name, file.signature))
            return
        deleted = self._deletion.delete(file, manifest)
        if deleted.fault:
            done.faults[file.name] = deleted.fault
        if deleted.is_gone:
            done.deleted += 1
            self._stored.pop((file.name, file.signature), None)
        else:
            self._stored[file.name, file.signature] = manifest


def chain_of(folder: str) -> str:
    """Return the name of the chain of a folder on this machine: host name and digest of the path."""
    host = urls.escaped(socket.gethostname())[:_CHAIN_CHARACTERS] or "host"
    place = sha256(f"{socket.gethostname()}\0{os.path.realpath(folder)}".encode()).hexdigest()[:8]
    return f"{host}-{place}"


def _order_of_deletion(stored: tuple[ClosedFile, Manifest]) -> tuple[str, int]:
    file = stored[0]
    return file.first, -file.part if file.has_ended else file.part


def _mask_key(folder: str) -> bytes:
    """Return the folder's key for masks, which is created once and stays there.

    With the same key, a file that is packed again after a kill gets the same masks.

    Raises:
        NotShippedError: it cannot be read or written, or another user may know it.
    """
    path = os.path.join(folder, _KEY_NAME)
    try:
        opened = Folder(folder)
        while True:
            with suppress(FileExistsError):
                opened.put_new(_KEY_NAME, os.urandom(_KEY_BYTES))
            status = opened.stat(_KEY_NAME)
            if not is_mine(status) or (status.st_mode & _OTHERS_PERMISSIONS and os.name == "posix"):
                raise NotShippedError(
                    f"{path}: another user may have made or read this key of the masks; see where it comes "
                    f"from and delete it"
                )
            key = opened.read(_KEY_NAME, _KEY_BYTES)
            if len(key) == _KEY_BYTES:
                return key
            opened.unlink(_KEY_NAME)  # a kill or a full disk has cut it: nothing was masked with it
    except OSError as fault:
        reason = os_reason(fault)
        raise NotShippedError(
            f"{path}: the key of the masks cannot be kept ({reason}); see to it, or make room there"
        ) from None
