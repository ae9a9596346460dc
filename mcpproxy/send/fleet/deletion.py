"""Deletes shipped files, of recordings that have ended and of those that are still being made.

While a recording is being made, its first file stays, and the others are deleted in order. Before each of
these deletions, a note (``trace.shipped_files``) says where the deleted files are in the store. The first
file is deleted last, with the note: without it, the others would look like recordings of their own.
"""

import os
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from mcpproxy.base import own_sockets
from mcpproxy.base.system_words import os_reason
from mcpproxy.gate.intercept.control import control_path
from mcpproxy.record.trace import chain, shipped_files
from mcpproxy.record.trace.records import Continued
from mcpproxy.record.trace.shipped_files import ShippedFiles
from mcpproxy.send.fleet.closed_files import SUFFIX, ClosedFile, last_record
from mcpproxy.send.fleet.file_lock import lock_file
from mcpproxy.send.fleet.manifest import Manifest
from mcpproxy.send.fleet.store import NoSuchObjectError, Store, TooLargeError


@dataclass(slots=True)
class Deleted:
    """Whether one file was deleted; ``fault`` is a phrase that says why it cannot be."""

    is_gone: bool = False
    fault: str = ""


KEPT: Final = Deleted()
"""The file may not be deleted yet."""


class Deletion:
    """Deletes shipped files that were not changed for ``age_s`` seconds, after reading their objects back."""

    def __init__(self, store: Store, age_s: float) -> None:
        self._store: Final = store
        self._age_s: Final = age_s

    def delete(self, file: ClosedFile, manifest: Manifest) -> Deleted:
        """Delete a file if it may be deleted.

        Callers pass the files of a running recording in order, and those of an ended one in reverse order.

        Raises:
            StoreError: the store cannot be read.
        """
        if time.time() - file.signature[3] / 1e9 < self._age_s:
            return KEPT
        if not (self._is_last(file) if file.has_ended else self._is_next(file)):
            return KEPT
        if (fault := self._fault_of(manifest)) or file.is_changed:
            return Deleted(fault=f"kept: {fault or 'it was changed'}")
        try:
            if file.has_ended:
                os.unlink(file.path)
                if file.path == file.first:
                    shipped_files.remove_shipped(file.first)
                    own_sockets.remove_left(control_path(file.first))
                return Deleted(is_gone=True)
            return self._replace_by_note(file, manifest)
        except FileNotFoundError:
            return KEPT
        except OSError as fault:
            return Deleted(fault=f"cannot be deleted: {os_reason(fault)}")

    def _is_last(self, file: ClosedFile) -> bool:
        """Whether an ended recording may lose this file: the first file stays while there are others."""
        return file.path != file.first or chain.files_of(file.first) == [file.first]

    def _is_next(self, file: ClosedFile) -> bool:
        """Whether this is the earliest remaining file after the first."""
        if file.path == file.first:
            return False
        before = os.path.join(os.path.dirname(file.path), file.header.continues)
        return before == file.first or not os.path.lexists(before)

    def _replace_by_note(self, file: ClosedFile, manifest: Manifest) -> Deleted:
        """Delete a file of a running recording, after the note says where it is.

        Raises:
            OSError: the note cannot be written, or the file cannot be deleted.
        """
        last = last_record(file.path)
        if not isinstance(last, Continued):
            return KEPT
        with lock_file(file.first) as is_locked:  # one process at a time writes the note
            if not is_locked or not self._is_next(file):
                return KEPT
            note = shipped_files.read_shipped(file.first)
            if note is None:
                count = 1
            elif note.last == file.name:  # a kill came between the note and the deletion
                count = note.count
            elif chain.number_of(note.last) < chain.number_of(file.name):
                count = note.count + 1
            else:
                return KEPT
            url = self._store.where(manifest.key.rpartition("/")[0])
            shipped_files.write_shipped(file.first, ShippedFiles(url, count, file.name, last))
            os.unlink(file.path)
        return Deleted(is_gone=True)

    def _fault_of(self, manifest: Manifest) -> str:
        """Return why the object cannot replace the file; empty if it has the SHA-256 in its manifest.

        Raises:
            StoreError: as ``delete``.
        """
        packed = sha256()
        try:
            for piece in self._store.stream(manifest.key, manifest.packed_bytes):
                packed.update(piece)
            if packed.hexdigest() == manifest.packed_sha256:
                return ""
        except (NoSuchObjectError, TooLargeError):
            pass
        return f"{self._store.where(manifest.key)} is not what was shipped; see mcpproxy verify"


def remove_lone_notes(folder: str) -> None:
    """Delete the notes of recordings that are gone: a kill came after the deletion of the first file.

    Raises:
        OSError: the folder cannot be read.
    """
    names = set(os.listdir(folder))
    for name in names:
        first = name.removesuffix(shipped_files.SUFFIX)
        if name.endswith(SUFFIX + shipped_files.SUFFIX) and first not in names:
            shipped_files.remove_shipped(os.path.join(folder, first))
