"""Print the output of commands, with the colours, width and characters that stdout supports.

Control characters are escaped here again, except colour sequences, in case a caller forgot ``visible``.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.style import Style
from mcpproxy.base.visible import visible, visible_lines
from mcpproxy.record.relay.stderr_line import in_a_log, stderr_line

_COLOUR_SEQUENCE: Final = pattern(r"(\x1b\[[0-9;]*m)")


def terminal_style(*, colour: bool = True) -> Style:
    """Return the style for stdout: with colours and a width on a terminal, without them otherwise.

    ``COLUMNS`` sets the width in both cases, as in other programs. ``NO_COLOR`` (https://no-color.org), a
    dumb terminal and ``colour=False`` turn colours off. The encoding of stdout decides whether glyphs outside
    ASCII may be written.
    """
    stdout = sys.stdout
    try:
        "→…└".encode(stdout.encoding)
        unicode = True
    except UnicodeEncodeError:
        unicode = False
    columns_text = os.environ.get("COLUMNS", "")
    columns = int(columns_text) if columns_text.isdecimal() and 0 < int(columns_text) < 10_000 else None
    if not stdout.isatty():
        return Style(width=columns, unicode=unicode)
    use_colour = colour and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    try:
        width = os.get_terminal_size(stdout.fileno()).columns or 80
    except OSError:
        width = 80
    return Style(use_colour, columns or width, unicode)


def emit(
    lines: Iterable[str], *, flush: bool = False, keeps_tabs: bool = False, has_commands: bool = False
) -> None:
    """Print ``lines``; with ``flush``, each line is written immediately.

    ``keeps_tabs`` is for the text of a file, which is indented by tabs. In the log of a step of GitHub
    Actions no line is a command unless the caller says ``has_commands``.
    """
    write, is_terminal = sys.stdout.write, sys.stdout.isatty()
    for line in safe_lines(lines, has_colours=is_terminal, keeps_tabs=keeps_tabs):
        write((line if is_terminal or has_commands else in_a_log(line)) + "\n")
        if flush:
            sys.stdout.flush()


def safe_lines(lines: Iterable[str], *, has_colours: bool, keeps_tabs: bool = False) -> Iterator[str]:
    """Yield ``lines`` with control characters escaped, except line feeds.

    With ``has_colours``, colour sequences stay, and with ``keeps_tabs``, tabs.
    """
    escape = _around_colours if has_colours else visible_lines
    for line in lines:
        yield "\t".join(map(escape, line.split("\t"))) if keeps_tabs else escape(line)


def tell(message: str) -> None:
    """Print one line for the user to stderr, apart from the output of the command."""
    sys.stdout.flush()
    sys.stderr.write(stderr_line(message).decode())


class StatusLine:
    """A line of progress on stderr, on a terminal only. ``clear`` removes it."""

    def __init__(self) -> None:
        self.is_shown: Final = sys.stderr.isatty()
        self._width: Final = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) if self.is_shown else 0

    def show(self, text: str) -> None:
        """Show ``text`` in place of the former text."""
        if self._width:
            sys.stderr.write(f"\r\033[K{visible(text)[: self._width - 1]}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line, before something else is printed."""
        self.show("")


def tell_on_a_terminal(message: str) -> None:
    """Print one line to stderr if stdin is a terminal: a person has started a command meant for programs."""
    if sys.stdin.isatty():
        tell(message)


def _around_colours(line: str) -> str:
    """Return ``line`` with control characters escaped, except in its colour sequences."""
    parts = _COLOUR_SEQUENCE.split(line)  # texts and colour sequences in turn
    parts[::2] = map(visible_lines, parts[::2])
    return "".join(parts)
