"""How exactly ``--timing recorded`` keeps the recorded pauses, as a live client sees it.

The recording is written here: calls with progress, every message 1 to 50 ms after the one before. What is
measured is the error of a gap: how far the time from one message to the next, or from the call to the first
of them, is from the recorded one. A process that does nothing but sleep and write has the same gaps to keep:
its error is what the machine's timers, its scheduler and the measuring itself come to.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import DEADLINE_S, ROOT, WrongBytesError
from tests.cli.recordings import HEADER, INITIALIZE, INITIALIZED, READY, close

CALLS: Final = 60
SHORT_CALLS: Final = 3
PROGRESS: Final = 3
GAPS_MS: Final = (1.0, 50.0)
COLUMN: Final = "error of a gap, ms"
TRACE: Final = "recorded.jsonl"
_MS: Final = 1_000_000

SLEEPER: Final = """\
import json, sys, time
for said in json.load(open(sys.argv[1])):
    sys.stdin.buffer.readline()
    due = time.monotonic()
    for gap, text in said:
        due += gap
        time.sleep(max(0, due - time.monotonic()))
        sys.stdout.write(text + "\\n")
        sys.stdout.flush()
"""


@dataclass(frozen=True)
class Turn:
    """A call, what is said to it, and how many nanoseconds after what came before, each."""

    call: bytes
    said: tuple[bytes, ...]
    gaps_ns: tuple[int, ...]


def turns(calls: int, seed: int) -> list[Turn]:
    """Calls with progress and an answer, the pauses drawn by ``seed``."""
    chance = random.Random(seed)
    found: list[Turn] = []
    for n in range(1, calls + 1):
        token = {"_meta": {"progressToken": n}, "name": "wait", "arguments": {"n": n}}
        call = {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": token}
        said: list[object] = [
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": n, "progress": step},
            }
            for step in range(PROGRESS)
        ]
        said.append({"jsonrpc": "2.0", "id": n, "result": {"content": [{"type": "text", "text": str(n)}]}})
        gaps = tuple(int(chance.uniform(*GAPS_MS) * _MS) for _ in said)
        found.append(Turn(_line(call), tuple(map(_line, said)), gaps))
    return found


def write(path: Path, talk: list[Turn]) -> None:
    """The recording of these turns."""
    now_ns = 0
    frames: list[tuple[int, str, str]] = []
    for sender, text in (("client", INITIALIZE), ("server", INITIALIZED), ("client", READY)):
        now_ns += _MS
        frames.append((now_ns, sender, text))
    for turn in talk:
        now_ns += _MS
        frames.append((now_ns, "client", turn.call.decode()))
        for text, gap_ns in zip(turn.said, turn.gaps_ns, strict=True):
            now_ns += gap_ns
            frames.append((now_ns, "server", text.decode()))
    records = [HEADER]
    for seq, (t, sender, text) in enumerate(frames, 1):
        records.append(f'{{"type":"frame","seq":{seq},"t":{t},"from":"{sender}","message":{text}}}')
    sent = sum(sender == "client" for _, sender, _ in frames)
    records.append(close(sent, len(frames) - sent, ms=now_ns // _MS + 1))
    path.write_text("".join(record + "\n" for record in records))


class Clock:
    """Takes what comes, and how far off each gap was (ms)."""

    def __init__(self) -> None:
        self.errors_ms: Final[list[float]] = []

    def hold(self, turn: Turn, said: Iterator[bytes]) -> None:
        """Compare what is ``said`` from now on with the turn.

        Raises:
            WrongBytesError: it is something else.
        """
        last_ns = time.monotonic_ns()
        for expected, gap_ns in zip(turn.said, turn.gaps_ns, strict=True):
            found = next(said, b"")
            now_ns = time.monotonic_ns()
            if found != expected:
                raise WrongBytesError(f"replay: {found[:80]!r} instead of {expected[:80]!r}")
            self.errors_ms.append(abs(now_ns - last_ns - gap_ns) / _MS)
            last_ns = now_ns

    def report(self, samples: Samples, variant: str) -> None:
        """The figures of one run."""
        gaps = sorted(self.errors_ms)
        figures = {"p50": statistics.median(gaps), "p95": gaps[len(gaps) * 95 // 100], "most": gaps[-1]}
        for name, value in figures.items():
            samples.add(f"{variant}, {name}", COLUMN, value)


def sleeping(talk: list[Turn], folder: Path) -> Clock:
    """A process that sleeps and writes."""
    clock = Clock()
    plan = folder / "plan.json"
    said = [
        [(gap_ns / 1e9, text.decode()) for gap_ns, text in zip(turn.gaps_ns, turn.said, strict=True)]
        for turn in talk
    ]
    plan.write_text(json.dumps([[(0, "ready")], *said]))
    with _process([sys.executable, "-c", SLEEPER, str(plan)]) as process:
        stdin, stdout = _pipes(process)
        lines = _lines(stdout)
        _say(stdin, b"")
        next(lines)
        for turn in talk:
            _say(stdin, turn.call)
            clock.hold(turn, lines)
    return clock


def over_stdio(talk: list[Turn], folder: Path) -> Clock:
    """The replay on stdin and stdout."""
    clock = Clock()
    with _process(_replay(folder)) as process:
        stdin, stdout = _pipes(process)
        lines = _lines(stdout)
        _say(stdin, INITIALIZE.encode())
        next(lines)
        _say(stdin, READY.encode())
        for turn in talk:
            _say(stdin, turn.call)
            clock.hold(turn, lines)
    return clock


def over_http(talk: list[Turn], folder: Path) -> Clock:
    """The replay over Streamable HTTP: each call is answered with a stream of events."""
    clock = Clock()
    with _process([*_replay(folder), "--http", "127.0.0.1:0"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        url = urlsplit(str(process.stderr.readline().split()[-1], "ascii"))
        connection = HTTPConnection(url.netloc, timeout=DEADLINE_S)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        for text in (INITIALIZE, READY):
            connection.request("POST", url.path, text, headers)
            response = connection.getresponse()
            response.read()
            if id := response.headers.get("mcp-session-id"):
                headers["Mcp-Session-Id"] = id
        for turn in talk:
            connection.request("POST", url.path, turn.call, headers)
            events = _events(connection)
            clock.hold(turn, events)
            if more := next(events, b""):
                raise WrongBytesError(f"replay: {more[:80]!r} behind the answer")
        connection.close()
        process.terminate()
    return clock


VARIANTS: Final[dict[str, Callable[[list[Turn], Path], Clock]]] = {
    "sleeping and writing alone": sleeping,
    "replay on stdio": over_stdio,
    "replay over HTTP": over_http,
}


def run(options: Options) -> list[Section]:
    """Replay each recording in every way in turn.

    Raises:
        WrongBytesError: a message was lost or changed.
    """
    samples = Samples()
    calls = options.size(CALLS, SHORT_CALLS)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as name:
        folder = Path(name)
        for seed in range(options.rounds):
            talk = turns(calls, seed)
            write(folder / TRACE, talk)
            for variant, play in VARIANTS.items():
                if play is not sleeping or not options.ours:
                    play(talk, folder).report(samples, variant)
    gaps = f"{calls * (PROGRESS + 1)} gaps of {GAPS_MS[0]:.0f} to {GAPS_MS[1]:.0f} ms a round"
    samples.notes.append(f"{gaps}.")
    return [Section("replay", samples, [COLUMN])]


def _line(message: object) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _replay(folder: Path) -> list[str]:
    trace = str(folder / TRACE)
    return [sys.executable, "-m", "mcpproxy", "replay", "server", trace, "--timing", "recorded"]


@contextmanager
def _process(command: list[str], stderr: int = subprocess.DEVNULL) -> Generator[subprocess.Popen[bytes]]:
    """A process that ends when its stdin does; whatever happens, it is gone in the end."""
    with subprocess.Popen(
        command, cwd=ROOT, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
    ) as process:
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(DEADLINE_S)
        finally:
            process.kill()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _say(stdin: IO[bytes], text: bytes) -> None:
    stdin.write(text + b"\n")


def _lines(stdout: IO[bytes]) -> Iterator[bytes]:
    """Line by line, each as soon as it is there."""
    left = b""
    while chunk := os.read(stdout.fileno(), 1 << 16):
        *lines, left = (left + chunk).split(b"\n")
        yield from lines


def _events(connection: HTTPConnection) -> Iterator[bytes]:
    """The data of each event of the answer, which is read to its end."""
    response = connection.getresponse()
    while line := response.readline():
        if line.startswith(b"data: "):
            yield line.removeprefix(b"data: ").rstrip(b"\r\n")
