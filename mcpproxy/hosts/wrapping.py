"""What a wrap changes in the text of an entry, and how that is undone.

A wrap is at most two changes: the command becomes mcpproxy, and its former words are inserted at the head of
the arguments. An ``EntryChange`` says where it is in the entry, not in the file, so that it is found again
after the rest of the file has changed. Where its text is found, the old text is put in its place, which gives
the former bytes. Where a host has written the entry anew, the words are removed instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcpproxy.hosts.document import Document, quoted
from mcpproxy.hosts.text_nodes import Edit, Node, Path, find, strings, text_of

At = Literal["value", "first item", "behind", "key"]


@dataclass(frozen=True, slots=True)
class CommandShape:
    """Where an entry has its command. Without ``args`` the command is one list of words."""

    command: Path
    args: Path | None

    def argv(self, entry: Node) -> list[str] | None:
        """Return the command of the entry; ``None`` if it has no command of this shape."""
        if self.args is None:
            return strings(find(entry, self.command)) or None
        program = text_of(find(entry, self.command))
        args = find(entry, self.args)
        words = [] if args is None or _is_null(args) else strings(args)
        return [program, *words] if program and words is not None else None


@dataclass(frozen=True, slots=True)
class EntryChange:
    """In an entry, ``new`` stands for ``old`` at the place that ``at`` and ``path`` describe."""

    at: At
    path: Path
    old: str
    new: str


def wrap_changes(
    document: Document, entry: Node, shape: CommandShape, ours: Sequence[str]
) -> list[tuple[Edit, EntryChange]]:
    """Return what to change so that ``ours`` starts the command of the entry.

    ``ours`` are the words of mcpproxy with its options, and ``--`` as the last one.
    """
    command = find(entry, shape.command)
    assert command is not None
    if shape.args is None:
        return [_inserted(document, command, shape.command, [quoted(word) for word in ours])]
    program = quoted(ours[0])
    old = document.text[command.start : command.end]
    replaced = Edit(command.start, command.end, program), EntryChange("value", shape.command, old, program)
    tokens = [*map(quoted, ours[1:]), document.token(command)]
    args = find(entry, shape.args)
    if args is None:
        return [replaced, _added(document, entry, shape, command, tokens)]
    if _is_null(args):
        new = f"[{', '.join(tokens)}]"
        if document.language == "yaml" and args.start == args.end:
            new = f" {new}"
        return [
            replaced,
            (
                Edit(args.start, args.end, new),
                EntryChange("value", shape.args, document.text[args.start : args.end], new),
            ),
        ]
    return [replaced, _inserted(document, args, shape.args, tokens)]


def _inserted(document: Document, items: Node, path: Path, tokens: Sequence[str]) -> tuple[Edit, EntryChange]:
    """Insert ``tokens`` at the head of a list, in the way in which the list is written."""
    if not items.items:
        new, place = ", ".join(tokens), items.start + 1
    else:
        place = items.items[0].start
        separator = _dash(document, place) if items.is_block else _comma(document, items.start, place)
        new = "".join(token + separator for token in tokens)
    return Edit(place, place, new), EntryChange("first item", path, "", new)


def _comma(document: Document, start: int, first: int) -> str:
    """Return what separates the items: a comma, and a new line for each if the first item has its own."""
    lead = document.text[start + 1 : first]
    return f",{lead}" if lead.isspace() and "\n" in lead else ", "


def _dash(document: Document, first: int) -> str:
    line = document.text.rfind("\n", 0, first) + 1
    dash = document.text.rfind("-", line, first)
    return f"{document.line_end}{' ' * (dash - line)}{document.text[dash:first]}"


def _added(
    document: Document, entry: Node, shape: CommandShape, command: Node, tokens: Sequence[str]
) -> tuple[Edit, EntryChange]:
    """Add a member for the arguments, beside the command."""
    assert shape.args is not None
    holder = find(entry, shape.command[:-1])
    assert holder is not None
    assert holder.members is not None
    key_start = holder.members[str(shape.command[-1])].key_start
    text = document.text
    line = text.rfind("\n", 0, key_start) + 1
    lead = text[line:key_start]
    member = document.member(str(shape.args[-1]), tokens)
    if document.language == "json":
        before = len(text[:key_start].rstrip(" \t\r\n"))
        gap = text[before:key_start] if text[before - 1 : before] in "{," else ""
        place, new = command.end, f",{gap or ' '}{member}"
        return Edit(place, place, new), EntryChange("behind", shape.command, "", new)
    if document.language == "toml":
        new = f"{member}, " if "{" in lead else f"{member}{document.line_end}{lead}"
    else:
        is_flow = text[:key_start].rstrip().endswith(("{", ","))
        new = f"{member}, " if is_flow else f"{member}{document.line_end}{' ' * len(lead)}"
    return Edit(key_start, key_start, new), EntryChange("key", shape.args, "", new)


def unwrap_edits(
    document: Document, entry: Node, shape: CommandShape, count: int, changes: Sequence[EntryChange]
) -> list[Edit]:
    """Return what to change so that the entry starts its former command.

    Args:
        document: the file as it is now.
        entry: the wrapped entry in it.
        shape: where the entry has its command.
        count: how many words of the command are those of the wrap.
        changes: what the wrap has changed; empty if that is not known.
    """
    found = [_undone(document, entry, change) for change in changes]
    exact = [edit for edit in found if edit is not None]
    if exact and len(exact) == len(changes):
        return exact
    command = find(entry, shape.command)
    assert command is not None
    if shape.args is None:
        return [_without(document, entry, shape.command, count)]
    args = find(entry, shape.args)
    assert args is not None
    assert args.items is not None
    first = args.items[count - 1]
    token = next((change.old for change in changes if change.path == shape.command), document.token(first))
    return [Edit(command.start, command.end, token), _without(document, entry, shape.args, count)]


def _undone(document: Document, entry: Node, change: EntryChange) -> Edit | None:
    """Return the edit that undoes ``change``; ``None`` if its text is not there any more."""
    place = _place(entry, change)
    if place is None or not document.text.startswith(change.new, place):
        return None
    return Edit(place, place + len(change.new), change.old)


def _place(entry: Node, change: EntryChange) -> int | None:
    node = find(entry, change.path)
    if node is None:
        return None
    match change.at:
        case "value":
            return node.start - (len(change.new) - len(change.new.lstrip()))
        case "first item":
            return node.items[0].start if node.items else None
        case "behind":
            return node.end
        case "key":
            holder = find(entry, change.path[:-1])
            assert holder is not None
            assert holder.members is not None
            return holder.members[str(change.path[-1])].key_start


def _without(document: Document, entry: Node, path: Path, count: int) -> Edit:
    """Remove the first ``count`` items of the list at ``path``."""
    node = find(entry, path)
    assert node is not None
    assert node.items is not None
    first, rest = node.items[0], node.items[count:]
    if rest:
        return Edit(first.start, rest[0].start, "")
    if not node.is_block:
        return Edit(node.start + 1, node.end - 1, "")
    dash = document.text.rfind("-", 0, first.start)
    before = len(document.text[:dash].rstrip())  # the list begins behind the colon of its key
    return Edit(before, node.items[-1].end, " []")


def _is_null(node: Node) -> bool:
    return node.scalar is None and node.members is None and node.items is None
