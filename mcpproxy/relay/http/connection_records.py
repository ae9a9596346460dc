"""Write the journal records of one connection: CONNECT first, one EOF record for each side last."""

from __future__ import annotations

from mcpproxy.relay import journal as journals
from mcpproxy.relay.journal import DROPPED, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.relay.http.proxy_interface import ProxyInterface


class Records:
    """Writes the records of one connection into the journal of ``proxy``; ``client`` is the peer's
    ``ip:port``."""

    __slots__ = ("_client", "_ends", "_proxy", "number")

    def __init__(self, proxy: ProxyInterface, client: str) -> None:
        self._proxy = proxy
        self._client = client
        self._ends = 0  # a bit for each kind of EOF record that is written
        self.number = 0  # 0 until the client has sent something

    def begin(self, at_ns: int, upstream: str) -> None:
        """Write the first record, unless it is written already."""
        if self.number:
            return
        self.number = self._proxy.next_number()
        connect = f'{{"client":{quoted(self._client)},"upstream":{quoted(upstream)}}}'
        self._proxy.record(journals.CONNECT, at_ns, connect.encode("utf-8", "replace"), self.number)

    def add(self, kind: int, at_ns: int, payload: bytes = b"") -> None:
        """Write a record of a connection that has begun."""
        self._proxy.record(kind, at_ns, payload, self.number)

    def note(self, what: str, why: str, at_ns: int) -> None:
        """Write a note about what mcpproxy did to the connection."""
        note = f'{{"what":{quoted(what)},"why":{quoted(why)}}}'
        self.add(journals.NOTE, at_ns, note.encode("utf-8", "replace"))

    def end(self, kind: int, at_ns: int, how: bytes = b"") -> None:
        """Write how a side ended, once. The connection of a client that sent nothing has no records."""
        if self.number and not self._ends & (1 << kind):
            self._ends |= 1 << kind
            self.add(kind, at_ns, how)

    def close(self, at_ns: int) -> None:
        """Write the EOF records that are missing. Later records belong to a new connection in the journal."""
        self.end(journals.CLIENT_EOF, at_ns, DROPPED)
        self.end(journals.SERVER_EOF, at_ns, DROPPED)
        self.number = self._ends = 0
