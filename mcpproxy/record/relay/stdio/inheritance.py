"""Start the server as if the host had started it: with the host's environment, descriptors and signal
dispositions, which this process has inherited."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence

    from mcpproxy.record.relay.stdio.signals import Signals
else:
    import _signal as signal


def release(fd: int) -> None:
    """Point descriptor 0, 1 or 2 to /dev/null: if it were closed, the next file that is opened would get its
    number."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # no free descriptor; then it is closed without a replacement
        os.close(fd)
        return
    os.dup2(null, fd)
    os.close(null)


def occupy_standard() -> None:
    """Open each of 0, 1 and 2 that the host left closed, so that no other file gets its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # ``open`` returns the lowest free descriptor. That is ``fd`` itself, so ``dup2`` changes nothing,
            # and there is no other descriptor to close.
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)


def open_descriptors() -> list[int]:
    """Return the open descriptors of this process from 3 on; if they cannot be listed, all from 3 to 255."""
    where = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    try:
        return [int(name) for name in os.listdir(where) if int(name) > 2]
    except OSError:
        return list(range(3, 256))


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:  # the descriptor with which the others were listed
        return False


class WrappedServer:
    """The process id of the server, and the relay's ends of the pipes to its three standard streams."""

    __slots__ = ("pid", "stderr", "stdin", "stdout")

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    def kill(self) -> None:
        """Kill the server, unless it has exited."""
        try:
            if not os.waitpid(self.pid, os.WNOHANG)[0]:
                os.kill(self.pid, 9)  # SIGKILL
                os.waitpid(self.pid, 0)
        except ChildProcessError:  # it was reaped before
            pass


def start_server(command: list[str], signals: Signals, folders: Sequence[str] = ()) -> WrappedServer:
    """Start ``command``, whose program is searched in PATH, with pipes for its standard streams.

    ``signals`` has the signal dispositions and the signal mask for the server. ``folders`` are put before the
    folders in the server's PATH.

    Raises:
        OSError: the program does not exist or cannot be run.
    """
    if not command[0]:
        import errno

        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    # The server inherits these too. The relay closes its copies: the host must notice when the server closes
    # them.
    inherited = [fd for fd in open_descriptors() if _is_inheritable(fd)]
    pipes = [os.pipe(), os.pipe(), os.pipe()]
    (stdin, to_server), (from_server, stdout), (errors, stderr) = pipes
    streams = (stdin, stdout, stderr)
    try:
        pid = _spawn(command, streams, environment(folders), signals)
    except OSError:
        for fd in (to_server, from_server, errors):
            os.close(fd)
        raise
    finally:
        for fd in streams:
            os.close(fd)
    for fd in inherited:
        os.close(fd)
    return WrappedServer(pid, to_server, from_server, errors)


def _spawn(command: list[str], streams: tuple[int, ...], entries: list[bytes], signals: Signals) -> int:
    """Start ``command`` with the environment ``entries``, and return its process id.

    The function behind ``subprocess`` starts it. ``posix_spawn`` is as fast (0.1 ms; ``os.fork`` and exec
    take 0.7 ms). But in a process that it starts, glibc and musl ignore the signals that they reserve for
    themselves (32 and 33), and the environment cannot have repeated or nameless entries. The function behind
    ``subprocess`` is private, so on a later Python where it takes other arguments, ``posix_spawn`` is used
    instead.

    Raises:
        OSError: the program does not exist or cannot be run.
    """
    import _posixsubprocess

    start: Callable[..., int] = _posixsubprocess.fork_exec  # its stubs leave out that arguments may be None
    name = os.fsencode(command[0])
    path = next((entry[5:] for entry in entries if entry.startswith(b"PATH=")), os.defpath.encode())
    files = [name] if b"/" in name else [os.path.join(part, name) for part in path.split(b":")]

    def prepare() -> None:
        """Set the child's signals; called in the child."""
        if signals.is_child_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals.blocked)

    # Linux suspends this process until the program runs (vfork), and gives the program the mask of this
    # thread. Elsewhere, and where SIGCHLD has to be ignored, the child is forked and calls ``prepare``.
    is_forked = signals.is_child_ignored or sys.platform != "linux"
    failure_r, failure_w = os.pipe()
    stdin, stdout, stderr = streams
    pipes = (stdin, -1, -1, stdout, -1, stderr, failure_r, failure_w)
    restores_signals = True  # SIGPIPE and SIGXFSZ, which Python ignores, to the default action
    # The child has no session, process group, group, groups, user and umask of its own.
    rest = (restores_signals, False, -1, None, None, None, -1, prepare if is_forked else None)
    may_vfork = () if sys.version_info >= (3, 14) else (True,)
    if not is_forked:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals.blocked)
    try:
        pid = start(command, files, False, (), None, entries, *pipes, *rest, *may_vfork)
    except TypeError:
        pid = _posix_spawn(files, command, streams, entries, signals)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.numbers)
        os.close(failure_w)
    with open(failure_r, "rb", buffering=0) as pipe:
        failure = pipe.readall()  # empty when the program runs: exec closes the pipe
    if failure:
        os.waitpid(pid, 0)
        code = int(failure.split(b":")[1], 16)
        raise OSError(code, os.strerror(code))
    return pid


def _posix_spawn(
    files: list[bytes], command: list[str], streams: tuple[int, ...], entries: list[bytes], signals: Signals
) -> int:
    """Start the first of ``files`` that can be run, as ``_spawn`` does; return its process id.

    Raises:
        OSError: none can be run; what is wrong with the last one that exists, if any does.
    """
    pairs = [entry.partition(b"=") for entry in reversed(entries)]  # of repeated names, the first counts
    missing, unusable = None, None
    for file in files:
        try:
            return os.posix_spawn(
                file,
                command,
                {name: value for name, _, value in pairs if name},
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
                setsigmask=signals.blocked,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
        except (FileNotFoundError, NotADirectoryError) as fault:
            missing = fault
        except OSError as fault:
            unusable = fault
    raise unusable or missing or FileNotFoundError


def environment(folders: Sequence[str] = ()) -> list[bytes]:
    """Return the entries of the environment that the host gave this process; most are ``name=value``.

    ``folders`` are put before the folders in its PATH.

    ``os.environ`` may differ: in the C locale Python sets LC_CTYPE for itself and its children (PEP 538), and
    ``os.environ`` lacks entries without ``=`` and repeated names.
    """
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            entries = file.readall().split(b"\0")[:-1]
    except OSError:
        entries = [name + b"=" + value for name, value in os.environb.items()]
    if folders:
        former = next((entry[5:] for entry in entries if entry.startswith(b"PATH=")), os.defpath.encode())
        path = b":".join((*map(os.fsencode, folders), former))
        entries = [b"PATH=" + path, *(entry for entry in entries if not entry.startswith(b"PATH="))]
    return entries
