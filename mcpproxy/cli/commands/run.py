"""``mcpproxy [run] [OPTION...] -- COMMAND [ARG...]``: wrap a stdio server.

This module runs before the server starts, so it imports as little as possible. The process becomes the relay,
which copies the traffic to the journal; a second process, the recorder, makes the trace from the journal.
"""

from __future__ import annotations

import os
import sys

from mcpproxy.base import paths
from mcpproxy.base.json_string import quoted
from mcpproxy.cli import new_recording
from mcpproxy.cli.option_table import OptionTable, refuse, split_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import NoReturn

    from mcpproxy.cli.option_table import Given

OPTIONS = OptionTable(
    "run",
    "[run] [OPTION...] (-- COMMAND [ARG...] | --command 'COMMAND [ARG...]')",
    """\
Start COMMAND, an MCP server that speaks on stdin and stdout. Every byte passes unchanged, is recorded,
and is judged while it passes. Put "mcpproxy --" before the server command in any host's configuration.""",
    """\
  mcpproxy -- python server.py
  mcpproxy --label files --trace-dir recordings -- npx -y SERVER

The exit code is the server's; 128+N if signal N ended it, 127 if there is no such command, 126 if it
cannot be run, 2 if the arguments are wrong or what they name cannot be written.""",
    {
        "": (
            (
                "--command",
                "'COMMAND ARG...'",
                "the same as -- COMMAND ARG..., for hosts that keep -- for themselves",
            ),
            (
                "--grace",
                "TIME",
                "how long the server may take to exit after the host has gone: 90, 90s or 10m (default: 5s)",
            ),
            (
                "--path",
                "DIR",
                "look for COMMAND, and for what it starts, in DIR before the PATH; may be given again",
            ),
        ),
        **new_recording.OPTIONS,
    },
    "taken from COMMAND",
)


class RunOptions(new_recording.RecordingOptions):
    """The values of the arguments.

    Raises:
        UsageError: a value is not valid.
    """

    def __init__(self, given: Given, command: list[str]) -> None:
        super().__init__("run", given)
        self.grace_s = _grace_s(given.text("--grace")) if "--grace" in given else 5.0
        self.folders = given["--path"]
        self.command = _split_words(given.text("--command")) if "--command" in given else command


def run(argv: list[str]) -> int:
    """Wrap the server that ``argv`` names and return its exit code.

    Raises:
        McpProxyError: the arguments are not valid, or the recording cannot be written. The server has not
            been started.
    """
    options = parse(argv)
    options.resolve_rules()
    options.resolve_gate()
    options.check_companions()
    label = paths.safe(options.label) or paths.label_for(options.command, paths.working_directory())
    members = {
        "transport": quoted("stdio"),
        "command": "[" + ",".join(map(quoted, options.command)) + "]",
        **options.members(),
    }
    trace, journal, greeting = options.begin(label, members)
    if sys.platform == "win32":  # without a gate: --enforce and --fault were refused above
        from mcpproxy.record.relay.spawned_recorder import recorder_command
        from mcpproxy.record.relay.stdio import threads

        if options.folders:
            os.environ["PATH"] = os.pathsep.join((*options.folders, os.environ.get("PATH", os.defpath)))
        record = recorder_command(trace, options.live, options.is_quiet) if journal else None
        return threads.run(
            options.command,
            journal,
            record,
            grace_s=options.grace_s,
            quiet=options.is_quiet,
            greeting=greeting,
            is_awaited=options.is_awaited,
        )

    from mcpproxy.record.relay.stdio import session_start

    # The relay writes to the pipe ``wake_fd`` when ``asleep``, a shared byte, says that the recorder sleeps.
    def record(wake_fd: int, asleep: mmap.mmap) -> None:
        from mcpproxy.record.recorder.process import run as run_recorder

        options.run_with_companions(
            trace, lambda: run_recorder(trace, wake_fd, asleep, options.live, options.is_quiet)
        )

    return session_start.run(
        options.command,
        journal,
        record if journal else None,
        grace_s=options.grace_s,
        quiet=options.is_quiet,
        greeting=greeting,
        is_awaited=options.is_awaited,
        make_gate=options.stdio_gate(trace),
        folders=options.folders,
    )


def parse(argv: list[str]) -> RunOptions:
    """Read the arguments.

    Raises:
        UsageError: the arguments are not valid.
        SystemExit: the help was printed.
    """
    arguments, command = split_command(argv[1:] if argv[:1] == ["run"] else argv)
    given = OPTIONS.read(arguments, _advice_about)
    if "--" in argv and not command:
        _refuse("no command after --", "name the server to start: mcpproxy -- COMMAND [ARG...]")
    if command and "--command" in given:
        _refuse("--command and -- both name the server", "leave one of them out")
    if not command and "--command" not in given:
        _refuse(
            "no -- and no command found", "put -- before the server command: mcpproxy -- COMMAND [ARG...]"
        )
    return RunOptions(given, command)


def _split_words(value: str) -> list[str]:
    """Return the words of a command, as a shell would read them.

    Raises:
        UsageError: they cannot be read, or there are none.
    """
    import shlex

    try:
        words = shlex.split(value)
    except ValueError as fault:
        _refuse(f"--command {value} cannot be read ({fault})", "quote it as for a shell")
    if not words:
        _refuse("--command names no command", "name the server to start")
    return words


def _advice_about(word: str) -> str:
    """Return the advice about a word in the place of an option."""
    from mcpproxy.cli.unknown_command import INSTEAD, is_command

    if is_command(word):
        return f"the name of a command comes first: mcpproxy {word}"
    return INSTEAD.get(word) or f"put -- before the server command: mcpproxy -- {word}"


def _grace_s(value: str) -> float:
    """Return the value of ``--grace`` in seconds.

    Raises:
        UsageError: it is not a time below a day.
    """
    from argparse import ArgumentTypeError  # few hosts give this option

    from mcpproxy.cli import arguments

    try:
        grace_s = arguments.time_span(value)
    except ArgumentTypeError:
        grace_s = -1
    if not 0 <= grace_s < 86400:
        _refuse(f"--grace {value} is not a time", f"write it as {arguments.SPAN_FORMS}, below a day")
    return grace_s


def _refuse(fact: str, next_step: str) -> NoReturn:
    refuse("run", fact, next_step)
