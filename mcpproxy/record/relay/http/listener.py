"""Open the socket to which clients connect: of the proxy, of a replayed server, of a scripted model, or of
``mcpproxy ui`` and ``mcpproxy mcp``."""

from __future__ import annotations

import _socket
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Final

_BACKLOG: Final = 4096
"""How many connections may wait to be accepted."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket on the first address of ``host`` (empty: all addresses of IPv4).

    Raises:
        OSError: the name is not found, this machine does not have that address, or the port is taken or not
            allowed.
    """
    name = host.encode() if host.isascii() else host  # a str makes Python import a codec: 2 ms
    family = _socket.AF_UNSPEC if host else _socket.AF_INET
    addresses = _socket.getaddrinfo(name or None, port, family, _socket.SOCK_STREAM, 0, _socket.AI_PASSIVE)
    family, kind, protocol, _, address = addresses[0]
    listener = _socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # on Windows, this option would share a port that is taken
            listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    import socket  # takes 3 ms; clients that connect meanwhile wait in the backlog

    sock = socket.socket(family, kind, protocol, listener.detach())
    sock.setblocking(False)
    return sock
