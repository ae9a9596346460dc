"""Lay out text tables: each column is as wide as its widest cell, and the first row is bold.

``fitted`` cuts the cells of a table that is wider than the terminal.
"""

from collections.abc import Callable, Container, Sequence

from mcpproxy.base.style import PLAIN, Style, columns


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the width of the table of ``rows``, in columns of a terminal."""
    return sum(max(map(columns, cells)) + 2 for cells in zip(*rows, strict=True)) - 2


def without_day(heading: str) -> str:
    """Return a heading without its day if it is a revision: ``2025-11``. The month identifies a revision."""
    return heading[:7] if heading[:2] == "20" else heading


def fitted(
    rows: Sequence[Sequence[str]],
    style: Style,
    *,
    cut: Container[str],
    left_out: Sequence[str] = (),
    keeps_end: Container[str] = (),
    least: int = 7,
) -> list[list[str]]:
    """Return ``rows`` so that their table fits ``style.width``, as far as that is possible.

    The first row has the headings, by which columns are named. The columns in ``cut`` are cut to no less than
    ``least`` characters, the widest first. Cells lose their end, but those of columns in ``keeps_end`` their
    beginning. If that is not enough, the columns in ``left_out`` are left out, in this order.
    """
    kept = [list(row) for row in rows]
    width = style.width
    if width is None or table_width(kept) <= width:
        return kept
    narrow = _cut_cells(kept, width, style, cut, keeps_end, least)
    for name in left_out:
        if table_width(narrow) <= width:
            break
        if name in kept[0]:
            place = kept[0].index(name)
            kept = [row[:place] + row[place + 1 :] for row in kept]
            narrow = _cut_cells(kept, width, style, cut, keeps_end, least)
    return narrow


def _cut_cells(
    rows: list[list[str]],
    width: int,
    style: Style,
    cut: Container[str],
    keeps_end: Container[str],
    least: int,
) -> list[list[str]]:
    """Return a copy of ``rows`` with its texts cut until it fits ``width``, or cannot be cut any more."""
    narrow = [row.copy() for row in rows]
    places = [place for place, name in enumerate(narrow[0]) if name in cut]
    while places and (over := table_width(narrow) - width) > 0:
        widths = {place: max(columns(row[place]) for row in narrow) for place in places}
        widest = max(widths, key=lambda place: widths[place])
        if widths[widest] <= least:
            break
        next_widest = ([0, *sorted(widths.values())])[-2]
        limit = max(widths[widest] - over, min(next_widest, widths[widest] - 1), least)
        for row in narrow:
            row[widest] = style.shorten(row[widest], limit, keeps_end=narrow[0][widest] in keeps_end)
    return narrow


def table(
    rows: Sequence[Sequence[str]],
    style: Style = PLAIN,
    *,
    right: Container[int] = (),
    paint: Callable[[int, str, str], str] | None = None,
) -> list[str]:
    """Return ``rows`` as lines; the columns in ``right`` are aligned to the right.

    ``paint(column, cell, padded)`` colours a cell below the first row; ``padded`` is the cell with spaces.
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
