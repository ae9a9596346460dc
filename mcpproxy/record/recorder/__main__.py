"""The recorder as a command: ``python -m mcpproxy.record.recorder TRACE [OPTION...]``.

The relay runs this command on systems without fork; users do not run it. Standard input is the pipe by which
the relay wakes the recorder. The recorder writes its notes to standard error.
"""

import argparse
import os
import signal
import sys

from mcpproxy.record.recorder.process import NOTES_FD, run
from mcpproxy.record.relay.stderr_line import use_json


def main() -> None:
    parser = argparse.ArgumentParser(prog="mcpproxy.record.recorder")
    parser.add_argument("trace")
    parser.add_argument("--live", choices=("text", "json", "off"), default="text")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--admin", default="")
    options = parser.parse_args()
    if options.live == "json":
        use_json()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.set_blocking(NOTES_FD, False)
    # ``None``: no memory is shared, so the relay writes into the pipe whenever there are records.
    run(options.trace, 0, None, options.live, options.quiet, options.admin)


if __name__ == "__main__":
    main()
