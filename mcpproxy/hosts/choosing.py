"""Find the files and servers that a user names in the options of a command; show changes and paths."""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcpproxy.base import paths
from mcpproxy.errors import UsageError, nearest
from mcpproxy.hosts.document import Document
from mcpproxy.hosts.host_table import Host, all_hosts
from mcpproxy.hosts.plans import FilePlan
from mcpproxy.hosts.server_entries import Search, ServerEntry, search, search_file
from mcpproxy.hosts.shown_text import shown_text
from mcpproxy.protocol.wording import pointer_steps

NOT_WRITTEN: Final = "nothing was written"
"""The end of the message for a user's mistake after which no file has changed."""


@dataclass(frozen=True, slots=True)
class Places:
    """The options that select the files to search. ``where`` is the name of the command, for errors.

    ``hosts`` are ids or names of hosts. ``key`` is the path to the servers in ``file``, with ``/`` between
    its levels. ``project`` is the folder whose project files are searched.
    """

    where: str
    hosts: Sequence[str]
    file: str | None
    key: str | None
    project: str | None

    @property
    def is_everywhere(self) -> bool:
        """Whether the options name no host and no file."""
        return not (self.hosts or self.file)

    def chosen_hosts(self) -> list[Host]:
        """Return the hosts that the user named.

        Raises:
            UsageError: a name is not the id or the name of a host.
        """
        return [_host_named(self.where, name) for name in self.hosts]


def search_chosen(options: Places) -> Search:
    """Return the servers in the files that the options name, by default those of all hosts.

    Raises:
        McpProxyError: an option names something that does not exist, two options exclude each other, or the
            file that ``--file`` names cannot be read.
    """
    if options.key and not options.file:
        raise UsageError(options.where, "--key needs --file", f"see mcpproxy {options.where} --help")
    if options.file:
        if options.hosts or options.project:
            raise UsageError(options.where, "--file names one file", "leave --host and --project out")
        if not os.path.exists(options.file):
            raise UsageError(options.file, "no such file", "a host makes its own file; mcpproxy makes none")
        return search_file(options.file, pointer_steps(f"/{options.key}" if options.key else ""))
    project = os.path.abspath(options.project or paths.working_directory() or os.path.expanduser("~"))
    if not os.path.isdir(project):
        raise UsageError(options.project or project, "no such folder", NOT_WRITTEN)
    return search(project, options.chosen_hosts() or None)


def _host_named(where: str, name: str) -> Host:
    hosts = {host.id: host for host in all_hosts()}
    if name in hosts:
        return hosts[name]
    by_name = {host.name.casefold(): host for host in hosts.values()}
    if name.casefold() in by_name:
        return by_name[name.casefold()]
    guess = nearest(name, hosts) or nearest(name, (host.name for host in hosts.values()))
    step = f"did you mean {guess}?" if guess else f"the hosts are {', '.join(hosts)}"
    raise UsageError(where, f"no host is called {name}", step)


def entry_named(entries: Sequence[ServerEntry], name: str, search: Search) -> ServerEntry:
    """Return the entry of the server ``name``.

    If several entries have this name, return the one that its file lists under the path of the project.

    Raises:
        McpProxyError: there is no such entry, or there are several. If there is none, nor one with a similar
            name, but a file could not be read, the error of that file is raised.
    """
    matching = [entry for entry in entries if entry.name == name]
    of_project = [entry for entry in matching if search.project in entry.at]
    if 1 in (len(matching), len(of_project)):
        return (of_project if len(of_project) == 1 else matching)[0]
    if matching:
        places = ", ".join(f"{entry.host.id} ({short(entry.file.path)})" for entry in matching)
        hosts = {entry.host.id for entry in matching}
        step = (
            "say which with --host"
            if len(hosts) == len(matching)
            else "say which with --file and --key, or take --all"
        )
        raise UsageError(name, f"{len(matching)} servers have this name: {places}", step)
    if guess := nearest(name, dict.fromkeys(entry.name for entry in search.entries)):
        host = next(entry.host.name for entry in search.entries if entry.name == guess)
        raise UsageError(name, "no host has a server of this name", f"did you mean {guess} of {host}?")
    if search.problems:  # the server may be in a file that could not be read
        raise search.problems[0]
    raise UsageError(name, "no host has a server of this name", "mcpproxy hosts lists them")


def differences(plans: Iterable[FilePlan]) -> Iterator[str]:
    """Yield the changes of the files, with secrets masked, as lines of a unified diff without context."""
    key = os.urandom(32)
    for plan in plans:
        before = plan.file.document
        after = Document(plan.file.path, plan.content, before.language)
        old, new = shown_text(before, key), shown_text(after, key)
        yield from difflib.unified_diff(
            _text_lines(old), _text_lines(new), plan.file.path, plan.file.path, n=0, lineterm=""
        )


def _text_lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def short(path: str) -> str:
    """Return a path with ``~`` for the home folder that it is in."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
