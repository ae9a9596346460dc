"""What a server names: no request, and no credential of the user, goes to another origin."""

import socket
from pathlib import Path
from typing import Final

from tests.attacks.proxied import Origin, message
from tests.attacks.stage import DEADLINE_S, Stage, Table, hold, side_by_side

TABLE: Final = Table()

SECRET: Final = "hush.0123456789"
HEADER: Final = ("--header", f"Authorization: Bearer {SECRET}")
RECORDING: Final = str(Path(__file__).parents[2] / "recordings" / "everything-2025-11-25.jsonl")
INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"attack","version":"1"}}}\n'
)


class Naming(Origin):
    """Redirects POSTs to ``named`` with ``status``; without one it has only HTTP+SSE, with that endpoint."""

    def __init__(self, named: str, status: int = 0) -> None:
        self.named, self.status = named.encode(), status
        super().__init__()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE_S)
        with connection:
            try:
                while asked := message(connection):
                    self.heard.append(asked)
                    connection.sendall(self._answer(asked))
            except OSError:  # the client has gone
                return

    def _answer(self, asked: bytes) -> bytes:
        if self.status:
            return b"HTTP/1.1 %d X\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (self.status, self.named)
        if asked.startswith(b"GET "):
            stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
            return stream + b"event: endpoint\ndata: %b\n\n" % self.named
        return b"HTTP/1.1 405 X\r\nContent-Length: 0\r\n\r\n"


def _spellings(port: int, other: int) -> tuple[str, ...]:
    """URLs of another origin; some look like the server's own to a careless reader."""
    return (
        f"http://127.0.0.1:{other}/latest/meta-data",
        f"//127.0.0.1:{other}/",
        f"http://127.0.0.1:{port}@127.0.0.1:{other}/",
        f"http://127.0.0.1:{port}\\@127.0.0.1:{other}/",
        f"HTTP://[::ffff:127.0.0.1]:{other}/",
    )


def _tried(stage: Stage, *command: str, stdin: bytes = b"", status: int = 0) -> str:
    """Run a command on a server that names another one."""
    count = len(_spellings(0, 0))

    def asked_with(index: int) -> int:
        with Origin() as other, Naming("", status) as server:
            server.named = _spellings(server.port, other.port)[index].encode()
            url = f"http://127.0.0.1:{server.port}/mcp"
            done = stage.run(*(url if word == "URL" else word for word in command), stdin=stdin)
            named = server.named.decode()
            hold(not other.heard, f"{len(other.heard)} requests to {named}")
            hold(server.heard, f"nothing was asked: {done.err[-80:]}")
            hold("in mcpproxy itself" not in done.err, done.err[-120:])
            return len(server.heard)

    return f"{count} spellings, 0 of {sum(side_by_side(asked_with, range(count)))} requests elsewhere"


@TABLE
def endpoints_named_to_validate(stage: Stage) -> str:
    """validate sends nothing to another origin that an endpoint event names."""
    return _tried(stage, "validate", "--timeout", "2", *HEADER, "URL")


@TABLE
def endpoints_named_to_pin(stage: Stage) -> str:
    """pin sends nothing to another origin that an endpoint event names."""
    return _tried(stage, "pin", "--timeout", "2", "--output", str(stage.folder / "pins.json"), *HEADER, "URL")


@TABLE
def endpoints_named_to_the_bridge(stage: Stage) -> str:
    """bridge sends nothing to another origin that an endpoint event names."""
    return _tried(stage, "bridge", *HEADER, "URL", stdin=INITIALIZE)


@TABLE
def redirects_of_validate(stage: Stage) -> str:
    """validate follows no redirect to another origin."""
    return _tried(stage, "validate", "--timeout", "2", *HEADER, "URL", status=307)


@TABLE
def redirects_of_the_bridge(stage: Stage) -> str:
    """bridge follows no redirect to another origin."""
    return _tried(stage, "bridge", *HEADER, "URL", stdin=INITIALIZE, status=308)


@TABLE
def redirects_of_replay(stage: Stage) -> str:
    """replay client follows no redirect to another origin."""
    return _tried(stage, "replay", "client", RECORDING, "--timeout", "2", *HEADER, "URL", status=307)
