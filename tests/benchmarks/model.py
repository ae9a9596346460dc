"""A model's interface behind ``mcpproxy model`` and ``mcpproxy http``: the same bytes, and what they cost.

A thousand requests in the four dialects, sixteen at once, half of them answered by streams. The service says
what it was sent, and the client what came back, as hashes: those of each variant are those without a proxy.
No credential of head, target and body is in the recording.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from mcpproxy.record.recorder.model.turns import model_turns
from mcpproxy.record.trace.reader import read_trace
from tests.benchmarks.http_sessions import Client
from tests.benchmarks.http_variants import DIRECT, TRACE, Variant, mcpproxy
from tests.benchmarks.model_peers import KEYS
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import ROOT, WrongBytesError

PEERS: Final = (sys.executable, "-m", "tests.benchmarks.model_peers")
_COMMAND: Final = (sys.executable, "-m", "mcpproxy")
VARIANTS: Final = (
    DIRECT,
    Variant("http", partial(mcpproxy, (*_COMMAND, "http"), path="/"), records=True),
    Variant("model", partial(mcpproxy, (*_COMMAND, "model"), path=""), records=True),
)
CONNECTIONS: Final = 16
SIZES: Final = {"2 KB": 0, "64 KB": 62 << 10}
SHORT_COUNT: Final = 64


@dataclass(frozen=True)
class Passed:
    """What passed: hashes of all requests as the service got them, and of all answers."""

    asked: str
    answered: str


class RunningService:
    """A running service."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._said())

    def got(self) -> str:
        """How many requests came since the last time, and their hash."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._said()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def serving() -> Generator[RunningService, None, None]:
    pipe = subprocess.PIPE
    with subprocess.Popen((*PEERS, "serve"), cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield RunningService(process)
        finally:
            process.kill()


def run(options: Options) -> list[Section]:
    """Measure every variant in turn.

    Raises:
        WrongBytesError: a byte of a request or an answer was lost or changed, or a credential recorded.
    """
    samples = Samples()
    load_before = os.getloadavg()[0]
    for _ in range(options.rounds):
        for title, size in SIZES.items():
            measure(samples, title, size, options.size(1_000, SHORT_COUNT))
    samples.notes.append(f"Load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after.")
    return [Section("model", samples, [variant.name for variant in VARIANTS])]


def measure(
    samples: Samples, title: str, size: int, count: int, variants: Sequence[Variant] = VARIANTS
) -> None:
    """Make ``count`` requests through each variant, of which the first has no proxy.

    Raises:
        WrongBytesError: see ``run``.
    """
    wanted: Passed | None = None
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as name, serving() as service:
        trace = Path(name) / TRACE
        for variant in variants:
            with variant.start(service.port, Path(name)) as between:
                arguments = map(str, ("ask", between.port, CONNECTIONS, count, size))
                with Client(variant.name, [*PEERS, *arguments]) as client:
                    outcome, answered = client.go_and_tell()
            passed = Passed(service.got(), answered)
            wanted = wanted or passed
            if passed != wanted:
                raise WrongBytesError(f"{variant.name}: {passed} is not {wanted}")
            if variant.records:
                # What a body repeats of the head, ``http`` records: it may be a text of MCP.
                verify(trace, count, KEYS if variant.name == "model" else KEYS[1:])
                trace.unlink()
            samples.add(f"requests of {title}, p50, µs", variant.name, outcome.p50_us)
            samples.add(f"requests of {title}, requests/s", variant.name, count / outcome.seconds)


def verify(trace: Path, count: int, keys: Sequence[str]) -> None:
    """Every request is in the trace with its answer, and none of ``keys``.

    Raises:
        WrongBytesError: that is not so.
    """
    data = trace.read_bytes()
    if found := [key for key in keys if key.encode() in data]:
        raise WrongBytesError(f"{trace.name}: the credentials {found} are recorded")
    turns = list(model_turns(read_trace(str(trace))))
    whole = sum(turn.answer is not None and turn.answer.whole for turn in turns)
    if (len(turns), whole) != (count, count):
        raise WrongBytesError(
            f"{trace.name}: of {count} answers {len(turns)} are there, {whole} of them whole"
        )
