"""``python -m tests.attacks [--mcpproxy PATH]``: every attack on one command, a row for each."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests import signals
from tests.attacks import stage
from tests.attacks.stage import Attack, BrokenError
from tests.attacks.table import CHAPTERS


def outcome(attack: Attack, mcpproxy: str) -> tuple[bool, str]:
    """Whether the line holds, and what was seen."""
    with stage.stage(mcpproxy) as opened:
        try:
            return True, attack.play(opened)
        except BrokenError as broken:
            return False, str(broken)
        except Exception as fault:  # a row for each attack, whatever a program under attack may do to it
            return False, f"the attack broke off: {type(fault).__name__}: {fault}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument(
        "--mcpproxy", metavar="PATH", help="the command; default: the one of this environment"
    )
    parser.add_argument("--jobs", type=int, default=3, help="how many attacks are played at once")
    parser.add_argument("names", nargs="*", help="the attacks; default: all")
    options = parser.parse_args()
    signals.restore_defaults()
    mcpproxy = os.path.abspath(options.mcpproxy) if options.mcpproxy else stage.installed()
    chosen: list[tuple[str, Attack]] = [
        (chapter, attack)
        for chapter, attacks in CHAPTERS.items()
        for attack in attacks
        if not options.names or attack.name in options.names
    ]
    broken = 0
    say = sys.stdout.write
    say(f"| | attack on {mcpproxy} | must hold | |\n|---|---|---|---|\n")
    with ThreadPoolExecutor(options.jobs) as pool:
        played = pool.map(partial(outcome, mcpproxy=mcpproxy), (attack for _, attack in chosen))
        for (chapter, attack), (held, seen) in zip(chosen, played, strict=True):
            broken += not held
            say(f"| {chapter} | {attack.name} | {attack.line} | {'held' if held else 'broken'} ({seen}) |\n")
            sys.stdout.flush()
    say(f"\n{len(chosen) - broken} held, {broken} broken\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
