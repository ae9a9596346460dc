"""What every command shares: how arguments are refused, and which name was probably meant."""

import argparse
from typing import Final, NoReturn

from mcpproxy.errors import UsageError, nearest

__all__ = ["HELP_COLUMNS", "Parser", "UsageError", "nearest", "positive"]

HELP_COLUMNS: Final = 100


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


def positive(text: str) -> int:
    """An argparse type: a whole number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)
