"""The client under test as a process: started, watched, and ended with everything that it started."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy.base.telling_line import telling_line
from mcpproxy.base.visible import visible
from mcpproxy.client.child_process import GRACE_S, KILL, ChildProcess
from mcpproxy.client_tests.watch import Watch

_POLL_S: Final = 0.05
_CHUNK_BYTES: Final = 1 << 16
_TAIL_BYTES: Final = 1 << 16
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class Stay:
    """How long a client stayed: its ``code`` if it exited by itself, ``None`` if mcpproxy ended it.

    ``seconds`` is the time until then, and ``last_words`` what its stderr says of an error, or its last line.
    With ``is_visit`` it is no process of ours: somebody led it to a URL.
    """

    code: int | None
    seconds: float
    last_words: str
    is_visit: bool = False


async def stay(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    limit_s: float,
    quiet_s: float,
    watch: Watch,
    token: str,
    settled: Callable[[], Awaitable[None]],
) -> Stay:
    """Run the client until it exits, at most ``limit_s`` seconds, and end what still runs.

    It is ended earlier if nothing was recorded for ``quiet_s`` seconds after a message of it; 0 switches that
    off. ``token`` is a text that is in the environment of the client, by which processes
    are found that have left its group. ``settled`` waits, for a limited time, for the end of the server.

    Raises:
        McpProxyError: the command cannot be started.
    """
    loop = asyncio.get_running_loop()
    process = await ChildProcess.start(command, env=env, has_stderr=True)
    process.stdin.close()
    assert process.stderr is not None
    tail = bytearray()
    users = [
        asyncio.create_task(_drain(process.stdout, bytearray())),
        asyncio.create_task(_drain(process.stderr, tail)),
    ]
    started = loop.time()
    code: int | None = None
    try:
        while code is None and loop.time() - started < limit_s:
            if await process.wait_for_exit(_POLL_S):
                code = process.exit_code
            elif quiet_s and watch.look() and watch.rested_s > quiet_s:
                break
        took_s = loop.time() - started
        if code is None:
            process.signal(signal.SIGTERM)
            if not await process.wait_for_exit(GRACE_S):
                process.signal(KILL)
        await settled()  # what is in the group of the client, such as its server, ends by itself now
    finally:
        await process.end(users)
        end_strays(token, spare=token)
    return Stay(code, took_s, _told(tail))


def end_strays(token: str, spare: str = "") -> None:
    """Kill the processes of this user that have ``token`` in their environment or command (on Linux).

    Those with ``spare`` in their command are left: servers of ours, which end when their client has gone.
    """
    for folder in Path("/proc").glob("[0-9]*") if os.path.isdir("/proc/self") else ():
        with suppress(OSError):
            if int(folder.name) == os.getpid():
                continue
            command = (folder / "cmdline").read_bytes()
            if spare and spare.encode() in command:
                continue
            if token.encode() in command or token.encode() in (folder / "environ").read_bytes():
                os.kill(int(folder.name), KILL)


async def _drain(stream: asyncio.StreamReader, tail: bytearray) -> None:
    while chunk := await stream.read(_CHUNK_BYTES):
        tail += chunk
        del tail[:-_TAIL_BYTES]


def _told(stderr: bytes | bytearray) -> str:
    """Return the line of the client's stderr that says most, in a form that can be printed."""
    return visible(telling_line(stderr.decode(errors="replace").splitlines())[:_SHOWN])
