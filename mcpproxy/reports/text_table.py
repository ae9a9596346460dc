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

    ``paint(column, cell, padded)`` returns a cell below the first row in colour; ``padded`` is the cell with
    spaces.
    """
    cell_widths = [[columns(cell) for cell in row] for row in rows]
    widths = [max(column) for column in zip(*cell_widths, strict=True)]
    last = len(widths) - 1
    lines: list[str] = []
    for row, row_widths in zip(rows, cell_widths, strict=True):
        cells: list[str] = []
        for column, cell in enumerate(row):
            space = " " * (widths[column] - row_widths[column])
            padded = space + cell if column in right else cell.rstrip() if column == last else cell + space
            if not lines:
                padded = style.paint(padded, "bold")
            elif paint:
                padded = paint(column, cell, padded)
            cells.append(padded)
        lines.append("  ".join(cells))
    return lines
