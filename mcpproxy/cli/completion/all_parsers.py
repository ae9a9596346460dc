"""All commands as one argparse parser, for shell completion and the man page.

The parser of a command exists only while the command runs. So each command is started here, and is stopped
when it has made its parser.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from mcpproxy.cli.arguments import Parser, ParserDescription

PARTS: Final = {
    "replay": ("server", "client"),
    "export": ("html", "har", "pcapng", "mermaid", "otlp", "parquet"),
    "faults": ("list", "plan"),
    "validate": ("server", "client"),
}
"""Command -> its parts. Each part has a parser of its own."""

Groups = Mapping[str, Mapping[str, tuple[str, str]]]
"""The commands in groups, like ``command_table.COMMANDS``: group -> command -> module, line of help."""


def whole_parser(
    groups: Groups, only: Sequence[str] | None = None, *, with_run: bool = False
) -> argparse.ArgumentParser:
    """Return a parser for ``mcpproxy COMMAND ...``.

    With ``only``, all other commands lack their options, and their modules, except that of ``run``, are not
    imported. With ``with_run``, the parser itself has the options of ``run``, whose name may be left out.
    """
    module = import_module(groups["Record"]["run"][0])
    root = argparse.ArgumentParser(
        prog="mcpproxy",
        description="See what an MCP client and server really say to each other, and what is wrong with it.",
        parents=[_parser_of(module.run, ["--help"])] if with_run else [],
        add_help=not with_run,
    )
    root.add_argument("--version", action="store_true", help="print the version")
    commands = root.add_subparsers(metavar="COMMAND")
    for group in groups.values():
        for name, (module, line) in group.items():
            if only is not None and name not in only:
                commands.add_parser(name, help=line)
                continue
            run = import_module(module).run
            if name in PARTS:
                parts = commands.add_parser(name, help=line, description=line).add_subparsers(metavar="PART")
                for part in PARTS[name]:
                    _add_command(parts, part, "", _parser_of(run, [part]))
            else:
                _add_command(commands, name, line, _parser_of(run, ["--help"]))
    return root


def _add_command(commands: Any, name: str, line: str, parser: Parser) -> None:
    commands.add_parser(
        name,
        help=line,
        parents=[parser],
        add_help=False,
        description=parser.description,
        epilog=parser.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _parser_of(run: Callable[[list[str]], int], argv: list[str]) -> Parser:
    """Run a command until it has made its parser, and return the parser.

    Raises:
        LookupError: the command returns without a parser.
    """
    Parser.only_describes = True
    try:
        run(argv)
    except ParserDescription as described:
        return described.parser
    finally:
        Parser.only_describes = False
    raise LookupError(argv)
