"""The edits that wrap an entry of a configuration file, and the edits that unwrap it.

The functions here take a ``Document`` (the text of the file) and the node of an entry in it. They return
edits of the text and write nothing.

A wrap of a command is at most two changes: mcpproxy replaces the command, and the former command is inserted
before the arguments. An ``EntryChange`` records a change with its place in the entry, not in the file, so
that the place is found later even if the rest of the file has changed. To unwrap, the old text replaces the
new text if that is still at its place; then every byte of the entry is as before. If the host has rewritten
the entry, the inserted words are removed instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcpproxy.hosts.document import Document, quoted
from mcpproxy.hosts.text_nodes import Edit, Node, Path, find, strings, text_of

At = Literal["value", "first item", "behind", "key"]
"""A place in an entry, relative to a path.

- ``value``: the value at the path;
- ``first item``: before the first item of the list at the path;
- ``behind``: directly after the value at the path;
- ``key``: before the key of the member at the path.
"""


@dataclass(frozen=True, slots=True)
class CommandShape:
    """The paths in an entry to its command and its arguments. Without ``args``, one list has both."""

    command: Path
    args: Path | None

    def argv(self, entry: Node) -> list[str] | None:
        """Return the command of the entry; ``None`` if it has no command of this shape, all in strings."""
        if self.args is None:
            return strings(find(entry, self.command)) or None
        program = text_of(find(entry, self.command))
        args = find(entry, self.args)
        words = [] if args is None or _is_null(args) else strings(args)
        return [program, *words] if program and words is not None else None


@dataclass(frozen=True, slots=True)
class EntryChange:
    """A change of an entry: at the place that ``at`` and ``path`` describe, text ``new`` replaced ``old``."""

    at: At
    path: Path
    old: str
    new: str


def wrap_changes(
    document: Document, entry: Node, shape: CommandShape, ours: Sequence[str]
) -> list[tuple[Edit, EntryChange]]:
    """Return the edits that make mcpproxy start the command of the entry, each with its record.

    ``ours`` are the words that start mcpproxy, its options, and ``--``.
    """
    command = find(entry, shape.command)
    assert command is not None
    if shape.args is None:
        return [_insertion(document, command, shape.command, [quoted(word) for word in ours])]
    program = quoted(ours[0])
    old = document.text[command.start : command.end]
    replaced = Edit(command.start, command.end, program), EntryChange("value", shape.command, old, program)
    tokens = [*map(quoted, ours[1:]), document.token(command)]
    args = find(entry, shape.args)
    if args is None:
        return [replaced, _new_member(document, entry, shape, command, tokens)]
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
    return [replaced, _insertion(document, args, shape.args, tokens)]


def _insertion(
    document: Document, items: Node, path: Path, tokens: Sequence[str]
) -> tuple[Edit, EntryChange]:
    """Return the edit that inserts ``tokens`` at the start of a list, in the layout of the list."""
    if not items.items:
        new, place = ", ".join(tokens), items.start + 1
    else:
        place = items.items[0].start
        separator = (
            _block_separator(document, place)
            if items.is_block
            else _flow_separator(document, items.start, place)
        )
        new = "".join(token + separator for token in tokens)
    return Edit(place, place, new), EntryChange("first item", path, "", new)


def _flow_separator(document: Document, start: int, first: int) -> str:
    """Return the text between two items in brackets.

    It is a comma, followed by the line break and indent before the first item, or else by a space.
    """
    lead = document.text[start + 1 : first]
    return f",{lead}" if lead.isspace() and "\n" in lead else ", "


def _block_separator(document: Document, first: int) -> str:
    """Return the text between two items of a YAML list with dashes: a new line, the indent and the dash."""
    line = document.text.rfind("\n", 0, first) + 1
    dash = document.text.rfind("-", line, first)
    return f"{document.line_end}{' ' * (dash - line)}{document.text[dash:first]}"


def _new_member(
    document: Document, entry: Node, shape: CommandShape, command: Node, tokens: Sequence[str]
) -> tuple[Edit, EntryChange]:
    """Return the edit that adds a member for the arguments to the object that has the command."""
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
    """Return the edits after which the entry starts its former command.

    Args:
        document: the present file.
        entry: the wrapped entry in it.
        shape: the shape of the entry's command.
        count: the number of words at the start of the command that belong to the wrap.
        changes: the recorded changes of the wrap; empty if there is no record.
    """
    undo_edits = [_undo_edit(document, entry, change) for change in changes]
    exact = [edit for edit in undo_edits if edit is not None]
    if exact and len(exact) == len(changes):
        return exact
    command = find(entry, shape.command)
    assert command is not None
    if shape.args is None:
        return [_removal(document, entry, shape.command, count)]
    args = find(entry, shape.args)
    assert args is not None
    assert args.items is not None
    first = args.items[count - 1]
    token = next((change.old for change in changes if change.path == shape.command), document.token(first))
    return [Edit(command.start, command.end, token), _removal(document, entry, shape.args, count)]


def are_made(document: Document, entry: Node, changes: Sequence[EntryChange]) -> bool:
    """Whether the entry has all of these changes, so that they can be undone exactly; true without any."""
    return all(_undo_edit(document, entry, change) for change in changes)


def _undo_edit(document: Document, entry: Node, change: EntryChange) -> Edit | None:
    """Return the edit that undoes ``change``; ``None`` if its new text is no longer at its place."""
    place = _position(entry, change)
    if place is None or not document.text.startswith(change.new, place):
        return None
    return Edit(place, place + len(change.new), change.old)


def _position(entry: Node, change: EntryChange) -> int | None:
    """Return the position of ``change.new`` in the text; ``None`` if the entry no longer has such a place."""
    node = find(entry, change.path)
    if node is None:
        return None
    match change.at:
        case "value":
            # ``change.new`` may begin with a space, which is before the node.
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


def _removal(document: Document, entry: Node, path: Path, count: int) -> Edit:
    """Return the edit that removes the first ``count`` items of the list at ``path``."""
    node = find(entry, path)
    assert node is not None
    assert node.items is not None
    first, rest = node.items[0], node.items[count:]
    if rest:
        return Edit(first.start, rest[0].start, "")
    if not node.is_block:
        return Edit(node.start + 1, node.end - 1, "")
    dash = document.text.rfind("-", 0, first.start)
    before = len(document.text[:dash].rstrip())  # after the colon of the key
    return Edit(before, node.items[-1].end, " []")


def _is_null(node: Node) -> bool:
    return node.scalar is None and node.members is None and node.items is None
