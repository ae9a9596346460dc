"""Nodes: the values of a configuration file with their positions in its text.

Each language has a function that reads a text into a tree of nodes. A file is never written from a tree.
Instead, edits replace pieces of the text, at positions that nodes give. Positions count characters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Scalar = str | int | float | bool | None
Step = str | int
Path = tuple[Step, ...]
"""The keys and indexes that lead from a value to one inside it."""


@dataclass(slots=True)
class Node:
    """A value, whose text is ``text[start:end]``.

    It is described by ``members`` (a table), ``items`` (a list) or ``scalar``; ``null`` is a scalar. If
    several members have the same key, the last one counts, as in the parsers of all hosts. A table of TOML
    with lines of its own has no position: both numbers are 0.
    """

    start: int
    end: int
    scalar: Scalar = None
    members: "dict[str, Member] | None" = None
    items: "list[Node] | None" = None
    is_block: bool = False
    """Whether it is a YAML list with a dash before each item."""
    is_shared: bool = False
    """Whether it has a YAML anchor or is an alias, so that a change also changes other values."""


@dataclass(slots=True)
class Member:
    """A value with the position of its key."""

    key_start: int
    value: Node
    former_start: int | None = None
    """In JSON: the position of an earlier member with the same key, whose value does not count."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of ``text[start:end]`` by ``new``."""

    start: int
    end: int
    new: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return ``text`` with all ``edits``, whose positions are in the original text."""
    # Of two edits at one position, the replacement is applied first, so the insertion comes before its text.
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def find(node: Node | None, path: Sequence[Step]) -> Node | None:
    """Return the value at ``path`` inside ``node``; ``None`` if there is none."""
    for step in path:
        if node is None:
            return None
        if isinstance(step, str):
            member = (node.members or {}).get(step)
            node = member.value if member else None
        else:
            node = node.items[step] if node.items is not None and step < len(node.items) else None
    return node


def plain(node: Node | None) -> object:
    """Return the value as Python dicts, lists and scalars."""
    if node is None:
        return None
    if node.members is not None:
        return {key: plain(member.value) for key, member in node.members.items()}
    if node.items is not None:
        return [plain(item) for item in node.items]
    return node.scalar


def strings(node: Node | None) -> list[str] | None:
    """Return the items of a list of strings; ``None`` if the node is something else."""
    if node is None or node.items is None:
        return None
    texts = [item.scalar for item in node.items if isinstance(item.scalar, str)]
    return texts if len(texts) == len(node.items) else None


def text_of(node: Node | None) -> str | None:
    """Return a string value; ``None`` if it is something else."""
    return node.scalar if node is not None and isinstance(node.scalar, str) else None


def within(node: Node) -> Iterator[Node]:
    """Yield ``node`` and every value inside it."""
    yield node
    for member in (node.members or {}).values():
        yield from within(member.value)
    for item in node.items or ():
        yield from within(item)
