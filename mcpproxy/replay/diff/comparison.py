"""The result of comparing two sessions: an item for each thing that the server did, with its changes.

An *item* is one response, one listing with all its pages, or one request or notification of the server. A
*change* is one difference in an item.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.replay.diff.values import Difference

ItemVerdict: TypeAlias = Literal["same", "changed", "missing", "new"]

ITEM_VERDICTS: Final[tuple[ItemVerdict, ...]] = ("same", "changed", "missing", "new")

_SHORT: Final = 50
_BEFORE: Final = 20

Kind: TypeAlias = Literal["value", "status", "added", "removed", "description", "schema"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, as text and as data.

    ``status``: a result instead of an error or the reverse; ``added`` and ``removed``: an entry of a list;
    ``description`` and ``schema``: that member of an entry; ``value``: anything else. ``pointer`` is a JSON
    Pointer into the recorded message, or into the found message for a new value.
    """

    kind: Kind
    text: str
    pointer: str = ""
    expected: JSON = None
    found: JSON = None


@dataclass(frozen=True, slots=True)
class ComparedItem:
    """One thing that the server did in either recording.

    ``frame`` is its frame (for an answer, that of the request) in the first recording, ``found_frame`` in the
    second; ``None`` if absent. ``remark`` is information that does not count as a difference.
    """

    what: str
    verdict: ItemVerdict
    frame: int | None = None
    found_frame: int | None = None
    changes: tuple[Change, ...] = ()
    remark: str = ""
    session: str = ""


@dataclass(slots=True)
class Comparison:
    """All items, in recorded order and then the new ones. ``notes`` are about the comparison itself."""

    expected: str
    found: str
    items: list[ComparedItem] = field(default_factory=list[ComparedItem])
    notes: list[str] = field(default_factory=list[str])

    @property
    def counts(self) -> dict[ItemVerdict, int]:
        """How many items there are of each verdict."""
        counter = Counter(item.verdict for item in self.items)
        return {verdict: counter[verdict] for verdict in ITEM_VERDICTS}

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        return any(item.verdict != "same" for item in self.items)


def change_from(difference: Difference, kind: Kind = "value", subject: str = "", within: str = "") -> Change:
    """Return a difference as a change in ``subject``; ``within`` is its place there, if not the pointer."""
    pointer = within or difference.pointer
    expected, found = _near_the_difference(difference.expected, difference.found)
    moved = Difference(pointer, difference.change, expected, found)
    text = f"{subject}: {moved}" if subject else str(moved)
    return Change(kind, text, difference.pointer, difference.expected, difference.found)


def _near_the_difference(expected: JSON, found: JSON) -> tuple[JSON, JSON]:
    """Cut two long texts so that they start shortly before their first difference."""
    if not isinstance(expected, str) or not isinstance(found, str):
        return expected, found
    pairs = enumerate(zip(expected, found, strict=False))
    shared = next((place for place, (one, other) in pairs if one != other), min(len(expected), len(found)))
    if max(len(expected), len(found)) <= _SHORT or shared <= _BEFORE:
        return expected, found
    start = shared - _BEFORE
    return f"…{expected[start:]}", f"…{found[start:]}"


def verdict_on(changes: Sequence[Change]) -> ItemVerdict:
    """Return the verdict on an item that is present in both sessions."""
    return "changed" if changes else "same"
