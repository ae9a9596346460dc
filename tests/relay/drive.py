"""The relay alone, as a process: ``python drive.py KIND TRACE RECORDER GRACE COMMAND [ARG...]``.

``KIND`` is ``threads``, or ``stdio``; or ``macos``, with what Linux can play of that; or ``greeting``, where
we have something to say ourselves; or ``exhausted``, where there are no descriptors left once the server has
started; or ``spawned``, where a later Python has changed how it starts programs.
``RECORDER`` names one of the fakes below, or ``none``.
"""

import errno
import mmap
import os
import signal
import sys
import time

from mcpproxy.record.relay import exit_status
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.journal import Journal


def note(text: str) -> None:
    os.write(2, text.encode() + b"\n")


def link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # the one that listed them
        return ""


def patient(wake_fd: int, asleep: mmap.mmap) -> None:
    """Waits for the end of the session, then writes what it knows about itself."""
    while os.read(wake_fd, 4096):
        pass
    links = {int(fd): link(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    open_fds = [fd for fd, what in links.items() if what and "pidfd" not in what]
    note(f"descriptors {sorted(set(open_fds) - {wake_fd})}, own session {os.getsid(0) == os.getpid()}")


def sleepy(wake_fd: int, asleep: mmap.mmap) -> None:
    """Asks to be woken once, and says when it is."""
    asleep[0] = 1
    note("asleep")
    woken = os.read(wake_fd, 4096)
    note(f"woken by {len(woken)} byte, flag {asleep[0]}")
    while more := os.read(wake_fd, 4096):
        note(f"woken again by {len(more)}")


def raising(wake_fd: int, asleep: mmap.mmap) -> None:
    raise RuntimeError("out of tape")


def killed(wake_fd: int, asleep: mmap.mmap) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stopped(wake_fd: int, asleep: mmap.mmap) -> None:
    note("stops")
    os.kill(os.getpid(), signal.SIGSTOP)
    note("went on")


def hanging(wake_fd: int, asleep: mmap.mmap) -> None:
    note(f"recorder {os.getpid()}")
    while True:
        signal.pause()


def whole(wake_fd: int, asleep: mmap.mmap) -> None:
    """Has completed the recording, and does not end."""
    folder = journals.folder(sys.argv[2])
    os.rename(folder, f"{folder}.done")
    hanging(wake_fd, asleep)


def busy(wake_fd: int, asleep: mmap.mmap) -> None:
    """Never gets done."""
    note(f"recorder {os.getpid()}")
    while True:
        sum(range(1_000_000))


ENDLESS = ("hanging", "busy", "whole")


def main(kind: str, trace: str, recorder: str, grace: str, *command: str) -> int:
    journal = Journal(trace, b"{}", time.monotonic_ns()) if trace else None
    if recorder not in ENDLESS:  # on a busy machine, a second is not enough for a recorder that is to end
        setattr(exit_status, "RECORDER_S", 60.0)  # noqa: B010 - Final for everybody else
    is_awaited = recorder not in ENDLESS
    if kind == "threads":
        from mcpproxy.record.relay.stdio import threads

        follow = [sys.executable, __file__, "follow"] if recorder != "none" else None
        return threads.run(list(command), journal, follow, grace_s=float(grace), is_awaited=is_awaited)
    if kind == "macos":
        from tests.relay import macos

        macos.pretend()
    from mcpproxy.record.relay.stdio import session_start

    if kind == "spawned":
        import _posixsubprocess

        setattr(_posixsubprocess, "fork_exec", lambda: 0)  # noqa: B010 - its type says what it takes
    elif kind == "exhausted":
        from mcpproxy.record.relay.stdio.relay import Relay

        def attach_server(self: Relay, server: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        setattr(Relay, "attach_server", attach_server)  # noqa: B010
    fake = None if recorder == "none" else globals()[recorder]
    greeting = "hello " * 100 if kind == "greeting" else ""
    return session_start.run(
        list(command), journal, fake, grace_s=float(grace), greeting=greeting, is_awaited=is_awaited
    )


def follow() -> int:
    """The fake recorder of the portable relay: counts what woke it."""
    while os.read(0, 4096):
        pass
    note("followed to the end")
    return 0


if __name__ == "__main__":
    sys.exit(follow() if sys.argv[1:] == ["follow"] else main(*sys.argv[1:]))
