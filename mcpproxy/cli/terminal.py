"""Print the output of commands in a style that standard output supports.

Only our own colour sequences pass unescaped, even if a caller forgot to make a peer's text visible.
"""

import os
import re
import sys
from collections.abc import Iterable
from typing import Final

from mcpproxy.base.style import Style
from mcpproxy.base.visible import visible, visible_lines

_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


def style(*, colour: bool = True) -> Style:
    """Return a style with colours and a width for a terminal, and without them for a pipe or a file.

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
    """Print ``lines``; with ``flush``, each is written immediately, for readers who follow."""
    write = sys.stdout.write
    has_colours = sys.stdout.isatty()
    for line in lines:
        write((_around_colours(line) if has_colours else visible_lines(line)) + "\n")
        if flush:
            sys.stdout.flush()


def tell(message: str) -> None:
    """Print one line about the run itself to stderr, so that it does not mix with the output."""
    sys.stdout.flush()
    sys.stderr.write(f"mcpproxy: {visible(message)}\n")


def _around_colours(line: str) -> str:
    parts = _COLOUR.split(line)
    parts[::2] = map(visible_lines, parts[::2])
    return "".join(parts)
