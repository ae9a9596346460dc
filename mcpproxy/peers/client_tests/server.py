"""The process of a scenario's server: ``python -m mcpproxy.peers.client_tests.server NAME MARK``, on stdio.

The mark only distinguishes this process from those of other runs.
"""

import sys
import time

from mcpproxy.peers.client_tests.peer import ScriptedServer
from mcpproxy.peers.client_tests.scenarios import SCENARIOS


def main() -> None:
    """Play the scenario that the first argument names, until the client closes the stream."""
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == sys.argv[1])
    for number in range(scenario.flood):
        sys.stderr.write(f"{number:>6} a line that only a log would want to have ......\n")
    sys.stderr.flush()
    time.sleep(scenario.delay_s)
    server = ScriptedServer(scenario.scripts, scenario.capabilities, scenario.eras, sys.stdin.buffer)
    server.serve(scenario.needs, scenario.stays_s)


if __name__ == "__main__":
    main()
