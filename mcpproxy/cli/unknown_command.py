"""What to do instead of a word that is not a command: imported only for such a word."""

import shutil
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Final

from mcpproxy.cli.arguments import UsageError, nearest, nearest_option
from mcpproxy.cli.new_recording import RUN_OPTIONS

_FILES: Final = "recordings are files: mcpproxy list says where; mcpproxy prune deletes old ones"
_CONFIGURE: Final = "put mcpproxy -- before the server's command in the configuration of the host"

INSTEAD: Final = {
    **dict.fromkeys(("ls", "dir", "ps", "history"), "did you mean list?"),
    **dict.fromkeys(("view", "cat", "less", "more", "head", "log", "logs", "open"), "did you mean show?"),
    **dict.fromkeys(("tail", "watch", "top"), "did you mean show --follow?"),
    **dict.fromkeys(("rm", "mv", "cp", "del", "delete", "remove", "clean"), _FILES),
    **dict.fromkeys(("install", "add", "setup", "init"), _CONFIGURE),
    **dict.fromkeys(("test", "probe", "lint"), "did you mean validate, or check?"),
    **dict.fromkeys(("stop", "kill"), "Ctrl-C or SIGTERM stops a session"),
    **dict.fromkeys(("cut", "split"), "did you mean trim?"),
    **dict.fromkeys(("find", "grep"), "did you mean show, or check --select?"),
    "cmp": "did you mean diff?",
    "convert": "did you mean import?",
    "version": "did you mean --version?",
}
"""What people may mean by a word that is the name of a program, too, but never that of a server."""


def is_command(word: str) -> bool:
    """Whether a command of mcpproxy has this name."""
    return word.isidentifier() and find_spec(f"mcpproxy.cli.commands.{word}") is not None


def refusal(args: Sequence[str], commands: Iterable[str]) -> UsageError:
    """Return the error for ``args`` that begin with neither a command nor an option that is known."""
    first = args[0]
    if first.startswith("-"):
        return _unknown_option(args)
    if first in INSTEAD:
        return UsageError(first, "unknown command", INSTEAD[first])
    if shutil.which(first):
        typed = first if len(args) == 1 else f"{first} ..."
        return UsageError(
            first, "not a command of mcpproxy", f"put -- before the server command: mcpproxy -- {typed}"
        )
    if guess := nearest(first, commands):
        return UsageError(first, "unknown command", f"did you mean {guess}?")
    return UsageError(
        first, "unknown command", "see mcpproxy --help, or put -- before a server command to wrap it"
    )


def _unknown_option(args: Sequence[str]) -> UsageError:
    name = args[0].partition("=")[0]
    guess = nearest_option(name, (*RUN_OPTIONS, "--help", "--version"))
    wraps = "--" in args or guess in RUN_OPTIONS
    see = f"see mcpproxy {'run ' * wraps}--help"
    return UsageError(name, "unknown option", f"did you mean {guess}? {see}" if guess else see)
