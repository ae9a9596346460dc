"""``python -m tests.benchmarks NAME [--rounds N] [--short] [--long]``: prints Markdown.

``--short`` takes seconds and is for the gate: like the long run it fails when a frame is lost or a byte
changed, and never because of a time.
"""

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Final

from tests.benchmarks.options import Kind, Options
from tests.benchmarks.report import Section, dumps, machine, markdown
from tests.benchmarks.sessions import WrongBytesError

ALIKE: Final = (
    *(
        "stdio",
        "http",
        "model",
        "bridge",
        "offline",
        "start",
        "judge",
        "recorder",
        "view",
        "page",
        "watched",
        "spans",
    ),
    *("tui", "faults", "agents", "fleet", "replay", "bounds", "instructions", "compare"),
)
BENCHMARKS: Final = {**{name: name for name in ALIKE}, "hosts": "host_files"}
"""Name of a benchmark -> its module. Only that one is imported: another version may lack what others need."""

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
    parser.add_argument("--part", type=int, default=1, help="divide the sizes by this number")
    parser.add_argument("--ours", action="store_true", help="mcpproxy alone")
    parser.add_argument(
        "--only", action="append", default=[], choices=BENCHMARKS, help="compare: only this benchmark"
    )
    parser.add_argument("--json", action="store_true", help="print every value, for compare")
    given = parser.parse_args()
    if given.long and given.benchmark != "stdio":
        parser.error("--long goes with stdio")
    run: Callable[[Options], list[Section]] = importlib.import_module(
        f"tests.benchmarks.{BENCHMARKS[given.benchmark]}"
    ).run
    options = Options(
        1 if given.short else given.rounds or ROUNDS.get(given.benchmark, Options.rounds),
        given.short,
        KINDS[given.channels],
        long=given.long,
        part=given.part,
        ours=given.ours,
        only=tuple(given.only),
    )
    try:
        sections = run(options)
    except WrongBytesError as wrong:
        sys.stderr.write(f"benchmarks: {wrong}\n")
        return 1
    if given.json:
        sys.stdout.write(dumps(sections))
        return 0
    sys.stdout.write(
        f"Measured {machine()}; median of {options.rounds} (least–most).\n\n{markdown(sections)}\n"
    )
    return 1 if any(section.failed for section in sections) else 0


if __name__ == "__main__":
    sys.exit(main())
