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
        width_of_cell = {cell: columns(cell) for cell in set(cells)}  # in many columns, most cells are equal
        width = max(width_of_cell.values())
        if column in right:
            padded_cell = {cell: " " * (width - taken) + cell for cell, taken in width_of_cell.items()}
        elif column == last:
            padded_cell = {cell: cell.rstrip() for cell in width_of_cell}
        else:
            padded_cell = {cell: cell + " " * (width - taken) for cell, taken in width_of_cell.items()}
        padded = [padded_cell[cell] for cell in cells]
        below = padded[1:]
        if paint:
            below = [paint(column, cell, text) for cell, text in zip(cells[1:], below, strict=True)]
        painted.append([style.paint(padded[0], "bold"), *below])
    return ["  ".join(line) for line in zip(*painted, strict=True)]
