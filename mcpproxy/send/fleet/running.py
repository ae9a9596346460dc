"""Finds the recordings of a folder that are still being made, and completes those that were cut."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.base.files import Folder
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError
from mcpproxy.read.opening import open_trace, read_untouched
from mcpproxy.record.recorder.liveness import is_relay_alive
from mcpproxy.record.recorder.lock import is_held, is_held_by_relay
from mcpproxy.record.recorder.recovery import header_in_journal
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.records import Header

JOURNAL: Final = ".jsonl.journal"
"""The end of a journal's name. A journal is the folder from which the recorder makes a recording."""


@dataclass(slots=True)
class JournaledRecordings:
    """The recordings of a folder that have a journal, each named by the path of its first file.

    ``running`` are still being made. ``stuck`` were cut and cannot be completed; the value says why. The
    others in ``seen`` have ended.
    """

    running: set[str] = field(default_factory=set[str])
    stuck: dict[str, str] = field(default_factory=dict[str, str])
    seen: set[str] = field(default_factory=set[str])

    def is_running(self, first: str) -> bool:
        """Whether a recording is still being made, or began after the journals were read."""
        return first in self.running or (first not in self.seen and os.path.lexists(journal.folder(first)))


def read_journals(folder: str, names: Sequence[str]) -> JournaledRecordings:
    """Read the journals among ``names``, the names in ``folder``.

    Recordings that were cut are completed, which may create files in the folder.
    """
    found = JournaledRecordings()
    for name in names:
        if not name.endswith(JOURNAL):
            continue
        first = os.path.join(folder, name.removesuffix(".journal"))
        found.seen.add(first)
        try:
            if _is_running(first):
                found.running.add(first)
            elif why := _complete(first):
                found.stuck[first] = why
        except FileNotFoundError:
            continue  # it has just ended
        except OSError as fault:
            found.stuck[first] = os_reason(fault)
    return found


def _is_running(first: str) -> bool:
    """Whether a recorder or a relay writes the recording, or a recorder is about to start.

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
