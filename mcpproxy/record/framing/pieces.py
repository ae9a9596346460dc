"""The pieces of an HTTP/1.x connection: heads, content, and how each message ended.

An exchange is a request with its response; `exchange` numbers count from 1 on each connection. `at_ns` is the
time when the chunk that completed a piece was read, in nanoseconds. Pieces are named tuples because even a
small exchange has six of them, and a frozen dataclass takes three times as long to make.
"""

from typing import Literal, NamedTuple

from mcpproxy.record.framing.heads import Headers

Side = Literal["client", "server", "proxy"]
"""The sender of bytes. The proxy is the sender when it answers in the server's place."""


class RequestStart(NamedTuple):
    """A request's head. ``raw`` holds its bytes unchanged, blank line included."""

    exchange: int
    method: str
    target: str
    version: str
    headers: Headers
    raw: bytes
    at_ns: int


class ResponseStart(NamedTuple):
    """A response's head. After a ``status`` below 200 other than 101, the exchange has another head."""

    exchange: int
    status: int
    reason: str
    version: str
    headers: Headers
    raw: bytes
    at_ns: int
    by: Side


class BodyPart(NamedTuple):
    """A part of the content, never empty. The chunked coding is removed; content codings are not decoded."""

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
    """The end of an incomplete message of the side ``of``. ``by`` is the side that caused it, usually because
    that side ended the connection first."""

    exchange: int
    of: Side
    by: Side
    at_ns: int
    why: str


class Broken(NamedTuple):
    """From ``data`` on, the bytes of the side ``of`` are not HTTP; the later bytes follow as
    `OpaqueBytes`."""

    of: Side
    why: str
    data: bytes
    at_ns: int


class OpaqueBytes(NamedTuple):
    """Bytes of the side ``of`` that are not HTTP, or come after HTTP has ended on the connection."""

    of: Side
    data: bytes
    at_ns: int


Piece = RequestStart | ResponseStart | BodyPart | BodyEnd | Cut | Broken | OpaqueBytes
