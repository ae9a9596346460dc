"""Add ``mcpproxy mcp``, the server that shows recordings to agents, to a host's file, and remove it again.

Only one member is inserted or removed; the rest of the text stays. This works for JSON and TOML. In YAML, and
in lists of servers, the place of a new entry depends on the layout, so the user gets the entry as text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from mcpproxy.hosts.commands import own_program, program_words
from mcpproxy.hosts.config_writer import check_writable
from mcpproxy.hosts.document import Document, quoted
from mcpproxy.hosts.errors import HostFileError, not_alone
from mcpproxy.hosts.host_table import Host, ServerFile, path_to_show, paths_of
from mcpproxy.hosts.plans import FilePlan
from mcpproxy.hosts.server_entries import ServerEntry, read_file
from mcpproxy.hosts.text_nodes import Edit, Node, edited, find, plain

NAME: Final = "mcpproxy"
"""The name of the entry. Hosts show it before the names of the tools."""

_COMMAND: Final = "mcp"
_INDENTED: Final = re.compile(r"\n([ \t]+)\S")
"""The first indented line of a JSON text; its indent is that of a level."""
_TABLE_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
"""The header of a table of TOML."""


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """The entry for ``mcpproxy mcp``, and the file that gets it, by its row of ``hosts.toml``."""

    host: Host
    row: ServerFile
    value: Mapping[str, object]

    @property
    def text(self) -> str:
        """The entry as text, for a user who adds it by hand."""
        return f"{json.dumps({NAME: dict(self.value)})} under {'.'.join(self.row.key)}"


def is_own(entry: ServerEntry) -> bool:
    """Whether the entry starts ``mcpproxy mcp``."""
    words = program_words(entry.argv)
    return bool(words) and entry.argv[words : words + 1] == (_COMMAND,)


def own_entry(host: Host) -> OwnEntry:
    """Return the entry for the user's file of ``host``: the first that exists, or else the first of all.

    Raises:
        HostFileError: no file of the user can get an entry for a server of this host.
        UsageError: this mcpproxy is in a temporary environment (see ``own_program``).
    """
    rows = [
        row for row in host.files if row.scope == "user" and not (row.leave or row.is_acp or "*" in row.key)
    ]
    if not rows:
        raise HostFileError(host.name, "keeps no servers in a file of the user's", "name a file with --file")
    existing = [row for row in rows if any(paths_of(row, ""))]
    words = [*own_program(), _COMMAND]
    shape = host.shapes[0]
    value: dict[str, object] = dict(host.entry)
    value[str(shape.command[0])] = words if shape.args is None else words[0]
    if shape.args is not None:
        value[str(shape.args[0])] = words[1:]
    return OwnEntry(host, (existing or rows)[0], value)


def plan_addition(entry: OwnEntry) -> FilePlan:
    """Return the plan that adds ``entry`` to the file of its host.

    Raises:
        HostFileError: the file does not exist, cannot be read or written, has an entry of this name, or has
            no table of servers to which an entry can be added; or the change would also change other values.
    """
    path, root = next(paths_of(entry.row, ""), (path_to_show(entry.row), ""))
    if not root:
        raise HostFileError(
            path, "no such file", f"let {entry.host.name} make it, or put there: {entry.text}"
        )
    file = read_file(path, root)
    check_writable(file)
    document, key = file.document, entry.row.key
    if find(document.root, (*key, NAME)) is not None:
        raise HostFileError(path, f"a server is called {NAME} already", "mcpproxy hosts shows what it starts")
    edit = _insertion(document, (*key, NAME), entry.value)
    if edit is None:
        raise HostFileError(
            path, "its servers are no table to which one can be added", f"put there: {entry.text}"
        )
    return _checked_plan(FilePlan(file, new_text=edited(document.text, [edit])), (*key, NAME), entry.value)


def plan_removal(entry: ServerEntry) -> FilePlan:
    """Return the plan that removes ``entry``.

    Raises:
        HostFileError: the file cannot be written, or the change would also change other values.
    """
    check_writable(entry.file)
    document = entry.file.document
    edit = _removal(document, entry)
    if edit is None:
        raise not_alone(entry.file.path)
    return _checked_plan(FilePlan(entry.file, new_text=edited(document.text, [edit])), entry.at, None)


def _insertion(document: Document, path: Sequence[str], value: Mapping[str, object]) -> Edit | None:
    if document.language == "json":
        return json_insertion(document, path, value)
    if document.language == "toml":
        return _toml_insertion(document, path, value)
    return None


def json_insertion(document: Document, path: Sequence[str], value: object) -> Edit | None:
    """Return the edit that adds ``value`` at ``path``, at the end of its table; missing tables are created.

    Return ``None`` if the value that should contain it is not a table.
    """
    text, holder, depth = document.text, document.root, 0
    while depth < len(path) - 1 and (inner := find(holder, path[depth : depth + 1])) is not None:
        holder, depth = inner, depth + 1
    if holder.members is None:
        return None
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    unit = (_INDENTED.search(text) or ["", "  "])[1]
    end = document.line_end
    if not holder.members:
        outer = _indentation(text, holder.start)
        new = f"{end}{outer}{unit}{_member(path[depth], value, outer + unit, unit, end)}"
        if text[holder.start + 1 : holder.end - 1].strip():  # a comment, which stays
            return Edit(holder.start + 1, holder.start + 1, new)
        return Edit(holder.start + 1, holder.end - 1, f"{new}{end}{outer}")
    last = max(holder.members.values(), key=lambda member: member.key_start)
    if text[text.rfind("\n", 0, last.key_start) + 1 : last.key_start].strip():  # all on one line
        return Edit(last.value.end, last.value.end, f", {quoted(path[depth])}: {json.dumps(value)}")
    indent = _indentation(text, last.key_start)
    new = f",{end}{indent}{_member(path[depth], value, indent, unit, end)}"
    return Edit(last.value.end, last.value.end, new)


def _member(name: str, value: object, indent: str, unit: str, line_end: str) -> str:
    """Return the text of a member on several lines: ``indent`` is its own, ``unit`` that of a level."""
    lines = json.dumps(value, indent=unit, ensure_ascii=False).splitlines()
    return f"{quoted(name)}: {f'{line_end}{indent}'.join(lines)}"


def _indentation(text: str, at: int) -> str:
    """Return the white space at the start of the line that contains the position ``at``."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _toml_insertion(document: Document, path: Sequence[str], value: Mapping[str, object]) -> Edit | None:
    """Return the edit that adds a table at the end; ``None`` if the servers are a list or an inline table."""
    text, holder = document.text, find(document.root, path[:-1])
    if holder is not None and (holder.members is None or holder.end):  # a list, or an inline table
        return None
    end = document.line_end
    lines = [f"[{'.'.join(path)}]", *(f"{name} = {json.dumps(member)}" for name, member in value.items())]
    before = "" if not text or text.endswith(end) else end
    return Edit(len(text), len(text), f"{before}{end if text else ''}{end.join(lines)}{end}")


def _removal(document: Document, entry: ServerEntry) -> Edit | None:
    holder = find(document.root, entry.at[:-1])
    assert holder is not None
    if document.language == "toml":
        return _toml_removal(document, entry)
    if document.language != "json" or holder.members is None:
        return None
    return json_removal(document, holder, entry.node)


def json_removal(document: Document, holder: Node, node: Node) -> Edit:
    """Return the edit that removes the member with the value ``node`` from the table ``holder``."""
    assert holder.members is not None
    text = document.text
    members = sorted(holder.members.values(), key=lambda member: member.key_start)
    index = next(index for index, member in enumerate(members) if member.value is node)
    if len(members) == 1:
        around = text[holder.start + 1 : members[0].key_start] + text[node.end : holder.end - 1]
        if not around.strip(" \t\r\n,"):
            return Edit(holder.start + 1, holder.end - 1, "")
        return Edit(members[0].key_start, node.end, "")
    if index:
        return Edit(members[index - 1].value.end, node.end, "")
    return Edit(members[0].key_start, members[1].key_start, "")


def _toml_removal(document: Document, entry: ServerEntry) -> Edit | None:
    """Return the edit that removes a table, up to the next header, and an empty line before it.

    Return ``None`` if no header is written as ``_toml_insertion`` writes it.
    """
    text, name = document.text, ".".join(map(str, entry.at))
    head = re.search(rf"^\[{re.escape(name)}\][ \t\r]*$", text, re.MULTILINE)
    if head is None:
        return None
    start, end = head.start(), document.line_end
    following = _TABLE_HEADER.search(text, head.end())
    if text[:start].endswith(end * 2):
        start -= len(end)
    return Edit(start, following.start() if following else len(text), "")


def _checked_plan(plan: FilePlan, path: Sequence[str | int], value: Mapping[str, object] | None) -> FilePlan:
    """Return ``plan`` if its new text has ``value`` at ``path``, and otherwise the old values.

    If ``value`` is ``None``, nothing may be at ``path``.

    Raises:
        HostFileError: the new text has other values.
    """
    try:
        after = Document(plan.file.path, plan.content, plan.file.document.language)
    except HostFileError:
        raise not_alone(plan.file.path) from None
    if plain(after.root) != _expected(plan.file.document, path, value):
        raise not_alone(plan.file.path)
    return plan


def _expected(document: Document, path: Sequence[str | int], value: Mapping[str, object] | None) -> object:
    """Return the content of the document with ``value`` at ``path``.

    If ``value`` is ``None``, nothing is at ``path``; in TOML, tables that this leaves empty are gone, too.
    """
    values = plain(document.root)
    holders = [cast("dict[str | int, object]", values)]
    for step in path[:-1]:
        holders.append(cast("dict[str | int, object]", holders[-1].setdefault(step, {})))
    if value is not None:
        holders[-1][path[-1]] = value
        return values
    for holder, step in zip(reversed(holders), reversed(path), strict=True):
        del holder[step]
        if holder or document.language == "json":  # TOML has no table without its last member
            break
    return values
