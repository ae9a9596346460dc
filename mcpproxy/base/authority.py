"""Split the authority of an HTTP request (``host:port``), and recognise hosts that are this machine.

Source: RFC 9110, section 7.2; RFC 3986, section 3.2.
"""

from __future__ import annotations

import _socket
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

AUTHORITY: Final = re.compile(
    rb"(\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::([0-9]{0,5}))?"
)
"""Group 1 is the host, in brackets if it is an IPv6 address. Group 2 is the port, ``None`` without a colon;
it may be empty. There is no user information."""


def split_authority(text: bytes) -> tuple[str, int | None]:
    """Return the host of ``host:port``, in lower case and without brackets, and the port.

    The port is ``None`` if it is missing or empty.

    Raises:
        ValueError: ``text`` is not an authority, or its port is above 65535.
    """
    match = AUTHORITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    port = match[2]
    if port and int(port) > 65535:
        raise ValueError(text)
    return match[1].decode("ascii").lower().strip("[]"), int(port) if port else None


def is_loopback(host: str) -> bool:
    """Whether ``host`` is ``localhost`` or a loopback address: 127.0.0.0/8 or ``::1``, without brackets.

    A name with capitals is not recognised.
    """
    if host == "localhost":
        return True
    try:
        return _socket.inet_pton(_socket.AF_INET, host)[0] == 127
    except OSError:
        pass
    try:
        return _socket.inet_pton(_socket.AF_INET6, host) == bytes(15) + b"\1"
    except OSError:
        return False
