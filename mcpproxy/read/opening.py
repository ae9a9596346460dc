"""Open any recording that a user names.

While a session runs, the relay copies traffic into the journal, a folder beside the trace, and the recorder,
another process, writes the trace from it. If the session was killed, the trace is completed from its journal
first. A recording of another program is imported. ``mcpproxy.record.trace.reader`` does neither: it reads a
file as it is.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import McpProxyError, TraceError
from mcpproxy.judge.session.frame import Event, Finding, Frame, Gap
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain, upgrades
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.reader import Trace, read_trace
from mcpproxy.record.trace.records import CloseRecord, Continued, Encoded, Header
from mcpproxy.record.trace.repeated_bodies import UNKNOWN_BODY, EarlierBodies, Shortened
from mcpproxy.record.trace.short_lines import Lines
from mcpproxy.record.trace.trace_file import ENDLESS, NOT_OURS, SECOND_HEADER, open_file, refuse

if TYPE_CHECKING:
    from mcpproxy.record.trace.shipped_files import ShippedFiles

T = TypeVar("T")

FINISH_S: Final = 5.0
"""How long the reader of a recording waits for the recorder of a session that has ended."""
_FINISH_POLL_S: Final = 0.01
"""The seconds between two checks whether that recorder has finished."""


def open_trace(path: str | os.PathLike[str], *, finish_s: float = FINISH_S) -> Trace:
    """Open a recording. If a killed session left its journal beside the trace, complete the trace first.

    A recording of another program is read as if it were a trace (see ``mcpproxy.read.importers.detect``).

    Args:
        finish_s: how many seconds to wait if the session has ended and its recorder is still completing the
            trace. While the session runs, there is no wait.

    Raises:
        TraceError: the file does not exist, or this mcpproxy cannot read it.
    """
    name = os.fspath(path)
    first_file = chain.first_of(name)
    has_journal = os.path.lexists(journal.folder(first_file))
    is_recording, copied_file, trouble = _recover(first_file) if has_journal else (False, "", "")
    if is_recording and finish_s:
        from mcpproxy.record.recorder.recovery import is_session_over

        if is_session_over(first_file):
            await_finish(first_file, finish_s)
            is_recording, copied_file, trouble = _recover(first_file)
    if copied_file:
        # Messages name the original files, but the files in ``copy_folder`` are read.
        files = [
            os.path.join(os.path.dirname(first_file), os.path.basename(f))
            for f in chain.files_of(copied_file)
        ]
        return read_trace(name, trouble=trouble, files=files, copy_folder=os.path.dirname(copied_file))
    try:
        files = chain.files_of(name, "" if has_journal else first_file)
        return read_trace(name, is_recording=is_recording, trouble=trouble, files=files)
    except TraceError as fault:
        if fault.fact == NOT_OURS[0]:
            return _open_import(name)
        if trouble and not os.path.lexists(name):  # only the journal exists
            raise TraceError(name, None, trouble, "nothing of it can be read") from None
        raise


def read_untouched(path: str | os.PathLike[str]) -> Trace:
    """Open the trace at ``path`` as it is on disk, and write nothing, even if its session left a journal.

    Raises:
        TraceError: the file does not exist, or is not a trace that this mcpproxy can read.
    """
    name = os.fspath(path)
    first_file = chain.first_of(name)
    is_recording, trouble = False, ""
    if os.path.lexists(journal.folder(first_file)):
        from mcpproxy.record.recorder import foreign_journals  # few traces have a journal

        is_recording = foreign_journals.is_recording(first_file)
        trouble = "" if is_recording else "the end of it is in a journal; mcpproxy show completes it"
    return read_trace(name, is_recording=is_recording, trouble=trouble, files=chain.files_of(name))


def _recover(first_file: str) -> tuple[bool, str, str]:
    """Complete a recording from its journal. If another user owns the trace or the journal, complete a copy.

    Returns:
        Whether the recording is still being made, the path of the copy's first file, and a note on the
        journal. The path is empty if nothing was copied. The note says that a copy was completed, or why the
        journal could not be recovered; it is empty otherwise.
    """
    # Imported here because few traces have a journal.
    from mcpproxy.record.recorder.foreign_journals import ForeignJournalError
    from mcpproxy.record.recorder.recovery import recover, recover_copy

    try:
        try:
            # The journal may have been removed meanwhile. It may also remain after a recovery: Windows cannot
            # remove a file that is open.
            return not recover(first_file) and os.path.lexists(journal.folder(first_file)), "", ""
        except ForeignJournalError as fault:
            where = "the journal beside it" if fault.path == journal.folder(first_file) else "the trace"
            copied_file = recover_copy(first_file)
            note = f"completed in a copy, nothing was written here: {where} is not ours, {fault.fact}"
            return not copied_file, copied_file, note if copied_file else ""
    except (OSError, McpProxyError) as fault:
        reason = fault.fact if isinstance(fault, TraceError) else str(fault)
        reason = (fault.strerror or reason) if isinstance(fault, OSError) else reason
        return False, "", f"the journal beside it could not be recovered: {reason}"


def _open_import(name: str) -> Trace:
    """Open a recording of another program.

    Raises:
        TraceError: the file has none of the known formats, is damaged, or holds several sessions.
    """
    from mcpproxy.read.importers.detect import detect_format, open_foreign

    return open_foreign(name, detect_format(name))


def follow(path: str | os.PathLike[str], poll_s: float = 0.1) -> Iterator[Event | Finding]:
    """Yield the events and findings of a recording from its start, and wait for more until it ends.

    A recording ends when its trace is closed, or when no recorder is writing it any more. ``poll_s`` is the
    polling interval in seconds. For files that were uploaded and deleted meanwhile, it yields one ``Gap``.

    Raises:
        TraceError: the trace does not exist, or cannot be read.
    """
    name = os.fspath(path)
    first_file = chain.first_of(name)
    trace = when_begun(
        lambda: open_trace(first_file, finish_s=0),
        lambda: _is_under_way(first_file),
        lambda: time.sleep(poll_s),
    )
    if trace.is_import or trace.is_copy:  # no recorder appends to an import or to a copy
        yield from trace.events()
        return
    files = [first_file]
    for file in files:  # the list grows during iteration
        if shipped := _shipped_meanwhile(file, first_file):
            yield Gap(shipped.text, observed_at_ns=shipped.continued.observed_at_ns)
            files.append(os.path.join(os.path.dirname(first_file), shipped.continued.file))
            continue
        for record in _follow_file(file, first_file, trace, poll_s):
            if isinstance(record, Continued):
                following = os.path.join(os.path.dirname(first_file), record.file)
                if not chain.is_name(record.file) or following in files:
                    raise TraceError(file, None, ENDLESS, "record again")
                files.append(following)
            else:
                yield record


def _shipped_meanwhile(file: str, first_file: str) -> "ShippedFiles | None":
    """Return the note about shipped files if ``file`` was uploaded and deleted; otherwise ``None``."""
    if os.path.exists(file) or not os.path.exists(first_file + ".shipped"):
        return None
    from mcpproxy.record.trace.shipped_files import read_shipped  # few recordings have such a note

    shipped = read_shipped(first_file)
    is_gone = shipped is not None and chain.number_of(file) < chain.number_of(shipped.continued.file)
    return shipped if is_gone else None


def _follow_file(
    name: str, first_file: str, trace: Trace, poll_s: float
) -> Iterator[Event | Finding | Continued]:
    """Yield the records of one file of a recording, and wait for more until the file is complete.

    Raises:
        TraceError: the file cannot be opened, or a line is damaged.
    """
    while not os.path.exists(name) and _is_under_way(first_file):
        time.sleep(poll_s)  # the previous file names this one a moment before it is created
    with open_file(name) as file:
        number = 0
        line = b""
        bodies = EarlierBodies() if trace.header.model else None
        has_recorder_ended = False
        while True:
            line += file.readline()
            if line.endswith(b"\n"):
                number += 1
                has_recorder_ended = False
                if number > 1 and line.strip():
                    try:
                        record = decode(upgrades.upgrade_line(line, trace.upgrade_steps))
                        if bodies is not None and isinstance(record, Frame | Shortened):
                            record = bodies.whole(record)
                    except NotARecordError as fault:
                        refuse(name, number, str(fault))
                    match record:
                        case CloseRecord():
                            yield record.close
                            return
                        case Header():
                            refuse(name, number, SECOND_HEADER)
                        case Shortened():
                            refuse(name, number, UNKNOWN_BODY)
                        case Lines():  # one record of several short lines
                            yield from record.events()
                        case Encoded():
                            pass  # not an event
                        case Continued():
                            yield record
                            return
                        case _:
                            yield record
                line = b""
            elif has_recorder_ended:
                return
            elif _is_under_way(first_file):
                time.sleep(poll_s)
            else:
                has_recorder_ended = (
                    True  # read once more: lines may have come before the journal was removed
                )


def when_begun(open: Callable[[], T], may_begin: Callable[[], bool], pause: Callable[[], object]) -> T:
    """Call ``open`` until it raises no ``TraceError``, and return its result.

    A recorder that has just started has not written enough of its trace to open it. ``may_begin`` tells
    whether it may still do so, and ``pause`` waits a moment before the next attempt. One more attempt follows
    when ``may_begin`` returns false, because the trace may have been written just before.

    Raises:
        TraceError: the last attempt failed.
    """
    is_last = False
    while True:
        try:
            return open()
        except TraceError:
            if is_last:
                raise
        is_last = not may_begin()
        if not is_last:
            pause()


def await_finish(first_file: str, within_s: float) -> bool:
    """Wait at most ``within_s`` seconds until no recorder is writing the trace. Return whether none is.

    If the recorder was killed, the trace is completed here. If that fails, it is tried again.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            if not _is_under_way(first_file):
                return True
        except TraceError:
            pass  # the recorder may complete the trace, or the disk may have room for it later
        if time.monotonic() > deadline:
            return not os.path.isdir(journal.folder(first_file))
        time.sleep(_FINISH_POLL_S)


def _is_under_way(first_file: str) -> bool:
    """Whether a recorder is still writing the trace ``first_file``.

    If the recorder was killed, the trace is completed here, unless it or its journal is another user's.

    Raises:
        TraceError: the trace cannot be completed.
    """
    if not os.path.isdir(journal.folder(first_file)):
        return False
    from mcpproxy.record.recorder.foreign_journals import ForeignJournalError, is_recording
    from mcpproxy.record.recorder.recovery import recover

    try:
        return not recover(first_file)
    except ForeignJournalError:
        return is_recording(first_file)
    except OSError as fault:
        raise TraceError(first_file, None, os_reason(fault), "correct that first") from None
