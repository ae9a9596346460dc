"""An HTTP server whose bytes, read and written, are recorded in a leg (one of the two sides of a bridge)."""

import asyncio
import json
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from mcpproxy.peers.bridge.leg import Leg
from mcpproxy.peers.session_server.http_messages import is_own
from mcpproxy.peers.session_server.quiet_server import QuietServer
from mcpproxy.record.relay import journal as journals


class _CopiedTransport:
    """A transport that copies the bytes that are written to it.

    All bytes of one step of the event loop are written together, because uvicorn writes the head and the body
    of a response separately, which would wake the client twice.
    """

    def __init__(self, inner: asyncio.Transport, leg: Leg, number: int) -> None:
        self._inner: Final = inner
        self._leg: Final = leg
        self._number: Final = number
        self._unwritten = b""
        self._kind = journals.SERVER

    def write(self, data: bytes) -> None:
        kind = journals.OWN if is_own.get() else journals.SERVER
        if kind != self._kind:
            self._flush()
            self._kind = kind
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unwritten += data

    def close(self) -> None:
        self._flush()
        self._inner.close()

    def _flush(self) -> None:
        data, self._unwritten = self._unwritten, b""
        if data and not self._inner.is_closing():
            self._leg.record_bytes(self._kind, data, self._number)
            self._inner.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class CopiedProtocol(H11Protocol):
    """A connection of a client. Each server has a subclass of its own, which sets the class variables."""

    leg: ClassVar[Leg]
    last_number: ClassVar[list[int]]
    """A list with one item, the number of the last connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] # as in the base class
        self.last_number[0] += 1
        self.number = self.last_number[0]
        peer = transport.get_extra_info("peername") or ("", 0)
        host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
        peers = {"client": f"{host}:{peer[1]}", "upstream": "bridge"}
        self.leg.record_bytes(journals.CONNECT, json.dumps(peers).encode(), self.number)
        super().connection_made(_CopiedTransport(transport, self.leg, self.number))  # pyright: ignore[reportArgumentType] # it has all that is used of a transport

    def data_received(self, data: bytes) -> None:
        self.leg.record_bytes(journals.CLIENT, data, self.number)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        how = b"" if exc is None else journals.RESET
        self.leg.record_bytes(journals.CLIENT_EOF, how, self.number)
        self.leg.record_bytes(journals.SERVER_EOF, b"", self.number)
        super().connection_lost(exc)


def copied_server(app: Any, leg: Leg) -> QuietServer:
    """Return a server of the ASGI application ``app`` whose bytes are copied to ``leg``."""
    return QuietServer(app, type("LegProtocol", (CopiedProtocol,), {"leg": leg, "last_number": [0]}))
