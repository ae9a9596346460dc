"""macOS, as far as Linux can play it: what macOS does not have is gone, and ``poll`` is that of macOS.

Source: the man page poll(2) of macOS, and bsd/kern/sys_generic.c, uipc_socket.c and sys_pipe.c of XNU 11417
"""

import _socket
import builtins
import fcntl
import os
import select
import stat
import sys
from collections.abc import Callable
from typing import Any, Final

_ABSENT: Final = (
    (sys.modules["_signal"], ("pidfd_send_signal", "SIGPWR", "SIGSTKFLT", "SIGRTMIN", "SIGRTMAX")),
    (fcntl, ("F_GETPIPE_SZ", "F_SETPIPE_SZ")),
    (os, ("pidfd_open", "sched_setscheduler", "SCHED_BATCH")),
    (select, ("epoll",)),
)

_PIPE_BUF: Final = 512

_system_poll: Final = select.poll


class Poll:
    """``select.poll`` of macOS: it reports the end of a descriptor only if some event was asked for, and a
    device that is no terminal as invalid."""

    def __init__(self) -> None:
        self._poll = _system_poll()
        self._events: dict[int, int] = {}

    def register(self, fd: int, events: int = select.POLLIN | select.POLLPRI | select.POLLOUT) -> None:
        self._events[fd] = events
        mode = os.fstat(fd).st_mode
        if events and not (stat.S_ISCHR(mode) and not os.isatty(fd)):
            # Whoever asks for the end only is also disturbed by bytes that can be read.
            self._poll.register(fd, events | (select.POLLIN if events == select.POLLHUP else 0))
        else:
            self._unwatch(fd)

    def unregister(self, fd: int) -> None:
        del self._events[fd]
        self._unwatch(fd)

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        found = [(fd, select.POLLNVAL) for fd, events in self._events.items() if events and _is_device(fd)]
        for fd, events in self._poll.poll(0 if found else timeout_ms):
            reported = events & (self._events[fd] | select.POLLHUP | select.POLLERR)
            if reported:
                found.append((fd, reported))
        return found

    def _unwatch(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass


def _is_device(fd: int) -> bool:
    return stat.S_ISCHR(os.fstat(fd).st_mode) and not os.isatty(fd)


def pretend() -> None:
    """Make this process believe that it runs on macOS. Call it before the relay is imported."""
    sys.platform = "darwin"
    for module, names in _ABSENT:
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    setattr(select, "poll", Poll)  # noqa: B010 - its type says that it is a function of Linux
    setattr(select, "PIPE_BUF", _PIPE_BUF)  # noqa: B010 - it is Final
    setattr(_socket, "MSG_DONTWAIT", 0)  # noqa: B010 - it is Final; macOS has it, but waits nevertheless
    os.open = _without_proc(os.open)
    builtins.open = _without_proc(builtins.open)


def _without_proc(function: Callable[..., Any]) -> Callable[..., Any]:
    def opened(path: Any, *args: Any, **more: Any) -> Any:
        if isinstance(path, str) and path.startswith("/proc/"):
            raise FileNotFoundError(path)
        return function(path, *args, **more)

    return opened
