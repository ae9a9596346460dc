"""Start the server with fork and exec, if ``posix_spawn`` cannot give it the environment or signals of the
host.

That is the case if the environment has entries without a name or without ``=``, or the same name twice, or if
the host ignores the signal SIGCHLD. Both are rare, so this module is imported only when needed. Forking takes
half a millisecond longer than spawning.
"""

from __future__ import annotations

import errno
import os

from mcpproxy.relay.stdio.signals import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn

    from mcpproxy.relay.stdio.signals import Signals
else:
    import _signal as signal


def fork_server(
    command: list[str], streams: tuple[int, ...], environment: list[bytes], signals: Signals
) -> int:
    """Start ``command`` with ``streams`` as its descriptors 0, 1 and 2, and return its process id.

    Raises:
        OSError: the program does not exist or cannot be run.
    """
    locales = [entry[9:] for entry in environment if entry.startswith(b"LC_CTYPE=")]
    failure_r, failure_w = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _become_server(command, streams, locales, signals, failure_w)
    finally:
        os.close(failure_w)
    with open(failure_r, "rb") as pipe:
        code = pipe.read()  # empty when the program runs: exec closes the pipe
    if code:
        os.waitpid(pid, 0)
        number = int.from_bytes(code, "little")
        raise OSError(number, os.strerror(number))
    return pid


def _become_server(
    command: list[str], streams: tuple[int, ...], locales: list[bytes], signals: Signals, failure_w: int
) -> NoReturn:
    try:
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        if locales:  # Python may have set another value (PEP 538)
            os.putenv(b"LC_CTYPE", locales[0])
        else:
            os.unsetenv(b"LC_CTYPE")
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        if signals.is_child_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals.blocked)
        # It passes on the environment of the C library, which may have entries that ``os.environ`` lacks.
        os.execvp(command[0], command)
    except OSError as error:
        os.write(failure_w, (error.errno or errno.EINVAL).to_bytes(4, "little"))
    finally:
        os._exit(127)
