"""Write the records of one connection into the journal (the relay's copy of the traffic).

CONNECT comes first, one EOF record for each side last.
"""

from __future__ import annotations

from mcpproxy.base.json_string import quoted
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.journal import DROPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.record.relay.http.proxy_interface import ProxyInterface
    from mcpproxy.record.relay.http.request_reader import RequestReader


class ConnectionRecords:
    """Writes the records of one connection into the journal of ``proxy``.

    ``client`` is the client's ``ip:port``; ``requests`` reads the client's requests, and so knows the server.
    """

    __slots__ = ("_client", "_ends", "_proxy", "_requests", "number")

    def __init__(self, proxy: ProxyInterface, client: str, requests: RequestReader) -> None:
        self._proxy = proxy
        self._client = client
        self._requests = requests
        self._ends = 0  # the kinds of EOF records that were written, one bit each
        self.number = 0  # 0 before the first record, and after ``close``

    @property
    def upstream(self) -> str:
        """The address of the last request's server. Before any request: of the only server, or empty."""
        route = self._requests.route
        return self._proxy.upstream if route is None else route.upstream.address

    def begin(self, at_ns: int) -> None:
        """Write the first record, unless it is written already."""
        if not self.number:
            self._proxy.last_number = self.number = self._proxy.last_number + 1
            connect = f'{{"client":{quoted(self._client)},"upstream":{quoted(self.upstream)}}}'
            self._proxy.record(journals.CONNECT, at_ns, connect.encode("utf-8", "replace"), self.number)

    def add(self, kind: int, at_ns: int, payload: bytes = b"") -> None:
        """Write a record, after the CONNECT record."""
        if not self.number:
            self.begin(at_ns)
        self._proxy.record(kind, at_ns, payload, self.number)

    def note(self, what: str, why: str, at_ns: int) -> None:
        """Write a note about what mcpproxy did to the connection."""
        note = f'{{"what":{quoted(what)},"why":{quoted(why)}}}'
        self.add(journals.NOTE, at_ns, note.encode("utf-8", "replace"))

    def end(self, kind: int, at_ns: int, how: bytes = b"") -> None:
        """Write the EOF record of a side, once, if the connection has records: that of a client that sent
        nothing has none. ``how`` is ``RESET``, ``DROPPED``, or empty after an orderly end."""
        if self.number and not self._ends & (1 << kind):
            self._ends |= 1 << kind
            self.add(kind, at_ns, how)

    def close(self, at_ns: int) -> None:
        """Write the EOF records that are missing. Later records belong to a new connection in the journal."""
        self.end(journals.CLIENT_EOF, at_ns, DROPPED)
        self.end(journals.SERVER_EOF, at_ns, DROPPED)
        self.number = self._ends = 0
