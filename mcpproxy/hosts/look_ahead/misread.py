"""Say what a host will not read of a file that can be read here.

Most hosts accept comments and trailing commas. One that reads strict JSON drops the whole file, and with it
every server, mostly without a word. Of two members with one name every host reads the last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcpproxy.hosts.document import Document
from mcpproxy.hosts.jsonc import departures
from mcpproxy.hosts.server_entries import ServerEntry
from mcpproxy.hosts.text_nodes import find, within


@dataclass(frozen=True, slots=True)
class Misreading:
    """What a host will not read of a file, from ``line`` on: the fact, and the next step."""

    path: str
    line: int
    fact: str
    next_step: str


def misreadings(entries: Sequence[ServerEntry]) -> Iterator[Misreading]:
    """Yield what the hosts of ``entries`` will not read of their files, each once."""
    by_file = {(entry.file.real_path, entry.host.id): entry for entry in entries}
    for entry in by_file.values():
        if entry.row.strict:
            yield from _dropped(entry)
    yield from dict.fromkeys(repeated for entry in entries for repeated in _repeated(entry))


def _dropped(entry: ServerEntry) -> Iterator[Misreading]:
    """Yield the first of each departure from strict JSON, for which the host drops the whole file."""
    document = entry.file.document
    first: dict[str, int] = {}
    for index, fact in departures(document.text):
        first.setdefault(fact, index)
    for fact, index in first.items():
        told = f"{fact}, and {entry.host.name} reads strict JSON: it drops the file with all its servers"
        yield Misreading(entry.file.path, _line(document, index), told, "remove it")


def _repeated(entry: ServerEntry) -> Iterator[Misreading]:
    """Yield the members on the way to an entry, and in it, whose name an earlier member has."""
    document = entry.file.document
    around = [find(document.root, entry.at[:length]) for length in range(len(entry.at))]
    on_the_way = zip(around, entry.at, strict=True)
    members = [(key, (node.members or {}).get(str(key))) for node, key in on_the_way if node is not None]
    members += [(key, member) for node in within(entry.node) for key, member in (node.members or {}).items()]
    for key, member in members:
        if member is not None and member.former_start is not None:
            former = _line(document, member.former_start)
            told = f'a second "{key}": a host does not read the first one, in line {former}'
            yield Misreading(
                entry.file.path, _line(document, member.key_start), told, "rename or remove one of them"
            )


def _line(document: Document, index: int) -> int:
    return document.text.count("\n", 0, index) + 1
