"""Find parts of a file that mcpproxy can read, but the file's host will not.

Most hosts accept comments and trailing commas. A host that reads strict JSON ignores such a file, and so all
servers in it, mostly without any message. If two members have the same name, every host reads the last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcpproxy.hosts.document import Document
from mcpproxy.hosts.jsonc import departures
from mcpproxy.hosts.server_entries import ServerEntry
from mcpproxy.hosts.text_nodes import find, within


@dataclass(frozen=True, slots=True)
class Misreading:
    """A part of a file, at ``line``, that a host will not read, or for which it ignores the file."""

    path: str
    line: int
    fact: str
    next_step: str


def misreadings(entries: Sequence[ServerEntry]) -> Iterator[Misreading]:
    """Yield the parts of their files that the hosts of ``entries`` will not read, each once."""
    by_file = {(entry.file.real_path, entry.host.id): entry for entry in entries}
    for entry in by_file.values():
        if entry.row.strict:
            yield from _strict_misreadings(entry)
    yield from dict.fromkeys(member for entry in entries for member in _repeated_members(entry))


def _strict_misreadings(entry: ServerEntry) -> Iterator[Misreading]:
    """Yield the first of each kind of departure from strict JSON, for which the host ignores the file."""
    document = entry.file.document
    first: dict[str, int] = {}
    for index, name in departures(document.text):
        first.setdefault(name, index)
    for name, index in first.items():
        fact = f"{name}, and {entry.host.name} reads strict JSON: it drops the file with all its servers"
        yield Misreading(entry.file.path, _line_of(document, index), fact, "remove it")


def _repeated_members(entry: ServerEntry) -> Iterator[Misreading]:
    """Yield the members on the path to an entry, and inside it, whose name an earlier member has."""
    document = entry.file.document
    around = [find(document.root, entry.at[:length]) for length in range(len(entry.at))]
    path = zip(around, entry.at, strict=True)
    members = [(key, (node.members or {}).get(str(key))) for node, key in path if node is not None]
    members += [(key, member) for node in within(entry.node) for key, member in (node.members or {}).items()]
    for key, member in members:
        if member is not None and member.former_start is not None:
            former = _line_of(document, member.former_start)
            fact = f'a second "{key}": a host does not read the first one, in line {former}'
            yield Misreading(
                entry.file.path, _line_of(document, member.key_start), fact, "rename or remove one of them"
            )


def _line_of(document: Document, index: int) -> int:
    return document.text.count("\n", 0, index) + 1
