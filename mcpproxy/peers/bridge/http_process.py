"""The process of ``bridge --stdio``: its start, its signals and its end.

It has two legs: HTTP, towards the clients, and stdio, towards the servers. Each leg is recorded by itself.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcpproxy.base.authority import is_loopback
from mcpproxy.peers.bridge.copied_server import copied_server
from mcpproxy.peers.bridge.http_app import HttpApp
from mcpproxy.peers.bridge.leg import ENDING, Leg, StderrLines
from mcpproxy.peers.bridge.server_process import ServerProcess
from mcpproxy.peers.bridge.session_recordings import Begin, SessionRecordings
from mcpproxy.peers.bridge.session_table import HttpSessions
from mcpproxy.peers.session_server.resumable_streams import Polling
from mcpproxy.record.relay import journal as journals
from mcpproxy.record.relay.http.guard import Guard


@dataclass(frozen=True)
class BridgeSettings:
    """The options of ``bridge --stdio``.

    ``host`` is the name or address to listen on. At most ``limit`` servers run at once, and a session with an
    id may be unused for ``idle_s`` seconds before it is ended. The other members are parameters of
    ``HttpApp`` and ``ServerProcess``.
    """

    command: Sequence[str]
    host: str
    endpoint: str
    origins: Sequence[str]
    token: str
    streams: bool
    polling: Polling | None
    limit: int
    idle_s: float
    grace_s: float


async def serve(
    settings: BridgeSettings,
    listener: socket.socket,
    leg: Leg,
    begin: Begin,
    recorder_options: list[str],
    stderr: StderrLines,
    listening: str,
) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP; return the exit code, which is 0.

    ``leg`` records the HTTP leg. ``begin`` begins the recording of a session with a server, and
    ``recorder_options`` are the arguments of its recorder. The line ``listening`` is written to stderr after
    these signals have handlers, so that a program that reads the line can end the bridge in order.
    """
    leg.open()
    recordings = SessionRecordings(begin, recorder_options, stderr)

    def make_process(on_line: Callable[[bytes], None], on_exit: Callable[[int], None]) -> ServerProcess:
        return ServerProcess(
            settings.command, recordings.begin, on_line, stderr.write, on_exit, settings.grace_s
        )

    sessions = HttpSessions(make_process, stderr.say, settings.limit, settings.idle_s)
    guard = Guard(is_loopback(settings.host), [settings.host], settings.origins)
    origins = {origin.lower().rstrip("/") for origin in settings.origins}
    app = HttpApp(
        sessions,
        settings.endpoint,
        guard,
        origins=origins,
        token=settings.token,
        streams=settings.streams,
        polling=settings.polling,
    )
    server = copied_server(app, leg)

    def stop(number: int) -> None:
        leg.record_bytes(journals.SIGNAL, signal.Signals(number).name.encode(), 0)
        server.should_exit = True
        sessions.stop_streams()

    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    stderr.say(listening)
    sweep_task = asyncio.create_task(sessions.sweep())
    try:
        await server.serve([listener])
    finally:
        sweep_task.cancel()
        await sessions.close()
        await recordings.close()
        await leg.close()
    return 0
