"""The web server of the page and of ``mcpproxy mcp``, and the address that the command prints."""

import os
import secrets
import socket
import sys
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from mcpproxy.relay.http.guard import is_loopback
from mcpproxy.relay.http.listener import listen
from mcpproxy.ui.access import Access

_NICE: Final = 5

_KEEP_ALIVE_S: Final = 300
"""How long a connection may be idle. A client that sends a request just then loses it."""


class PageServer:
    """Listens as soon as it is constructed; ``run`` serves ``app`` until SIGINT or SIGTERM.

    Args:
        host: the name or address to listen on.
        port: the port; 0 picks a free one.
        token: the secret of the address; a new one if it is not given.

    Raises:
        OSError: the port is not available.
    """

    def __init__(self, host: str, port: int, token: str = "") -> None:
        self._socket: Final[socket.socket] = listen(host, port)
        bound: tuple[str, int] = self._socket.getsockname()[:2]
        self._address, self.port = bound
        self._name: Final = host or bound[0]
        self.token: Final = token or secrets.token_urlsafe(24)
        self._server: uvicorn.Server | None = None
        self._is_stopped = False

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        return is_loopback(self._address)

    @property
    def url(self) -> str:
        """The address to open, with its token."""
        return f"{self.address_of('/')}?token={self.token}"

    def address_of(self, path: str) -> str:
        """Return the address of ``path``, without the token."""
        name = f"[{self._name}]" if ":" in self._name else self._name
        return f"http://{name}:{self.port}{path}"

    def guarded(self, app: ASGIApp, refusal: int) -> ASGIApp:
        """Return ``app`` behind its guards; a request without the token gets the status ``refusal``."""
        names = {self._name.lower(), self._address}
        if self.is_local:
            names |= {"localhost", "127.0.0.1", "::1"}
        elif self._address in ("0.0.0.0", "::"):
            names |= {socket.gethostname().lower(), "localhost", "127.0.0.1", "::1"}
        return Access(app, frozenset(names), self.port, self.token, refusal)

    def run(self, app: ASGIApp, refusal: int = 401) -> None:
        """Serve ``app`` to requests that have the token; others get the status ``refusal``."""
        config = uvicorn.Config(
            self.guarded(app, refusal),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
        _give_way()
        self._server = uvicorn.Server(config)
        self._server.should_exit = self._is_stopped
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make ``run`` return soon. Any thread may call this, also before ``run`` is called."""
        self._is_stopped = True
        if self._server:
            self._server.should_exit = True


def _give_way() -> None:
    """Let the sessions that the page shows have the processor first."""
    if sys.platform == "linux":
        try:
            # A batch process does not preempt the process that wakes it, whatever the nice values are.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            os.nice(_NICE)
        except OSError:
            pass  # some sandboxes do not allow it
