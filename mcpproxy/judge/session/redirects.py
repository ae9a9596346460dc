"""Match redirected HTTP requests with the exchanges in which the client repeats them."""

from collections import deque
from typing import Final

from mcpproxy.judge.session.frame import ResponseHead

_MAX_OPEN: Final = 64
"""The number of redirects that are remembered. A client follows a redirect at once or never."""


def request_target(uri: str, base: str = "/") -> str:
    """Return the request target (path and query) of ``uri``, which may be relative to the target ``base``.

    A ``uri`` that is not valid is returned as it is.
    """
    from urllib.parse import urljoin, urlsplit  # imported here: it takes 3 ms, and few sessions need it

    try:
        path = urlsplit(urljoin(urljoin("http://server/", base), uri))
    except ValueError:  # The URI is not valid, so no client can send a request to this URI.
        return uri
    return path.path + ("?" + path.query if path.query else "")


def location_of(head: ResponseHead) -> str | None:
    """Return the ``Location`` of a redirect (3xx); ``None`` for any other response, or without the field."""
    if not 300 <= head.status < 400:
        return None
    return next((value.strip() for name, value in head.headers if name.lower() == "location"), None)


class Redirects:
    """The redirects of one recording that may still be followed.

    A request repeats an earlier call that was redirected if it goes to the redirect's target and has the same
    id. Hosts are not compared, because a server and its clients may use different names for the server.
    """

    def __init__(self) -> None:
        self._open: Final[deque[tuple[str, int]]] = deque(maxlen=_MAX_OPEN)
        """The target of each redirect, and the number of the exchange that was redirected."""

    def add(self, exchange: int, target: str, location: str) -> None:
        """Note that a JSON-RPC request to ``target``, in this exchange, was redirected to ``location``."""
        self._open.append((request_target(location, target), exchange))

    def to(self, target: str) -> tuple[int, ...]:
        """Return the exchanges whose redirects lead to ``target``, the earliest first."""
        if not self._open:
            return ()
        target = request_target(target)
        return tuple(exchange for new_target, exchange in self._open if new_target == target)
