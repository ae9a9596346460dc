"""Runs the server of a scenario, which a client finds by a command or a URL, and finds its recordings."""

import asyncio
import os
import re
import shlex
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.base.telling_line import LastLines
from mcpproxy.errors import TraceError, UsageError, nearest
from mcpproxy.peers.client.child_process import ChildProcess
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.read.opening import open_trace, read_untouched
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import Trace

VARIABLE: Final = "MCPPROXY_SERVER"
"""The environment variable in which a client finds its server: a command line, or a URL."""

PLACEHOLDER: Final = "{server}"
"""The placeholder for the server in the command of a client."""

CONFIG_VARIABLE: Final = "MCPPROXY_CONFIG"
"""The environment variable with the path of the client's configuration, if a template of it was given."""

CONFIG_PLACEHOLDER: Final = "{config}"
"""The placeholder for that path in the command of a client."""

MODEL_PLACEHOLDER: Final = "{model}"
"""The placeholder for the URL of the model, in the command of a client and in its configuration."""

_COMPLETE_S: Final = 10.0
"""How long to wait for the end of the recordings after the client has gone."""
_POLL_S: Final = 0.02
_SEED: Final = "1"
"""The seed of random faults: a client meets the same ones in each run."""
_BEHIND: Final = "-behind.jsonl"
"""The end of the name of the recording between a server and the proxy that applies a fault.

That recording is not judged.
"""
_START_S: Final = 60.0
"""How long a server of ours may take to listen, and to exit, on a machine that is very busy."""
_SHOWN: Final = 200
"""How many characters of the reason are shown if a server of ours does not start."""
_ANY_PORT: Final = "127.0.0.1:0"


def misspelt(word: str, known: Sequence[str]) -> str | None:
    """Return which ``known`` placeholder a word such as ``{sever}`` means; ``None`` for other words."""
    is_place = word[:1] == "{" and word[-1:] == "}" and word not in known
    return nearest(word, known) if is_place else None


@dataclass(frozen=True, slots=True)
class Served:
    """A server that waits for the client: its ``command``, or its ``url``.

    ``model`` is the URL of the model beside it, empty if there is none.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    model: str = ""

    @property
    def text(self) -> str:
        """The value of ``MCPPROXY_SERVER``: the URL, or the command line."""
        return self.url or shlex.join(self.command)

    def placed_in(self, command: Sequence[str], config: str = "") -> list[str]:
        """Return the command of the client with its server, its model and the path ``config`` in it.

        On stdio, an argument that is ``{server}`` alone becomes the words of the server's command; within an
        argument it becomes one text, quoted for a shell. Over HTTP it becomes the URL.
        """
        placed: list[str] = []
        for argument in command:
            if argument == PLACEHOLDER and self.command:
                placed += self.command
            else:
                argument = argument.replace(PLACEHOLDER, self.text).replace(CONFIG_PLACEHOLDER, config)
                placed.append(argument.replace(MODEL_PLACEHOLDER, self.model) if self.model else argument)
        return placed


@asynccontextmanager
async def served(scenario: Scenario, trace: str, mark: str, listen: str) -> AsyncGenerator[Served]:
    """Yield the server of a scenario, recorded in ``trace``; over HTTP if ``listen`` is an address.

    ``mark`` is a text in the command of the server, by which its processes are found.

    Raises:
        McpProxyError: the server cannot listen there.
    """
    server = own_command("mcpproxy.peers.client_tests.server", scenario.name, mark)
    fault = ("--fault", scenario.fault, "--fault-seed", _SEED) if scenario.fault else ()
    options = ("--live", "off", "--reserve", "0", "--trace")
    if not listen:
        run = ("run", "--quiet", "--grace", "1s", *options, trace, *fault)
        yield Served(tuple(own_command("mcpproxy", *run, "--", *server)))
        return
    if scenario.http:
        server = own_command("mcpproxy.peers.client_tests.http_server", scenario.name, mark)
        async with _proxied(server, ("--rewrite-origin", *options, trace, *fault), listen) as url:
            yield Served(url=url)
        return
    behind = trace.removesuffix(".jsonl") + _BEHIND if fault else trace
    bridge = ("bridge", "--stdio", "--grace", "1s", *options, behind, "--listen")
    if not fault:
        async with _listening(own_command("mcpproxy", *bridge, listen, "--", *server), listen) as url:
            yield Served(url=url)
        return
    command = own_command("mcpproxy", *bridge, _ANY_PORT, "--", *server)
    async with _proxied(command, (*options, trace, *fault), listen) as url:
        yield Served(url=url)


@asynccontextmanager
async def _proxied(server: Sequence[str], options: Sequence[str], listen: str) -> AsyncGenerator[str]:
    """Run a server that listens on any port, and mcpproxy before it; yield the URL for the client."""
    async with _listening(server, _ANY_PORT) as url:
        proxy = own_command("mcpproxy", "http", url, *options, "--listen", listen)
        async with _listening(proxy, listen) as client_url:
            yield client_url


@asynccontextmanager
async def _listening(command: Sequence[str], listen: str) -> AsyncGenerator[str]:
    """Run a command of ours that listens at ``listen``, and yield its URL."""
    process = await ChildProcess.start(command, has_stderr=True)
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        yield await _listening_url(process.stderr, listen)
        drain = asyncio.create_task(process.stderr.read())
        process.signal(15)
        await process.wait_for_exit(_START_S)
    finally:
        if drain is not None:
            drain.cancel()
        await process.end(())


async def _listening_url(stderr: asyncio.StreamReader, listen: str) -> str:
    """Return the URL that a server of ours says it listens on.

    Raises:
        UsageError: it does not listen; the text says why.
    """
    last_lines = LastLines()
    try:
        async with asyncio.timeout(_START_S):
            while line := await stderr.readline():
                for word in line.decode(errors="replace").split():
                    if word.startswith("http://"):
                        return word
                last_lines.add(line)
    except TimeoutError:
        fact = f"our server did not listen on {listen} within {_START_S:.0f} s"
        raise UsageError("--listen", fact, "try again when this machine is less busy") from None
    reason = last_lines.telling(_SHOWN).removeprefix("mcpproxy: ")
    raise UsageError("--listen", f"cannot listen on {listen}", reason or "name another port")


async def wait_until_complete(trace: str) -> None:
    """Wait, for a limited time, until the recordings of a scenario are complete.

    A recording is complete when its journal, the raw bytes that are not in it yet, is gone.
    """
    deadline = time.monotonic() + _COMPLETE_S
    while any(os.path.isdir(journal.folder(path)) for path in _recording_paths(trace)):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(_POLL_S)


def complete_recordings(trace: str) -> list[Trace]:
    """Return the recordings of a scenario, as far as they are complete; none if there was no session."""
    traces: list[Trace] = []
    for path in _recording_paths(trace):
        with suppress(TraceError):  # it was killed before its first line
            traces.append(open_trace(path))
    return traces


def growing_recordings(trace: str) -> list[Trace]:
    """Return the recordings of a scenario as they are on disk while it is played."""
    traces: list[Trace] = []
    for path in _recording_paths(trace):
        with suppress(TraceError):  # there is only its journal yet
            traces.append(read_untouched(path))
    return traces


def recorded_bytes(trace: str) -> int:
    """Return how many bytes are in the recordings of a scenario and their journals."""
    total = 0
    for path in _recording_paths(trace):
        for folder, _, names in os.walk(journal.folder(path)):
            total += sum(_size(os.path.join(folder, name)) for name in names)
        total += _size(path)
    return total


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0


def _recording_paths(trace: str) -> list[str]:
    """Return the paths of the recordings with the name ``trace``, in the order of their sessions."""
    stem, suffix = os.path.splitext(trace)
    pattern = re.compile(
        rf"{re.escape(os.path.basename(stem))}(-http)?(-\d+)?{re.escape(suffix)}(\.journal)?"
    )
    folder = os.path.dirname(trace)
    names = {entry.removesuffix(".journal") for entry in os.listdir(folder) if pattern.fullmatch(entry)}
    return [os.path.join(folder, file) for file in sorted(names, key=lambda file: (len(file), file))]
