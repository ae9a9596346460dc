"""A draft of a trace: what the journal says of a session that no recorder records at the moment.

A recorder starts later than its session, seconds later on a busy machine, and it may be killed. The journal
goes on meanwhile, the trace does not. A draft is a copy of the trace up to the checkpoint, continued from the
journal by the code of the recorder, so it becomes what the trace will be. It is in a temporary folder; the
trace and the journal stay as they are.
"""

import os
import shutil
from typing import Final

from mcpproxy.base.files import Folder, open_regular
from mcpproxy.errors import TraceError
from mcpproxy.recorder import foreign_journals, recovery
from mcpproxy.recorder.checkpoint import Checkpoint, read_checkpoint
from mcpproxy.recorder.journal_reader import JournalReader
from mcpproxy.recorder.judge import standard_observer
from mcpproxy.recorder.liveness import is_relay_alive
from mcpproxy.recorder.lock import is_held
from mcpproxy.relay import journal
from mcpproxy.trace import chain
from mcpproxy.trace.reader import read_trace
from mcpproxy.trace.writer import TraceWriter


class _Onlooker(JournalReader):
    """Reads a journal that belongs to a recorder, and leaves it as it is."""

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
    except (OSError, TraceError):
        return False
    return header is not None and is_relay_alive(header, folder.path)


class Draft:
    """A draft of the recording whose first file is ``trace``.

    Raises:
        TraceError: the journal is damaged, or does not say yet what is recorded.
        OSError: the recording cannot be read, or there is no room for the draft.
    """

    def __init__(self, trace: str) -> None:
        self._folder: Final = foreign_journals.make_temporary_folder()
        try:
            with recovery.damage_refused(journal.folder(trace)):
                self._begin(trace)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _begin(self, trace: str) -> None:
        folder = journal.folder(trace)
        start = read_checkpoint(folder) or Checkpoint()
        names = [os.path.basename(path) for path in chain.files_of(trace)]
        name = os.path.basename(start.file) or names[0]
        if name not in names:
            raise TraceError(name, None, "is missing, and the recording was to go on in it", "put it back")
        earlier = names[: names.index(name)]
        for each in earlier:
            self._copy(trace, each, None)
        if start.trace_bytes:
            self._copy(trace, name, start.trace_bytes)
        reader = _Onlooker(folder, start)
        writer = TraceWriter(os.path.join(self._folder, name), start.trace_bytes or None)
        before = tuple(os.path.join(self._folder, each) for each in earlier)
        self._recording = recovery.resumed(start, reader, writer, before, standard_observer)
        self._first = os.path.join(self._folder, names[0])
        self._recording.drain()
        self.trace = read_trace(trace, is_recording=True, files=self._files(trace), copy_folder=self._folder)

    def _copy(self, trace: str, name: str, size: int | None) -> None:
        with (
            open(open_regular(os.path.join(os.path.dirname(trace), name), follows=True), "rb") as source,
            open(os.path.join(self._folder, name), "xb") as copy,
        ):
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
        """Take in what the journal has since the last time.

        Raises:
            OSError, TraceError: the journal cannot be read.
        """
        first = self.trace.files[0]
        with recovery.damage_refused(journal.folder(first)):
            self._recording.drain()
        self.trace.files[:] = self._files(first)
