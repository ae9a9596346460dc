"""Suggest a command for a word that is not a command. It is imported for misplaced words only."""

import shutil
from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.cli.arguments import UsageError, nearest, nearest_option
from mcpproxy.cli.command_table import COMMANDS

_FILES: Final = "recordings are files: mcpproxy list says where; mcpproxy prune deletes old ones"
_RECORD: Final = (
    "put -- before the server command: mcpproxy -- COMMAND; before an HTTP server: mcpproxy http URL"
)
_CONFIGURE: Final = "did you mean wrap? It puts mcpproxy before a server of a host"

INSTEAD: Final = {
    **dict.fromkeys(("ls", "dir", "ps", "history"), "did you mean list?"),
    **dict.fromkeys(("view", "cat", "less", "more", "head", "log", "logs", "open"), "did you mean show?"),
    **dict.fromkeys(("record", "trace", "proxy", "capture"), _RECORD),
    **dict.fromkeys(("web", "serve", "browser", "dashboard"), "did you mean ui?"),
    **dict.fromkeys(("inspect", "inspector", "debug"), "did you mean show, tui or ui?"),
    **dict.fromkeys(("tail", "watch", "top"), "did you mean show --follow?"),
    **dict.fromkeys(("rm", "mv", "cp", "del", "delete", "remove", "clean"), _FILES),
    **dict.fromkeys(("install", "add", "setup", "init", "enable"), _CONFIGURE),
    **dict.fromkeys(("test", "probe", "lint"), "did you mean validate, or check?"),
    **dict.fromkeys(("stop", "kill"), "Ctrl-C or SIGTERM stops a session"),
    **dict.fromkeys(("cut", "split"), "did you mean trim?"),
    **dict.fromkeys(("find", "grep", "search"), "did you mean show --all --filter 'TEXT'?"),
    **dict.fromkeys(("uninstall", "restore", "disable"), "did you mean unwrap?"),
    **dict.fromkeys(("status", "servers", "clients", "scan"), "did you mean hosts?"),
    "cmp": "did you mean diff?",
    "convert": "did you mean import?",
    "version": "did you mean --version?",
}
"""Word that users may try as a command -> a suggestion. Some are names of programs; none is an MCP server."""


def is_command(word: str) -> bool:
    """Whether ``mcpproxy`` has a command of this name."""
    return any(word in group for group in COMMANDS.values())


def refusal(args: Sequence[str], commands: Iterable[str], run_options: Sequence[str]) -> UsageError:
    """Return the error for ``args``, which begin with neither a known command nor a known option.

    ``run_options`` are the options of ``run``, which may be given without its name.
    """
    word = args[0]
    if word.startswith("-"):
        return _unknown_option(args, run_options)
    if word in INSTEAD:
        return UsageError(word, "unknown command", INSTEAD[word])
    if shutil.which(word):
        command = word if len(args) == 1 else f"{word} ..."
        return UsageError(word, "unknown command", f"put -- before the server command: mcpproxy -- {command}")
    if guess := nearest(word, commands):
        return UsageError(word, "unknown command", f"did you mean {guess}?")
    return UsageError(
        word, "unknown command", "see mcpproxy --help, or put -- before a server command to wrap it"
    )


def _unknown_option(args: Sequence[str], run_options: Sequence[str]) -> UsageError:
    name = args[0].partition("=")[0]
    guess = nearest_option(name, (*run_options, "--help", "--version"))
    is_for_run = "--" in args or guess in run_options
    see = "see mcpproxy run --help" if is_for_run else "see mcpproxy --help"
    return UsageError(name, "unknown option", f"did you mean {guess}? {see}" if guess else see)
