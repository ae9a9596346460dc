"""The options of a command as a table, which also reads the command line.

A host waits until ``run`` and ``http`` have started, and argparse takes longer to import than Python takes to
start. So it is imported only for the help, completion in shells, and the man page.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from mcpproxy.cli.arguments import Parser

    Option = tuple[str, str, str]
    """Name, metavariable, help. A switch has no metavariable; that of an optional value is in brackets.
    Such a value follows ``=``, or is the next argument if that has ``://``. A positional argument has a name
    without dashes. A row without help is not shown."""


class Given(dict[str, list[str]]):
    """A command line: the name of each option that was given -> its values in order; a switch has ``""``.

    Positional arguments are the values of the empty name.
    """

    def __missing__(self, name: str) -> list[str]:
        return []

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of the option ``name``; ``default`` if it was not given."""
        return (self[name] or (default,))[-1]


class OptionTable:
    """The options of ``command``, in groups with titles. ``label`` describes the default of ``--label``."""

    def __init__(
        self,
        command: str,
        usage: str,
        description: str,
        epilog: str,
        groups: Mapping[str, Sequence[Option]],
        label: str,
    ) -> None:
        self.command = command
        self._help = usage, description, epilog, groups, label
        rows = [row for group in groups.values() for row in group]
        self._metavars = {name: metavar for name, metavar, _ in rows}
        self.names = [name for name, _, text in rows if text and name.startswith("-")]
        """The options that the help shows."""

    def read(self, argv: Sequence[str], instead: Callable[[str], str] | None = None) -> Given:
        """Read the arguments, or print the help if they ask for it.

        With ``instead``, positional arguments are refused; it returns the advice for such an argument.

        Raises:
            UsageError: the arguments are not valid.
            SystemExit: the help was printed.
        """
        if "-h" in argv or "--help" in argv:
            self.parser().parse_args(["--help"])
        given = Given()
        remaining = list(argv)
        while remaining:
            argument = remaining.pop(0)
            name, equals, value = argument.partition("=")
            if not argument.startswith("-"):
                if instead is not None:
                    refuse(self.command, f"{argument!r} is not an option", instead(argument))
                name, value = "", argument
            elif (metavar := self._metavars.get(name)) is None:
                self._refuse_unknown(name)
            elif not metavar:
                if equals:
                    self._refuse(f"{name} takes no value")
            elif metavar.startswith("["):
                if not equals and remaining and "://" in remaining[0]:
                    value = remaining.pop(0)
            else:
                if not equals and remaining and not remaining[0].startswith("--"):
                    value = remaining.pop(0)
                if not value:
                    self._refuse(f"{name} needs a value")
            given.setdefault(name, []).append(value)
        return given

    def parser(self) -> Parser:
        """Return a parser with these options, which prints the help and describes them to completion."""
        from argparse import SUPPRESS

        from mcpproxy.base import paths
        from mcpproxy.cli.arguments import Parser

        usage, description, epilog, groups, label = self._help
        parser = Parser(self.command, description, epilog)
        parser.usage = f"mcpproxy {usage}"
        # The man page is read on other machines, too.
        folder = "~/.local/state/mcpproxy" if Parser.only_describes else paths.state_dir()
        for title, rows in groups.items():
            add = (parser.add_argument_group(title) if title else parser).add_argument
            for name, metavar, text in rows:
                text = text.format(folder=folder, label=label).replace("%", "%%") or SUPPRESS
                if not name.startswith("-"):
                    add(name.lower(), metavar=name, nargs="?", help=text)
                elif metavar:
                    nargs = "?" if metavar.startswith("[") else None
                    add(name, metavar=metavar.strip("[]"), nargs=nargs, help=text)
                else:
                    add(name, action="store_true", help=text)
        return parser

    def _refuse_unknown(self, name: str) -> NoReturn:
        from mcpproxy.errors import nearest_option

        guess = nearest_option(name, (*self.names, "--help"))
        self._refuse(f"unknown option {name}", f"did you mean {guess}? " if guess else "")

    def _refuse(self, fact: str, guess: str = "") -> NoReturn:
        refuse(self.command, fact, f"{guess}see mcpproxy {self.command} --help")


def split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before ``--``, and the command after it; without ``--``, no command."""
    separator = argv.index("--") if "--" in argv else len(argv)
    return argv[:separator], argv[separator + 1 :]


def refuse(where: str, fact: str, next_step: str) -> NoReturn:
    """Raise a ``UsageError``. Its class is imported only here, so that a normal start is not slower."""
    from mcpproxy.errors import UsageError

    raise UsageError(where, fact, next_step) from None
