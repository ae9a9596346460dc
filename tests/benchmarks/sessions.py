"""One measured session: the load client, what stands between, the server, and what the trace holds of it."""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.benchmarks import peers
from tests.benchmarks.options import Kind, Options
from tests.peers import install

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent

DEADLINE_S: Final = 120


class WrongBytesError(Exception):
    """A frame was lost, changed or out of order: the one thing that fails a benchmark."""


class StuckError(Exception):
    """A proxy of others did not finish the calls in its time."""


@cache
def peer_command() -> tuple[str, ...]:
    """The server and load client: compiled where there is a C compiler, in Python elsewhere."""
    compiler = shutil.which("cc")
    if compiler is None:
        return (sys.executable, str(HERE / "peers.py"))
    folder = tempfile.mkdtemp(prefix="mcpproxy-peers-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = str(Path(folder) / "peers")
    subprocess.run((compiler, "-O2", "-o", program, str(HERE / "peers.c")), check=True)
    return (program,)


def server(boot_ms: int = 0) -> list[str]:
    """The command of a server that takes ``boot_ms`` before it reads."""
    return [*peer_command(), "serve", *([str(boot_ms)] if boot_ms else [])]


@dataclass(frozen=True)
class Variant:
    """One way to connect the client to the server; ``wrap`` gives the command the client starts.

    One with ``patience_s`` is ended when its calls take longer. Without, the load client gives up when
    nothing has moved for a minute, which is loss.
    """

    name: str
    wrap: Callable[[list[str], Path], list[str]]
    records: bool = False
    patience_s: float | None = None


VARIANTS: Final = (
    Variant("direct", lambda command, trace: command),
    Variant("cat", lambda command, trace: ["sh", "-c", 'cat | "$@" | cat', "sh", *command]),
    Variant(
        "mcpproxy",
        lambda command, trace: [sys.executable, "-m", "mcpproxy", "--trace", str(trace), "--", *command],
        records=True,
    ),
)
"""What every run compares; mcpproxy is the last."""


def variants_for(options: Options) -> tuple[tuple[Variant, ...], list[str]]:
    """What is compared, mcpproxy the last, and a line for each relay that cannot be had on this machine."""
    if options.ours or options.short:
        return VARIANTS[-1 if options.ours else 0 :], []
    relay = str(HERE / "asyncio_relay.py")
    others = [Variant("asyncio relay", lambda command, trace: [sys.executable, relay, *command])]
    try:
        python = str(install.python_with_competitor("mcp-rec"))
    except install.PeerUnavailableError as unavailable:
        return (*VARIANTS[:-1], *others, VARIANTS[-1]), [f"mcp-rec has no column: {unavailable}."]

    def record(command: list[str], trace: Path) -> list[str]:
        out = trace.with_suffix(".mcp-rec")
        out.unlink(missing_ok=True)  # it would append
        return [python, "-m", "mcp_rec.cli", "record", "-o", str(out), "--", *command]

    others.append(Variant("mcp-rec", record, patience_s=20))
    return (*VARIANTS[:-1], *others, VARIANTS[-1]), []


@dataclass(frozen=True)
class Load:
    """``count`` calls of ``size`` bytes each, ``window`` of them in flight."""

    size: int
    count: int
    window: int


@dataclass(frozen=True)
class Outcome:
    """What one session took, in microseconds unless the name says otherwise."""

    start_us: float
    seconds: float
    p50_us: float
    p99_us: float
    finished_ns: int
    exit_us: float = 0


class Session:
    """A load client that has shaken hands and waits to be told to go.

    Used as a context manager: leaving it ends what is still running.
    """

    def __init__(self, variant: Variant, kind: Kind, load: Load, trace: Path, boot_ms: int = 0) -> None:
        self.variant, self.load, self.trace = variant, load, trace
        numbers = (str(load.size), str(load.count), str(load.window))
        command = variant.wrap(server(boot_ms), trace)
        self._stderr = trace.with_suffix(".stderr").open("w+b")
        self._client = subprocess.Popen(
            [*peer_command(), "drive", kind, *numbers, *command],
            cwd=ROOT,
            env=os.environ | {"MCP_REC_NO_NOTICE": "1"},  # else it leaves a mark in the user's cache
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        try:
            pid, start_us = self._heard("ready")
        except WrongBytesError:
            self.__exit__(None, None, None)
            raise
        self.pid, self.start_us = int(pid), float(start_us)

    def go(self) -> Outcome:
        """Make the calls; every byte of every answer has been compared when this returns.

        Raises:
            StuckError: they take longer than the variant's ``patience_s``.
        """
        self._say()
        if self.variant.patience_s is None:
            return self.outcome()
        # The load client ends when the command does.
        stuck = threading.Event()
        timer = threading.Timer(self.variant.patience_s, lambda: (stuck.set(), self._terminate()))
        timer.start()
        try:
            outcome = self.outcome()
        except WrongBytesError:
            if not stuck.is_set():
                raise
        else:
            if not stuck.is_set():
                return outcome
        finally:
            timer.cancel()
        raise StuckError(f"not finished after {self.variant.patience_s:g} s")

    def go_meanwhile(self, look: Callable[[], None]) -> Outcome:
        """As ``go``, calling ``look`` over and over while the calls are made."""
        self._say()
        assert self._client.stdout is not None
        os.set_blocking(self._client.stdout.fileno(), False)
        line = b""
        while not line and self._client.poll() is None:
            look()
            line = self._client.stdout.readline()
        os.set_blocking(self._client.stdout.fileno(), True)
        return self.outcome(line)

    def outcome(self, line: bytes = b"") -> Outcome:
        seconds, p50, p99, finished = self._heard("done", line)
        return Outcome(self.start_us, float(seconds), float(p50), float(p99), int(finished))

    def close(self) -> float:
        """Close the session as a host does; microseconds from there until the command had exited."""
        self._say()
        status, exit_us = self._heard("closed")
        if status != "0":
            raise WrongBytesError(f"{self.variant.name}: the command exited with status {status}")
        return float(exit_us)

    def remarks(self) -> str:
        """What was said on stderr so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace").strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.kill()
        self._client.communicate()
        self._stderr.close()

    def _terminate(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def _say(self) -> None:
        assert self._client.stdin is not None
        self._client.stdin.write(b"\n")
        self._client.stdin.flush()

    def _heard(self, word: str, line: bytes = b"") -> Sequence[str]:
        assert self._client.stdout is not None
        said, *values = (line or self._client.stdout.readline() or b"nothing").decode().split()
        if said != word:
            self._client.wait()
            complaint = self.remarks()
            raise WrongBytesError(f"{self.variant.name}: waited for {word!r}: {complaint or said}")
        return values


def wait_until_recorded(trace: Path, sign: bytes, deadline_s: float = DEADLINE_S) -> int:
    """Wait until the last 4 KB of ``trace`` hold ``sign``; the monotonic time, in nanoseconds, it was seen.

    Raises:
        WrongBytesError: it does not come.
    """
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        try:
            with trace.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                if sign in file.read():
                    return time.monotonic_ns()
        except FileNotFoundError:
            pass
        time.sleep(0.002)  # a file cannot be waited on; the lag is known to two milliseconds
    raise WrongBytesError(f"{trace.name}: {sign.decode()} was not recorded within {deadline_s} s")


def last_frame(load: Load) -> bytes:
    """How the record of the last answer begins: three frames of handshake, two for each call."""
    return b'{"type":"frame","seq":%d,' % (3 + 2 * load.count)


CLOSE: Final = b'{"type":"close",'


def finish(trace: Path, load: Load) -> None:
    """Wait for the end of the recording, compare all of it, and make room for the next.

    Raises:
        WrongBytesError: it is not what was sent.
    """
    wait_until_recorded(trace, CLOSE)
    verify(trace, load)
    trace.unlink()


def verify(trace: Path, load: Load) -> None:
    """Every frame is in the trace, once, in order, with the bytes that were sent, and none is accused.

    Raises:
        WrongBytesError: that is not so.
    """
    handshake = (peers.INITIALIZE, peers.INITIALIZE_RESULT, peers.INITIALIZED)
    seq = calls = answers = 0
    with trace.open("rb") as file:
        for record in file:
            if record.startswith(b'{"type":"finding"'):
                raise WrongBytesError(f"{trace.name}: a finding in a clean session: {record[:300]!r}")
            if not record.startswith(b'{"type":"frame"'):
                continue
            seq += 1
            head, _, message = record.partition(b'"message":')
            if not head.startswith(b'{"type":"frame","seq":%d,' % seq):
                raise WrongBytesError(f"{trace.name}: frame {seq} is not in its place: {head!r}")
            if seq <= 3:
                expected = handshake[seq - 1]
            elif b'"from":"client"' in head:
                expected = peers.CALL % (peers.FIRST_ID + calls, peers.text(calls, load.size))
                calls += 1
            else:
                if answers == calls:
                    raise WrongBytesError(f"{trace.name}: frame {seq} answers a call that comes later")
                expected = peers.ANSWER % (peers.FIRST_ID + answers, peers.text(answers, load.size))
                answers += 1
            if message[:-2] != expected[:-1]:
                raise WrongBytesError(f"{trace.name}: frame {seq} holds other bytes than were sent")
    if seq != 3 + 2 * load.count:
        raise WrongBytesError(f"{trace.name}: {seq} frames of {3 + 2 * load.count} are there")
