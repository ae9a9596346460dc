"""One session, the kill that ends it, and whether everything is as it should be afterwards."""

import contextlib
import mmap
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy.base.ready import is_readable
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Gap, Sender
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import frame_bytes

ROOT: Final = Path(__file__).parent.parent.parent
PEERS: Final = str(Path(__file__).parent / "peers.py")
PYTHON: Final = [sys.executable, "-S"]

DEADLINE_S: Final = 60
LISTENING: Final = re.compile(r"http://127\.0\.0\.1:(\d+)\b.* -> ")

TARGETS: Final = ("relay", "recorder", "both", "server", "client", "all")
PATHS: Final = {"http": "/mcp", "model": "/v1/chat/completions"}
"""The commands that stand between a client and a server of HTTP: the path of the requests before each."""
OPTIONS: Final = {"model": ("--prompts",)}
PACES: Final = ("plain", "slow")
LONGEST_STEPS: Final = 40
"""A round of the relay's loop has fewer system calls than this, counted before and after."""


@dataclass(frozen=True)
class Case:
    """What is killed, and when. ``steps`` is the system call at which the relay is; 0 for a random moment."""

    target: str
    pace: str = "plain"
    is_enforced: bool = False
    transport: str = "stdio"
    steps: int = 0
    seed: int = 0


@dataclass
class Outcome:
    """``missing`` are the bytes that a peer received and neither a frame nor a gap accounts for."""

    received: int = 0
    missing: int = 0
    gaps: int = 0
    unclean: str = ""
    left: str = ""

    @property
    def is_good(self) -> bool:
        return self.received > 0 and not (self.missing or self.unclean or self.left)


class Session:
    """Client, proxy and server. What of them is left is killed at the end."""

    def __init__(self, case: Case, folder: Path, preload: Path | None) -> None:
        self.trace = str(folder / "t.jsonl")
        self.case = case
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.handles: dict[str, int] = {}
        self.pids: dict[str, int] = {}
        self.count: mmap.mmap | None = None
        self.env = {**os.environ, "PYTHONPATH": str(ROOT)}
        if preload is not None:
            (folder / "count").write_bytes(bytes(4))
            with (folder / "count").open("r+b") as file:
                self.count = mmap.mmap(file.fileno(), 4)
            self.env |= {"LD_PRELOAD": str(preload), "KILLS_COUNT": str(folder / "count")}
        (self._start_stdio if case.transport == "stdio" else self._start_http)()
        for name, process in self.processes.items():
            self._know(name, process.pid)
        relay = self.pids["relay"]
        for child in self._children_of(relay, 1 if case.transport in PATHS else 3):
            line = _command_line(child)
            is_witness = line.startswith(b"signal-witness ")
            is_recorder = line == _command_line(relay)
            self._know("witness" if is_witness else "recorder" if is_recorder else "server", child)

    def _know(self, name: str, pid: int) -> None:
        self.pids[name] = pid
        self.handles[name] = os.pidfd_open(pid)

    def _children_of(self, relay: int, number: int) -> list[int]:
        for _ in until("the children of the relay"):
            assert self.processes["relay"].poll() is None, (self.folder / "stderr").read_text()
            found = Path(f"/proc/{relay}/task/{relay}/children").read_text().split()
            lines = [_command_line(int(child)) for child in found]
            # Forked, a server and a witness still have the command line of the relay.
            if len(found) == number and lines.count(_command_line(relay)) == 1:
                return [int(child) for child in found]
        raise AssertionError

    def _proxy(self, *arguments: str, stdin: int | None = None, stdout: int | None = None) -> None:
        enforced = ["--enforce", "PROTO-009"] if self.case.is_enforced else []
        command = [sys.executable, "-m", "mcpproxy", *arguments[:1], "--trace", self.trace, "--live", "off"]
        with (self.folder / "stderr").open("wb") as errors:
            self.processes["relay"] = subprocess.Popen(
                [*command, *enforced, *arguments[1:]],
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                env=self.env,
                cwd=ROOT,
            )

    def _peer(
        self, name: str, *arguments: str, stdin: int | None = None, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*PYTHON, PEERS, *arguments], cwd=ROOT, stdin=stdin, stdout=stdout)
        self.processes[name] = process
        return process

    def _start_stdio(self) -> None:
        case = self.case
        to_proxy, to_client = os.pipe(), os.pipe()
        log = str(self.folder / "server")
        server = [*PYTHON, PEERS, "duplex", str(case.seed + 1), log, case.pace]
        self._proxy("run", "--grace", "2", "--", *server, stdin=to_proxy[0], stdout=to_client[1])
        arguments = ("duplex", str(case.seed), str(self.folder / "client"), case.pace)
        self._peer("client", *arguments, stdin=to_client[0], stdout=to_proxy[1])
        for fd in (*to_proxy, *to_client):
            os.close(fd)

    def _start_http(self) -> None:
        case = self.case
        server = self._peer("server", "serve", str(self.folder / "server"), case.pace, stdout=subprocess.PIPE)
        assert server.stdout is not None
        with server.stdout as said:
            upstream = f"http://127.0.0.1:{int(said.readline())}"
        target = PATHS[case.transport]
        url = f"{upstream}{target}" if case.transport == "http" else upstream
        self._proxy(case.transport, url, "--listen", "127.0.0.1:0", *OPTIONS.get(case.transport, ()))
        port = ""
        for _ in until("the proxy"):
            if found := LISTENING.search((self.folder / "stderr").read_text()):
                port = found[1]
                break
        self._peer("client", "post", str(case.seed), str(self.folder / "client"), case.pace, port, target)

    def until_it_flows(self) -> None:
        for _ in until("traffic both ways"):
            if all(len(self.log(name)) > 5_000 for name in ("client", "server")):
                return

    def log(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def wait_for(self, name: str, deadline_s: float) -> bool:
        is_over = is_readable(self.handles[name], deadline_s)
        if is_over and name in self.processes:
            self.processes[name].wait()
        return is_over

    def close(self) -> None:
        for handle in self.handles.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        for process in self.processes.values():
            process.kill()
            process.wait()


def play(case: Case, folder: Path, preload: Path | None = None) -> Outcome:
    """Have a session, kill what the case names, and look at what is left."""
    session = Session(case, folder, preload)
    try:
        return _play(session, case)
    finally:
        session.close()


def _play(session: Session, case: Case) -> Outcome:
    session.until_it_flows()
    targets = {"both": ["relay", "recorder"], "all": ["relay", "recorder", "server", "client"]}
    killed = targets.get(case.target, [case.target])
    select.select([], [], [], random.Random(case.seed).random() * 0.05)
    if session.count is not None:
        session.count[:] = case.steps.to_bytes(4, "little")
        assert session.wait_for("relay", DEADLINE_S), "the relay made no system call"
    for name in killed:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(session.handles[name], signal.SIGKILL)
    if case.target == "recorder":  # the session goes on without it, and ends in order
        seen = len(session.log("client"))
        for _ in until("more traffic"):
            if len(session.log("client")) > seen:
                break
        session.processes["client"].terminate()
        session.wait_for("client", DEADLINE_S)
        if case.transport in PATHS:
            session.processes["relay"].terminate()
    elif case.transport in PATHS and case.target in ("server", "client"):
        session.wait_for("client", DEADLINE_S)
        session.processes["relay"].terminate()
    found = Outcome()
    for name in session.handles:
        if not session.wait_for(name, DEADLINE_S):
            found.left = f"{found.left} {name}".strip()
    if found.left:
        return found
    recover(session.trace)
    for name in ("client", "server"):
        if name not in killed:
            how = session.folder / f"{name}.end"
            if not how.exists() or how.read_text() != "end":
                found.unclean = f"{name}: {how.read_text() if how.exists() else 'did not see the end'}"
    _compare(session, found)
    return found


def _compare(session: Session, found: Outcome) -> None:
    events = list(read_trace(session.trace).events())
    gaps = [event for event in events if isinstance(event, Gap)]
    found.gaps = len(gaps)
    ways: tuple[tuple[Sender, str], ...] = ((CLIENT, "server"), (SERVER, "client"))
    for sender, receiver in ways:
        received = session.log(receiver)
        end = b"\n" if session.case.transport == "stdio" else b""
        whole = b"".join(
            frame_bytes(event) + end if event.terminated else frame_bytes(event)
            for event in events
            if isinstance(event, Frame) and event.sender == sender and not event.by_proxy
        )
        found.received += len(received)
        if gaps:
            told = sum(gap.client_bytes if sender == CLIENT else gap.server_bytes for gap in gaps)
            found.missing += max(0, len(received) - len(whole) - told)
        else:
            found.missing += len(received) - agreement(whole, received)


def agreement(one: bytes, other: bytes) -> int:
    """How many bytes at the beginning of both are the same."""
    shortest = min(len(one), len(other))
    if one[:shortest] == other[:shortest]:
        return shortest
    return next(at for at in range(shortest) if one[at] != other[at])


def until(what: str) -> Iterator[None]:
    """Look again and again, for as long as it may take."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        yield
        select.select([], [], [], 0.005)
    raise AssertionError(f"{what} did not come")


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def compiled(folder: Path) -> Path | None:
    """The library that kills at a system call; ``None`` where there is no C compiler."""
    library = folder / "preload.so"
    source = str(Path(__file__).parent / "preload.c")
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl"]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        return None
    return library
