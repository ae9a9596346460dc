"""Shared by ``wrap`` and ``unwrap``: find the named servers, ask the user, and change files one by one.

With ``--all``, a command leaves out servers that cannot be changed, and goes on. With names, the first
obstacle ends it before anything is written.
"""

import argparse
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

from mcpproxy.base.style import count
from mcpproxy.base.visible import visible
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.terminal import emit, tell
from mcpproxy.hosts.choosing import entry_named, short
from mcpproxy.hosts.errors import HostFileError, UnrecordedError
from mcpproxy.hosts.ledger import Ledger
from mcpproxy.hosts.plans import FilePlan
from mcpproxy.hosts.server_entries import Search, ServerEntry


def check_names_or_all(where: str, options: argparse.Namespace) -> None:
    """Check that the arguments of the command ``where`` either name servers or say ``--all``.

    Raises:
        UsageError: they do both or neither.
    """
    if bool(options.server) == options.all:
        fact = "--all and a name were given" if options.all else "no server was named"
        raise UsageError(where, fact, "name a server, or say --all; mcpproxy hosts lists them")


def find_entry(entries: Sequence[ServerEntry], name: str, search: Search) -> ServerEntry:
    """Return the entry with this name. If there are several, print which one was chosen.

    Raises:
        McpProxyError: there is no such entry, or there are several and none is this project's.
    """
    chosen = entry_named(entries, name, search)
    if others := [entry for entry in entries if entry.name == name and entry is not chosen]:
        where = ", ".join(f"{entry.host.name} ({short(entry.file.path)})" for entry in others)
        tell(f"{name}: the one of this project in {short(chosen.file.path)}; also in {where}")
    return chosen


def is_confirmed(verb: str, plans: Sequence[FilePlan]) -> bool:
    """Show the plans of ``wrap`` or ``unwrap``, ask on the terminal, and return whether the answer is yes.

    Raises:
        UsageError: there is no terminal.
    """
    for plan in plans:
        emit([f"{visible(plan.steps[0].entry.host.name)}  {visible(short(plan.file.path))}"])
        emit(f"  {visible(step.entry.name)}  {visible(step.entry.title)}" for step in plan.steps)
    if not sys.stdin.isatty():
        raise UsageError(
            f"{verb} --all",
            "asks first, and there is no terminal to ask on",
            "add --yes, or --dry-run to look",
        )
    number = sum(len(plan.steps) for plan in plans)
    return ask(f"{verb} {count(number, 'server')} in {count(len(plans), 'file')}?")


def rest_of_file(*, is_original: bool) -> str:
    """Return a clause about the rest of a file from which our change was removed."""
    return (
        "the file is as it was before, to the byte" if is_original else "the rest of the file stays as it is"
    )


def ask(question: str) -> bool:
    """Ask on the terminal, and return whether the answer is yes."""
    sys.stdout.flush()
    sys.stderr.write(f"{visible(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Changes:
    """The changes of one command. ``code`` is its exit code: 2 if something was left out or not written."""

    def __init__(self, *, goes_on: bool, code: int = 0) -> None:
        """Begin with exit code ``code``. With ``goes_on``, changes that cannot be planned are left out."""
        self.code = code
        self._goes_on = goes_on

    @contextmanager
    def planning(self) -> Generator[None]:
        """Report why the block cannot plan its change, and go on after it.

        Raises:
            HostFileError: the change cannot be planned, and the command does not go on without it.
        """
        try:
            yield
        except HostFileError as problem:
            if not self._goes_on:
                raise
            self._report_problem(problem)

    def written(
        self, plans: Sequence[FilePlan], write: Callable[[FilePlan, Ledger], None], ledger: Ledger
    ) -> Iterator[FilePlan]:
        """Carry out ``plans`` with ``write``. Yield those whose file was written, and report the others.

        A file that was written, but is not in ``ledger``, our list of changes, is reported and yielded.
        """
        for plan in plans:
            try:
                write(plan, ledger)
            except HostFileError as problem:
                self._report_problem(problem)
                if not isinstance(problem, UnrecordedError):
                    continue
            yield plan

    def _report_problem(self, problem: HostFileError) -> None:
        tell(str(problem))
        self.code = 2
