"""Open a recording again and again while it grows: its trace, or a draft of it.

The relay writes what passes into a journal, a folder beside the trace, and the recorder makes the trace from
it. While there is a journal but no recorder, a draft replaces the trace: a copy of it, continued from the
journal (``mcpproxy.record.recorder.draft``).
"""

import os
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import Event, Finding
from mcpproxy.read.opening import follow, open_trace, read_untouched
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.reader import Trace

if TYPE_CHECKING:
    from mcpproxy.record.recorder.draft import Draft


class GrowingTrace:
    """The recording at ``path``. ``open`` returns it as it is now."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path: Final = os.fspath(path)
        self._draft: Draft | None = None

    def open(self) -> Trace:
        """Open the recording as it is now.

        Raises:
            TraceError: there is none, or it cannot be read.
        """
        first = chain.first_of(self._path)
        if os.path.isdir(journal.folder(first)):
            from mcpproxy.record.recorder import draft  # few recordings need it
            from mcpproxy.record.recorder.foreign_journals import is_recording

            if draft.is_needed(first):
                try:
                    return self._open_draft(first)
                except (OSError, McpProxyError):
                    self.close()  # only the trace as it is now can be shown
            elif self._draft and is_recording(first):
                from mcpproxy.read.view.file_ends import last_frame

                if (last_frame(first) or 0) < self._draft.frames:
                    return self._draft.trace  # the trace still lacks frames that the draft has
        self.close()
        return open_trace(self._path, finish_s=0)

    def close(self) -> None:
        """Close the draft, if there is one."""
        if self._draft is not None:
            self._draft.close()
            self._draft = None

    def follow(self, poll_s: float = 0.1) -> Iterator[Event | Finding]:
        """Yield the events and findings of the recording from its start, and wait for more until it ends.

        ``poll_s`` is the polling interval in seconds.

        Raises:
            TraceError: there is no recording, or it cannot be read.
        """
        number = read_bytes = 0
        try:
            trace = self.open()
            while self._draft is not None:
                draft_bytes = sum(map(os.path.getsize, trace.readable_files))
                if draft_bytes > read_bytes:
                    read_bytes = draft_bytes
                    for event in islice(trace.events(), number, None):
                        number += 1
                        yield event
                time.sleep(poll_s)
                trace = self.open()
        finally:
            self.close()
        # The trace begins with the same events as the draft.
        yield from islice(follow(self._path, poll_s), number, None)

    def _open_draft(self, first: str) -> Trace:
        from mcpproxy.record.recorder.draft import Draft

        if self._draft is None:
            self._draft = Draft(first)
        else:
            self._draft.add_new_records()
        return self._draft.trace


class UntouchedTrace(GrowingTrace):
    """The recording at ``path`` as it is on disk. It is not completed, imported or drafted."""

    def open(self) -> Trace:
        """Open the recording as it is now.

        Raises:
            TraceError: there is none, or it cannot be read.
        """
        return read_untouched(self._path)
