"""The ``mcpproxy`` program: selects a command by the arguments and runs it.

Every wrapped server starts here, so this module imports almost nothing: only the module of the requested
command. If a command raises an ``McpProxyError``, its lines are printed, and the exit code is 2.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    The code is 2 if the command could not be run, 130 if it was interrupted, and 141 if the reader of stdout
    closed the pipe early.
    """
    args = sys.argv[1:] if argv is None else argv
    try:
        if _is_run(args):
            from mcpproxy.cli.commands.run import run

            return run(args)
        return _run_command(args)
    except KeyboardInterrupt:
        return 130
    except SystemExit as exit_request:  # raised by argparse after --help
        return exit_request.code if isinstance(exit_request.code, int) else 0
    except Exception as error:
        import errno  # part of the interpreter, so this works even if no file can be opened

        if isinstance(error, OSError | ImportError) and os.strerror(errno.EMFILE) in str(error):
            _end_without_files()
        from mcpproxy.errors import McpProxyError

        if not isinstance(error, McpProxyError):
            raise
        from mcpproxy.record.relay.stderr_line import StderrEvent, stderr_line

        as_json = _asks_for_json_lines(args)
        for line in (str(error),) if as_json else error.lines:
            sys.stderr.write(stderr_line(StderrEvent(line, "error", "error"), as_json=as_json).decode())
        return 2


def _asks_for_json_lines(args: list[str]) -> bool:
    """Whether ``--live json`` is given, even if other arguments are not valid."""
    own = args[: args.index("--")] if "--" in args else args
    return "--live=json" in own or ["--live", "json"] in [own[at : at + 2] for at in range(len(own))]


def _end_without_files() -> "NoReturn":
    """Print why the command ends, and end without cleaning up, which would fail with tracebacks."""
    os.write(2, b"mcpproxy: too many files are open; raise the limit of open files (ulimit -n)\n")
    try:
        sys.stdout.flush()
    finally:
        os._exit(2)


def _is_run(args: list[str]) -> bool:
    """Whether ``args`` are for ``run``: they begin with ``run``, with ``--`` or with one of its options.

    If the server's command is missing, ``run`` reports that.
    """
    first = args[0] if args else ""
    if first in ("run", "--"):
        return True
    if not first.startswith("--"):
        return False
    from mcpproxy.cli.commands.run import OPTIONS

    return first.partition("=")[0] in OPTIONS.names


def _run_command(args: list[str]) -> int:
    """Run any command except ``run``, and return its exit code.

    If the reader of stdout closes the pipe early, nothing is reported, and the code is 141, as if SIGPIPE had
    killed the process.
    """
    sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] # a TextIO in name, a TextIOWrapper in fact
    try:
        code = _dispatch(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout again at exit; that must not fail on the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    return code


def _dispatch(args: list[str]) -> int:
    """Run the command that ``args`` begin with, or print the help or the version. Return the exit code.

    Without arguments, a shell may ask for completions: then they are printed, and the process ends.

    Raises:
        UsageError: there is no such command.
    """
    from mcpproxy.cli.command_table import COMMANDS  # not needed before a wrapped server

    if not args and "_ARGCOMPLETE" in os.environ:
        from mcpproxy.cli.completion.shell_answer import answer_shell

        answer_shell(COMMANDS)
    word = args[0] if args else "--help"
    if word == "help" and len(args) > 1:
        return _dispatch([args[1], "--help"])
    if word in ("--help", "-h", "help"):
        sys.stdout.write(_help_text())
        return 0
    if word in ("--version", "-V"):
        from mcpproxy import __version__

        sys.stdout.write(f"mcpproxy {__version__}\n")
        return 0
    for group in COMMANDS.values():
        if word in group:
            code: int = _import_command(group[word][0]).run(args[1:])
            return code
    from mcpproxy.cli.commands.run import OPTIONS
    from mcpproxy.cli.unknown_command import refusal

    raise refusal(args, [name for group in COMMANDS.values() for name in group], OPTIONS.names)


def _import_command(name: str) -> "Any":
    """Import the module of a command without garbage collection: modules never become garbage."""
    import gc
    from importlib import import_module

    gc.disable()
    module = import_module(name)
    gc.freeze()
    gc.enable()
    return module


def _help_text() -> str:
    from mcpproxy.cli.command_table import COMMANDS

    text = [
        "mcpproxy: see what an MCP client and server really say to each other, and what is wrong with it.",
        "",
        "usage: mcpproxy [run] [OPTION...] -- SERVER [ARG...]",
        "       mcpproxy COMMAND [ARG...]",
    ]
    for title, group in COMMANDS.items():
        text += ["", title, *(f"  {name:<13}{line}" for name, (_, line) in group.items())]
    text += [
        "",
        "Start with: mcpproxy demo",
        "About one command: mcpproxy COMMAND --help",
    ]
    return "\n".join(text) + "\n"
