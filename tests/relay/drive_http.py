"""The HTTP relay alone, as a process.

``python drive_http.py TRACE RECORDER CONNECT_S RECORDER_S LOOP FAULT OPTION...``.

``TRACE`` is where the journal goes (empty: none), ``RECORDER`` names a fake of drive.py or ``none``,
``LOOP`` what the loop waits with (``epoll`` or ``selectors``, or ``portable``: the proxy for systems without
fork), ``FAULT`` one of faults.py.
"""

import sys
import time
from typing import cast

from mcpproxy.cli.commands import http as command
from mcpproxy.record.relay.http import loop as loops
from mcpproxy.record.relay.http import portable, proxy
from mcpproxy.record.relay.http.route import Route, Router
from mcpproxy.record.relay.journal import Journal
from tests.relay import drive
from tests.relay.faults import FAULTS


class Faulty:
    """A router with a fault in it: it knows no better than to raise when asked for ``/fault``."""

    def __init__(self, router: Router) -> None:
        self.inner = router

    def route(self, raw: bytes) -> Route:
        if raw.startswith(b"GET /fault "):
            raise ValueError("out of order")
        return self.inner.route(raw)


def main(
    trace: str, recorder: str, connect_s: str, recorder_s: str, loop: str, fault: str, *argv: str
) -> int:
    setattr(portable, "MOST_SOCKETS", 1 << 16)  # noqa: B010 # it is Final; what this system watches
    FAULTS[fault]()
    options = command.parse(list(argv))
    settings, listener, _ = command.prepare(options)
    settings.connect_s = float(connect_s)
    settings.router = cast("Router", Faulty(settings.router))
    settings.recorder_s = float(recorder_s)
    journal = Journal(trace, b"{}", time.monotonic_ns()) if trace else None
    if loop != "epoll":
        loops.make_epoll = loops.SelectorEpoll
    if loop == "portable":
        follow = [sys.executable, drive.__file__, "follow"] if recorder != "none" else None
        return portable.run(settings, listener, journal, follow)
    return proxy.run(settings, listener, journal, getattr(drive, recorder, None))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
