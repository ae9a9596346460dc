"""The two processes beside the relay: the server it wraps, and the recorder that follows the journal.

The server must start as if its host had started it: same environment, same inherited descriptors,
same signal dispositions, its own standard streams. The recorder must start without holding anything
that a peer waits on: a pipe's reader sees its end only when the last copy of the other end is closed.
"""

from __future__ import annotations

import os
import select

from mcpproxy.relay.journal import LAST_WORDS, WAKE
from mcpproxy.relay.sinks import open_descriptors, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    import signal
    from collections.abc import Callable
    from typing import Final, NoReturn

    RecorderMain = Callable[[int, "mmap.mmap"], None]
else:
    import _signal as signal  # what the module signal adds are enums, at 4 ms of start-up

FORWARDED: Final[dict[int, str]] = {
    signal.SIGINT: "SIGINT",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}
"""The signals that are passed on to the server, with the names they are recorded by."""


class Server:
    """The wrapped process and our ends of its three pipes."""

    __slots__ = ("birth", "pid", "stderr", "stdin", "stdout")

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.birth = _birth(pid)


def start_server(command: list[str], inherited: list[int]) -> Server:
    """Start ``command`` with pipes for its standard streams.

    Args:
        command: program, searched in PATH, and arguments.
        inherited: descriptors that the host handed down beside 0, 1 and 2. The server has them now,
            and the relay lets go of them: their other ends must see the server close them.

    Raises:
        OSError: the program is not there or cannot be run.
    """
    pipes = [os.pipe(), os.pipe(), os.pipe()]
    (stdin, to_server), (from_server, stdout), (errors, stderr) = pipes
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            environment(),
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((stdin, stdout, stderr))],
            # Python ignores these two; the server must not.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError:
        for fd in (to_server, from_server, errors):
            os.close(fd)
        raise
    finally:
        for fd in (stdin, stdout, stderr):
            os.close(fd)
    for fd in inherited:
        os.close(fd)
    return Server(pid, to_server, from_server, errors)


def environment() -> dict[bytes, bytes]:
    """The environment that we were started with.

    In the C locale Python sets LC_CTYPE for itself and its children (PEP 538); unwrapped, the server
    would not have it.
    """
    environ = dict(os.environb)
    if b"LC_CTYPE" in environ:
        try:
            with open("/proc/self/environ", "rb", buffering=0) as file:
                original = file.readall().split(b"\0")
        except OSError:
            return environ
        del environ[b"LC_CTYPE"]
        for entry in original:
            if entry.startswith(b"LC_CTYPE="):
                environ[b"LC_CTYPE"] = entry[9:]
    return environ


class Recorder:
    """The relay's view of the recorder: how to wake it, and what it has to tell.

    ``asleep`` is one byte of shared memory. The recorder sets it before it blocks on the wake pipe
    and looks at the journal once more; the relay writes a byte into the pipe only if it finds it set.
    """

    __slots__ = ("asleep", "notes", "pid", "reaped", "wake_fd")

    def __init__(self, pid: int, wake_fd: int, notes: int, asleep: mmap.mmap | bytearray) -> None:
        self.pid = pid
        self.reaped = False
        self.wake_fd = wake_fd
        self.notes = notes
        self.asleep = asleep

    def wake(self) -> None:
        self.asleep[0] = 0
        try:
            os.write(self.wake_fd, WAKE)
        except OSError:  # gone, or so far behind that the pipe is full: it will look by itself
            pass

    def leave(self, owed: bytes) -> None:
        """The relay is done, and waits. ``owed`` are records that the journal had no room for."""
        from mcpproxy.relay import share

        share.step_up(self.pid)
        if owed:
            try:
                os.write(self.wake_fd, LAST_WORDS + owed)
            except OSError:  # gone
                pass
        os.close(self.wake_fd)
        self.wake_fd = -1


def fork_recorder(main: RecorderMain, server: Server | None, grace_s: float) -> Recorder:
    """Fork the recorder, which runs ``main(wake_fd, asleep)``.

    Its stderr is a pipe to the relay, so that the host's stderr is closed when the relay exits,
    whatever the recorder does.

    Raises:
        OSError: no process or no pipe could be had.
    """
    import mmap

    asleep = mmap.mmap(-1, 1)
    wake_r, wake_w = os.pipe()
    notes_r, notes_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_recorder(main, wake_r, notes_w, asleep, server, grace_s)
    os.close(wake_r)
    os.close(notes_w)
    os.set_blocking(wake_w, False)
    os.set_blocking(notes_r, False)
    return Recorder(pid, wake_w, notes_r, asleep)


def _be_recorder(
    main: RecorderMain,
    wake_fd: int,
    notes_fd: int,
    asleep: mmap.mmap,
    server: Server | None,
    grace_s: float,
) -> NoReturn:
    try:
        import gc

        signal.set_wakeup_fd(-1)
        for number in (*FORWARDED, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.set_blocking(notes_fd, False)
        os.dup2(notes_fd, 2)
        release(0)
        release(1)
        for fd in open_descriptors():
            if fd != wake_fd:
                try:
                    os.close(fd)
                except OSError:  # the one that listed them
                    pass
        from mcpproxy.relay import share

        share.stand_back()  # before it imports anything: the server starts meanwhile
        gc.disable()  # until it has imported what it needs, of which nothing will ever be garbage
        try:
            main(wake_fd, asleep)
        except Exception as error:
            _complain(f"recorder: {type(error).__name__}: {error}")
        release(2)  # the end of the notes: the relay waits for no more
        while os.read(wake_fd, 4096):
            pass
        if server is not None:
            _bury(server, grace_s)
    finally:
        os._exit(0)


def _complain(line: str) -> None:
    from mcpproxy.visible import visible  # of no use to a relay that has nothing to complain of

    try:
        os.write(2, f"mcpproxy: {visible(line)}\n".encode())
    except OSError:  # nobody is there to hear it
        pass


def _bury(server: Server, grace_s: float) -> None:
    """End a server whose relay was killed.

    Unwrapped, that kill would have ended it. It has seen the end of its stdin; most leave then.
    After an orderly end there is no server left and this returns at once.
    """
    try:
        pidfd = os.pidfd_open(server.pid)
    except (AttributeError, OSError):  # not Linux; or gone, as it should be
        return
    if not server.birth or _birth(server.pid) != server.birth:
        return  # the number is another process's now
    leaving = select.poll()
    leaving.register(pidfd, select.POLLIN)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if leaving.poll(grace_s * 1000):
            return
        signal.pidfd_send_signal(pidfd, number)


def _birth(pid: int) -> bytes:
    """When process ``pid`` was started, which tells it from a later one with the same number."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return file.read(1024).rpartition(b")")[2].split()[19]
    except (OSError, IndexError):
        return b""
