"""A draft of a trace: a copy, completed from a journal (the relay's copy of the traffic) that no recorder
reads at the moment.

A recorder, the process that makes the trace, starts a moment after its session, on a busy machine seconds
later, and it may be killed. Meanwhile the relay writes to the journal, but nobody writes to the trace. A
draft is a copy of the trace up to the checkpoint (the position in the journal up to which the trace is
complete). The code of the recorder continues the copy from the journal, so the draft has the same records as
the later trace. The draft is in a temporary folder; the trace and the journal are not changed.
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
    """Reads a journal without changing it: only a recorder may delete segments, the files of the journal."""

    def checkpoint_and_clear(self, unplaced: Checkpoint) -> None:
        pass

    def clear(self) -> None:
        pass


def is_needed(trace: str) -> bool:
    """Whether a session is under way whose recorder has not written anything yet, or is gone.

    ``trace`` is the first file of the recording.
    """
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
    """A draft of the recording whose first file is ``trace``. The attribute ``trace`` is the draft as
    an open `Trace`.

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
            with recovery.refuse_damage(journal.folder(trace)):
                self._begin_copy(trace)
        except BaseException:
            self.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _begin_copy(self, trace: str) -> None:
        folder = journal.folder(trace)
        start = read_checkpoint(folder) or Checkpoint()
        earlier, path, _ = recovery.files_around(start, trace)
        note = shipped_files.note_path(trace)
        for complete_file in (*earlier, note) if os.path.exists(note) else earlier:
            self._copy_file(complete_file, None)
        if start.trace_bytes:
            self._copy_file(path, start.trace_bytes)
        reader = _Onlooker(folder, start)
        writer = TraceWriter(self._draft_path(path), start.trace_bytes or None)
        self._files_in_use.extend((reader, writer))
        before = tuple(map(self._draft_path, earlier))
        self._recording = recovery.resume_recording(start, reader, writer, before, standard_observer)
        self._first = self._draft_path(trace)
        self._recording.drain()
        self.trace = read_trace(
            trace, is_recording=True, files=self._recorded_paths(trace), copy_folder=self._folder
        )

    def _draft_path(self, path: str) -> str:
        """Return the path that a file of the recording has in the draft."""
        return os.path.join(self._folder, os.path.basename(path))

    def _copy_file(self, path: str, size: int | None) -> None:
        """Copy the first ``size`` bytes of a file into the draft; all of them if ``size`` is ``None``."""
        source_fd = open_regular(path, follows=True)
        with open(source_fd, "rb") as source, open(self._draft_path(path), "xb") as copy:
            if size is None:
                shutil.copyfileobj(source, copy)
            else:
                copy.write(source.read(size))

    def _recorded_paths(self, trace: str) -> list[str]:
        """Return the draft's files as paths in the recording's own folder, where some may not exist yet."""
        where = os.path.dirname(trace)
        return [os.path.join(where, os.path.basename(path)) for path in chain.files_of(self._first)]

    @property
    def frames(self) -> int:
        """The number of the last frame; over HTTP, of the last one before the checkpoint."""
        return self._recording.seq

    def add_new_records(self) -> None:
        """Add the records that were written to the journal since the last call.

        Raises:
            OSError, TraceError: the journal cannot be read.
        """
        first = self.trace.files[0]
        with recovery.refuse_damage(journal.folder(first)):
            self._recording.drain()
        self.trace.files[:] = self._recorded_paths(first)


def _close(files: list[JournalReader | TraceWriter]) -> None:
    for file in files:
        file.close()
