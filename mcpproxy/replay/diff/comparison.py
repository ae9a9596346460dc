"""What came of comparing a session with another: an item for each thing that a server did, with its changes.

An *item* is one answer, one listing with all its pages, one request or notification of the server's own.
A *change* is one thing about it that is not as it was.
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
    """One thing that is not as it was, in words and for programs.

    ``status``: a result where an error was, or the other way round; ``added`` and ``removed``: an entry of a
    list; ``description`` and ``schema``: of such an entry; ``value``: all else. ``pointer`` leads into the
    recorded message, or for what is new into the found one.
    """

    kind: Kind
    text: str
    pointer: str = ""
    expected: JSON = None
    found: JSON = None


@dataclass(frozen=True, slots=True)
class ComparedItem:
    """One thing that the recorded server did, or that this one did.

    ``frame`` is its frame (for an answer, that of the request) in the first recording, ``found_frame`` in the
    second; ``None`` where there is none. ``remark`` is worth knowing and no difference.
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
    """All items, in the recorded order and then what is new; ``notes`` are about the comparison itself."""

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
        """Whether anything is not as it was."""
        return any(item.verdict != "same" for item in self.items)


def change_from(difference: Difference, kind: Kind = "value", of: str = "", at: str = "") -> Change:
    """A difference between two values as a change; ``of`` names what the values are, ``at`` where in it."""
    pointer = at or difference.pointer
    expected, found = _near_the_difference(difference.expected, difference.found)
    moved = Difference(pointer, difference.change, expected, found)
    text = f"{of}: {moved}" if of else str(moved)
    return Change(kind, text, difference.pointer, difference.expected, difference.found)


def _near_the_difference(expected: JSON, found: JSON) -> tuple[JSON, JSON]:
    """Two long texts from shortly before the place where they part, for only their beginnings are shown."""
    if not isinstance(expected, str) or not isinstance(found, str):
        return expected, found
    pairs = enumerate(zip(expected, found, strict=False))
    shared = next((place for place, (one, other) in pairs if one != other), min(len(expected), len(found)))
    if max(len(expected), len(found)) <= _SHORT or shared <= _BEFORE:
        return expected, found
    start = shared - _BEFORE
    return f"…{expected[start:]}", f"…{found[start:]}"


def verdict_on(changes: Sequence[Change]) -> ItemVerdict:
    """The verdict on something that is there both times."""
    return "changed" if changes else "same"
