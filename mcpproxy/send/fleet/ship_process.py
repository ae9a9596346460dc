"""Ships a recording while it is being made (``--ship``).

The recorder starts ``mcpproxy.send.fleet.ship_process`` as a separate process, which ships the files of this
recording as they are closed. Neither the traffic nor the recording waits for it. The process outlives the
session, because the last file is closed only at its end.
"""

import os
import sys
import threading
from functools import partial
from threading import Event
from typing import Final

from mcpproxy.base.companion import Companion
from mcpproxy.errors import McpProxyError, UsageError
from mcpproxy.record.relay.stderr_line import write_own_line
from mcpproxy.send.fleet import urls

_PAUSE_S: Final = 5.0
"""How long the process waits between two looks for closed files."""
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


def start(trace: str, url: str, *, quiet: bool) -> Companion | None:
    """Start to ship the recording at ``trace``; with ``quiet``, nothing is written to stderr.

    Return ``None`` if no process can be started: the recording continues without it.
    """
    try:
        return Companion(partial(write_own_line, quiet=quiet), "mcpproxy.send.fleet.ship_process", trace, url)
    except (OSError, RuntimeError) as fault:  # RuntimeError: no more threads for this user
        write_own_line(f"mcpproxy: nothing is shipped: {fault}\n".encode(), quiet=quiet)
        return None


def main(trace: str, url: str) -> int:
    """Ship the files of one recording until stdin ends and the last is shipped; return the exit code.

    It is 0 if nothing is left to ship, else 2. The last files are given up ``GIVE_UP_S`` after the end of
    stdin.
    """
    from mcpproxy.send.fleet.ship import Shipper
    from mcpproxy.send.fleet.watch import watch

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
