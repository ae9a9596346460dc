"""A recording that was opened: its files, its header, and notes about its missing parts."""

import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mcpproxy.judge.session.frame import Gap, Sender
from mcpproxy.record.trace import upgrades
from mcpproxy.record.trace.records import ARGUMENTS_MASKED, CloseRecord, Continued, Header
from mcpproxy.record.trace.trace_file import path_in

if TYPE_CHECKING:
    from mcpproxy.record.trace.shipped_files import ShippedFiles

STILL_RECORDING: Final = "still recording"


class OpenedTrace:
    """The files of a recording, and facts from their header; see ``reader.read_trace``.

    ``trouble`` is a note that the journal could not be read, or that a copy is read; empty for neither.
    ``copy_folder`` has that copy, and is deleted with this object; empty without a copy.
    """

    def __init__(
        self,
        path: str,
        header: Header,
        *,
        upgrade_steps: tuple[upgrades.UpgradeStep, ...] = (),
        is_recording: bool = False,
        trouble: str = "",
        files: Sequence[str] = (),
        copy_folder: str = "",
    ) -> None:
        self.path = path
        self.files = list(files) or [path]
        """The files of the recording, in order; several if it was rotated."""
        self.header = header
        self.upgrade_steps = upgrade_steps
        """The upgrades applied to every line before decoding; empty for the current format."""
        self.notes: list[str] = []
        """Sentence fragments about missing parts; complete after an iteration."""
        self._is_recording = is_recording
        self._trouble = trouble
        self._copy_folder = copy_folder
        if copy_folder:
            from shutil import rmtree  # Only copies need it: it takes 3 ms at the end of each session.

            weakref.finalize(self, rmtree, copy_folder, ignore_errors=True)

    @property
    def readable_files(self) -> list[str]:
        """The paths at which ``files`` are read: those of the copy, if one was made."""
        return [path_in(self._copy_folder, path) for path in self.files]

    def shipped_before(self, path: str) -> "ShippedFiles | None":
        """Return the note about the files before ``path`` that were shipped and deleted; ``None`` without
        such files."""
        if path not in self.files[1:2]:  # the first file stays
            return None
        first = path_in(self._copy_folder, self.files[0])
        if not os.path.lexists(first + ".shipped"):
            return None
        from mcpproxy.record.trace.shipped_files import shipped_before  # few recordings have a note

        return shipped_before(path, first)

    @property
    def is_recording(self) -> bool:
        """Whether the recording was still being written when it was opened."""
        return self._is_recording

    @property
    def is_copy(self) -> bool:
        """Whether a copy is read, because this user is not allowed to change the original, or because no
        recorder writes to the original at the moment."""
        return bool(self._copy_folder)

    @property
    def journal_fault(self) -> str:
        """Why the journal, which has the latest records, could not be read; empty if it was read or does not
        exist."""
        # If a copy is read, the journal was read too, and ``_trouble`` only says that there is a copy.
        return "" if self._copy_folder else self._trouble

    @property
    def joined_late(self) -> bool:
        """Whether the beginning or other parts are missing, so that a missing message proves nothing."""
        return bool(self.header.continues or self.header.partial)

    @property
    def redacted(self) -> bool:
        """Whether values other than credentials and arguments of the command may be masked."""
        return self.header.redaction not in ("none", "credentials", ARGUMENTS_MASKED)

    def notes_at_start(self) -> list[str]:
        """Return notes about parts that are known to be missing before the events are read, and about an
        import."""
        notes = [self._trouble] if self._trouble else []
        if self.header.continues:
            notes.append(f"it continues {self.header.continues}, which is missing")
        if len(self.files) > 1 and (shipped := self.shipped_before(self.files[1])) is not None:
            notes.append(shipped.text)
        if self.header.partial:
            notes.append(self.header.partial)
        if self.header.imported:
            notes.append(f"imported {self.header.imported}")
        return notes

    def notes_at_end(self, last: CloseRecord | Continued | None, frames: dict[Sender, int]) -> list[str]:
        """Return notes about parts that are missing, by the ``last`` record and the counts of frames.

        ``frames`` has the number of frames of each peer that were read.
        """
        notes: list[str] = []
        closed = last if isinstance(last, CloseRecord) else None
        if isinstance(last, Continued) and not self._is_recording:
            notes.append(f"it continues in {last.file}, which is missing")
        elif closed is None:
            missing = STILL_RECORDING if self._is_recording else "no close record: the recording was cut off"
            if not self.header.imported:  # other programs write no close record
                notes.append(missing)
        elif closed.close.ending == "cut":
            notes.append("the recording was cut: mcpproxy was killed before the session ended")
        lacks_files = self.header.continues or (len(self.files) > 1 and self.shipped_before(self.files[1]))
        if closed and closed.tally and closed.tally.frames != frames and not lacks_files:
            stated = sum(closed.tally.frames.values())
            notes.append(f"the close record counts {stated} frames, the file holds {sum(frames.values())}")
        return notes


def gap_note(gap: Gap) -> str:
    """Return a note about a gap: a sentence fragment that says what is missing, and why."""
    lost = gap.client_bytes + gap.server_bytes + gap.stderr_bytes
    if not lost:  # the number of bytes is unknown
        return gap.reason
    return f"{lost} {'byte is' if lost == 1 else 'bytes are'} missing: {gap.reason}"
