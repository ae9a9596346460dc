"""``mcpproxy completion``: scripts for completion in shells, and the man page."""

import sys
from typing import Final

from mcpproxy.cli.arguments import Parser

SHELLS: Final = ("bash", "zsh", "fish")

EPILOG: Final = """\
  eval "$(mcpproxy completion bash)"                                       in ~/.bashrc
  eval "$(mcpproxy completion zsh)"                                        in ~/.zshrc, behind compinit
  mcpproxy completion fish > ~/.config/fish/completions/mcpproxy.fish
  mcpproxy completion man > ~/.local/share/man/man1/mcpproxy.1"""


def run(argv: list[str]) -> int:
    """Print the script or the man page; return 0.

    Raises:
        UsageError: the arguments are not valid.
    """
    parser = Parser("completion", "Print the completion script of a shell, or the man page.", EPILOG)
    names = (*SHELLS, "man")
    add, help = parser.add_argument, "for which shell, or man for the man page"
    add("what", choices=names, metavar="|".join(names), help=help)
    what: str = parser.parse_args(argv).what
    # Not escaped for a terminal: a shell or man reads the text, which contains nothing from a peer.
    sys.stdout.write(_man_page() if what == "man" else _script(what))
    return 0


def _script(shell: str) -> str:
    from argcomplete.shell_integration import shellcode

    return shellcode(["mcpproxy"], shell=shell)


def _man_page() -> str:
    from mcpproxy.cli.command_table import COMMANDS
    from mcpproxy.cli.completion.man_page import man_page

    return "".join(f"{line}\n" for line in man_page(COMMANDS))
