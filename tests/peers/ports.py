"""Free ports for programs that must be told theirs, and for those that are started again on the same one.

A port that the kernel chose (``bind`` to port 0) is free for everybody as soon as the socket is closed: the
kernel may give it to the next connection of any program. These lie below the range it takes them from.
"""

import random
import socket
from contextlib import ExitStack
from typing import Final

_FIRST: Final = 10_000
_PAST_LAST: Final = 32_768
"""Where the range of Linux begins. That of Windows and macOS begins later, at 49,152."""


def free_ports(count: int) -> list[int]:
    """Return different ports of this machine on which nobody listens now."""
    with ExitStack() as sockets:
        return [_bind(sockets.enter_context(socket.socket())) for _ in range(count)]


def free_port() -> int:
    """Return a port of this machine on which nobody listens now."""
    (port,) = free_ports(1)
    return port


def _bind(opened: socket.socket) -> int:
    """Bind a socket to a port and return the port. Chance keeps the processes of a test run apart."""
    while True:
        port = random.randrange(_FIRST, _PAST_LAST)
        try:
            opened.bind(("127.0.0.1", port))
        except OSError:  # somebody has it
            continue
        return port
