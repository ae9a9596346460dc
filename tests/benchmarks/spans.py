"""A live session of 5,000 frames a second whose calls are sent as spans, or not, in turns.

The client makes a call every 400 µs and waits for its answer. Every byte of the recording is compared. The
collector takes spans, never answers, or is not there.
"""

import socket
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.watched import CALLS_PER_S, LONG_S, SHORT_S, measure
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
                measure(samples, variant, Path(folder) / f"{number}.jsonl", count, *argv[variant])
    return [Section("spans", samples, tuple(argv), ratios=False)]
