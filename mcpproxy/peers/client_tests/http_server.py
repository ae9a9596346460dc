"""A scenario's server over HTTP: ``python -m mcpproxy.peers.client_tests.http_server NAME MARK``.

It listens on a free port of this machine, and prints its URL on stderr. The mark only distinguishes this
process from those of other runs.
"""

import sys

from mcpproxy.peers.client_tests.http_peer import ScriptedEndpoint
from mcpproxy.peers.client_tests.scenarios import SCENARIOS


def main() -> None:
    """Play the scenario that the first argument names, until the process is ended."""
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == sys.argv[1])
    assert scenario.http is not None
    peer = ScriptedEndpoint(scenario.http, scenario.scripts, scenario.capabilities, scenario.eras)
    sys.stderr.write(f"listening on {peer.url}\n")
    sys.stderr.flush()
    peer.serve()


if __name__ == "__main__":
    main()
