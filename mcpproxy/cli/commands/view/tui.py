"""``mcpproxy tui``: recordings in the terminal, with keys to choose sessions and calls."""

import os
import sys
from typing import Final

from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError

EPILOG: Final = """\
Sessions are on the left, calls on the right, and below is everything about the chosen session or call.
What is recorded meanwhile appears. ? shows the keys, / filters, q quits.

  mcpproxy tui                      the folder of all recordings
  mcpproxy tui session.jsonl        one recording; -1 is the latest"""


def run(argv: list[str]) -> int:
    """Show recordings until the user quits.

    Raises:
        UsageError: there are no such recordings, stdin or stdout is not a terminal, or it is a dumb one.
        StoreError: the recording cannot be fetched.
    """
    parser = Parser("tui", "Show recordings in the terminal: sessions, calls, details, live.", EPILOG)
    parser.add_argument(
        "path",
        nargs="?",
        metavar="TRACE|DIR",
        help=f"{find_traces.HELP}; or a folder; without it the folder of all recordings",
    )
    options = parser.parse_args(argv)
    path = find_traces.place(options.path)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise UsageError("tui", "this is not a terminal", "print a recording with mcpproxy show")

    from mcpproxy.show.tui.viewer import Viewer

    Viewer(path).run()
    return 0
