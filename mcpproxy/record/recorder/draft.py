"""A draft of a trace: a copy, completed from the journal of a session that no recorder reads now.

A recorder starts later than its session, seconds later on a busy machine, and it may be killed. The journal
goes on meanwhile, the trace does not. A draft is a copy of the trace up to the checkpoint, continued from the
journal by the code of the recorder, so it becomes what the trace will be. It is in a temporary folder; the
trace and the journal stay as they are.
"""

import os
import shutil
import tempfile
import weakref
from typing import Final

from mcpproxy.base.files import Folder, open_regular
from mcpproxy.errors import McpProxyError
from mcpproxy.record.recorder import recovery
from mcpproxy.record.recorder.checkpoint import Checkpoint, read_checkpoint
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.recorder.liveness import is_relay_there
from mcpproxy.record.recorder.lock import is_held
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain, shipped_files
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.writer import TraceWriter


class _Onlooker(JournalReader):
    """Reads a journal that belongs to a recorder, and does not change it."""

    def checkpoint_and_clear(self, unplaced: Checkpoint) -> None:
        pass

    def clear(self) -> None:
        pass


def is_needed(trace: str) -> bool:
    """Whether a session goes on and no recorder writes to its recording, whose first file is ``trace``."""
    try:
        folder = Folder(journal.folder(trace))
    except OSError:
        return False
    is_begun = os.path.exists(trace) and os.path.getsize(trace) > 0
    if is_held(folder):
        return not is_begun  # the recorder is about to write the first record
    try:
        header = read_trace(trace).header if is_begun else recovery.header_in_journal(folder.path)
    except (OSError, McpProxyError):  # the journal may be damaged, too
        return False
    return header is not None and is_relay_there(folder, header)


class Draft:
    """A draft of the recording whose first file is ``trace``.

    Raises:
        TraceError: the journal is damaged, or does not say yet what is recorded.
        OSError: the recording cannot be read, or there is no room for the draft.
    """

    def __init__(self, trace: str) -> None:
        self._folder: Final = tempfile.mkdtemp(prefix="mcpproxy-")
        self._files_in_use: Final[list[JournalReader | TraceWriter]] = []
        self.close: Final = weakref.finalize(self, _close, self._files_in_use)
        """Closes the journal and the copy, which then stops growing; ``trace`` can still be read. They are
        also closed when this object is garbage-collected."""
        try:
            with recovery.damage_refused(journal.folder(trace)):
                self._begin(trace)
        except BaseException:
            self.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _begin(self, trace: str) -> None:
        folder = journal.folder(trace)
        start = read_checkpoint(folder) or Checkpoint()
        earlier, path, _ = recovery.files_around(start, trace)
        note = shipped_files.note_path(trace)
        for whole in (*earlier, note) if os.path.exists(note) else earlier:
            self._copy(whole, None)
        if start.trace_bytes:
            self._copy(path, start.trace_bytes)
        reader = _Onlooker(folder, start)
        writer = TraceWriter(self._place(path), start.trace_bytes or None)
        self._files_in_use.extend((reader, writer))
        before = tuple(map(self._place, earlier))
        self._recording = recovery.resumed(start, reader, writer, before, standard_observer)
        self._first = self._place(trace)
        self._recording.drain()
        self.trace = read_trace(trace, is_recording=True, files=self._files(trace), copy_folder=self._folder)

    def _place(self, path: str) -> str:
        """Return the path in the draft of a file of the recording."""
        return os.path.join(self._folder, os.path.basename(path))

    def _copy(self, path: str, size: int | None) -> None:
        source_fd = open_regular(path, follows=True)
        with open(source_fd, "rb") as source, open(self._place(path), "xb") as copy:
            if size is None:
                shutil.copyfileobj(source, copy)
            else:
                copy.write(source.read(size))

    def _files(self, trace: str) -> list[str]:
        """Return the paths that the files of the draft have, or will have, in the recording's own folder."""
        where = os.path.dirname(trace)
        return [os.path.join(where, os.path.basename(path)) for path in chain.files_of(self._first)]

    @property
    def frames(self) -> int:
        """The number of the last frame."""
        return self._recording.seq

    def go_on(self) -> None:
        """Add the records that the journal got since the last call.

        Raises:
            OSError, TraceError: the journal cannot be read.
        """
        first = self.trace.files[0]
        with recovery.damage_refused(journal.folder(first)):
            self._recording.drain()
        self.trace.files[:] = self._files(first)


def _close(files: list[JournalReader | TraceWriter]) -> None:
    for file in files:
        file.close()
