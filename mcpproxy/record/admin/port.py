"""The admin port: a web server in a thread of the recorder. Its failures do not affect the recording.

The constructor opens the port and raises an exception if that fails. The web server is imported and started
later, in its thread: if that fails, the failure is reported once, and the recording continues without the
port.

On a loopback address the port refuses requests whose Host is not a name of this machine, so a web page whose
name was made to resolve to this machine (DNS rebinding) gets nothing. On another address the names of the
machine are not known, and the port answers every request.
"""

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpproxy.base.authority import is_loopback
from mcpproxy.record.admin.metrics import Metrics

if TYPE_CHECKING:
    import uvicorn

_BACKLOG: Final = 64
"""How many connections may wait to be accepted."""


class AdminPort:
    """Serves ``metrics`` on ``host:port`` until it is closed or the process ends; port 0 picks a free port.

    ``tell`` is called with one line about a later failure, in the thread of the web server.

    Raises:
        OSError: the port cannot be opened.
    """

    def __init__(self, host: str, port: int, metrics: Metrics, tell: Callable[[str], None]) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise
        bound: tuple[str, int] = self._socket.getsockname()[:2]
        self.address = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
        """The address on which the port listens, as ``host:port``."""
        self._metrics = metrics
        self._known_hosts = (host.lower(), bound[0]) if is_loopback(bound[0]) else None
        self._tell = tell
        self._server: uvicorn.Server | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="admin", daemon=True)
        self._thread.start()

    def __enter__(self) -> "AdminPort":
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port, and wait until the answers that have begun are sent."""
        self._is_closed = True
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        """Import and run the web server; called in its thread."""
        try:
            import uvicorn

            from mcpproxy.record.admin.app import guarded, make_app
            from mcpproxy.record.admin.brief_connection import BriefConnection

            app = make_app(self._metrics)
            config = uvicorn.Config(
                app if self._known_hosts is None else guarded(app, self._known_hosts),
                http=BriefConnection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                headers=[("Connection", "close")],
            )
            self._server = uvicorn.Server(config)
            if self._is_closed:
                return
            self._server.run(sockets=[self._socket])
        except Exception as fault:
            # Any exception: nothing above catches it in this thread, and the recording must continue.
            self._tell(f"the admin port is gone: {fault!r}; the recording goes on")
