"""Find the servers that the configuration files of hosts name.

A host is a program that starts MCP servers. A server is wrapped if its host starts it through mcpproxy.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from mcpproxy.base import files, paths
from mcpproxy.base.system_words import os_reason
from mcpproxy.hosts.commands import wrapping_words
from mcpproxy.hosts.document import Document, language_of
from mcpproxy.hosts.errors import HostFileError
from mcpproxy.hosts.host_table import Host, ServerFile, all_hosts, other_host, paths_of
from mcpproxy.hosts.remote import address_of
from mcpproxy.hosts.text_nodes import Node, Path, Step, find, plain, text_of, within
from mcpproxy.hosts.wrapping import CommandShape

LARGEST_BYTES: Final = 64 << 20
"""The size limit of the configuration files that are read, in bytes."""

_URL_PATHS: Final[tuple[Path, ...]] = (("url",), ("serverUrl",), ("httpUrl",), ("uri",), ("transport", "url"))
"""The paths in an entry at which hosts have the address of a remote server."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that has been read. It was found at ``path``; ``real_path`` is the path to which links lead."""

    path: str
    real_path: str
    data: bytes
    document: Document
    is_outside: bool
    """Whether a link leads out of both the home folder and the folder that ``read_file`` was given."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """The entry of one server in the file of a host.

    ``row`` is the row of ``hosts.toml`` that describes the file, ``node`` the value of the entry. ``shape``
    says where the entry has its command; ``None`` if it has none. ``url`` is the address of a remote server;
    empty for any other.
    """

    host: Host
    row: ServerFile
    file: ConfigFile
    at: Path
    """The path to the entry in the file."""
    name: str
    node: Node
    shape: CommandShape | None = None
    argv: tuple[str, ...] = ()
    """The command that the host starts; empty if the entry has none."""
    url_at: Path | None = None
    """The path in the entry to the address of a remote server; ``None`` for any other server."""
    url: str = ""
    reason: str = ""
    """The reason why the entry cannot be wrapped; empty if it can. A remote entry always has one, because it
    is wrapped only on request (``plan_http_wrap``)."""

    @property
    def place(self) -> tuple[str, Path]:
        """The key of the entry in the ledger, with the server's name even in a list, where indexes change."""
        return self.file.real_path, (*self.at[:-1], self.name)

    @property
    def wrapping(self) -> int:
        """The number of words of the command that belong to a wrap; 0 if the entry is not wrapped."""
        return wrapping_words(self.argv)

    @property
    def inner_argv(self) -> tuple[str, ...]:
        """The command of the server itself, without a wrap."""
        return self.argv[self.wrapping :]

    @property
    def title(self) -> str:
        """The name of the server's program, or its address, as short text without secrets; or else ``-``."""
        if self.inner_argv:
            return paths.label_for(list(self.inner_argv))
        if not self.url:
            return "-"
        address = address_of(self.url)
        return f"{address.scheme}://{address.hostname}" if address else "a URL with variables or a user"

    @property
    def label(self) -> str:
        """The label of the server's recordings."""
        prefix = "" if self.host.id == "other" else f"{self.row.label or self.host.id}."
        return paths.safe(f"{prefix}{paths.safe(self.name) or 'server'}")

    @property
    def cautions(self) -> list[str]:
        """Facts that the user should know before the entry is wrapped."""
        return list(_applying_texts(self.host.cautions, self.node))

    def digest(self, upstream: str = "") -> str:
        """Return a hash of the entry, which is the same with and without a wrap.

        ``upstream`` is the address that a wrap has replaced.
        """
        value = plain(self.node)
        self.remove_command(value)
        text = json.dumps([value, self.inner_argv, upstream or self.url], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def remove_command(self, value: object) -> None:
        """Remove from ``value``, the plain value of the entry, the members that a wrap changes."""
        paths = (self.url_at,) if self.shape is None else (self.shape.command, self.shape.args)
        for path in filter(None, paths):
            holder = value
            for step in path[:-1]:
                holder = cast("dict[Step, object]", holder).get(step) if isinstance(holder, dict) else None
            if isinstance(holder, dict):
                cast("dict[Step, object]", holder).pop(path[-1], None)


@dataclass(slots=True)
class Search:
    """The servers that were found on this machine."""

    project: str = ""
    """The folder whose project files were searched; empty if a file was named instead."""
    by_place: dict[tuple[str, Path], ServerEntry] = field(default_factory=dict[tuple[str, Path], ServerEntry])
    """The entries, by ``ServerEntry.place``."""
    files: dict[str, ConfigFile] = field(default_factory=dict[str, ConfigFile])
    """The files that were read, by the path that links lead to."""
    problems: list[HostFileError] = field(default_factory=list[HostFileError])
    """The errors of files that could not be read."""

    @property
    def entries(self) -> list[ServerEntry]:
        """The entries in the order in which they were found."""
        return list(self.by_place.values())


def search(project: str, hosts: Sequence[Host] | None = None) -> Search:
    """Return the servers in the files of ``hosts`` (by default all hosts).

    The files are those that ``paths_of`` finds, with ``project`` as the folder of the project. The errors of
    those that cannot be read are among the ``problems`` of the result.
    """
    search = Search(project)
    refused: set[str] = set()
    for host in all_hosts() if hosts is None else hosts:
        for row in host.files:
            for path, root in paths_of(row, project):
                real = os.path.realpath(path)
                if real in refused:
                    continue
                try:
                    file = search.files.get(real) or read_file(path, root)
                except HostFileError as problem:
                    refused.add(real)
                    search.problems.append(problem)
                    continue
                search.files[real] = file
                _add_entries(search, _entries(host, row, file))
    return search


def search_file(path: str, key: Sequence[str]) -> Search:
    """Return the servers in one file that the user names, under ``key``, or under keys that hosts use.

    Raises:
        HostFileError: the file cannot be read.
    """
    real = os.path.realpath(path)
    hosts = [
        host for host in all_hosts() for row in host.files if real in _real_paths(row, os.path.dirname(real))
    ]
    search = Search(files={real: (file := read_file(path, os.path.dirname(os.path.abspath(path))))})
    for host in (*dict.fromkeys(hosts), other_host(key)):
        for row in host.files:
            if host.id == "other" or (real in _real_paths(row, os.path.dirname(real)) and not key):
                _add_entries(search, _entries(host, row, file))
    return search


def _add_entries(search: Search, entries: Iterator[ServerEntry]) -> None:
    """Add ``entries``, except those already found for another host that reads the same file."""
    for entry in entries:
        search.by_place.setdefault(entry.place, entry)


def _real_paths(row: ServerFile, project: str) -> list[str]:
    return [os.path.realpath(path) for path, _ in paths_of(row, project)]


def read_file(path: str, root: str) -> ConfigFile:
    """Read a file that a host keeps in the folder ``root``.

    Raises:
        HostFileError: the file cannot be read, or is not valid in its language.
    """
    real = os.path.realpath(path)
    try:
        data = files.read(real, LARGEST_BYTES)
    except OSError as fault:
        raise HostFileError(path, f"cannot be read ({os_reason(fault)})", "check its permissions") from None
    folders = (root, os.path.expanduser("~"))
    starts_inside = any(is_below(os.path.abspath(path), folder) for folder in folders)
    ends_inside = any(is_below(real, os.path.realpath(folder)) for folder in folders)
    is_outside = starts_inside and not ends_inside
    return ConfigFile(path, real, data, Document(path, data, language_of(path)), is_outside)


def is_below(path: str, folder: str) -> bool:
    """Whether ``path`` is inside ``folder``, by their texts alone."""
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _entries(host: Host, row: ServerFile, file: ConfigFile) -> Iterator[ServerEntry]:
    """Yield the entries in a file that ``row`` describes."""
    if row.single:
        at = (*row.key, row.single)
        if (node := find(file.document.root, at)) is not None:
            name = text_of(find(file.document.root, ("name",))) or os.path.basename(
                os.path.dirname(file.path)
            )
            yield entry_of(host, row, file, at, name, node)
        return
    for holder_at, holder in _holders(file.document.root, (), row.key):
        for name, member in (holder.members or {}).items():
            yield entry_of(host, row, file, (*holder_at, name), name, member.value)
        for index, item in enumerate(holder.items or ()):
            if name := text_of(find(item, ("name",))):
                yield entry_of(host, row, file, (*holder_at, index), name, item)


def _holders(node: Node, at: Path, key: Sequence[str]) -> Iterator[tuple[Path, Node]]:
    """Yield the tables or lists of servers below ``node``, each with its path; ``key`` leads to them."""
    if not key:
        yield at, node
        return
    for name in (node.members or {}) if key[0] == "*" else key[:1]:
        if (inner := find(node, (name,))) is not None:
            yield from _holders(inner, (*at, name), key[1:])


def entry_in(file: ConfigFile, place: Path, host: Host) -> ServerEntry | None:
    """Return the entry at ``place``; ``None`` if there is none.

    ``place`` is a path that ends with the name of the server even in a list, as in ``ServerEntry.place``.
    """
    row = next((row for row in host.files if _leads_to(row, place)), host.files[0])
    holder = find(file.document.root, place[:-1])
    if holder is None:
        return None
    name = place[-1]
    for index, item in enumerate(holder.items or ()):
        if text_of(find(item, ("name",))) == name:
            return entry_of(host, row, file, (*place[:-1], index), str(name), item)
    node = find(holder, (name,))
    return entry_of(host, row, file, place, str(name), node) if node else None


def _leads_to(row: ServerFile, place: Path) -> bool:
    """Whether the key of ``row``, followed by the name of a server, is the path ``place``."""
    return len(row.key) + 1 == len(place) and all(a in ("*", b) for a, b in zip(row.key, place, strict=False))


def entry_of(host: Host, row: ServerFile, file: ConfigFile, at: Path, name: str, node: Node) -> ServerEntry:
    """Return the entry of the server ``name``; if it cannot be wrapped, with the ``reason``."""
    if row.leave:
        reason = row.leave
    elif node.members is None:
        reason = "not a table of settings"
    elif _is_shared(file.document.root, at, host.shapes):
        reason = "shared with other entries by a YAML anchor"
    else:
        reason = next(_applying_texts(host.obstacles, node), "")
    for shape in host.shapes:
        if argv := shape.argv(node):
            return ServerEntry(host, row, file, at, name, node, shape, tuple(argv), reason=reason)
    for url_at in _URL_PATHS:
        if url := text_of(find(node, url_at)):
            reason = reason or "remote, reached over HTTP"
            return ServerEntry(host, row, file, at, name, node, url_at=url_at, url=url, reason=reason)
    has_command = any(find(node, shape.command) for shape in host.shapes)
    fact = "its command or arguments have a wrong type" if has_command else "has no command of its own"
    return ServerEntry(host, row, file, at, name, node, reason=reason or fact)


def _applying_texts(texts: Sequence[tuple[str, str]], entry: Node) -> Iterator[str]:
    """Yield the texts whose member the entry has, with a value other than false, 0 and null."""
    for key, text in texts:
        if (value := find(entry, (key,))) is not None and plain(value) not in (False, None):
            yield text


def _is_shared(root: Node, at: Path, shapes: Sequence[CommandShape]) -> bool:
    """Whether command, arguments, or a value around them has a YAML anchor or is an alias."""
    around = [find(root, at[:length]) for length in range(len(at) + 1)]
    parts = [find(root, (*at, path[0])) for shape in shapes for path in (shape.command, shape.args) if path]
    inside = [inner for part in parts if part for inner in within(part)]
    return any(node.is_shared for node in (*around, *inside) if node)
