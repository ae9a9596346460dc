"""The argument parser of all commands, their common argument types, and their usage errors."""

from __future__ import annotations

import argparse

from mcpproxy.base.patterns import pattern
from mcpproxy.errors import UsageError, nearest, nearest_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar, Final, NoReturn
    from urllib.parse import SplitResult

__all__ = [
    "HELP_COLUMNS",
    "Parser",
    "ParserDescription",
    "UsageError",
    "address",
    "age",
    "endpoint",
    "header",
    "nearest",
    "nearest_option",
    "positive",
    "seconds",
    "seconds_or_none",
    "split_command",
    "split_listen",
    "split_url",
    "url",
]

HELP_COLUMNS: Final = 100

_AGE: Final = pattern(r"(\d{1,6})(s|m|h|d|w)")
_PLAIN: Final = pattern(r"[\x21-\x7e]*")
"""Matches text of visible ASCII characters, the only ones that a URL may have."""
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class ParserDescription(Exception):  # noqa: N818 # not an error
    """Raised by ``Parser`` instead of reading arguments, while ``Parser.only_describes`` is set."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one line, as the rest of mcpproxy does."""

    only_describes: ClassVar[bool] = False
    """Set by ``completion/all_parsers.py``, which runs a command only until its parser is made."""

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
        """Read ``args`` as ``parse_into`` does."""
        namespace = argparse.Namespace()
        self.parse_into(args, namespace)
        return namespace

    def parse_into(self, args: Sequence[str], namespace: object) -> None:
        """Read ``args`` into ``namespace``, with positional arguments before, between and after the options.

        An unknown option is reported before parsing, because argparse would report its value instead.
        """
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

    def _refuse_option(self, name: str) -> NoReturn:
        options = self._option_string_actions.items()
        shown = [option for option, action in options if action.help != argparse.SUPPRESS]
        guess = nearest_option(name, shown)
        see = f"see mcpproxy {self._command} --help"
        raise UsageError(
            self._command, f"unknown option {name}", f"did you mean {guess}? {see}" if guess else see
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(self._command, message, f"see mcpproxy {self._command} --help")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: to measure the terminal, a command's imports would take a sixth longer."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=HELP_COLUMNS)


def positive(text: str) -> int:
    """An argparse type: a whole number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def age(text: str) -> float:
    """Read ``30d``, ``12h``, ``90m`` or ``2w`` into seconds: an argparse type."""
    if not (parts := _AGE.fullmatch(text.strip().lower())):
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 30d, 12h or 90m")
    return float(int(parts[1]) * _UNIT_S[parts[2]])


def seconds(text: str) -> float:
    """An argparse type: a duration of up to a day."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value <= 86_400:  # false for NaN as well
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to 86400")
    return value


def seconds_or_none(text: str) -> float:
    """An argparse type: a duration of up to a day, or 0."""
    return 0.0 if text.strip() in ("0", "0.0") else seconds(text)


def header(text: str) -> tuple[str, str]:
    """An argparse type: name and value of a header. Errors omit the value, which may be a credential."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or "\n" in text:
        raise argparse.ArgumentTypeError(f"{text.partition(':')[0]!r} is not a header such as 'Name: value'")
    return name.strip(), value.strip()


def url(text: str) -> str:
    """An argparse type: the URL of an HTTP server."""
    if not text.startswith(("http://", "https://")):
        example = "http://127.0.0.1:3000/mcp"
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as {example} (put -- before a command)")
    return text


def address(option: str, text: str) -> tuple[str, int]:
    """Return host and port of an address to listen on, the value of ``option``; without a host, of loopback.

    Raises:
        UsageError: it has no port.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(option, f"{text} has no port", "write HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)


def split_listen(where: str, text: str, option: str = "--listen") -> tuple[str, int]:
    """Return the host, without brackets, and the port of ``HOST:PORT``, for the command ``where``.

    Raises:
        UsageError: ``text`` does not have that form.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isdecimal() and port.isascii() and int(port) < 65536):
        fact = f"{option} {text} is not HOST:PORT"
        raise UsageError(where, fact, "for example 127.0.0.1:8765 or [::1]:8765")
    return host, int(port)


def split_url(where: str, text: str, example: str, credentials: str) -> SplitResult:
    """Return the parts of the URL of a server, for the command ``where``.

    ``example`` is such a URL, and ``credentials`` says what is done instead of credentials in it.

    Raises:
        UsageError: it is not a URL that can be used.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 # raises if the port is not a number
    except ValueError as error:
        raise UsageError(where, f"{text} is not a URL ({error})", f"for example {example}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        fact = f"{text} is not an http:// or https:// URL"
        rest = text.rpartition("://")[2].lstrip("/")
        raise UsageError(where, fact, f"perhaps {example[: example.index('/')]}//{rest}")
    if parts.username is not None or parts.fragment:
        raise UsageError(where, "the URL holds a user or a fragment", f"leave it out{credentials}")
    if not _PLAIN.fullmatch(text):
        fact = f"{text} holds characters that are not allowed in a URL"
        raise UsageError(where, fact, "write them as %XX")
    return parts


def endpoint(where: str, path: str) -> str:
    """Return the path of an MCP endpoint, for the command ``where``.

    Raises:
        UsageError: it is not a path.
    """
    if not path.startswith("/") or "?" in path or "#" in path or not _PLAIN.fullmatch(path):
        raise UsageError(where, f"--endpoint {path} is not a path", "for example /mcp")
    return path


def split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before ``--``, and the command after it."""
    separator = argv.index("--") if "--" in argv else len(argv)
    return argv[:separator], argv[separator + 1 :]
