"""Reports of a comparison of two recordings, as text, JSON or JUnit XML.

The text lists the items that differ or have a remark, and counts the items of each verdict. The other formats
list all items.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.base.style import PLAIN, Colour, Style
from mcpproxy.base.visible import visible
from mcpproxy.peers.replay.diff.comparison import Change, ComparedItem, Comparison, ItemVerdict
from mcpproxy.read.reports import junit
from mcpproxy.read.reports.junit import Case, Suite

_COLOURS: Final[dict[ItemVerdict, Colour]] = {
    "same": "green",
    "changed": "yellow",
    "missing": "red",
    "new": "blue",
}


def text_lines(comparison: Comparison, style: Style = PLAIN) -> Iterator[str]:
    """Yield a line for each item that differs or has a remark, with its changes below, then the counts.

    Consecutive items that would give the same line share one.
    """
    listed = [item for item in comparison.items if item.verdict != "same" or item.remark]
    for (session, verdict, what, remark, changes), items in groupby(listed, _printed_parts):
        frames = [item.frame or item.found_frame for item in items]
        place = (
            f"frame {frames[0]}" if len(frames) == 1 else f"{len(frames)} times, first in frame {frames[0]}"
        )
        parts = [
            place,
            *([f"session {visible(session)}"] if session else []),
            *([visible(remark)] if remark else []),
        ]
        label = style.paint(f"{verdict:<8}", _COLOURS[verdict])
        yield f"{label} {visible(what)} ({'; '.join(parts)})"
        yield from (f"           {visible(change.text)}" for change in changes)
    yield summary(comparison)


def summary(comparison: Comparison) -> str:
    """Return the counts: ``12 same, 1 changed, 0 missing, 0 new``."""
    return ", ".join(f"{number} {verdict}" for verdict, number in comparison.counts.items())


def json_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the comparison as one JSON object: both names, the counts, every item, and the notes."""
    value = {
        "expected": comparison.expected,
        "found": comparison.found,
        "differs": comparison.differs,
        "counts": comparison.counts,
        "items": [_item(item) for item in comparison.items],
        "notes": comparison.notes,
    }
    yield dumps(value, indent=1)


def junit_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a test suite in which each item is a test case that fails if the item differs."""
    cases = tuple(_case(item) for item in comparison.items)
    yield from junit.lines([Suite(comparison.expected, cases, [*map(visible, comparison.notes)])])


def _case(item: ComparedItem) -> Case:
    where = f"frame {item.frame}" if item.frame else f"new, frame {item.found_frame}"
    case = Case(item.session or "session", f"{item.what} ({where})")
    if item.verdict == "same":
        return case
    texts = [visible(change.text) for change in item.changes] or [visible(item.remark) or item.verdict]
    return replace(case, status="failed", kind=item.verdict, message=texts[0], text="\n".join(texts))


def _printed_parts(item: ComparedItem) -> tuple[str, ItemVerdict, str, str, tuple[Change, ...]]:
    """Return the parts of an item that its line shows, except the frame.

    Consecutive items with equal parts share a line.
    """
    return (item.session, item.verdict, item.what, item.remark, item.changes)


def _item(item: ComparedItem) -> dict[str, object]:
    return {
        "what": item.what,
        "verdict": item.verdict,
        "frame": item.frame,
        "found_frame": item.found_frame,
        "session": item.session,
        "remark": item.remark,
        "changes": [
            {
                "kind": change.kind,
                "text": change.text,
                "pointer": change.pointer,
                "expected": change.expected,
                "found": change.found,
            }
            for change in item.changes
        ],
    }
