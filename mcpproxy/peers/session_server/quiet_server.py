"""An HTTP server that leaves signals and logs to its caller."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Literal

import uvicorn

_IDLE_S: Final = 75
"""How long an idle connection is kept. Clients send their requests at human pace."""


class QuietServer(uvicorn.Server):
    """A server of the ASGI application ``app``.

    ``http`` is the class of its connections; ``h11`` stands for uvicorn's own.

    The caller handles signals, because uvicorn would end the process by the signal, without our exit code.
    """

    def __init__(self, app: Any, http: type[Any] | Literal["h11"] = "h11") -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=http,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_IDLE_S,
                timeout_graceful_shutdown=1,
                backlog=4096,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the caller."""
        yield
