"""A terminal whose last lines are rewritten: finished lines scroll up, and live lines stay at the bottom.

If stdout is not a terminal, or is a dumb one, nothing is ever rewritten, and only finished lines are printed.
"""

import os
import sys
from collections.abc import Iterable
from typing import Final

from mcpproxy.base.style import Style
from mcpproxy.cli.terminal import emit, terminal_style

_LEAST_LINES: Final = 4
"""How many live lines are shown at least, however low the terminal is."""


class Screen:
    """The output of a command that shows live lines. ``rewrites`` is whether they can be rewritten."""

    def __init__(self, *, colour: bool = True, rewrites: bool = True) -> None:
        self._colour: Final = colour
        self.rewrites = rewrites and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = 0
        """How many live lines are at the bottom now."""

    @property
    def style(self) -> Style:
        """The style for the terminal's present width."""
        return terminal_style(colour=self._colour)

    def print(self, lines: Iterable[str]) -> None:
        """Print finished lines, which stay on the terminal."""
        self._erase()
        emit(lines)
        sys.stdout.flush()

    def redraw(self, lines: list[str]) -> None:
        """Replace the lines at the bottom by ``lines``, which have no colours of their own."""
        if not self.rewrites:
            return
        style = self.style
        width = (style.width or 80) - 1
        room = max(_terminal_height() - 1, _LEAST_LINES)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"and {len(lines) - room + 1} more"]
        self._erase()
        emit(style.paint(style.shorten(line, width), "yellow") for line in lines)
        self._drawn = len(lines)
        sys.stdout.flush()

    def _erase(self) -> None:
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0


def _terminal_height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or 24
    except OSError:
        return 24
