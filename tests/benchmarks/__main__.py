"""``python -m tests.benchmarks NAME [--rounds N] [--short] [--long]``: prints Markdown.

``--short`` takes seconds and is for the gate: like the long run it fails when a frame is lost or a byte
changed, and never because of a time.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.benchmarks import (
    agents,
    bounds,
    bridge,
    compare,
    faults,
    fleet,
    host_files,
    http,
    judge,
    offline,
    page,
    recorder,
    replay,
    spans,
    start,
    stdio,
    tui,
    view,
    watched,
)
from tests.benchmarks.report import machine
from tests.benchmarks.sessions import Kind, WrongBytesError

BENCHMARKS: Final[dict[str, Callable[[int, bool, tuple[Kind, ...]], str]]] = {
    "stdio": stdio.run,
    "http": http.run,
    "start": start.run,
    "judge": judge.run,
    "offline": offline.run,
    "replay": replay.run,
    "view": view.run,
    "page": page.run,
    "watched": watched.run,
    "spans": spans.run,
    "tui": tui.run,
    "agents": agents.run,
    "recorder": recorder.run,
    "bounds": bounds.run,
    "compare": compare.run,
    "hosts": host_files.run,
    "faults": faults.run,
    "bridge": bridge.run,
    "fleet": fleet.run,
}

ROUNDS: Final = {"fleet": 1}
"""How often each variant is measured where the default of 5 would take hours."""

KINDS: Final[dict[str, tuple[Kind, ...]]] = {
    "pipe": ("pipe",),
    "socketpair": ("socketpair",),
    "both": ("pipe", "socketpair"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--rounds", type=int, help="how often each variant is measured")
    parser.add_argument("--short", action="store_true", help="a few seconds; checks bytes, not times")
    parser.add_argument("--channels", choices=KINDS, default="both", help="what connects the processes")
    parser.add_argument("--long", action="store_true", help="stdio: a session of a million frames as well")
    options = parser.parse_args()
    benchmark = BENCHMARKS[options.benchmark]
    if options.long:
        if options.benchmark != "stdio":
            parser.error("--long goes with stdio")
        benchmark = partial(stdio.run, long=True)
    try:
        rounds = 1 if options.short else options.rounds or ROUNDS.get(options.benchmark, 5)
        tables = benchmark(rounds, options.short, KINDS[options.channels])
    except WrongBytesError as wrong:
        sys.stderr.write(f"benchmarks: {wrong}\n")
        return 1
    sys.stdout.write(f"Measured {machine()}; median of {rounds} (least–most).\n\n{tables}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
