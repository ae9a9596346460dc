"""``python -m tests.fuzzers TARGET``: damage and read for so long, and say what came of it."""

import argparse
import sys

from tests.fuzzers.run import run
from tests.fuzzers.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzers", description="Read damaged recordings.")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--executions", type=int, default=1 << 60, help="end after so many, however long")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcome = run(options.target, seed=options.seed, seconds=options.seconds, executions=options.executions)
    sys.stdout.write(f"{outcome}\n")
    for finding in outcome.findings:
        sys.stdout.write(f"\n{finding}\n")
    return 1 if outcome.findings else 0


sys.exit(main())
