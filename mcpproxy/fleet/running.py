"""Which recordings of a folder go on. Those that were cut are completed on the way."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.base.files import Folder
from mcpproxy.errors import McpProxyError
from mcpproxy.opening import open_trace, read_untouched
from mcpproxy.recorder.liveness import is_relay_alive
from mcpproxy.recorder.lock import is_held, is_held_by_relay
from mcpproxy.recorder.recovery import header_in_journal
from mcpproxy.relay import journal
from mcpproxy.trace.records import Header

JOURNAL: Final = ".jsonl.journal"


@dataclass(slots=True)
class JournaledRecordings:
    """The recordings of a folder that have a journal, each by the path of its first file.

    ``running`` go on. ``stuck`` were cut and cannot be completed; the text says why. The others have ended.
    What is not in ``seen`` has begun since.
    """

    running: set[str] = field(default_factory=set[str])
    stuck: dict[str, str] = field(default_factory=dict[str, str])
    seen: set[str] = field(default_factory=set[str])

    def goes_on(self, first: str) -> bool:
        """Whether a recording is still being made, or has to be looked at again."""
        return first in self.running or (first not in self.seen and os.path.lexists(journal.folder(first)))


def look(folder: str, names: Sequence[str]) -> JournaledRecordings:
    """Look at each journal among ``names``, the names in ``folder``. This may make new files there."""
    found = JournaledRecordings()
    for name in names:
        if not name.endswith(JOURNAL):
            continue
        first = os.path.join(folder, name.removesuffix(".journal"))
        found.seen.add(first)
        try:
            if _goes_on(first):
                found.running.add(first)
            elif why := _complete(first):
                found.stuck[first] = why
        except FileNotFoundError:
            continue  # it has just ended
        except OSError as fault:
            found.stuck[first] = (fault.strerror or str(fault)).lower()
    return found


def _goes_on(first: str) -> bool:
    """Whether a recorder or a relay writes a recording, or a recorder is about to begin.

    Raises:
        OSError: the journal cannot be opened.
    """
    folder = Folder(journal.folder(first))
    if is_held(folder) or is_held_by_relay(folder):
        return True
    header = _header(first)
    return header is not None and is_relay_alive(header)


def _header(first: str) -> Header | None:
    try:
        return read_untouched(first).header
    except McpProxyError:  # the recorder has not begun
        try:
            return header_in_journal(journal.folder(first))
        except (OSError, McpProxyError):
            return None


def _complete(first: str) -> str:
    """Complete a recording from its journal. Return why it cannot be completed; empty if it was."""
    try:
        trace = open_trace(first, finish_s=0)
    except McpProxyError as fault:
        return str(fault)
    if trace.journal_fault:
        return trace.journal_fault
    return "its journal is still there" if os.path.lexists(journal.folder(first)) else ""
