"""Options and texts that ``hosts``, ``wrap`` and ``unwrap`` share."""

import argparse
import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mcpproxy.base import paths
from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import Parser, UsageError, nearest
from mcpproxy.cli.terminal import tell
from mcpproxy.hosts.entries import Entry, Search, search, search_file
from mcpproxy.hosts.host_table import Host, all_hosts
from mcpproxy.hosts.plans import FilePlan

NOT_WRITTEN: Final = "nothing was written"


def add_place_options(parser: Parser) -> None:
    """Add the options that say in which files to look."""
    parser.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="only this host; may be given again"
    )
    parser.add_argument("--file", metavar="PATH", help="only this file, also one of a host that is not known")
    parser.add_argument(
        "--key", metavar="KEY", help="with --file: the key of its servers; levels are divided by /"
    )
    parser.add_argument(
        "--project", metavar="DIR", help="the folder whose project files are looked for (the current one)"
    )


def look(options: argparse.Namespace, where: str) -> Search:
    """Return what is in the files that the options name.

    Raises:
        McpProxyError: an option names nothing, or the file cannot be read.
    """
    if options.key and not options.file:
        raise UsageError(where, "--key needs --file", f"see mcpproxy {where} --help")
    if options.file:
        if options.host or options.project:
            raise UsageError(where, "--file names one file", "leave --host and --project out")
        if not os.path.exists(options.file):
            raise UsageError(options.file, "no such file", "a host makes its own file; mcpproxy makes none")
        return search_file(options.file, options.key.split("/") if options.key else ())
    project = os.path.abspath(options.project or paths.working_directory() or os.path.expanduser("~"))
    if not os.path.isdir(project):
        raise UsageError(options.project, "no such folder", NOT_WRITTEN)
    return search(project, [_host(where, name) for name in options.host] or None)


def _host(where: str, name: str) -> Host:
    hosts = {host.id: host for host in all_hosts()}
    if name in hosts:
        return hosts[name]
    by_name = {host.name.casefold(): host for host in hosts.values()}
    if name.casefold() in by_name:
        return by_name[name.casefold()]
    guess = nearest(name, hosts) or nearest(name, (host.name for host in hosts.values()))
    step = f"did you mean {guess}?" if guess else f"the hosts are {', '.join(hosts)}"
    raise UsageError(where, f"no host is called {name}", step)


def named(entries: Sequence[Entry], name: str, found: Search) -> Entry:
    """Return the one entry of the server ``name``.

    Raises:
        McpProxyError: there is none, or there are several.
    """
    matching = [entry for entry in entries if entry.name == name]
    if len(matching) == 1:
        return matching[0]
    if matching:
        places = ", ".join(f"{entry.host.id} ({short(entry.file.path)})" for entry in matching)
        hosts = {entry.host.id for entry in matching}
        step = (
            "say which with --host" if len(hosts) == len(matching) else "say which with --file, or take --all"
        )
        raise UsageError(name, f"{len(matching)} servers have this name: {places}", step)
    if found.problems:
        raise found.problems[0]
    if guess := nearest(name, dict.fromkeys(entry.name for entry in found.entries)):
        host = next(entry.host.name for entry in found.entries if entry.name == guess)
        raise UsageError(name, "no host has a server of this name", f"did you mean {guess} of {host}?")
    raise UsageError(name, "no host has a server of this name", "mcpproxy hosts lists them")


def confirm(question: str, where: str) -> bool:
    """Ask on the terminal.

    Raises:
        UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            where, "asks first, and there is no terminal to ask on", "add --yes, or --dry-run to look"
        )
    sys.stdout.flush()
    sys.stderr.write(f"{visible(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def differences(plans: Iterable[FilePlan]) -> Iterator[str]:
    """Yield what would change in the files, as a diff without lines around."""
    for plan in plans:
        old, new = plan.file.document.text, plan.new_text
        yield from difflib.unified_diff(
            _lines(old), _lines(new), plan.file.path, plan.file.path, n=0, lineterm=""
        )


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def report_problems(found: Search) -> int:
    """Print why files were left alone; return the exit code."""
    for problem in found.problems:
        tell(str(problem))
    return 2 if found.problems else 0


def short(path: str) -> str:
    """Return a path as people write it: ``~`` for the home folder."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
