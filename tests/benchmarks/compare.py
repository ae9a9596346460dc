"""Another version of mcpproxy beside this one, in turns: what became slower or faster between the two.

``MCPPROXY_BEFORE`` is the path of the other version's command, installed in an environment of its own. This
version is measured as it is installed in the environment that runs the benchmark. Both should be installed
alike (not in editable mode), because a script of an editable install takes longer to start.
"""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from tests.benchmarks import http, http_variants, offline, stdio
from tests.benchmarks.http_sessions import server
from tests.benchmarks.report import Samples, table
from tests.benchmarks.sessions import (
    CLOSE,
    Kind,
    Load,
    Session,
    Variant,
    wait_until_recorded,
)

AFTER: Final = str(Path(sys.executable).parent / "mcpproxy")
BEFORE: Final = os.environ.get("MCPPROXY_BEFORE", AFTER)
COMMANDS: Final = {"before": BEFORE, "after": AFTER}

ONE_CALL: Final = Load(150, 1, 1)
HTTP_LOADS: Final = (http.ALONE, http.SOME, http.FIRST, http.STREAM)
STARTS: Final = 10


def run(rounds: int, short: bool, kinds: tuple[Kind, ...]) -> str:
    """Measure both versions in turn, ``rounds`` times; a Markdown table.

    Raises:
        WrongBytesError: a frame was lost or changed.
    """
    samples = Samples([f"Before is `{BEFORE}`, after is `{AFTER}`."])
    calls = offline.SHORT_CALLS if short else offline.CALLS
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as name, server() as upstream:
        folder = Path(name)
        recording = folder / "calls.jsonl"
        frames = offline.write(recording, offline.small(calls))
        for _ in range(rounds):
            for load in stdio.SHORT if short else stdio.LOADS:
                for variant in stdio_variants():
                    size = (stdio.SHORT if short else stdio.LOADS)[load]
                    stdio.measure(samples, variant, "pipe", load, size, folder / "trace.jsonl")
            for title in HTTP_LOADS:
                for variant in http_variants_of_both():
                    size = (http.SHORT if short else http.LOADS)[title]
                    http.measure(samples, variant, upstream, title, size, folder)
            for version, command in COMMANDS.items():
                seconds, cpu_s, _ = offline.checked([recording], frames, (command,))
                samples.add("check, frames/s", version, frames / seconds)
                samples.add("check, µs of CPU per frame", version, cpu_s / frames * 1e6)
            for _ in range(1 if short else STARTS):
                measure_starts(samples, folder)
    return f"### before and after\n\n{table(samples, COMMANDS)}"


def measure_starts(samples: Samples, folder: Path) -> None:
    """How long a wrapped server takes to its first answer, and commands to their first output."""
    trace = folder / "start.jsonl"
    for variant in stdio_variants():
        with Session(variant, "pipe", ONE_CALL, trace) as session:
            session.go()
            exit_us = session.close()
        samples.add("start to first answer, ms", variant.name, session.start_us / 1000)
        samples.add("close to exit, ms", variant.name, exit_us / 1000)
        wait_until_recorded(trace, CLOSE)
        trace.unlink()
    for row, arguments in offline.commands(trace):
        for version, command in COMMANDS.items():
            samples.add(row, version, offline.first_output_ms([command, *arguments]))


def stdio_variants() -> list[Variant]:
    """Both versions, wrapping a server."""

    def wrap(mcpproxy: str, command: list[str], trace: Path) -> list[str]:
        return [mcpproxy, "--trace", str(trace), "--", *command]

    return [Variant(version, partial(wrap, command), records=True) for version, command in COMMANDS.items()]


def http_variants_of_both() -> list[http_variants.Variant]:
    """Both versions, before an HTTP server. The first versions took its URL as an option only."""
    return [
        http_variants.Variant(
            version, partial(http_variants.mcpproxy, (command, "http", "--upstream")), records=True
        )
        for version, command in COMMANDS.items()
    ]
