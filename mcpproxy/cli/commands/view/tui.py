"""``mcpproxy tui``: recordings in the terminal, with keys to choose sessions and calls."""

import os
import sys
from importlib.util import find_spec
from typing import Final

from mcpproxy.base import paths
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.find_traces import JOURNAL_SUFFIX

EPILOG: Final = """\
Sessions are on the left, calls on the right, and below is everything about the one that is chosen. What is
recorded meanwhile appears. ? shows the keys, / filters, q quits.

  mcpproxy tui                      the folder of all recordings
  mcpproxy tui session.jsonl        one recording"""


def run(argv: list[str]) -> int:
    """Show recordings until the user quits."""
    parser = Parser("tui", "Show recordings in the terminal: sessions, calls, details, live.", EPILOG)
    parser.add_argument(
        "path", nargs="?", metavar="TRACE|DIR", help="without it the folder of all recordings"
    )
    options = parser.parse_args(argv)
    path = _existing(options.path) if options.path else paths.state_dir()
    if find_spec("textual") is None:
        install = "install it with: python -m pip install 'mcpproxy[tui]'"
        raise UsageError("tui", "the package textual is not installed", install)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise UsageError("tui", "this is not a terminal", "print a recording with mcpproxy show")

    from mcpproxy.tui.viewer import Viewer

    Viewer(path).run()
    return 0


def _existing(path: str) -> str:
    """Return the recording or folder that ``path`` names; for the folder of a journal, its recording."""
    if path.rstrip(os.sep).endswith(JOURNAL_SUFFIX):  # ``.jsonl.journal``
        path = path.rstrip(os.sep).removesuffix(".journal")
    if not os.path.exists(path) and not os.path.isdir(f"{path}.journal"):
        raise UsageError(path, "does not exist", "name a recording, or a folder of recordings")
    return path
