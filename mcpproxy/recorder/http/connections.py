"""Connections under way: what each side of each exchange has said so far, and what has become of it.

Plain state, all of which a checkpoint keeps (see ``mcpproxy.recorder.checkpoint_state``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.framing.http1 import Http1Connection, Side
from mcpproxy.recorder.http.body_frames import Body, ContentDecoder
from mcpproxy.recorder.masking import ID_LENGTH
from mcpproxy.session.frame import CLIENT, SERVER, Sender

_IDS: Final = 8
"""So many session ids of a connection are looked for in its messages, the latest."""


@dataclass(slots=True)
class ExchangeSide:
    """What one side says in an exchange, as far as it has come.

    ``is_masked``: its content may be credentials. ``kept`` holds back the encoded bytes until it is known
    whether something in them is masked; ``is_noted`` after that was noted.
    """

    body: Body | None = None
    decoder: ContentDecoder | None = None
    is_over: bool = False
    is_long: bool = False  # a piece of it is filed, and another one follows
    is_masked: bool = False
    is_noted: bool = False
    kept: list[tuple[bytes, int]] | None = None
    kept_bytes: int = 0

    def begin(self, body: Body, coding: str, *, is_masked: bool) -> None:
        """The head was read, and this content follows."""
        self.body = body
        self.is_over = False
        self.is_masked = is_masked
        self.decoder = ContentDecoder(coding) if coding else None

    def feed_again(self, data: bytes) -> None:
        """Feed the decoder what it had read before the checkpoint."""
        for _ in self.decoder.feed(data) if self.decoder is not None else ():
            pass


@dataclass(slots=True)
class OpenExchange:
    """An exchange under way: its number in the recording and its two halves."""

    number: int
    endpoint: bool = True
    client: ExchangeSide = field(default_factory=lambda: ExchangeSide(is_over=True))
    server: ExchangeSide = field(default_factory=ExchangeSide)
    cut_by: str = ""
    cost: int = 0  # of the budget for judging: what the judge remembers as long as this is under way

    @property
    def is_over(self) -> bool:
        return self.client.is_over and self.server.is_over

    @property
    def halves(self) -> tuple[tuple[ExchangeSide, Sender], tuple[ExchangeSide, Sender]]:
        """What the client says, and what the server does or we in its place."""
        return (self.client, CLIENT), (self.server, SERVER)


@dataclass(slots=True)
class Connection:
    """A connection as far as it has come. ``first`` is who ended it, once somebody did."""

    number: int
    http: Http1Connection = field(default_factory=Http1Connection)
    exchanges: dict[int, OpenExchange] = field(default_factory=dict[int, OpenExchange])
    ended: tuple[Sender, ...] = ()
    first: str = ""
    is_lost: bool = False  # after a gap, until a request begins
    opaque: dict[Side, int] | None = None  # bytes not told yet
    reasons: dict[Side, str] | None = None
    has_told_opaque: bool = False
    ids: tuple[str, ...] = ()  # session ids, the latest last

    def learn(self, ids: Iterable[str]) -> None:
        """These session ids belong to it."""
        for id in ids:
            if len(id) >= ID_LENGTH and id not in self.ids:
                self.ids = (*self.ids, id)[-_IDS:]
