"""A live session of 5,000 frames a second whose calls are sent as spans, or not, in turns.

The client makes a call every 400 µs and waits for its answer. Every byte of the recording is compared. The
collector takes spans, never answers, or is not there.
"""

import socket
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import CLOSE, Load, WrongBytesError, verify, wait_until_recorded
from tests.benchmarks.watched import BYTES, CALLS_PER_S, LONG_S, SHORT_S, heard, session
from tests.otel.receiver import receiving

NONE: Final = "without --otlp"


@contextmanager
def taking() -> Generator[str]:
    """A collector that takes spans; its URL."""
    with receiving() as receiver:
        yield receiver.url


@contextmanager
def silent() -> Generator[str]:
    """A collector to which a connection can be made, and that never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def absent() -> Generator[str]:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


COLLECTORS: Final = {"a collector": taking, "one that never answers": silent, "unreachable": absent}


def measure(samples: Samples, variant: str, trace: Path, count: int, options: tuple[str, ...]) -> None:
    """Play one session."""
    with session(trace, count, *options) as client:
        assert client.stdin is not None
        pids = processes.find(int(heard(client, "ready")[0]))
        before = processes.cpu_seconds(pids.recorder) if pids else 0
        client.stdin.write("\n")
        client.stdin.flush()
        p50, p99, _, rate = map(float, heard(client, "done"))
        samples.add("frames/s", variant, rate)
        samples.add("a call, p50, µs", variant, p50)
        samples.add("a call, p99, µs", variant, p99)
        if pids:
            used = processes.cpu_seconds(pids.recorder) - before
            samples.add("CPU of the recorder for 10,000 frames, s", variant, used * 10_000 / (2 * count))
        began_s = time.perf_counter()
        client.stdin.write("\n")
        client.stdin.flush()
        if client.wait():
            raise WrongBytesError(f"{variant}: the session did not end in order")
        samples.add("until the session has ended, ms", variant, (time.perf_counter() - began_s) * 1000)
    wait_until_recorded(trace, CLOSE)
    verify(trace, Load(BYTES, count, 1))
    trace.unlink()


def run(options: Options) -> list[Section]:
    """Play sessions in turns."""
    samples = Samples()
    count = CALLS_PER_S * options.size(LONG_S, SHORT_S)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-spans-") as folder, ExitStack() as stack:
        argv: dict[str, tuple[str, ...]] = {NONE: ()}
        for name, collector in COLLECTORS.items():
            argv[name] = ("--otlp", stack.enter_context(collector()))
        for number in range(options.rounds):
            order = list(argv) if number % 2 else list(reversed(argv))
            for variant in order:
                measure(samples, variant, Path(folder) / f"{number}.jsonl", count, argv[variant])
    return [Section("spans", samples, tuple(argv), ratios=False)]
