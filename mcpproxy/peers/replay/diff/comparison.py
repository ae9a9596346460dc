"""The result of comparing two sessions: a list of items, each with its changes.

An *item* is one response, one listing with all its pages, one request or notification of the server, one line
of it that is not a message, or one HTTP status. A *change* is one difference in an item. The first session is
called *expected*, the second *found*.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mcpproxy.peers.replay.diff.values import Difference
from mcpproxy.protocol.jsonrpc import JSON

ItemVerdict: TypeAlias = Literal["same", "changed", "missing", "new"]

ITEM_VERDICTS: Final[tuple[ItemVerdict, ...]] = ("same", "changed", "missing", "new")

_SHORT_CHARS: Final = 50
"""Texts up to this length are shown from their start."""
_CONTEXT_CHARS: Final = 20
"""How many characters of longer texts are shown before their first difference."""

Kind: TypeAlias = Literal["value", "status", "added", "removed", "description", "schema"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, as text and as data.

    ``kind`` is ``status`` if a response is of another kind (see ``answer_changes``), or if an HTTP status
    changed; ``added`` or ``removed`` for an entry of a list; ``description`` or ``schema`` for a changed
    member of an entry; ``value`` for any other change. ``pointer`` is a JSON Pointer into the expected
    message, or into the found message if the value is new.
    """

    kind: Kind
    text: str
    pointer: str = ""
    expected: JSON = None
    found: JSON = None


@dataclass(frozen=True, slots=True)
class ComparedItem:
    """One item of the comparison, as it was in the two sessions.

    ``what`` describes the item. ``frame`` is the number of its frame in the expected session, and
    ``found_frame`` in the found session; ``None`` if that session does not have the item. For a response they
    are the frames of the request. ``remark`` is information that does not count as a difference. ``session``
    is the name of the session; empty if the session has none.
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
    """The comparison of two recordings: ``expected`` and ``found`` are their names.

    ``items`` are in recorded order, with the new items of each session at its end. ``notes`` are remarks that
    belong to no item.
    """

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
    """Return a difference as a change.

    The text of the change names ``subject``, such as a tool, and ``within``, the pointer inside the subject.
    If ``within`` is empty, the text has the pointer of the difference.
    """
    pointer = within or difference.pointer
    expected, found = _near_the_difference(difference.expected, difference.found)
    described = Difference(pointer, difference.change, expected, found)
    text = f"{subject}: {described}" if subject else str(described)
    return Change(kind, text, difference.pointer, difference.expected, difference.found)


def _near_the_difference(expected: JSON, found: JSON) -> tuple[JSON, JSON]:
    """Cut two long texts so that they start shortly before their first difference."""
    if not isinstance(expected, str) or not isinstance(found, str):
        return expected, found
    pairs = enumerate(zip(expected, found, strict=False))
    shared_chars = next(
        (position for position, (left, right) in pairs if left != right), min(len(expected), len(found))
    )
    if max(len(expected), len(found)) <= _SHORT_CHARS or shared_chars <= _CONTEXT_CHARS:
        return expected, found
    start = shared_chars - _CONTEXT_CHARS
    return f"…{expected[start:]}", f"…{found[start:]}"


def verdict_on(changes: Sequence[Change]) -> ItemVerdict:
    """Return the verdict on an item that is present in both sessions."""
    return "changed" if changes else "same"
