"""Where commands print: standard output, in the style that its reader can take."""

import os
import sys
from collections.abc import Iterable

from mcpproxy.reports.style import Style


def style(*, colour: bool = True) -> Style:
    """Colours and a width on a terminal, neither in a pipe or a file.

    ``NO_COLOR`` (https://no-color.org), a dumb terminal and ``colour=False`` turn colours off.
    """
    stdout = sys.stdout
    try:
        "→…└".encode(stdout.encoding)
        unicode = True
    except UnicodeEncodeError:
        unicode = False
    if not stdout.isatty():
        return Style(unicode=unicode)
    wanted = colour and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    try:
        width = os.get_terminal_size(stdout.fileno()).columns or 80
    except OSError:
        width = 80
    return Style(wanted, width, unicode)


def emit(lines: Iterable[str], *, flush: bool = False) -> None:
    """Print ``lines``; ``flush`` hands each on at once, for readers who follow."""
    write = sys.stdout.write
    for line in lines:
        write(line + "\n")
        if flush:
            sys.stdout.flush()


def tell(message: str) -> None:
    """One line about the run itself, on stderr, where it does not mix with the output."""
    sys.stdout.flush()
    sys.stderr.write(f"mcpproxy: {message}\n")
