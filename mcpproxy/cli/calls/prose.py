"""Headings and paragraphs, for pages of text on a terminal."""

import textwrap
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.style import Style

PROSE_COLUMNS: Final = 96
"""The width of prose on a wide terminal, and in a pipe without ``COLUMNS``."""


def heading(text: str, style: Style) -> Iterator[str]:
    """Yield the lines of a heading."""
    yield ""
    yield style.paint(text, "bold")


def prose(text: str, columns: int, indent: str = "  ") -> list[str]:
    """Return ``text`` wrapped to ``columns``; a blank line separates paragraphs."""
    wrapped: list[str] = []
    for number, paragraph in enumerate(text.split("\n\n")):
        if number > 0:
            wrapped.append("")
        wrapped += textwrap.wrap(
            paragraph, columns, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
    return wrapped
