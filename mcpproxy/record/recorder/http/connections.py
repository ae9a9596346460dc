"""The state of open connections and of their exchanges (a request with its response).

A checkpoint, from which recording continues after a kill, contains this state attribute by attribute (see
``mcpproxy.record.recorder.checkpoint_state``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from mcpproxy.judge.session.frame import CLIENT, Sender
from mcpproxy.record.framing.http1 import Http1Connection, Side
from mcpproxy.record.recorder.http.body_frames import Body, ContentDecoder
from mcpproxy.record.recorder.masking import ID_LENGTH

_MOST_IDS: Final = 8
"""How many session ids of a connection, the latest ones, are searched for in its messages."""


@dataclass(slots=True)
class ExchangeSide:
    """The message that one side sends in an exchange.

    ``is_masked``: the content may contain credentials, so it is masked. ``kept``: encoded bytes with their
    times; whether they may be recorded is known only when the decoded content was masked. ``is_noted``: a
    note in the trace says that credentials were masked.
    """

    body: Body | None = None
    decoder: ContentDecoder | None = None
    is_over: bool = False
    is_long: bool = False  # the last frame was a piece, and another piece follows
    is_masked: bool = False
    is_noted: bool = False
    kept: list[tuple[bytes, int]] | None = None
    kept_bytes: int = 0

    def begin(self, body: Body, coding: str, *, is_masked: bool) -> None:
        """After a head, expect ``body``, whose content coding is ``coding`` (empty for none)."""
        self.body = body
        self.is_over = False
        self.is_masked = is_masked
        self.decoder = ContentDecoder(coding) if coding else None

    def feed_again(self, data: bytes) -> None:
        """Feed the decoder again the bytes that it had read before the checkpoint."""
        if self.decoder is not None:
            for _ in self.decoder.feed(data):  # it decodes only while it is iterated over
                pass


@dataclass(slots=True)
class OpenExchange:
    """An exchange under way: its number in the recording and its two sides.

    ``endpoint``: the request goes to the MCP endpoint. ``cut_by`` is who cut a side, empty for nobody.
    """

    number: int
    endpoint: bool = True
    asked: str = ""  # only with ``mcpproxy model``: the method and the path of the request
    # The client's side is over until a head is read: a server may answer a request with an unreadable head.
    client: ExchangeSide = field(default_factory=lambda: ExchangeSide(is_over=True))
    server: ExchangeSide = field(default_factory=ExchangeSide)
    cut_by: Side | Literal[""] = ""
    cost: int = 0  # how much of the memory budget the judge needs until the exchange ends, in bytes

    @property
    def is_over(self) -> bool:
        return self.client.is_over and self.server.is_over

    def side(self, of: Side) -> ExchangeSide:
        """Return the side on which ``of`` sends. Answers of the proxy are on the server's side."""
        return self.client if of == CLIENT else self.server


@dataclass(slots=True)
class Connection:
    """An open connection.

    ``ended`` are the sides that have ended. ``first`` is who ended the connection first, a side or the proxy;
    empty while both sides are open. If that was the client, ``left_ns`` is when, in nanoseconds.
    """

    number: int
    http: Http1Connection = field(default_factory=Http1Connection)
    exchanges: dict[int, OpenExchange] = field(default_factory=dict[int, OpenExchange])
    ended: tuple[Sender, ...] = ()
    first: Side | Literal[""] = ""
    left_ns: int | None = None
    is_lost: bool = False  # after a gap, until a request begins: the bytes cannot be parsed
    opaque: dict[Side, int] | None = None  # by side, how many bytes were not HTTP since the last record
    reasons: dict[Side, str] | None = None  # by side, why its bytes are not HTTP
    has_told_opaque: bool = False  # a record with the number of bytes that are not HTTP was written
    ids: tuple[str, ...] = ()  # session ids, with ``mcpproxy model`` also credentials; the latest last
    faulted_exchange: int = 0  # the number of the exchange in which a fault was last met
    # The end of an exchange, held back while a fault is still replacing its message: the number of the
    # exchange, who cut it ("" for nobody), and when it ended.
    held_end: tuple[int, str, int] | None = None

    def learn(self, ids: Iterable[str]) -> None:
        """Add session ids that were seen on this connection. Too short ones are ignored, and only the latest
        ``_MOST_IDS`` are kept."""
        for id in ids:
            if len(id) >= ID_LENGTH and id not in self.ids:
                self.ids = (*self.ids, id)[-_MOST_IDS:]
