"""The HTTP relay alone, as a process: ``python drive_http.py TRACE RECORDER CONNECT_S RECORDER_S OPTION...``.

``TRACE`` is where the journal goes (empty: none), ``RECORDER`` names a fake of drive.py or ``none``.
"""

import sys
import time

from mcpproxy.cli import http as command
from mcpproxy.relay import http
from mcpproxy.relay.journal import Journal
from tests.relay import drive


def main(trace: str, recorder: str, connect_s: str, recorder_s: str, *argv: str) -> int:
    options = command.parse(list(argv))
    settings, listener, _ = command.prepare(options)
    settings.connect_s = float(connect_s)
    settings.recorder_s = float(recorder_s)
    journal = Journal(trace, b"{}", time.monotonic_ns()) if trace else None
    return http.run(settings, listener, journal, getattr(drive, recorder, None))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
