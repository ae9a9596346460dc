"""Small servers for the relay's tests: ``python peers.py NAME [ARG...]``. None of them speaks MCP."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable


def put(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def lines() -> "list[bytes]":
    return list(sys.stdin.buffer)


def echo() -> None:
    """Sends everything back as it comes, until EOF."""
    while data := os.read(0, 1 << 20):
        put(1, data)


def leave(code: str) -> None:
    sys.exit(int(code))


def die(name: str) -> None:
    signal.signal(getattr(signal, name), signal.SIG_DFL) if name != "SIGKILL" else None
    os.kill(os.getpid(), getattr(signal, name))


def late(count: str) -> None:
    """Answers only after EOF."""
    asked = lines()
    for number in range(int(count)):
        put(1, b"late answer %d to %d lines\n" % (number, len(asked)))
    sys.exit(4)


def waiting() -> None:
    """Says that it is there and waits for a signal, which ends it as signals do."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    put(1, b"ready\n")
    signal.pause()


def polite(name: str) -> None:
    """Exits in order when it gets a signal."""

    def leave(number: int, frame: object) -> None:
        put(1, b"bye\n")
        os._exit(6)

    signal.signal(getattr(signal, name), leave)
    put(1, b"ready\n")
    while True:
        signal.pause()


def counting() -> None:
    """Counts the SIGINTs that come before the next line."""
    count: list[int] = []

    def note(number: int, frame: object) -> None:
        count.append(number)
        put(1, b"interrupted\n")

    signal.signal(signal.SIGINT, note)
    put(1, b"ready\n")
    sys.stdin.buffer.readline()
    put(1, b"in all %d\n" % len(count))


def _receive() -> Callable[[], bytes]:
    """From now on, receive all signals that can be received. Return a function that tells which have come
    since it was last called."""
    told, tell = os.pipe()
    os.set_blocking(told, False)
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, lambda number, frame: None)

    def come() -> bytes:
        try:
            return os.read(told, 1 << 16)
        except BlockingIOError:
            return b""

    return come


def tally() -> None:
    """Tells, for each line, which signals have come since the last: to itself, and to a child of its own."""
    ask_r, ask_w = os.pipe()
    told_r, told_w = os.pipe()
    if os.fork() == 0:
        os.close(ask_w)
        come = _receive()
        put(told_w, b"ready\n")
        while os.read(ask_r, 1):
            put(told_w, come().hex().encode() + b"\n")
        os._exit(0)
    come = _receive()
    with open(told_r, "rb") as child:
        child.readline()
        put(1, b"ready\n")
        while sys.stdin.buffer.readline():
            put(ask_w, b"?")
            put(1, b"<%s|%s>\n" % (come().hex().encode(), child.readline().strip()))


def notes(path: str) -> None:
    """Notes in a file each signal that comes, until its parent is gone."""
    parent = os.pidfd_open(os.getppid())
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, lambda number, frame: None)
    put(1, b"ready\n")
    with open(path, "ab", buffering=0) as file:
        while told in select.select([told, parent], [], [])[0]:
            file.write(os.read(told, 1))


def deaf() -> None:
    """Ignores SIGTERM, serves until EOF."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    put(1, b"ready\n")
    echo()


def stubborn() -> None:
    """Exits neither at EOF nor for SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    put(1, b"%d\n" % os.getpid())
    while True:
        signal.pause()


def unheard() -> None:
    """Writes to a host that has gone."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    lines()
    try:
        put(1, b"x" * (1 << 20))
    except BrokenPipeError:
        sys.exit(7)


def close(fd: str) -> None:
    """Closes one of its streams and continues with the others."""
    put(1, b"ready\n")
    os.close(int(fd))
    if fd == "0":
        put(2, b"closed\n")
        sys.stderr.flush()
        signal.pause()
    asked = sys.stdin.buffer.readline()
    put(2 if fd == "1" else 1, b"got " + asked)
    os._exit(5)


def flood(fd: str, size: str) -> None:
    """Writes as fast as it can, then waits for EOF."""
    put(int(fd), b"0123456789abcde\n" * (int(size) // 16))
    put(3 - int(fd), b"done\n")
    lines()


def duplex(size: str) -> None:
    """Writes and reads at once, and says at the end what it read."""
    writer = threading.Thread(target=put, args=(1, b"s" * int(size)))
    writer.start()
    got = 0
    while data := os.read(0, 1 << 16):
        got += len(data)
        assert data.strip(b"c") == b""
    writer.join()
    put(2, b"%d bytes\n" % got)


def sip(size: str) -> None:
    """Reads little by little."""
    left = int(size)
    while left:
        left -= len(os.read(0, min(left, 2048)))
    put(1, b"full\n")
    lines()


def descriptors() -> None:
    """Which descriptors it was given, not counting the one that lists them."""
    listing = [
        fd for fd in sorted(map(int, os.listdir("/proc/self/fd"))) if os.path.exists(f"/proc/self/fd/{fd}")
    ]
    put(1, repr(listing).encode() + b"\n")


def let_go(fd: str) -> None:
    """Closes a descriptor of its host and keeps running."""
    put(int(fd), b"hello")
    os.close(int(fd))
    lines()


def parent() -> None:
    """Exits and leaves a child that holds all its pipes."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    put(1, b"%d\n" % child.pid)
    os._exit(9)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
