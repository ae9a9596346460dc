"""What every command shares: how arguments are refused, and which name was probably meant."""

import argparse
from collections.abc import Iterable
from typing import Final, NoReturn

from mcpproxy.errors import McpProxyError

HELP_COLUMNS: Final = 100


class UsageError(McpProxyError):
    """Arguments that cannot be followed: where, what is wrong, and what to do instead."""

    def __init__(self, where: str, fact: str, next_step: str) -> None:
        super().__init__(f"{where}: {fact}; {next_step}")


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses in one line, as the rest of mcpproxy does."""

    def __init__(self, command: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"mcpproxy {command}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_Help,
        )
        self._command = command

    def error(self, message: str) -> NoReturn:
        raise UsageError(self._command, message, f"see mcpproxy {self._command} --help")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of one width: measuring the terminal would import a sixth of what a command needs."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=HELP_COLUMNS)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that ``name`` was probably meant to be."""
    from difflib import get_close_matches

    by_fold = {known.casefold(): known for known in names}
    found = get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def positive(text: str) -> int:
    """An argparse type: a whole number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)
