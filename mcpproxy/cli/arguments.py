"""The argument parser of all commands, and the types of their arguments.

An argument type is a function that argparse calls with the text of an argument. It raises an
``argparse.ArgumentTypeError`` if it cannot read the text.
"""

from __future__ import annotations

import argparse
import math
import os

from mcpproxy.base.patterns import pattern
from mcpproxy.errors import UsageError, nearest, nearest_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar, Final, NoReturn

__all__ = [
    "HELP_COLUMNS",
    "SPAN_FORMS",
    "Parser",
    "ParserDescription",
    "UsageError",
    "age",
    "header",
    "nearest",
    "nearest_option",
    "positive",
    "seconds",
    "seconds_or_none",
    "time_span",
    "url",
    "variable",
]

HELP_COLUMNS: Final = 100
"""The width of help on a wide terminal, and in a pipe without ``COLUMNS``."""

SPAN_FORMS: Final = "90, 90s or 10m"
"""The forms of a time, as the help of an option names them."""
_AGE: Final = pattern(r"(\d{1,6})(s|m|h|d|w)")
_HEADER_NAME: Final = pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""The name of a header (``field-name`` of RFC 9110)."""
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class ParserDescription(Exception):  # noqa: N818 # not an error
    """Carries a parser to its caller: raised instead of reading arguments if ``only_describes`` is set."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line, as the rest of mcpproxy does."""

    only_describes: ClassVar[bool] = False
    """True while ``completion/all_parsers.py`` runs a command only until it has made its parser."""

    def __init__(self, command: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"mcpproxy {command}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_Help,
        )
        self._command = command

    def parse_args(  # pyright: ignore[reportIncompatibleMethodOverride] # without a namespace to fill
        self, args: Sequence[str]
    ) -> argparse.Namespace:
        """Read ``args`` as ``parse_into`` does, and return them.

        Raises:
            UsageError: the arguments are not valid.
            SystemExit: the help was printed.
            ParserDescription: ``only_describes`` is set.
        """
        namespace = argparse.Namespace()
        self.parse_into(args, namespace)
        return namespace

    def parse_into(self, args: Sequence[str], namespace: object) -> None:
        """Read ``args`` into ``namespace``, with positional arguments before, between and after the options.

        An unknown option with two dashes and no space is reported before parsing, because argparse would
        report its value instead.

        Raises:
            UsageError: the arguments are not valid.
            SystemExit: the help was printed.
            ParserDescription: ``only_describes`` is set.
        """
        self._add_json_synonym()
        if self.only_describes:
            raise ParserDescription(self)
        for argument in args:
            name = argument.partition("=")[0]
            if argument.startswith("--") and name not in self._option_string_actions and " " not in argument:
                self._refuse_option(name)
        if any(argument.startswith("-") for argument in args):
            if "-h" not in args and "--help" not in args:
                self.usage = ""  # otherwise argparse formats it, in 2 ms, for errors that it does not show
            self.parse_intermixed_args(args, namespace)
        else:  # Nothing is intermixed. The usage, which takes long, is not formatted.
            super().parse_args(args, namespace)

    def _add_json_synonym(self) -> None:
        """Add ``--json`` to a command with ``--format json``, and ``--format`` to one with ``--json``."""
        formats, json = map(self._option_string_actions.get, ("--format", "--json"))
        if json is None and formats is not None and "json" in (formats.choices or ()):
            help = "the same as --format json"
            self.add_argument("--json", action="store_const", dest=formats.dest, const="json", help=help)
        elif formats is None and json is not None and json.dest == "json":
            help = "json is the same as --json (default: text)"
            self.add_argument(
                "--format", action=_JsonOrText, dest="json", choices=("text", "json"), help=help
            )

    def _refuse_option(self, name: str) -> NoReturn:
        options = self._option_string_actions.items()
        shown = [option for option, action in options if action.help != argparse.SUPPRESS]
        guess = nearest_option(name, shown)
        see = f"see mcpproxy {self._command} --help"
        raise UsageError(
            self._command, f"unknown option {name}", f"did you mean {guess}? {see}" if guess else see
        )

    def error(self, message: str) -> NoReturn:
        """Raise a ``UsageError`` with ``message``, where argparse would print it and exit."""
        raise UsageError(self._command, message, f"see mcpproxy {self._command} --help")


class _JsonOrText(argparse.Action):
    """The action of ``--format`` in a command with ``--json``: ``json`` sets it, ``text`` clears it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        del parser, option_string
        setattr(namespace, self.dest, values == "json")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, up to ``HELP_COLUMNS``. argparse would import ``shutil`` to measure
    it, which takes a sixth of the time of a command's imports."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(HELP_COLUMNS, _terminal_columns()))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap the prose of a description or an epilog on a narrow terminal.

        Indented lines stay. Those of tables, which have two spaces side by side, are not joined.
        """
        if self._width >= HELP_COLUMNS:
            return super()._fill_text(text, width, indent)
        from textwrap import fill

        lines: list[str] = []
        for line in text.splitlines():
            is_prose = line[:1].strip() != "" and "  " not in line
            if is_prose and lines and lines[-1][:1].strip() and "  " not in lines[-1]:
                lines[-1] += f" {line}"
            else:
                lines.append(line)
        return "\n".join(line if line.startswith(" ") else fill(line, width) for line in lines)


def _terminal_columns() -> int:
    """Return the width of the terminal, as ``COLUMNS`` or the system says; ``HELP_COLUMNS`` in a pipe.

    A ``COLUMNS`` below 40 is ignored, and a narrower terminal counts as 40 wide.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) >= 40:
        return int(columns)
    try:
        return max(os.get_terminal_size(1).columns, 40)
    except OSError:
        return HELP_COLUMNS


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def age(text: str) -> float:
    """Return an age such as ``30d``, ``12h``, ``90m`` or ``2w`` in seconds."""
    if not (parts := _AGE.fullmatch(text.strip().lower())):
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 30d, 12h or 90m")
    return float(int(parts[1]) * _UNIT_S[parts[2]])


def time_span(text: str) -> float:
    """Return a time of 0 or more seconds, written with or without a unit: ``90``, ``90s``, ``10m``."""
    try:
        value = age(text) if _AGE.fullmatch(text.strip().lower()) else float(text)
    except ValueError:
        value = -1
    if not 0 <= value < math.inf:  # false for NaN as well
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90 (seconds), 90s or 10m")
    return value


def seconds(text: str) -> float:
    """Return a duration in seconds, above 0 and up to a day, written like a ``time_span``."""
    try:
        value = time_span(text)
    except argparse.ArgumentTypeError:
        value = -1
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to 86400")
    return value


def seconds_or_none(text: str) -> float:
    """Return a duration as ``seconds`` does; ``0`` and ``0.0`` are allowed, too."""
    return 0.0 if text.strip() in ("0", "0.0") else seconds(text)


def header(text: str) -> tuple[str, str]:
    """Return name and value of a header. Errors show nothing of ``text``, which may be a credential alone."""
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not _HEADER_NAME.fullmatch(name) or "\n" in text:
        raise argparse.ArgumentTypeError("what is given has not the form 'Name: value'")
    return name, value


def variable(text: str) -> tuple[str, str]:
    """Return name and value of an environment variable. Errors show nothing of ``text``, as in ``header``."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError("what is given has not the form NAME=VALUE")
    return name, value


def url(text: str) -> str:
    """Return ``text`` if it begins as the URL of an HTTP server does; nothing else of it is checked."""
    if not text.startswith(("http://", "https://")):
        example = "http://127.0.0.1:3000/mcp"
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as {example} (put -- before a command)")
    return text


def move_url(options: argparse.Namespace) -> None:
    """Make the only argument of ``[TRACE] [URL]`` the URL if it is one."""
    if options.trace and options.trace.startswith(("http://", "https://")) and not options.url:
        options.trace, options.url = None, options.trace
