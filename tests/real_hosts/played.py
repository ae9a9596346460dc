"""A host that runs the awkward server through mcpproxy, before a model that follows a script."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import mcpproxy
from mcpproxy.peers.scripted_model.model_script import script_of
from mcpproxy.peers.scripted_model.model_server import ModelServer
from mcpproxy.read.opening import open_trace
from mcpproxy.read.prompt.report import PromptReport
from mcpproxy.read.prompt.run import read_run
from tests.peers.processes import GREETING, Process
from tests.real_hosts.hosts import RealHost, Stage
from tests.relay.hosts import until_recorded

TIMEOUT_S: Final = 180
SERVER: Final = str(Path(__file__).with_name("awkward_server.py"))
MCPPROXY: Final = (sys.executable, "-m", "mcpproxy")


@dataclass(frozen=True)
class Played:
    """What came of a run. ``clients`` are the names and versions of ``clientInfo``.

    ``troubles`` is all that should not be: turns that failed, and another version than the pinned one.
    ``errors`` are the findings of the server that are errors, each once.
    """

    seconds: float
    clients: tuple[tuple[str, str], ...]
    report: PromptReport
    troubles: tuple[str, ...]
    errors: tuple[str, ...]


def started(host: RealHost, stage: Stage, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run a host until it has ended; what it leaves running is ended, too.

    Raises:
        PeerUnavailableError: it cannot be installed.
        TimeoutExpired: it did not end.
    """
    try:
        if first := host.first_command(stage):
            _run(first, host, stage, timeout_s)
        return _run(host.command(stage), host, stage, timeout_s)
    finally:
        _end_daemons(stage.home)


def _run(
    command: list[str], host: RealHost, stage: Stage, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(
        command,
        cwd=stage.home,
        env=host.environment(stage),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, _ = process.communicate(timeout=timeout_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out)


def _end_daemons(home: Path) -> None:
    """End what a host has left running in a session of its own: processes with its home folder (Linux).

    What still runs for mcpproxy completes a recording, and ends by itself.
    """
    mark = f"HOME={home}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if mark in environment and b"\0mcpproxy\0" not in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)


def played(
    host: RealHost,
    folder: Path,
    script: Sequence[Any],
    server: Sequence[str] = (sys.executable, SERVER),
    *,
    name: str = "awkward",
    timeout_s: float = TIMEOUT_S,
) -> Played:
    """Play a script inside a host; ``model.jsonl`` and ``servers`` below ``folder`` are its recordings.

    ``server`` is the command of the server, and ``name`` what it is called in the host's settings.

    Raises:
        PeerUnavailableError: the host cannot be installed.
        TimeoutExpired: it did not end.
    """
    model = ModelServer(script_of(script))
    model.start()
    home, servers, trace = folder / "home", folder / "servers", folder / "model.jsonl"
    home.mkdir()
    proxy = Process(
        [*MCPPROXY, "model", "--prompts", "--listen", "127.0.0.1:0", "--trace", str(trace), model.url]
    )
    try:
        url = proxy.expect(GREETING).rstrip("/")
        recorded = ("run", "--quiet", "--label", name, "--trace-dir", str(servers))
        stage = Stage(home, name, [*MCPPROXY, *recorded, "--", *server], url)
        began = time.monotonic()
        ran = started(host, stage, timeout_s)
        seconds = time.monotonic() - began
    finally:
        proxy.stop()
        model.end()
    until_recorded(trace)
    until_recorded(servers)
    recordings = [str(path) for path in sorted(servers.glob("*.jsonl"))]
    report = read_run(open_trace(str(trace)), recordings)
    clients = tuple(dict.fromkeys(client for path in recordings for client in _clients(path)))
    troubles = [problem for state in model.player.turns for problem in state.problems()]
    if clients != (host.client,):
        troubles.append(f"{host.client} was to play, and it was {clients}")
    if troubles or ran.returncode:
        troubles.append(f"exit code {ran.returncode}; it said: {ran.stdout[-2000:]}")
    errors = tuple(dict.fromkeys(_errors(recordings)))
    return Played(seconds, clients, report, tuple(troubles), errors)


def _clients(recording: str) -> Iterator[tuple[str, str]]:
    for call in mcpproxy.open_trace(recording).calls("initialize"):
        info = call.params["clientInfo"]
        yield info["name"], info["version"]


def _errors(recordings: Sequence[str]) -> Iterator[str]:
    """Yield what the server is found to do wrong."""
    for recording in recordings:
        for finding in mcpproxy.check(recording).findings:
            if finding.blame == "server" and finding.severity == "error":
                yield f"{finding.rule}: {finding.message}"
