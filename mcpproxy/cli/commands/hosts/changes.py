"""Shared by ``wrap`` and ``unwrap``: checks which servers are named, and changes files one by one.

With ``--all``, a command leaves out servers that cannot be changed, and goes on. With names, the first
obstacle ends it before anything is written.
"""

import argparse
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.terminal import tell
from mcpproxy.hosts.errors import HostFileError, UnrecordedError
from mcpproxy.hosts.ledger import Ledger
from mcpproxy.hosts.plans import FilePlan


def check_names_or_all(where: str, options: argparse.Namespace) -> None:
    """Check that the arguments either name servers or say ``--all``.

    Raises:
        UsageError: they do both or neither. ``where`` is the command.
    """
    if bool(options.server) == options.all:
        fact = "--all and a name were given" if options.all else "no server was named"
        raise UsageError(where, fact, "name a server, or say --all; mcpproxy hosts lists them")


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
        """Yield each of ``plans`` whose file is written, and report why others are not.

        A file that was written, but is not in the ledger, is reported and yielded.
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
