"""Lines of text with tones, which the theme turns into colours; functions that cut or wrap lines.

Nothing in a text is markup. A caller passes recorded text through ``visible`` before it makes a span, so
spans have no control characters. Widths are columns of the terminal; some characters take two.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from rich.cells import cell_len, chop_cells, set_cell_size

Tone: TypeAlias = Literal["plain", "dim", "strong", "good", "bad", "warning", "info", "key", "text", "number"]
"""The meaning of a text. The theme has a colour or style for each."""

TONES: Final[tuple[Tone, ...]] = get_args(Tone)


class Span(NamedTuple):
    """A text and its tone."""

    text: str
    tone: Tone = "plain"


Line: TypeAlias = tuple[Span, ...]
"""The spans of a line, from left to right."""

ELLIPSIS: Final = "…"


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def line_width(line: Iterable[Span]) -> int:
    """Return how many columns a line takes."""
    return sum(width_of(span.text) for span in line)


def cut(text: str, width: int) -> str:
    """Return a text in at most ``width`` columns, with a mark where it was cut; empty without columns."""
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS


def fitted(line: Iterable[Span], width: int) -> Line:
    """Return a line in at most ``width`` columns."""
    spans: list[Span] = []
    for span in line:
        taken = width_of(span.text)
        if taken > width:
            spans.append(Span(cut(span.text, width), span.tone))
            break
        spans.append(span)
        width -= taken
    return tuple(spans)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text in exactly ``width`` columns; with ``right`` it is at the right end."""
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def wrapped(line: Line, width: int) -> Iterator[Line]:
    """Yield a line in pieces of at most ``width`` columns. All pieces have the indent of the line."""
    if line_width(line) <= width:
        yield line
        return
    first = line[0].text if line else ""
    indent = min(len(first) - len(first.lstrip(" ")), width // 2)
    piece: list[Span] = []
    room = width
    for text, tone in line:
        position = 0
        while True:
            # Only a slice is measured: measuring the whole rest of a long text each time would take too long.
            part = text[position : position + 2 * room + 1]
            if (taken := width_of(part)) > room:
                part = _fitting_start(part, room)
                yield (*piece, Span(part, tone))
                piece, room = [Span(" " * indent)], width - indent
            else:
                piece.append(Span(part, tone))
                room -= taken
                if position + len(part) == len(text):
                    break
            position += len(part)
    yield tuple(piece)


def _fitting_start(text: str, room: int) -> str:
    """Return the beginning of a text that fits ``room``.

    It ends after a word if one ends in its last third.
    """
    head = chop_cells(text, room)[0] if room else ""
    end = head.rfind(" ") + 1
    return head[:end] if end > len(head) * 2 // 3 else head
