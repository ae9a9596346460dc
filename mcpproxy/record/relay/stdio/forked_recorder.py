"""Fork the recorder, the process that reads the journal (the relay's copy of the traffic) and makes the
trace.

The recorder must not keep any descriptor of a peer open: the reader of a pipe sees the end only when the last
copy of the writing end is closed.
"""

from __future__ import annotations

import os

from mcpproxy.record.relay.journal import UNWRITTEN, WAKE
from mcpproxy.record.relay.stdio.inheritance import open_descriptors, release
from mcpproxy.record.relay.stdio.signals import ENDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    import signal
    from collections.abc import Callable
    from typing import Final, NoReturn

    from mcpproxy.record.relay.stdio.inheritance import WrappedServer

    RecorderMain = Callable[[int, "mmap.mmap"], None]
else:
    import _signal as signal  # the module signal only adds enums, for 4 ms of start-up

ORPHAN_S: Final = (0.5, 0.25)
"""How long a server whose relay was killed may take to exit, before SIGTERM and again before SIGKILL."""


class Recorder:
    """The relay's view of the recorder: its process id, and two pipes. ``wake_fd`` wakes the recorder, and
    from ``notes`` come lines for stderr.

    ``asleep`` is shared memory of two bytes. The recorder sets the first byte, looks at the journal once
    more, and only then blocks on the wake pipe. The relay writes into the pipe only if that byte is set. The
    relay sets the second byte when it has reaped the server: `_end_orphan` reads it."""

    __slots__ = ("asleep", "notes", "pid", "reaped", "wake_fd")

    def __init__(self, pid: int, wake_fd: int, notes: int, asleep: mmap.mmap | bytearray) -> None:
        self.pid = pid
        self.reaped = False  # whether the relay has reaped the recorder
        self.wake_fd = wake_fd
        self.notes = notes
        self.asleep = asleep

    def wake(self) -> None:
        self.asleep[0] = 0
        try:
            os.write(self.wake_fd, WAKE)
        except OSError:  # the recorder is gone; or the pipe is full, and the recorder will wake up anyway
            pass

    def leave(self, unwritten: bytes) -> None:
        """Tell the recorder that the relay is done, and give it the records that could not be written.
        Restore its priority, and continue it if it is stopped."""
        from mcpproxy.record.relay import priority

        priority.restore(self.pid)
        if unwritten:
            try:
                os.write(self.wake_fd, UNWRITTEN + unwritten)
            except OSError:  # the recorder is gone
                pass
        os.close(self.wake_fd)
        self.wake_fd = -1
        if not self.reaped:
            try:
                os.kill(self.pid, signal.SIGCONT)
            except ProcessLookupError:  # it is gone, and the host started us with SIGCHLD ignored
                pass


def fork_recorder(main: RecorderMain, server: WrappedServer | None, grace_s: float) -> Recorder:
    """Fork the recorder, which runs ``main(wake_fd, asleep)``.

    The recorder's stderr is a pipe to the relay. So the recorder does not hold the host's stderr open after
    the relay has exited. If the relay is killed, the recorder ends ``server`` (``None``: there is none);
    ``grace_s`` is the most that each of the waits in ``ORPHAN_S`` may take.

    Raises:
        OSError: no process or pipe could be created.
    """
    import mmap

    asleep = mmap.mmap(-1, 2)
    wake_r, wake_w = os.pipe()
    notes_r, notes_w = os.pipe()
    pidfd = -1 if server is None else _open_pidfd(server.pid)
    pid = os.fork()
    if pid == 0:
        _become_recorder(main, wake_r, notes_w, asleep, server, pidfd, grace_s)
    for fd in (wake_r, notes_w, pidfd):
        if fd >= 0:
            os.close(fd)
    os.set_blocking(wake_w, False)
    os.set_blocking(notes_r, False)
    return Recorder(pid, wake_w, notes_r, asleep)


def _become_recorder(
    main: RecorderMain,
    wake_fd: int,
    notes_fd: int,
    asleep: mmap.mmap,
    server: WrappedServer | None,
    pidfd: int,
    grace_s: float,
) -> NoReturn:
    """Run the recorder in the forked process, and exit."""
    try:
        import _thread
        import gc

        signal.set_wakeup_fd(-1)
        for number in (*ENDING, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        os.set_blocking(notes_fd, False)
        os.dup2(notes_fd, 2)
        release(0)  # now /dev/null
        release(1)
        for fd in open_descriptors():
            if fd not in (wake_fd, pidfd):
                os.closerange(fd, fd + 1)  # ignores the descriptor with which the others were listed
        watching = _thread.allocate_lock()  # held while the thread below may have to end the server
        if server is not None:
            watching.acquire()

            def watch_over(server: WrappedServer) -> None:
                try:
                    _end_orphan(server, pidfd, wake_fd, asleep, grace_s)
                finally:
                    watching.release()

            try:
                # In a thread, so that ending the server does not wait for the recording to be completed.
                _thread.start_new_thread(watch_over, (server,))
            except RuntimeError:  # no more threads for this user
                watching.release()
        from mcpproxy.record.relay import priority

        priority.lower()  # before the imports, which run while the server starts
        gc.disable()  # saves time during the imports, which create no garbage; ``main`` enables it again
        try:
            main(wake_fd, asleep)
        except Exception as error:
            _report_failure(f"recorder: {type(error).__name__}: {error}")
        release(2)  # ends the notes, so that the relay does not wait any longer
        while os.read(wake_fd, 4096):  # until the relay exits, even if the recorder failed
            pass
        watching.acquire()
    finally:
        os._exit(0)


def _report_failure(line: str) -> None:
    from mcpproxy.record.relay.stderr_line import (  # imported late: it is rarely needed
        StderrEvent,
        stderr_line,
    )

    try:
        os.write(2, stderr_line(StderrEvent(line, "note", "error")))
    except OSError:  # nobody reads it
        pass


def _end_orphan(server: WrappedServer, pidfd: int, wake_fd: int, asleep: mmap.mmap, grace_s: float) -> None:
    """Wait until the relay is gone, then end the server if it has not exited by itself.

    If the relay was killed, the kill was meant for the server. Most servers exit by themselves then, because
    their stdin ends. After an orderly end of the relay the server has exited already.

    On systems without pidfds the process id is used. No other process gets that id before the server is
    reaped. If the relay has reaped the server, ``asleep[1]`` is set. If the system has reaped it after the
    relay was killed, the id is still safe to use: no system reuses a process id within a second."""
    # Imported late, so that the server's start does not wait for the imports.
    import select

    from mcpproxy.record.relay.stdio.sinks import END_EVENT

    relay_end = select.poll()
    relay_end.register(wake_fd, END_EVENT)
    while not any(events & END_EVENT for _, events in relay_end.poll()):
        pass  # macOS may return for a byte in the pipe, which the recorder reads
    server_exit = select.poll()
    if pidfd >= 0:
        server_exit.register(pidfd, select.POLLIN)
    for number, wait_s in zip((signal.SIGTERM, signal.SIGKILL), ORPHAN_S, strict=True):
        if asleep[1] or server_exit.poll(min(wait_s, grace_s) * 1000):
            return
        try:
            if pidfd >= 0:
                signal.pidfd_send_signal(pidfd, number)
            else:
                os.kill(server.pid, number)
        except OSError:  # the server has exited meanwhile
            return


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return -1
