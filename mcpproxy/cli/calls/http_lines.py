"""One line on the terminal for each call that passes ``mcpproxy http``.

The lines are printed by a separate process, which reads the recording while it is made. So neither the relay,
which passes the messages on, nor the recorder, which records them, waits for a terminal. The process ends
when the recording does. It prints no findings, because the recorder writes them to stderr.
"""

import signal
import subprocess
import sys
from typing import Final

from mcpproxy.base.own_process import own_command

_WAIT_S: Final = 5.0


def start(trace: str) -> "subprocess.Popen[bytes]":
    """Start a process that prints the calls recorded in ``trace``."""
    return subprocess.Popen(own_command("mcpproxy.cli.calls.http_lines", trace), stdin=subprocess.DEVNULL)


def finish(process: "subprocess.Popen[bytes]") -> None:
    """Wait until the lines of a recording that has ended are printed; after 5 s, kill the process."""
    try:
        process.wait(_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main(trace: str) -> None:
    """Print the calls of a recording until it ends."""
    from mcpproxy.cli.calls.following import print_calls
    from mcpproxy.cli.calls.screen import Screen
    from mcpproxy.errors import TraceError

    # Ctrl-C stops the proxy, whose last calls must still be printed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        print_calls(trace, Screen(rewrites=False))
    except (TraceError, BrokenPipeError):
        pass  # the recording is not affected, and the proxy reports what happens to the recording


if __name__ == "__main__":
    main(sys.argv[1])
