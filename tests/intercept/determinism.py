"""``python -m tests.intercept.determinism``: the same seed, in many real sessions and over many messages.

Twenty sessions with 16 calls in flight, whose server answers in another random order each time, have to meet
the same faults; other seeds have to give others. It also says how far a percentage is off over 100,000
messages. The tests of the suite do the same with fewer sessions.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from mcpproxy.gate.intercept.fault_decisions import FaultDecider
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.gate.intercept.message_facts import OpenRequests
from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.protocol.jsonrpc import parse
from tests.intercept.test_fault_determinism import IN_FLIGHT, play

SESSIONS: Final = 20
SEEDS: Final = (8, 9, 10, 11)
MESSAGES: Final = 100_000
PING: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        sets = [play(Path(folder), shuffling, seed=7) for shuffling in range(SESSIONS)]
        others = [play(Path(folder), 0, seed=seed) for seed in SEEDS]
    equal = sum(each == sets[0] for each in sets)
    different = len({frozenset(each) for each in (sets[0], *others)})
    sys.stdout.write(
        f"seed 7, {IN_FLIGHT} in flight: {equal} of {SESSIONS} sessions met the same {len(sets[0])} faults\n"
        f"{1 + len(SEEDS)} seeds gave {different} different sets\n"
    )
    facts = OpenRequests().facts(CLIENT, PING, parse(PING))
    for percentage in (1, 5, 20, 50, 99):
        decider = FaultDecider(read_faults([], [f"=> drop, percentage {percentage}"], "stdio", 7))
        acted = sum(decider.decide(0, CLIENT, facts) is not None for _ in range(MESSAGES))
        sys.stdout.write(f"percentage {percentage}: {acted / MESSAGES:.3%} of {MESSAGES:,}\n")
    return 0 if equal == SESSIONS and different == 1 + len(SEEDS) else 1


if __name__ == "__main__":
    raise SystemExit(main())
