"""The web server of the page and of ``mcpproxy mcp``."""

import os
import socket
import sys
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from mcpproxy.base.authority import is_loopback
from mcpproxy.record.relay.http.listener import listen
from mcpproxy.show.ui.access import Access

_NICE: Final = 5
"""How much the process lowers its priority, as for ``nice``."""
_KEEP_ALIVE_S: Final = 300
"""How long a connection may be idle before it is closed. A request that is sent just then is lost."""


class PageServer:
    """Listens as soon as it is constructed; ``run`` serves ``app`` until SIGINT, SIGTERM or ``stop``.

    Args:
        host: the name or address to listen on.
        port: the port; 0 picks a free one.

    Raises:
        OSError: the address or the port is not available.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket: Final[socket.socket] = listen(host, port)
        bound: tuple[str, int] = self._socket.getsockname()[:2]
        self._address, self.port = bound
        self._name: Final = host or bound[0]
        self._server: uvicorn.Server | None = None
        self._is_stopped = False

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        return is_loopback(self._address)

    def url_of(self, path: str) -> str:
        """Return the URL of ``path``."""
        name = f"[{self._name}]" if ":" in self._name else self._name
        return f"http://{name}:{self.port}{path}"

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` behind ``Access``, which allows the names by which this server can be reached."""
        names = {self._name.lower(), self._address}
        if self.is_local:
            names |= {"localhost", "127.0.0.1", "::1"}
        elif self._address in ("0.0.0.0", "::"):
            names |= {socket.gethostname().lower(), "localhost", "127.0.0.1", "::1"}
        return Access(app, frozenset(names), self.port)

    def run(self, app: ASGIApp) -> None:
        """Serve ``app`` behind the checks of ``Access``; ``app`` itself has to check the secret."""
        config = uvicorn.Config(
            self._guarded(app),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
        _lower_priority()
        self._server = uvicorn.Server(config)
        self._server.should_exit = self._is_stopped
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make ``run`` return soon. Any thread may call this, also before ``run`` is called."""
        self._is_stopped = True
        if self._server:
            self._server.should_exit = True


def _lower_priority() -> None:
    """Let the recorded sessions have the processor first. This is done on Linux only."""
    if sys.platform == "linux":
        try:
            # A batch process does not preempt the process that wakes it, whatever the nice values are.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            os.nice(_NICE)
        except OSError:
            pass  # some sandboxes do not allow it
