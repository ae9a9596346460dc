"""The recordings below one folder, for agents: find them by handles, open them, and mask secrets.

A handle is the path of a recording within the folder, without its suffix. Only listed recordings have
handles, so no argument of a tool is ever used as a path. Symbolic links are not followed, and nothing is
written: a recording that was cut off is read as it is, and not completed from its journal (the traffic that
is not in the trace yet).
"""

import os
from collections import OrderedDict
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from threading import Lock
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.visible import visible
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.peers.replay.recording import LoadedTrace, from_trace
from mcpproxy.read.edit.redact import Redaction, RedactionScope
from mcpproxy.read.opening import read_untouched
from mcpproxy.read.view.folder import JOURNAL_SUFFIX, SUFFIX, RecordingFolder
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.runs import ClientRun, runs
from mcpproxy.read.view.view import View, open_view
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.reader import Trace
from mcpproxy.show.agents.errors import AgentError

SHORT_CHARACTERS: Final = 240
"""The greatest length of a text in a row, and of the previews in calls."""
MESSAGE_CHARACTERS: Final = 600
"""The greatest length of a message in a row, such as that of a finding."""

_MAX_OPEN: Final = 16
"""How many recordings stay open."""
_MAX_FOLDERS: Final = 2000
"""How many folders are searched for recordings."""
_MAX_HANDLE_CHARACTERS: Final = 400
"""A recording with a longer handle is left out."""
_MAX_COMPARED_BYTES: Final = 64 << 20
"""The size of the largest recording that is read as a whole."""
_MAX_SUGGESTIONS: Final = 3
"""How many names are suggested for an unknown handle."""
_SUGGESTED_FROM: Final = 300
"""Among how many of the latest recordings similar names are searched, if a handle is unknown."""


@dataclass(frozen=True, slots=True)
class ListedRecording:
    """A recording of the folder and its handle."""

    handle: str
    entry: RecordingEntry
    is_probe: bool
    """Whether it is a session of ``mcpproxy validate`` or ``fuzz``, which only its name finds."""

    @property
    def order(self) -> tuple[int, str]:
        """The place among all recordings: by start, then by handle."""
        return self.entry.started_ns, self.handle


@dataclass(frozen=True, slots=True)
class OpenedRecording:
    """An open recording. ``redaction`` masks the values of ``view``."""

    listed: ListedRecording
    view: View
    redaction: Redaction

    @property
    def handle(self) -> str:
        """The handle of the recording."""
        return self.listed.handle


class RecordingLibrary:
    """The recordings in ``folder`` and below it.

    Only one thread at a time may use it, except for ``recordings``, which any thread may call.
    """

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder
        self._folders: dict[str, RecordingFolder] = {}
        self._listing: Final = Lock()
        self.left_out = ""
        """Which recordings the last listing left out, in words; empty if none."""
        self._open: Final[OrderedDict[str, OpenedRecording]] = OrderedDict()
        self._runs: tuple[list[RecordingEntry], list[ClientRun]] = [], []
        # One key for all: an agent sees that two recordings have the same secret, but not the secret.
        self._mask_key: Final = os.urandom(32)
        self._redaction: Final = self._new_redaction()

    def __enter__(self) -> "RecordingLibrary":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the recordings that are open."""
        while self._open:
            self._open.popitem()[1].view.close()

    def _new_redaction(self) -> Redaction:
        return Redaction(RedactionScope(secrets=True), self._mask_key)

    # Listing

    def recordings(self, *, probes: bool = False) -> list[ListedRecording]:
        """Return all recordings, the latest first; ``probes`` adds the sessions of validate and fuzz."""
        with self._listing:
            return [listed for listed in self._walk_folder() if probes or not listed.is_probe]

    def matching(self, match: str) -> list[ListedRecording]:
        """Return the recordings with ``match`` in handle, label, server or client; all for ``*`` or no text.

        Upper and lower case are equal. Sessions of validate and fuzz are found only if ``match`` has a ``/``.
        """
        wanted = "" if match == "*" else match.casefold()
        listed = self.recordings(probes="/" in wanted)
        if not wanted:
            return listed
        return [recording for recording in listed if wanted in self._searched_text(recording).casefold()]

    def _searched_text(self, listed: ListedRecording) -> str:
        """Return the text in which ``matching`` searches, as an agent sees it."""
        entry = listed.entry
        return "\n".join((listed.handle, *map(self.shown, (entry.label, entry.server, entry.client))))

    def _walk_folder(self) -> list[ListedRecording]:
        """Return the recordings in all folders, the latest first, and set ``left_out``."""
        by_handle: dict[str, ListedRecording] = {}
        folders: dict[str, RecordingFolder] = {}
        probes: set[str] = set()
        too_long = 0
        walk = os.walk(self._folder)
        for where, below, _ in islice(walk, _MAX_FOLDERS):
            below[:] = sorted(name for name in below if not name.endswith(JOURNAL_SUFFIX))
            others = below if where in probes else set(below) - set(paths.without_probes(where, below))
            probes |= {os.path.join(where, name) for name in others}
            folders[where] = folder = self._folders.get(where) or RecordingFolder(where, follows=False)
            try:
                entries = folder.entries()
            except OSError:
                continue  # it was deleted, or may not be read
            for entry in entries:
                handle = self.handle_of(entry.path)
                if len(handle) <= _MAX_HANDLE_CHARACTERS:
                    by_handle.setdefault(handle, ListedRecording(handle, entry, where in probes))
                else:
                    too_long += 1
        self._folders = folders
        parts = [f"{too_long} with long names"] if too_long else []
        parts += [f"those behind the first {_MAX_FOLDERS} folders"] if next(walk, None) else []
        self.left_out = f"not searched: {' and '.join(parts)}" if parts else ""
        return sorted(by_handle.values(), key=lambda listed: listed.order, reverse=True)

    def handle_of(self, path: str) -> str:
        """Return the handle of the recording at ``path``."""
        relative = os.path.relpath(path, self._folder).removesuffix(SUFFIX)
        return visible(relative.replace(os.sep, "/"))

    def contains(self, path: str) -> bool:
        """Whether ``path`` is below the folder."""
        folder = os.path.realpath(self._folder)
        return os.path.realpath(path).startswith(os.path.join(folder, ""))

    def find(self, named: str) -> ListedRecording:
        """Return the recording with this handle, label or part of a handle.

        ``LABEL~1`` is the one before the latest with a label. Without ``named``, it is the latest that has a
        message, or the latest at all if none has one.

        Raises:
            AgentError: no recording matches, or several do.
        """
        listed = self.recordings(probes=bool(named))
        # A probe comes last, because a name that fits two recordings does not mean the probe.
        listed.sort(key=lambda candidate: candidate.is_probe)
        if not listed:
            step = "let the user record a session with mcpproxy -- SERVER"
            raise AgentError(f"there are no recordings in {visible(self._folder)}; {step}")
        latest = next((candidate for candidate in listed if not candidate.entry.is_empty), listed[0])
        if not named:
            return latest
        wanted = named.removesuffix(SUFFIX)
        for candidate in listed:
            if candidate.handle == wanted:
                return candidate
        for label, back in dict.fromkeys(((named, 0), paths.split_label(named))):
            labelled = [candidate for candidate in listed if self.shown(candidate.entry.label) == label]
            labelled = [candidate for candidate in labelled if not candidate.is_probe] or labelled
            if back < len(labelled):
                return labelled[back]
            if labelled:
                have = "recordings have" if len(labelled) > 1 else "recording has"
                raise AgentError(
                    f"{len(labelled)} {have} the label {label!r}; list_recordings has all recordings"
                )
        matching = [candidate for candidate in listed if wanted in candidate.handle]
        matching = [candidate for candidate in matching if not candidate.is_probe] or matching
        if len(matching) == 1:
            return matching[0]
        shown = self.shown(named)
        if matching:
            names = ", ".join(candidate.handle for candidate in matching[:_MAX_SUGGESTIONS])
            raise AgentError(f"{len(matching)} recordings have {shown!r} in their handle; name one: {names}")
        names = {candidate.handle: None for candidate in listed[:_SUGGESTED_FROM]}
        names |= {self.shown(candidate.entry.label): None for candidate in listed[:_SUGGESTED_FROM]}
        near = get_close_matches(wanted[:SHORT_CHARACTERS], names, _MAX_SUGGESTIONS, 0.4)
        step = f"do you mean {' or '.join(near)}?" if near else f"the latest is {latest.handle}"
        raise AgentError(f"there is no recording {shown!r}; {step} list_recordings has all handles")

    def note_on_latest(self, named: str, listed: ListedRecording, step: str) -> str:
        """Return a note that only the latest recording was read; empty if one was named.

        ``step`` tells the agent how to reach the others.
        """
        return "" if named else f"only {listed.handle} was looked at, the latest recording; {step}"

    def failed_start_after(self, listed: ListedRecording) -> str:
        """Return which newer session failed before any message and so was passed over; empty if none."""
        newer = (other for other in self.recordings() if other.order > listed.order)
        return next((self.failed_start(other) for other in newer if other.entry.has_not_begun), "")

    def failed_start(self, listed: ListedRecording) -> str:
        """Return which session failed before any message, and how."""
        return f"{listed.handle} failed before any message: {self.shown(listed.entry.ended)}"

    def find_pair(self, before: str, after: str) -> tuple[ListedRecording, ListedRecording]:
        """Return the two recordings to compare.

        The default of ``before`` is the recording before ``after`` with the same label. The default of
        ``after`` is the latest with the label of ``before``, or the latest with a message if neither is
        given.

        Raises:
            AgentError: a name means no recording or several, or no other recording has the label.
        """
        if after or not before:
            second = self.find(after)
            if before:
                return self.find(before), second
            earlier = [other for other in self._with_label_of(second) if other.order < second.order]
            if earlier:
                return earlier[0], second
            raise AgentError(f"{second.handle} is the first with its label; name the recording before")
        first = self.find(before)
        latest = self._with_label_of(first)[:1]
        if latest and latest[0].handle != first.handle:
            return first, latest[0]
        raise AgentError(f"{first.handle} is the latest with its label; name the recording after")

    def _with_label_of(self, named: ListedRecording) -> list[ListedRecording]:
        """Return the recordings with the label of ``named``, the latest first; none if it has no label."""
        label = named.entry.label
        return [
            other
            for other in self.recordings(probes=named.is_probe)
            if label and other.entry.label == label and other.is_probe == named.is_probe
        ]

    def runs(self) -> list[ClientRun]:
        """Return the runs in the order of their start. A run is all recordings of one client process."""
        entries = [listed.entry for listed in self.recordings()]
        if self._runs[0] != entries:
            self._runs = entries, runs(entries)
        return self._runs[1]

    # Reading

    def opened(self, listed: ListedRecording) -> OpenedRecording:
        """Return an open recording that has everything recorded so far.

        Raises:
            AgentError: a file of it is a link.
            TraceError: it cannot be read.
        """
        recording = self._open.pop(listed.handle, None)
        if recording and recording.view.running:
            recording.view.refresh()
            recording = replace(recording, listed=listed)
        elif recording and recording.listed != listed:  # the file was completed or replaced
            recording.view.close()
            recording = None
        if recording is None:
            self._refuse_links(listed)
            redaction = self._new_redaction()
            view = open_view(listed.entry.path, masking=redaction, only_reads=True)
            recording = OpenedRecording(listed, view, redaction)
        self._open[listed.handle] = recording
        while len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)[1].view.close()
        return recording

    def loaded(self, listed: ListedRecording) -> LoadedTrace:
        """Return the messages that the server of a recording sent and received, masked, for a comparison.

        Raises:
            AgentError: it is too large, or a file of it is a link.
            TraceError: it cannot be read.
        """
        trace = self.small_trace(listed, "mcpproxy diff")
        return from_trace(trace, masked=self._new_redaction().record, peer=SERVER)

    def small_trace(self, listed: ListedRecording, command: str) -> Trace:
        """Return a recording to be read as a whole. ``command`` is what a person types for a larger one.

        Raises:
            AgentError: it is too large, or a file of it is a link.
            TraceError: it cannot be read.
        """
        if listed.entry.size > _MAX_COMPARED_BYTES:
            fact = f"has {listed.entry.size >> 20} MB, which is too much to compare here"
            raise AgentError(f"{listed.handle}: {fact}; the user can compare it with {command}")
        return self.trace(listed)

    def refuse_unfit(self, entry: RecordingEntry) -> None:
        """Refuse a recording that may not be read beside another one.

        Raises:
            AgentError: it is too large, or a file of it is a link.
            TraceError: it cannot be read.
        """
        self.small_trace(
            ListedRecording(self.handle_of(entry.path), entry, is_probe=False), "mcpproxy prompt"
        )

    def trace(self, listed: ListedRecording) -> Trace:
        """Return a recording as it is. Nothing in it is masked.

        Raises:
            AgentError: a file of it is a link.
            TraceError: it cannot be read.
        """
        self._refuse_links(listed)
        return read_untouched(listed.entry.path)

    def _refuse_links(self, listed: ListedRecording) -> None:
        for file in chain.files_of(listed.entry.path):
            if os.path.islink(file):
                fact = "a file of it is a symbolic link, which is not followed"
                raise AgentError(f"{listed.handle}: {fact}; choose another recording")

    def unreadable(self, fault: TraceError) -> AgentError:
        """Return ``fault``, by which a recording cannot be read, as an error for an agent."""
        place = "" if fault.line is None else f"line {fault.line}: "
        fact = f"{place}{self.shown(fault.fact)}"
        return AgentError(f"{self.handle_of(fault.path)}: {fact}; choose another recording")

    # Texts

    def shown(self, text: str, limit: int = SHORT_CHARACTERS) -> str:
        """Return a text masked, with hidden characters as escapes, cut to ``limit`` characters."""
        text = visible(self._redaction.text(text))
        return text if len(text) <= limit else f"{text[: limit - 1]}…"

    def target_of(self, view: View) -> str:
        """Return the command or the URL of the server of a recording."""
        words = " ".join(self._redaction.command(view.header.command))
        return self.shown(words or self._redaction.url(view.header.upstream), 1000)
