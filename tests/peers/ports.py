"""Free ports for programs that must be told theirs, and for those that are started again on the same one.

A port that the kernel chose (``bind`` to port 0) is free for everybody as soon as the socket is closed: the
kernel may give it to the next connection of any program. These lie below the range it takes them from.

A program may listen on its port only a minute after it was told. So no port is given twice: each process of a
test run has a share of its own, and gives each port of it once.
"""

import os
import random
import socket
from contextlib import ExitStack
from typing import Final

_FIRST: Final = 10_000
_PAST_LAST: Final = 32_768
"""Where the range of Linux begins. That of Windows and macOS begins later, at 49,152."""
_SHARES: Final = 16
_SHARE: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES

_left: Final = list(range(_FIRST + _SHARE, _PAST_LAST, _SHARES))
random.shuffle(_left)  # another run beside this one begins elsewhere


def free_ports(count: int) -> list[int]:
    """Return different ports of this machine on which nobody listens now."""
    with ExitStack() as sockets:
        return [_bind(sockets.enter_context(socket.socket())) for _ in range(count)]


def free_port() -> int:
    """Return a port of this machine on which nobody listens now."""
    (port,) = free_ports(1)
    return port


def _bind(opened: socket.socket) -> int:
    """Bind a socket to a port that was not given before, and return the port."""
    while True:
        port = _left.pop()
        try:
            opened.bind(("127.0.0.1", port))
        except OSError:  # somebody has it
            continue
        return port
