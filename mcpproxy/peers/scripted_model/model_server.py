"""The server of a scripted model: in the foreground of a command, or in a thread beside a test."""

import asyncio
import socket
import threading
from typing import Final

from mcpproxy.base.authority import is_loopback
from mcpproxy.peers.scripted_model.model_app import ModelApp
from mcpproxy.peers.scripted_model.model_script import ModelScript
from mcpproxy.peers.scripted_model.script_player import ScriptPlayer
from mcpproxy.peers.session_server.quiet_server import QuietServer
from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.listener import listen

_END_S: Final = 10.0


class ModelServer:
    """Listens as soon as it is constructed; ``serve`` or ``start`` answers requests by ``script``.

    Port 0 picks a free one. ``player`` says what became of the turns of the script.

    Raises:
        OSError: the port is not available.
    """

    def __init__(self, script: ModelScript, host: str = "127.0.0.1", port: int = 0) -> None:
        self._socket: Final[socket.socket] = listen(host, port)
        bound: tuple[str, int] = self._socket.getsockname()[:2]
        self.is_local: Final = is_loopback(bound[0])
        """Whether only programs of this machine can reach it."""
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url: Final = f"http://{name}:{bound[1]}"
        """The base URL. The interfaces of OpenAI are below its ``/v1``."""
        self.player: Final = ScriptPlayer(script)
        guard = Guard(self.is_local, [host], (), has_option=False)
        self._server: Final = QuietServer(ModelApp(self.player, guard))
        self._thread: threading.Thread | None = None

    async def serve(self) -> None:
        """Answer until ``stop``."""
        await self._server.serve([self._socket])

    def stop(self) -> None:
        """Make ``serve`` return soon. Any thread may call this."""
        self._server.should_exit = True

    def start(self) -> None:
        """Answer in a thread until ``end``."""
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self.serve()), name="scripted model", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Stop the thread, and wait until it has ended, at most 10 s."""
        self.stop()
        if self._thread is not None:
            self._thread.join(_END_S)
        self._socket.close()
