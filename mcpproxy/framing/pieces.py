"""The pieces of an HTTP/1.x connection: heads, content, and how each message ended.

`exchange` numbers count from 1 on each connection; `at_ns` is when the chunk that completed a piece was read.
Pieces are named tuples because each small exchange has six of them, and a frozen dataclass takes three
times as long to make.
"""

from typing import Literal, NamedTuple

from mcpproxy.framing.heads import Headers

Side = Literal["client", "server", "proxy"]
"""Whose bytes they are: the proxy's when it answers in the server's place."""


class RequestStart(NamedTuple):
    """A request's head. ``raw`` is the head as it came, blank line included."""

    exchange: int
    method: str
    target: str
    version: str
    headers: Headers
    raw: bytes
    at_ns: int


class ResponseStart(NamedTuple):
    """A response's head. After a ``status`` below 200 except 101, another one follows in the exchange."""

    exchange: int
    status: int
    reason: str
    version: str
    headers: Headers
    raw: bytes
    at_ns: int
    by: Side


class BodyPart(NamedTuple):
    """Content, never empty, without chunked coding. Content codings are not decoded."""

    exchange: int
    of: Side
    data: bytes
    at_ns: int


class BodyEnd(NamedTuple):
    """The end of a complete message."""

    exchange: int
    of: Side
    at_ns: int
    trailers: Headers


class Cut(NamedTuple):
    """The end of an incomplete message. ``by`` is the side that ended it: if both closed, the first."""

    exchange: int
    of: Side
    by: Side
    at_ns: int
    why: str


class Broken(NamedTuple):
    """From ``data`` on, the bytes of the side ``of`` are not HTTP; later ones follow as `OpaqueBytes`."""

    of: Side
    why: str
    data: bytes
    at_ns: int


class OpaqueBytes(NamedTuple):
    """Bytes of a connection, or of one side of it, that is not HTTP or not HTTP any more."""

    of: Side
    data: bytes
    at_ns: int


Piece = RequestStart | ResponseStart | BodyPart | BodyEnd | Cut | Broken | OpaqueBytes
