"""Requests that were redirected, and the exchanges in which their client repeats them."""

from collections import deque
from typing import Final

from mcpproxy.judge.session.frame import ResponseHead

_MAX_OPEN: Final = 64
"""How many redirects are remembered. A client follows a redirect at once, or never."""


def request_target(uri: str, base: str = "/") -> str:
    """Return the request target (path and query) of ``uri``, which may be relative to the target ``base``."""
    from urllib.parse import urljoin, urlsplit  # imported here: it takes 3 ms, and few sessions need it

    try:
        path = urlsplit(urljoin(urljoin("http://server/", base), uri))
    except ValueError:  # The URI is not valid, so no client can send a request to this URI.
        return uri
    return path.path + ("?" + path.query if path.query else "")


def location_of(head: ResponseHead) -> str | None:
    """Return where a redirect (3xx) leads; ``None`` for another response."""
    if not 300 <= head.status < 400:
        return None
    return next((value.strip() for name, value in head.headers if name.lower() == "location"), None)


class Redirects:
    """The redirects of one recording that may still be followed.

    A request is the same call as an earlier one that was redirected if it goes where that was redirected to
    and has the same id. Hosts are not compared: a server may give itself another name than its clients.
    """

    def __init__(self) -> None:
        self._open: Final[deque[tuple[str, int]]] = deque(maxlen=_MAX_OPEN)
        """Target of the redirect, and number of the exchange that was redirected."""

    def add(self, exchange: int, target: str, location: str) -> None:
        """Note that a request to ``target`` with a JSON-RPC request in it was redirected to ``location``."""
        self._open.append((request_target(location, target), exchange))

    def to(self, target: str) -> tuple[int, ...]:
        """Return the exchanges whose redirects lead to ``target``, the earliest first."""
        if not self._open:
            return ()
        target = request_target(target)
        return tuple(exchange for led_to, exchange in self._open if led_to == target)
