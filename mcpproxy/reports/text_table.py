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
    painted: list[list[str]] = []  # by column
    last = len(rows[0]) - 1
    for column, cells in enumerate(zip(*rows, strict=True)):
        cell_widths = [columns(cell) for cell in cells]
        width = max(cell_widths)
        if column in right:
            padded = [" " * (width - taken) + cell for cell, taken in zip(cells, cell_widths, strict=True)]
        elif column == last:
            padded = [cell.rstrip() for cell in cells]
        else:
            padded = [cell + " " * (width - taken) for cell, taken in zip(cells, cell_widths, strict=True)]
        below = padded[1:]
        if paint:
            below = [paint(column, cell, text) for cell, text in zip(cells[1:], below, strict=True)]
        painted.append([style.paint(padded[0], "bold"), *below])
    return ["  ".join(line) for line in zip(*painted, strict=True)]
