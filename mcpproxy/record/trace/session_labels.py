"""Names of HTTP sessions in a recording: eight hexadecimal digits of a hash of the session id.

The id itself is a credential and usually masked, but a mask contains the hash of the masked value. A name
depends only on the events, so it is the same during recording and afterwards. When the initialize request
comes, the session has no id and so no name; ``SessionNames`` names the exchange (the request with its answer)
when the answer gives the id. So only ``exchanges_of``, which reads a whole recording, attributes the
initialize request to the session.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.session.frame import ExchangeEnd, Frame, RequestHead, ResponseHead
from mcpproxy.judge.session.masked_values import as_mask
from mcpproxy.protocol.header_names import SESSION_ID

_ID_FIELD_LENGTH: Final = len(SESSION_ID)
_ID_IN_URL: Final = pattern(r"[?&]session_?id=([^&#\s]+)", re.IGNORECASE)
"""Matches a session id in a URL. The HTTP+SSE transport has no session header: its servers put the id into
the URL for POST requests."""


class SessionNames:
    """Finds the session names of the events of one recording. Pass all events to ``track``, in order."""

    def __init__(self) -> None:
        self._of_exchange: Final[dict[int, str]] = {}

    def track(self, event: object) -> str:
        """Return the name of the session of the next event; empty if unknown."""
        # Every event of a recording passes here; the first three types are the most frequent.
        if type(event) is Frame:
            if event.event is not None and event.event.name == "endpoint":
                self._set_name(event.exchange, _name_in_url(event.raw.decode("latin-1")))
        elif type(event) is ExchangeEnd:
            return self._of_exchange.pop(event.exchange, "")
        elif type(event) is RequestHead:
            self._set_name(event.exchange, _name_in_headers(event) or _name_in_url(event.target))
        elif type(event) is ResponseHead:
            self._set_name(event.exchange, _name_in_headers(event))
        else:
            return ""
        return self._of_exchange.get(event.exchange, "")

    def _set_name(self, exchange: int, name: str) -> None:
        if name:
            self._of_exchange[exchange] = name


def exchanges_of(events: Iterable[object]) -> dict[str, set[int]]:
    """Return, per session, the numbers of its exchanges, including the exchange that opened the session."""
    names = SessionNames()
    exchanges: dict[str, set[int]] = {}
    for event in events:
        if isinstance(event, Frame | RequestHead | ResponseHead) and (name := names.track(event)):
            exchanges.setdefault(name, set()).add(event.exchange)
    return exchanges


def session_name(id: str) -> str:
    """Return the name of the session with this id, masked or not."""
    return (_name if len(id) <= _USUAL_ID_LENGTH else _name.__wrapped__)(id)


_USUAL_ID_LENGTH: Final = 64
"""The names of longer ids are not cached."""


@lru_cache(maxsize=256)
def _name(id: str) -> str:
    return as_mask(id).hash[:8]


def _name_in_headers(head: RequestHead | ResponseHead) -> str:
    for name, value in head.headers:
        if len(name) == _ID_FIELD_LENGTH and name.lower() == SESSION_ID and value:
            return session_name(value)
    return ""


def _name_in_url(url: str) -> str:
    match = _ID_IN_URL.search(url) if "=" in url else None
    return session_name(match[1]) if match else ""
