"""Text tables: each column is as wide as its widest cell, and the first row is bold."""

from collections.abc import Callable, Container, Sequence

from mcpproxy.base.style import PLAIN, Style, columns


def table(
    rows: Sequence[Sequence[str]],
    style: Style = PLAIN,
    *,
    right: Container[int] = (),
    paint: Callable[[int, str, str], str] | None = None,
) -> list[str]:
    """Return ``rows`` as lines; the columns in ``right`` are aligned to the right.

    ``paint(column, cell, padded)`` returns a cell of the body in colour; ``padded`` is the cell with spaces.
    """
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for number, row in enumerate(rows):
        cells: list[str] = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - columns(cell))
            padded = space + cell if column in right else cell + space
            if column == len(row) - 1:
                padded = padded.rstrip()
            if number == 0:
                padded = style.paint(padded, "bold")
            elif paint:
                padded = paint(column, cell, padded)
            cells.append(padded)
        lines.append("  ".join(cells))
    return lines
