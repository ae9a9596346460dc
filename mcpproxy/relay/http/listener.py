"""The socket to which clients connect: of the proxy, of a replayed server, or of the page in the browser."""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_BACKLOG: Final = 4096


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket on the first address of ``host`` (empty: all addresses of IPv4).

    Raises:
        OSError: this machine does not have that address, or the port is taken.
    """
    addresses = socket.getaddrinfo(
        (host.encode() if host.isascii() else host) or None,  # a str imports a codec, for 2 ms
        port,
        socket.AF_UNSPEC if host else socket.AF_INET,
        socket.SOCK_STREAM,
        0,
        socket.AI_PASSIVE,
    )
    family, kind, protocol, _, address = addresses[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # on Windows, this option would share a port that is taken
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
