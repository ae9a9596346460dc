"""Write to inherited descriptors without ever blocking.

Descriptors 0, 1 and 2 are inherited. Their open file description is shared with the host, the program that
started this process: O_NONBLOCK would apply to the host as well, even after this process has exited. So the
way to write depends on the kind of descriptor:

- a pipe is opened once more through /proc, which gives a file description of our own (a regular file must not
  be opened again: it would be overwritten from its start);
- a socket of Linux accepts a flag in each call (Node passes sockets to its children);
- writing to a regular file or to /dev/null never blocks;
- anything else (a terminal, a pipe without /proc) is polled for room, and then at most PIPE_BUF bytes are
  written, because so few bytes never block. macOS has no /proc, and its sockets ignore the flag while they
  wait for room.
"""

from __future__ import annotations

import os
import select
import stat
import sys

from mcpproxy.record.relay.stdio.inheritance import release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Put = Callable[[bytes | memoryview], int]

END_EVENT: Final[int] = getattr(select, "POLLHUP", 0)  # Windows has no ``poll``
"""The event by which ``poll`` reports that nobody reads a pipe or socket any more. Linux reports it in any
case, macOS only if ``poll`` watches for some event."""

WIDE_BYTES: Final = 1 << 20
"""The largest pipe that an unprivileged user may have on Linux by default."""


class Sink:
    """A descriptor to write to, and the bytes that it has not accepted yet.

    ``put`` writes as many bytes as fit and returns their number. It raises ``BlockingIOError`` or returns 0
    when there is no room, and raises another ``OSError`` when nobody reads any more. ``number`` is the
    inherited descriptor that ``fd`` replaces, or -1 if ``fd`` is our own. ``close_fd`` closes ``fd`` (by
    default ``os.close``). ``end_event`` is the event for which ``poll`` must watch to report that nobody
    reads any more; 0 for files and devices, because only pipes and sockets have a reader.
    """

    __slots__ = ("close_fd", "end_event", "fd", "kind", "number", "open", "put", "read_ns", "rest")

    def __init__(
        self,
        fd: int,
        put: Put,
        number: int = -1,
        close_fd: Callable[[], None] | None = None,
        end_event: int = END_EVENT,
    ) -> None:
        self.end_event = end_event
        self.fd = fd
        self.close_fd = close_fd or (lambda: os.close(fd))
        self.number = number
        self.put = put
        self.open = True
        self.rest: memoryview | None = None  # the part of a chunk that is not written yet
        self.kind = 0  # the kind of journal record that the rest will become
        self.read_ns = 0  # when the rest was read

    def close(self) -> None:
        """Close the descriptor. Bytes that are written from now on are discarded."""
        if self.open:
            self.open = False
            self.rest = None
            self.put = len  # accepts all bytes
            if self.fd != self.number:
                self.close_fd()
            if self.number >= 0:
                release(self.number)


class WaitingLines:
    """Lines for a sink. Bytes for which the sink has no room are kept, up to ``limit``, and nothing
    blocks."""

    def __init__(self, sink: Sink, limit: int) -> None:
        self._sink = sink
        self._limit = limit
        self._bytes = bytearray()

    @property
    def waiting(self) -> bytes:
        """The bytes that are not written yet."""
        return bytes(self._bytes)

    def add(self, lines: bytes, *, is_last: bool = False) -> bool:
        """Add lines, unless too many bytes wait; with ``is_last``, add them always. Return whether they were
        added."""
        if len(self._bytes) + len(lines) > self._limit and not is_last:
            return False
        self._bytes += lines
        return True

    def flush(self) -> bool:
        """Write as many bytes as there is room for. Return whether nothing waits any more.

        If nobody reads any more, all bytes are discarded.
        """
        while self._bytes:
            try:
                taken = self._sink.put(self.waiting)
            except BlockingIOError:
                return False
            except OSError:  # nobody reads any more
                self._sink.close()
                continue
            if not taken:
                return False
            del self._bytes[:taken]
        return True


class RelaySource:
    """A descriptor to read from, the sink for its bytes, and the kind of record that they become in the
    journal (the copy of the traffic).

    ``is_read`` says whether it is read now, ``is_held`` whether a gate, which decides whether messages pass,
    holds it back.
    """

    __slots__ = ("fd", "is_held", "is_read", "kind", "sink")

    def __init__(self, fd: int, sink: Sink, kind: int) -> None:
        self.fd = fd
        self.sink = sink
        self.kind = kind
        self.is_read, self.is_held = True, False


def own_sink(fd: int) -> Sink:
    """Return a sink for a pipe that this process made. Its end becomes non-blocking; the other end does
    not."""
    os.set_blocking(fd, False)
    return Sink(fd, _writer(fd))


def inherited_sink(number: int) -> Sink:
    """Return a sink for descriptor ``number``, which this process shares with the host."""
    mode = os.fstat(number).st_mode
    if stat.S_ISFIFO(mode):
        try:
            fd = os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # no /proc, a pipe of another user, or a pipe that nobody reads
            return Sink(number, _polling_writer(number), number)
        return Sink(fd, _writer(fd), number)
    if stat.S_ISSOCK(mode):
        return _socket_sink(number)
    # On macOS, ``poll`` reports most devices as broken if it is asked for an event.
    if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(number)):
        return Sink(number, _writer(number), number, end_event=0)
    return Sink(number, _polling_writer(number), number, end_event=0)


def widen(fd: int, size: int = WIDE_BYTES) -> int:
    """Enlarge the buffer of a pipe to ``size`` bytes, or that of a socket to ``WIDE_BYTES``.

    Return by how many bytes, 0 if that is not possible.
    """
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode):
            import fcntl

            old_bytes = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
            return fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, max(old_bytes, size)) - old_bytes
        if stat.S_ISSOCK(mode):
            return _widen_socket(fd)
    except (OSError, AttributeError):  # above the limit of this user, or not Linux
        pass
    return 0


def _writer(fd: int) -> Put:
    write = os.write
    return lambda data: write(fd, data)


def _socket_sink(number: int) -> Sink:
    if sys.platform != "linux":
        return Sink(number, _polling_writer(number), number)
    import _socket  # the module socket imports too much for the start of a server

    sock = _socket.socket(fileno=os.dup(number))
    flags = _socket.MSG_DONTWAIT
    return Sink(sock.fileno(), lambda data: sock.send(data, flags), number, sock.close)


def _widen_socket(fd: int) -> int:
    import _socket

    sock = _socket.socket(fileno=os.dup(fd))
    try:
        old_bytes = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF)
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, WIDE_BYTES)
        # The system keeps half of the reported size for itself.
        return (sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF) - old_bytes) // 2
    finally:
        sock.close()


def _polling_writer(fd: int) -> Put:
    """Return a ``put`` that writes while there is room, each time so few bytes that it never blocks."""
    poller = select.poll()
    poller.register(fd, select.POLLOUT)

    def put(data: bytes | memoryview) -> int:
        taken = 0
        while taken < len(data) and poller.poll(0):
            try:
                taken += os.write(fd, data[taken : taken + select.PIPE_BUF])
            except OSError:
                if not taken:
                    raise
                break  # the next call raises it
        return taken

    return put
