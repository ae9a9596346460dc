"""The client under test as a process: started, watched, and ended with everything that it started."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy.base.telling_line import telling_line
from mcpproxy.base.visible import visible
from mcpproxy.peers.client.child_process import GRACE_S, KILL, ChildProcess
from mcpproxy.peers.client_tests.watch import Watch

_POLL_S: Final = 0.05
_CHUNK_BYTES: Final = 1 << 16
_TAIL_BYTES: Final = 1 << 16
"""How many of the last bytes of stderr are kept."""
_SHOWN: Final = 160
"""How many characters of the last words are shown at most."""
_PATIENCE: Final = 3
"""A client may compute for this many times its time limit."""
_SAMPLES: Final = 10
_SAMPLE_S: Final = 0.1
_BUSY_SAMPLES: Final = 2
"""A client counts as working if it computes, or waits for a processor or a disk, in this many samples.

``_SAMPLES`` samples are taken at most, with ``_SAMPLE_S`` between two of them."""


@dataclass(frozen=True, slots=True)
class Stay:
    """How a client ran: ``code`` is its exit code, negative for a signal, or ``None`` if mcpproxy ended it.

    ``seconds`` is how long it ran. ``last_words`` is the line of its stderr about an error, else the last
    line. With ``is_visit`` it is not our process: a person connected it to a URL. Then ``code`` is ``None``,
    ``last_words`` is empty, and ``seconds`` is how long we waited.
    """

    code: int | None
    seconds: float
    last_words: str
    is_visit: bool = False


async def run_client(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    limit_s: float,
    quiet_s: float,
    after: str,
    watch: Watch,
    token: str,
    settled: Callable[[], Awaitable[None]],
) -> Stay:
    """Run the client until it exits, at most ``limit_s`` seconds, and kill its processes that still run.

    It is ended earlier if it has sent a message of the method ``after`` (any message if ``after`` is empty),
    and nothing was recorded in the last ``quiet_s`` seconds; not if ``quiet_s`` is 0.

    On Linux, a client that computes or waits for a processor or a disk counts as slow, not as hanging: it is
    not ended until it has computed for ``_PATIENCE`` times ``limit_s``, even if it runs longer than
    ``limit_s``.

    ``env`` is added to our environment for ``command``. ``watch`` says what the client has sent and when
    something was last recorded. ``token`` is a text in the environment of the client, by which its processes
    are found even if they have left its group. ``settled`` is called when the client has gone, before its
    group is killed: it gives its server a limited time to end by itself.

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
        while code is None:
            if await process.wait_for_exit(_POLL_S):
                code = process.exit_code
                continue
            is_late = loop.time() - started >= limit_s
            rests = bool(quiet_s and watch.has_sent(after) and watch.rested_s > quiet_s)
            if (is_late or rests) and not await _is_at_work(token, limit_s * _PATIENCE):
                if await process.wait_for_exit(_POLL_S):  # it has ended meanwhile
                    code = process.exit_code
                break
        took_s = loop.time() - started
        if code is None:
            process.signal(signal.SIGTERM)
            if not await process.wait_for_exit(GRACE_S):
                process.signal(KILL)
        await settled()  # other processes of its group, such as its server, may now end by themselves
    finally:
        await process.end(users)
        end_strays(token, spare=token)
    return Stay(code, took_s, _last_words(tail))


async def _is_at_work(token: str, longest_s: float) -> bool:
    """Whether processes with ``token`` in their environment or command are at work (on Linux).

    They compute, or wait for a processor or a disk, and have not computed for more than ``longest_s`` seconds
    in all.
    """
    busy, computed_ns = 0, 0
    for _ in range(_SAMPLES):
        threads = [thread for folder, _ in _marked_processes(token) for thread in folder.glob("task/*")]
        busy += any(map(_is_runnable, threads))
        computed_ns = sum(map(_computed_ns, threads))
        if busy == _BUSY_SAMPLES:
            break
        await asyncio.sleep(_SAMPLE_S)
    return busy == _BUSY_SAMPLES and computed_ns < longest_s * 1e9


def _is_runnable(thread: Path) -> bool:
    with suppress(OSError):
        # The state comes after the name, which may have any characters in it.
        return (thread / "stat").read_bytes().rpartition(b") ")[2][:1] in (b"R", b"D")
    return False


def _computed_ns(thread: Path) -> int:
    with suppress(OSError, ValueError):
        return int((thread / "schedstat").read_bytes().split()[0])
    return 0


def end_strays(token: str, spare: str = "") -> None:
    """Kill the processes of this user that have ``token`` in their environment or command (on Linux).

    Processes with ``spare`` in their command are left alone: our servers, which exit after their client.
    """
    for folder, command in _marked_processes(token):
        with suppress(OSError):
            if not spare or spare.encode() not in command:
                os.kill(int(folder.name), KILL)


def _marked_processes(token: str) -> Iterator[tuple[Path, bytes]]:
    """Yield the ``/proc`` folder and the command of each process that is marked with ``token`` (on Linux).

    The token is in its environment or in its command. Our own process is left out.
    """
    for folder in Path("/proc").glob("[0-9]*") if os.path.isdir("/proc/self") else ():
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            is_marked = token.encode() in command or token.encode() in (folder / "environ").read_bytes()
            if is_marked and int(folder.name) != os.getpid():
                yield folder, command


async def _drain(stream: asyncio.StreamReader, tail: bytearray) -> None:
    """Read ``stream`` to its end; keep its last ``_TAIL_BYTES`` in ``tail``."""
    while chunk := await stream.read(_CHUNK_BYTES):
        tail += chunk
        del tail[:-_TAIL_BYTES]


def _last_words(stderr: bytes | bytearray) -> str:
    """Return the line of the client's stderr about an error, else the last, shortened and printable."""
    return visible(telling_line(stderr.decode(errors="replace").splitlines())[:_SHOWN])
