"""The man page, in the language of roff, from the parsers of all commands."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcpproxy import __version__
from mcpproxy.cli.completion.all_parsers import Groups, whole_parser


def man_page(groups: Groups) -> Iterator[str]:
    """Yield the lines of the page."""
    root = whole_parser(groups)
    commands = _subparsers(root)
    yield f'.TH MCPPROXY 1 "" "mcpproxy {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"mcpproxy \\- {_escaped(str(root.description))}"
    yield ".SH SYNOPSIS"
    yield ".B mcpproxy"
    yield _escaped("[run] [OPTION...] -- SERVER [ARG...]")
    yield ".br"
    yield ".B mcpproxy"
    yield "COMMAND [ARG...]"
    for title, group in groups.items():
        yield f".SH {_escaped(title.upper())}"
        for name, (_, line) in group.items():
            yield f".SS mcpproxy {_escaped(name)}"
            yield _escaped(line[0].upper() + line[1:] + ".")
            yield from _command_section(commands[name])


def _command_section(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the section of a command; those of its subcommands come first."""
    for name, part in _subparsers(parser).items():
        yield f".SS {_escaped(parser.prog)} {_escaped(name)}"
        yield from _command_section(part)
    if parser.description:
        yield ".PP"
        yield from map(_escaped, parser.description.splitlines())
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] # argparse has no other way to list them
        if action.help and action.help != argparse.SUPPRESS:
            yield ".TP"
            yield f".B {_escaped(_usage(action))}"
            yield _escaped(action.help % vars(action))
    if parser.epilog:
        yield ".PP"
        yield ".nf"
        yield from map(_escaped, parser.epilog.splitlines())
        yield ".fi"


def _usage(action: argparse.Action) -> str:
    """Return an option or argument as the user writes it, with its value: ``-o, --output FILE``."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    shown = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return shown
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {shown}"


def _subparsers(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of the commands, or parts of a command, that ``parser`` selects from; or none."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] # as above
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage] # as above
            return cast("Mapping[str, argparse.ArgumentParser]", cast("Any", action).choices)
    return {}


def _escaped(text: str) -> str:
    """Return ``text`` escaped for roff. A dot or a quote at the start of a line would begin a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
