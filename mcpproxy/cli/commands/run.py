"""``mcpproxy [run] [OPTION...] -- COMMAND [ARG...]``: wrap a stdio server.

Everything here happens before the server starts, so nothing is imported that is not needed for that;
the options are read by hand because argparse takes longer to import than Python to start.
"""

from __future__ import annotations

import errno
import os
import sys

from mcpproxy.base import paths
from mcpproxy.cli import new_recording
from mcpproxy.relay.journal import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from typing import NoReturn

    from mcpproxy.recorder.stderr_notes import Mode

USAGE = """\
usage: mcpproxy [run] [OPTION...] -- COMMAND [ARG...]

Starts COMMAND, an MCP server that speaks on stdin and stdout, and stands in for it: every byte passes
unchanged, is recorded, and is judged while it passes. Put "mcpproxy --" before the server command in
any host's configuration.

options:
  --trace FILE           record into FILE; if it exists, into FILE-2 and so on, never over it
  --trace-dir DIR        record into a new file in DIR (default: %s)
  --rotate SIZE|DURATION go on in a new file after so much (100M) or so long (12h)
  --label NAME           what to call the server (default: taken from COMMAND)
  --live text|json|off   how findings are told on stderr while they happen (default: text)
  --quiet                say nothing on stderr; the server's own stderr still passes
  --enforce RULE,...     refuse requests that break one of these rules, instead of only flagging them;
                         may be given again
  --rules DIR            judge by the rules in this folder too; may be given again
  --select RULE,...      judge by these rules only
  --extend-select RULE,...
                         judge by these too, off by default
  --ignore RULE,...      leave these rules out
  --app-errors           judge error envelopes in tool results too (APP)
  --grace SECONDS        how long the server may take to leave when the host has gone (default: 5)
  -h, --help             show this

The exit code is the server's; 128+N if signal N ended it, 127 if there is no such command, 126 if it
cannot be run, 2 if the arguments are wrong or nothing can be recorded there.
"""

_LISTED = ("--enforce", "--rules", "--select", "--extend-select", "--ignore")
_VALUED = ("--trace", "--trace-dir", "--rotate", "--label", "--live", "--grace", *_LISTED)
_LIVE: dict[str, Mode] = {"text": "text", "json": "json", "off": "off"}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Options:
    """What the arguments say; ``command`` is empty when only help was asked for."""

    def __init__(self) -> None:
        self.trace = ""
        self.trace_dir = ""
        self.label = ""
        self.rotate = "null"
        self.live: Mode = "text"
        self.grace_s = 5.0
        self.listed: dict[str, list[str]] = {name: [] for name in _LISTED}
        self.app_errors = False
        self.quiet = False
        self.command: list[str] = []

    @property
    def says_what_to_judge(self) -> bool:
        """Whether any of the options is given that say by which rules."""
        return self.app_errors or any(self.listed[name] for name in _LISTED if name != "--enforce")


def run(argv: list[str]) -> int:
    """Wrap the server that ``argv`` names and return its exit code.

    Raises:
        McpProxyError: the arguments cannot be followed, or nothing can be written where the
            recording should go. The server has not been started.
    """
    options = parse(argv)
    if not options.command:
        sys.stdout.write(USAGE % paths.state_dir())
        return 0
    make = terms = None
    judged_by = "null"
    if options.says_what_to_judge:
        from mcpproxy.cli import rule_options

        lists = (options.listed[name] for name in ("--rules", "--select", "--extend-select", "--ignore"))
        terms = rule_options.terms("run", *lists, app_errors=options.app_errors)
        judged_by = rule_options.member(terms)
    if options.listed["--enforce"]:
        from mcpproxy.cli.enforce_options import gated

        make = gated("run", options.listed["--enforce"], terms)
    label = paths.safe(options.label) or paths.label_for(options.command)
    journal, trace = None, ""
    try:
        members = {
            "transport": quoted("stdio"),
            "command": "[" + ",".join(map(quoted, options.command)) + "]",
            "salt": quoted(os.urandom(32).hex()),  # of the masks; it goes with the journal
            "rotate": options.rotate,
            "judged_by": judged_by,
        }
        trace, journal = new_recording.begin(options.trace, options.trace_dir, label, members)
        greeting = f"recording to {trace}"
    except OSError as error:
        if error.errno not in _DISK_FULL:
            _refuse_place(options, error)
        greeting = f"not recording ({error.strerror}); the session goes on"  # the traffic comes first

    if sys.platform == "win32":
        from mcpproxy.relay.stdio import threads

        record = threads.recorder_command(trace, options.live, options.quiet) if journal else None
        return threads.run(
            options.command, journal, record, grace_s=options.grace_s, quiet=options.quiet, greeting=greeting
        )

    from mcpproxy.relay.stdio import relay

    def record(wake_fd: int, asleep: mmap.mmap) -> None:
        from mcpproxy.recorder.process import run as follow

        follow(trace, wake_fd, asleep, options.live, options.quiet)

    return relay.run(
        options.command,
        journal,
        record if journal else None,
        grace_s=options.grace_s,
        quiet=options.quiet,
        greeting=greeting,
        make=make,
    )


def parse(argv: list[str]) -> Options:
    """Read the arguments.

    Raises:
        UsageError: they cannot be followed.
    """
    options = Options()
    rest = list(argv[1:] if argv[:1] == ["run"] else argv)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if argument == "--":
            if not rest:
                _refuse("no command after --", "name the server to start: mcpproxy -- COMMAND [ARG...]")
            options.command = rest
            break
        if argument in ("-h", "--help"):
            return Options()
        if argument == "--quiet":
            options.quiet = True
        elif argument == "--app-errors":
            options.app_errors = True
        elif name in _VALUED:
            if not equals:
                if not rest or rest[0] == "--":
                    _refuse(f"{name} needs a value", "see mcpproxy run --help")
                value = rest.pop(0)
            _set(options, name, value)
        elif argument.startswith("-"):
            _refuse(f"unknown option {name}", "see mcpproxy run --help")
        else:
            _refuse(f"{argument!r} is not an option", f"put -- before the command: mcpproxy -- {argument}")
    if not options.command:
        _refuse(
            "no -- and no command found", "put -- before the server command: mcpproxy -- COMMAND [ARG...]"
        )
    if options.trace and options.trace_dir:
        _refuse("--trace and --trace-dir both say where to record", "leave one of them out")
    return options


def _set(options: Options, name: str, value: str) -> None:
    if not value:
        _refuse(f"{name} needs a value", "see mcpproxy run --help")
    if name in _LISTED:
        options.listed[name].append(value)
        return
    match name:
        case "--trace":
            options.trace = value
        case "--trace-dir":
            options.trace_dir = value
        case "--label":
            options.label = value
        case "--rotate":
            from mcpproxy.cli.rotate_option import rotation_member

            options.rotate = rotation_member(value, "run")
        case "--live":
            if value not in _LIVE:
                _refuse(f"--live {value} is not known", "use text, json or off")
            options.live = _LIVE[value]
        case _:
            try:
                options.grace_s = float(value)
            except ValueError:
                options.grace_s = -1
            if not 0 <= options.grace_s < 86400:
                _refuse(f"--grace {value} is not a time", "give a number of seconds")


def _refuse(fact: str, next_step: str) -> NoReturn:
    from mcpproxy.cli.arguments import UsageError

    raise UsageError("run", fact, next_step)


def _refuse_place(options: Options, error: OSError) -> NoReturn:
    from mcpproxy.cli.arguments import UsageError

    where = options.trace or options.trace_dir or paths.state_dir()
    raise UsageError(
        where,
        f"cannot be recorded to ({error.strerror})",
        "name another place with --trace-dir",
    ) from None
