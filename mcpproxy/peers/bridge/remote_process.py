"""The inner process of ``bridge URL``: its start, its signals and its end.

It carries the messages; the outer process relays and records what it and the client write on stdio.
"""

import asyncio
import os
from collections.abc import Sequence

from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.peers.bridge.leg import ENDING, Leg, StderrLines
from mcpproxy.peers.bridge.pipes import LineWriter, lines_from
from mcpproxy.peers.bridge.remote_session import RemoteBridge
from mcpproxy.peers.client.remote_server import RemoteServer
from mcpproxy.record.relay.stdio.inheritance import release


def run(
    url: str,
    headers: Sequence[tuple[str, str]],
    leg: Leg,
    stderr: StderrLines,
    upstream: UpstreamSettings,
) -> int:
    """Carry messages between the server at ``url`` and our stdin and stdout.

    These have to be pipes that no other process uses. ``headers`` are added to each request, and ``upstream``
    says how to reach the server. ``leg`` records the connection to the server, and the user is told of
    problems on ``stderr``. Return the exit code: 0, 1 if the session was lost, or 128 + N after signal N.
    """
    return asyncio.run(_run(url, headers, leg, stderr, upstream))


async def _run(
    url: str,
    headers: Sequence[tuple[str, str]],
    leg: Leg,
    stderr: StderrLines,
    upstream: UpstreamSettings,
) -> int:
    leg.open()
    signals: list[int] = []
    pipes = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    for number in (0, 1):
        release(number)
    out = await LineWriter.open(pipes[1])
    server = RemoteServer(url, headers, leg, "bridge", upstream=upstream, follows_redirects=True)
    bridge = RemoteBridge(server, out, stderr.say)
    bridge_task = asyncio.create_task(bridge.run(lines_from(pipes[0])))
    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, _stop, number, signals, bridge_task)
    try:
        code = await bridge_task
    except asyncio.CancelledError:
        code = 128 + signals[0] if signals else 1
    finally:
        await leg.close()
    return code


def _stop(number: int, signals: list[int], bridge_task: "asyncio.Task[int]") -> None:
    signals.append(number)
    bridge_task.cancel()
