"""The recorder process: it records one session, from the lock of the journal (the relay's copy of the
traffic) to the last line on stderr."""

import gc
import os
import sys
from contextlib import suppress
from typing import Final

from mcpproxy.base.json_string import quoted
from mcpproxy.errors import McpProxyError
from mcpproxy.record.recorder import journal_reader
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.judge import standard_observer
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.stderr_notes import Mode, StderrNotes
from mcpproxy.record.recorder.trace_sink import EventWatcher
from mcpproxy.record.recorder.wakeup import Flag, Pace, Wakeup
from mcpproxy.record.relay import journal
from mcpproxy.record.relay.stderr_line import StderrEvent, stderr_line
from mcpproxy.record.trace.writer import TraceWriter

NOTES_FD: Final = 2
"""The file descriptor to which notes are written: stderr."""

RETRY_S: Final = 1.0
"""The time between two attempts to write a trace that cannot be written."""

_LAST_NOTES_S: Final = 0.9
"""How long the last notes may take. On stdio the relay waits at most 1.25 s for them."""


def run(
    trace: str, wake_fd: int, asleep: Flag | None, mode: Mode, quiet: bool, admin: str = "", leg: str = ""
) -> None:
    """Record the session whose journal is beside ``trace``, until the session is over. Never raises.

    ``wake_fd`` is the reading end of the pipe by which the relay wakes the recorder. ``asleep`` is shared
    memory whose first byte says whether the recorder sleeps (``None``: the relay writes into the pipe
    whenever there are records). ``mode`` is how findings are reported on stderr, to which nothing is written
    with ``quiet``. ``admin`` is the address of the admin port (health and metrics) as ``host:port``, empty
    for none. ``leg`` names the recorded leg of a bridge, with which the notes then begin; empty without a
    bridge.

    The caller has separated this process from the relay: the process ignores the signals that are meant for
    the relay, and has no descriptor of a peer.
    """
    notes = StderrNotes(None if quiet else NOTES_FD, mode, leg)
    try:
        _record_session(trace, Wakeup(wake_fd, asleep), notes, admin)
    except McpProxyError as fault:
        notes.say(StderrEvent(f"not recorded: {fault}", "recording", "error"))
    except Exception as fault:
        # No caller would catch it. The journal stays, and the next command completes the trace from it.
        notes.say(
            f"the recorder stopped, a fault of mcpproxy: {fault!r}; the journal is kept, please report it"
        )
    notes.drain(_LAST_NOTES_S)


def _record_session(trace: str, wakeup: Wakeup, notes: StderrNotes, admin: str) -> None:
    folder = journal.folder(trace)
    lock = Lock.take(folder, is_waiting=True)
    if lock is None:
        raise McpProxyError(f"{folder}: the journal is gone; leave it alone while a session lives")
    reader = JournalReader(folder)
    writer = TraceWriter(trace)
    try:
        recording = RecordingPipeline(
            reader, writer, standard_observer, notes, watcher=_open_admin_port(admin, notes)
        )
        gc.freeze()  # the objects of the imported modules never become garbage
        gc.enable()
        _follow_session(recording, reader, wakeup, notes)
        note = "" if recording.finish() else recording.give_up()
        outside_changes = writer.outside_changes()
        if sys.platform == "win32":  # an open file cannot be deleted
            reader.close()
            wakeup.await_end()  # after that, the relay has closed its files, too
        journal_reader.remove(folder)
    finally:
        reader.close()
        writer.close()
        lock.release()
    notes.summarize(
        trace,
        recording.tally,
        note,
        recording.lag_ns,
        outside_changes,
        recording.turns,
        recording.failed_start,
    )


def _open_admin_port(where: str, notes: StderrNotes) -> EventWatcher | None:
    """Open the admin port at the address ``where``, if that is not empty. Return the metrics that it serves,
    or ``None`` if no port is open."""
    if not where:
        return None
    try:
        from mcpproxy.record.admin.metrics import Metrics
        from mcpproxy.record.admin.port import AdminPort

        metrics = Metrics()
        host, _, port = where.rpartition(":")
        opened = AdminPort(host.strip("[]"), int(port), metrics, _say_from_thread)
    except (ImportError, OSError) as fault:
        notes.say(f"no admin port on {where} ({fault}); the recording goes on")
        return None
    url = f"http://{opened.address}/metrics"
    notes.say(StderrEvent(f"health and metrics on {url}", "listening", url=quoted(url)))
    return metrics


def _say_from_thread(text: str) -> None:
    """Write a line to stderr from another thread. Only the main thread may use `StderrNotes`."""
    with suppress(OSError):
        os.write(NOTES_FD, stderr_line(text))


def _follow_session(
    recording: RecordingPipeline, reader: JournalReader, wakeup: Wakeup, notes: StderrNotes
) -> None:
    """Record until the session is over, or until the relay is gone and all its records are recorded."""
    pace = Pace(reader)
    is_relay_gone = False
    while True:
        recording.drain(None if is_relay_gone else pace.may_continue)
        notes.flush()
        if recording.is_over or is_relay_gone:
            return
        if recording.is_stuck:
            is_relay_gone = wakeup.pause(RETRY_S)
        elif pace.gives_way:
            is_relay_gone = pace.await_end_of_burst(wakeup.pause)
        else:
            pace.caught_up()
            is_relay_gone = wakeup.await_more(reader.has_more)
        if is_relay_gone:
            reader.end(wakeup.unwritten or b"")
