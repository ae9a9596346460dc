"""A connection's records in the journal: numbered when there is a first one, ended on both sides once."""

from __future__ import annotations

from mcpproxy.relay import journal as journals
from mcpproxy.relay.journal import DROPPED, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpproxy.relay.http.proxy_interface import ProxyInterface


class Records:
    """What one connection writes into the journal of ``proxy``; ``client`` is its ``ip:port``."""

    __slots__ = ("_client", "_ends", "_proxy", "number")

    def __init__(self, proxy: ProxyInterface, client: str) -> None:
        self._proxy = proxy
        self._client = client
        self._ends = 0  # a bit for each kind of EOF record that is written
        self.number = 0  # 0 until the client has said something

    def begin(self, at_ns: int, upstream: str) -> None:
        """Write the first record, if that is still to be done."""
        if self.number:
            return
        self.number = self._proxy.next_number()
        connect = f'{{"client":{quoted(self._client)},"upstream":{quoted(upstream)}}}'
        self._proxy.record(journals.CONNECT, at_ns, connect.encode("utf-8", "replace"), self.number)

    def add(self, kind: int, at_ns: int, payload: bytes = b"") -> None:
        """Write a record of a connection that has begun."""
        self._proxy.record(kind, at_ns, payload, self.number)

    def keep_until_journaled(self, kind: int, at_ns: int, payload: bytes) -> None:
        """Keep what is about to be sent where a kill does not reach it, until it is added."""
        self._proxy.keep_until_journaled(kind, at_ns, payload, self.number)

    def note(self, what: str, why: str, at_ns: int) -> None:
        """Write what we did to the connection."""
        note = f'{{"what":{quoted(what)},"why":{quoted(why)}}}'
        self.add(journals.NOTE, at_ns, note.encode("utf-8", "replace"))

    def end(self, kind: int, at_ns: int, how: bytes = b"") -> None:
        """Write how a side ended, unless that is known; of a client that said nothing there is nothing."""
        if self.number and not self._ends & 1 << kind:
            self._ends |= 1 << kind
            self.add(kind, at_ns, how)

    def close(self, at_ns: int) -> None:
        """The connection is over; what comes after this is another one."""
        self.end(journals.CLIENT_EOF, at_ns, DROPPED)
        self.end(journals.SERVER_EOF, at_ns, DROPPED)
        self.number = self._ends = 0
