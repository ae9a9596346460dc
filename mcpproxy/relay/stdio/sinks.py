"""Writing to a descriptor that is not ours without ever waiting on it.

Descriptors 0, 1 and 2 were handed down. Their open file description is shared with the host, so
O_NONBLOCK set on it would turn up in the host as well, and often long after we have gone. Each kind of
descriptor has another way to be written without waiting:

- a pipe is opened once more through /proc, which gives a description of our own (a regular file must
  not be: it would be written from its start again);
- a socket takes a flag per call (Node hands down sockets);
- a regular file does not wait; neither does /dev/null;
- anything else (a terminal, a pipe where there is no /proc) is asked whether it has room, and then
  given no more than PIPE_BUF bytes, which it promises to take.
"""

from __future__ import annotations

import os
import select
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Put = Callable[[bytes | memoryview], int]

WIDE_BYTES: Final = 1 << 20
"""What every user may have a pipe hold."""


class Sink:
    """Where bytes go, and those that did not go yet.

    ``put`` writes what fits and returns how much that was; it raises ``BlockingIOError`` or returns 0
    when there is no room, and another ``OSError`` when nobody reads any more. ``number`` is the
    inherited descriptor that ``fd`` stands for, -1 when it is our own.
    """

    __slots__ = ("fd", "kind", "number", "open", "put", "read_ns", "rest", "shut")

    def __init__(self, fd: int, put: Put, number: int = -1, shut: Callable[[], None] | None = None) -> None:
        self.fd = fd
        self.shut = shut or (lambda: os.close(fd))
        self.number = number
        self.put = put
        self.open = True
        self.rest: memoryview | None = None  # the part of one chunk that found no room
        self.kind = 0  # of the journal record that the rest will become
        self.read_ns = 0

    def close(self) -> None:
        """Let go of it. What is written from here on goes nowhere."""
        if self.open:
            self.open = False
            self.rest = None
            self.put = len
            if self.fd != self.number:
                self.shut()
            if self.number >= 0:
                release(self.number)


class RelaySource:
    """A descriptor that is read, where its bytes go, and the kind of journal record they become."""

    __slots__ = ("fd", "kind", "sink")

    def __init__(self, fd: int, sink: Sink, kind: int) -> None:
        self.fd = fd
        self.sink = sink
        self.kind = kind


def own_sink(fd: int) -> Sink:
    """A sink for a pipe that we made: its end here may be non-blocking, the other is not touched."""
    os.set_blocking(fd, False)
    return Sink(fd, _writing(fd))


def inherited_sink(number: int) -> Sink:
    """A sink for descriptor ``number``, which we share with our host."""
    mode = os.fstat(number).st_mode
    if stat.S_ISFIFO(mode):
        try:
            fd = os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # no /proc, or the pipe belongs to another user, or nobody reads it any more
            return Sink(number, _polling(number), number)
        return Sink(fd, _writing(fd), number)
    if stat.S_ISSOCK(mode):
        return _socket_sink(number)
    if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(number)):
        return Sink(number, _writing(number), number)
    return Sink(number, _polling(number), number)


def widen(fd: int) -> int:
    """Have a pipe or a socket hold more than it did; how many bytes more, 0 where that cannot be had."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode):
            import fcntl

            before = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
            return fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, max(before, WIDE_BYTES)) - before
        if stat.S_ISSOCK(mode):
            return _widen_socket(fd)
    except (OSError, AttributeError):  # more than this user may have; not Linux
        pass
    return 0


def release(fd: int) -> None:
    """Let go of descriptor 0, 1 or 2 without leaving its number free for the next file we open."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # no descriptor to be had; then this one has to go without a successor
        os.close(fd)
        return
    os.dup2(null, fd)
    os.close(null)


def occupy_standard() -> None:
    """See to it that 0, 1 and 2 are open: a host may start us with any of them closed."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)  # lands on fd itself: it is the lowest free one


def open_descriptors() -> list[int]:
    """The descriptors of this process from 3 on."""
    where = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    try:
        return [int(name) for name in os.listdir(where) if int(name) > 2]
    except OSError:
        return list(range(3, 256))


def _writing(fd: int) -> Put:
    write = os.write
    return lambda data: write(fd, data)


def _socket_sink(number: int) -> Sink:
    import _socket  # the module socket imports too much for the start path

    sock = _socket.socket(fileno=os.dup(number))
    flags = _socket.MSG_DONTWAIT
    return Sink(sock.fileno(), lambda data: sock.send(data, flags), number, sock.close)


def _widen_socket(fd: int) -> int:
    import _socket

    sock = _socket.socket(fileno=os.dup(fd))
    try:
        before = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, WIDE_BYTES)
        # Half of what it says is for the system's own use.
        return (sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF) - before) // 2
    finally:
        sock.close()


def _polling(fd: int) -> Put:
    poller = select.poll()
    poller.register(fd, select.POLLOUT)

    def put(data: bytes | memoryview) -> int:
        return os.write(fd, data[: select.PIPE_BUF]) if poller.poll(0) else 0

    return put
