"""Ship a recording while it is being made (``--ship``).

The recorder starts ``mcpproxy.fleet.ship_process`` as a separate process, which ships the files of this
recording as they are closed. Neither the traffic nor the recording waits for it. The process outlives the
session, because the last file is closed only at its end.
"""

import os
import subprocess
import sys
import threading
from threading import Event
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.fleet import urls

_STDERR: Final = 2
_PAUSE_S: Final = 5.0
GIVE_UP_S: Final = 300.0
"""How long the process tries to ship the last file after the end of the session."""


def check(where: str, url: str) -> None:
    """Refuse ``--ship`` where it cannot work.

    Raises:
        UsageError: packages are missing, the URL cannot be used, or the system has no fork (Windows).
    """
    if sys.platform == "win32":
        step = "ship afterwards: mcpproxy ship DIR URL"
        raise UsageError(where, "--ship needs fork, which Windows does not have", step)
    urls.check(where, url)


class ShippingProcess:
    """The process that ships, and the thread that forwards its lines to stderr.

    The process does not hold stderr open, because it outlives the session.
    """

    def __init__(self, trace: str, url: str, *, quiet: bool) -> None:
        self._process: Final = subprocess.Popen(
            own_command("mcpproxy.fleet.ship_process", trace, url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if not quiet:
            threading.Thread(target=self._forward_lines, daemon=True).start()

    def finish(self) -> None:
        """Tell the process that the recording is finished, and do not wait until it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _forward_lines(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                say(line, quiet=False)


def start(trace: str, url: str, *, quiet: bool) -> ShippingProcess | None:
    """Start to ship the recording at ``trace``; with ``quiet``, nothing is written to stderr.

    Return ``None`` if no process can be started: the recording goes on without it.
    """
    try:
        return ShippingProcess(trace, url, quiet=quiet)
    except (OSError, RuntimeError) as fault:  # RuntimeError: no more threads for this user
        say(f"mcpproxy: nothing is shipped: {fault}\n".encode(), quiet=quiet)
        return None


def say(line: bytes, *, quiet: bool) -> None:
    """Write a line to stderr, unless nobody reads it."""
    if not quiet:
        try:
            os.write(_STDERR, line)
        except OSError:
            pass  # nobody reads it, or not fast enough


def main(trace: str, url: str) -> int:
    """Ship the files of one recording until stdin ends and the last is shipped; return the exit code."""
    from mcpproxy.fleet.ship import Shipper
    from mcpproxy.fleet.watch import watch

    stop = Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        stop.set()

    def tell(text: str) -> None:
        try:
            os.write(1, f"mcpproxy: {text}\n".encode())
        except OSError:
            pass  # the session is over

    threading.Thread(target=wait_for_end, daemon=True).start()
    folder = os.path.dirname(trace)
    try:
        return watch(
            lambda: Shipper(folder, url, only=trace), stop, tell, pause_s=_PAUSE_S, grace_s=GIVE_UP_S
        )
    except McpProxyError as fault:
        tell(f"nothing more is shipped: {fault}; later: mcpproxy ship {folder} {url}")
        return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
