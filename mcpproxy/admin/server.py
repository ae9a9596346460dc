"""The admin port itself: a thread beside the recorder that it cannot hurt.

The port is bound before anything heavy is imported, so that it is known at once whether it can be had. What
goes wrong later is told once, and the recording goes on without the port.
"""

import socket
import threading
from collections.abc import Callable
from typing import Final

from mcpproxy.admin.metrics import Metrics

_BACKLOG: Final = 64


class AdminPort:
    """Serves ``metrics`` on ``host:port`` until the process ends; port 0 picks one.

    ``tell`` hears of a failure. It is called in the thread.

    Raises:
        OSError: the port cannot be had.
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
        """Where it listens, as ``host:port``."""
        self._metrics = metrics
        self._tell = tell
        threading.Thread(target=self._serve, name="admin", daemon=True).start()

    def _serve(self) -> None:
        try:
            import uvicorn

            from mcpproxy.admin.app import make_app

            config = uvicorn.Config(
                make_app(self._metrics),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_keep_alive=5,
                limit_concurrency=_BACKLOG,
            )
            uvicorn.Server(config).run(sockets=[self._socket])
        except Exception as fault:
            # Nobody is above us in this thread, and the recording must not notice.
            self._tell(f"the admin port is gone: {fault!r}; the recording goes on")
