"""``mcpproxy validate``: connect to a server as a client, probe it, and report."""

import argparse
import json
import os
from importlib import import_module
from typing import Final

from mcpproxy.base import paths
from mcpproxy.cli import (
    async_main,
    baseline_options,
    output,
    report_options,
    upstream_options,
)
from mcpproxy.cli.arguments import Parser, UsageError, seconds, url, variable
from mcpproxy.cli.checking import host_options, validation_report
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.checks.opt_in.pins import pin_checks
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.peers.validate.connection import START_S, TIMEOUT_S
from mcpproxy.peers.validate.outcome import Validation
from mcpproxy.peers.validate.probe import Probe
from mcpproxy.peers.validate.probe_context import ValidateOptions
from mcpproxy.peers.validate.probes import chosen
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.runner import Run
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.read.reports import github, pin_file

DESCRIPTION: Final = """\
Connect to an MCP server as a client, list and read what it offers, send what good and bad clients might
send, and judge every message. Tools are called only if they declare readOnlyHint, or as --call says."""

EPILOG: Final = """\
exit codes: 0 valid, 1 invalid (with --strict also warnings), 2 the server could not be tested,
            130 interrupted

  mcpproxy validate -- python server.py
  mcpproxy validate http://127.0.0.1:3000/mcp --header 'Authorization: Bearer ...'
  mcpproxy validate --revision all --only tools,errors --call 'add={"a": 1, "b": 2}' -- python server.py"""

PARTS: Final = ("server", "client")
"""The words for the peer that is tested. Without one, it is a server."""


def run(argv: list[str]) -> int:
    """Run ``validate client``, or ``validate server``, for which ``validate`` is short; return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, the peer cannot be tested, or a file cannot be written.
    """
    part = argv[0] if argv else ""
    if part == "client":
        code: int = import_module("mcpproxy.cli.commands.validating.client").run(argv[1:])
        return code
    return validate_server(argv[1:] if part == "server" else argv)


def validate_server(argv: list[str]) -> int:
    """Validate one server, and return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, the server cannot be tested, or a file cannot be written.
    """
    options, command = _arguments(argv)
    probes = chosen(options.only, options.skip)
    target = _target(options, command)
    label = paths.label_for(command) if command else "http"
    accepted = baseline_options.read(options)
    if options.output:
        output.check_writable(options.output)
    rules, host_rules = _rules(options), host_options.named_rules(options)
    is_silent = validation_report.is_printed_at_end(options, accepted)
    printer = validation_report.ProgressPrinter(
        target.name, target.transport, terminal_style(), options.detail, is_silent=is_silent
    )
    recordings = Recordings(rules, options.trace or "", label)
    try:
        result = _run_validation(target, probes, recordings, options, printer)
    except McpProxyError as fault:
        if options.format == "github":
            emit([github.command("error", str(fault), title="mcpproxy validate")], has_commands=True)
        raise
    base = os.getcwd() if options.trace else None
    matrix = None
    if host_rules and result.checks:
        matrix = host_options.matrix_of((trace.path for trace in result.traces), host_rules)
    result = validation_report.conclude(result, printer, options, accepted, rules.catalogue, base, matrix)
    for fault in result.faults:
        tell(f"{fault}; please report it")
    if result.untested:
        tell(result.untested)
    return validation_report.exit_code(result, matrix)


def _rules(options: argparse.Namespace) -> ruleset.Ruleset:
    """Return the rules to judge by: the built-in rules, and with ``--pins`` those of the pins."""
    rules = ruleset.load()
    if not options.pins:
        return rules
    wanted = Selection.of(rules.catalogue, extend=["PIN"]).wanted
    return rules.extended(wanted or (), [pin_checks(pin_file.read(options.pins))])


def _run_validation(
    target: Target,
    probes: tuple[Probe, ...],
    recordings: Recordings,
    options: argparse.Namespace,
    printer: validation_report.ProgressPrinter,
) -> Validation:
    """Validate the server, and show the progress; after Ctrl-C or SIGTERM, return the checks made so far."""
    limits = ValidateOptions(
        options.timeout, options.start_timeout, options.time_limit, tuple(options.call), options.call_all
    )
    validation = Run(
        target, probes, recordings, options=limits, strict=options.strict, progress=printer.callbacks()
    )
    try:
        async_main.run_until_terminated(validation.test(options.revision))
    except KeyboardInterrupt:
        return validation.result(is_interrupted=True)
    finally:
        printer.clear()
    return validation.result()


def _target(options: argparse.Namespace, command: list[str]) -> Target:
    """Return the server that the arguments name.

    Raises:
        UsageError: they name none or two, or an option does not fit it.
    """
    if bool(options.url) == bool(command):
        raise UsageError(
            "validate", "one of -- COMMAND and URL is needed", "mcpproxy validate -- python server.py"
        )
    if command:
        if options.header:
            raise UsageError("--header", "goes together with a URL", "use --env for a command")
        upstream_options.from_namespace(options, "")
        return Target(tuple(command), env=dict(options.env))
    if options.env:
        raise UsageError("--env", "goes together with -- COMMAND", "use --header for a URL")
    upstream = upstream_options.from_namespace(options, options.url)
    return Target(url=options.url, headers=tuple(options.header), upstream=upstream)


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("validate", DESCRIPTION, EPILOG)
    parser.usage = "mcpproxy validate [server] [OPTION...] (-- COMMAND [ARG...] | URL)"
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", type=url, help="the MCP endpoint of a server over HTTP")
    add(
        "--revision",
        choices=("auto", "all", *REVISIONS),
        default="auto",
        help="the protocol revisions to test: one, all, or (auto) the newest with a handshake and the newest "
        "without, as far as the server supports them (default: auto)",
    )
    add(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=TIMEOUT_S,
        help="how long an answer may take (default: 10)",
    )
    add(
        "--start-timeout",
        metavar="SECONDS",
        type=seconds,
        default=START_S,
        help="how long a command may take to start and answer (default: 60)",
    )
    add(
        "--time-limit",
        metavar="SECONDS",
        type=seconds,
        default=300.0,
        help="how long all may take (default: 300)",
    )
    add("--strict", action="store_true", help="let warnings count as failures do")
    add("--only", metavar="GROUP,...", action="append", default=[], help="categories or checks to run")
    add("--skip", metavar="GROUP,...", action="append", default=[], help="categories or checks to leave out")
    add(
        "--call",
        metavar="NAME=JSON",
        action="append",
        type=_call,
        default=[],
        help="call this tool with these arguments",
    )
    add(
        "--call-all",
        action="store_true",
        help="call every tool, whatever it declares, with made-up arguments",
    )
    validation_report.add_detail_options(parser)
    report_options.add_options(parser)
    add("--pins", metavar="FILE", help="report tools that are not as pinned in FILE")
    host_options.add(parser)
    add("--trace", metavar="FILE", help="record the first session here, others beside it")
    add("--env", metavar="NAME=VALUE", action="append", type=variable, default=[], help="for a command")
    upstream_options.add_options(parser)
    return parser.parse_args(argv), command


def _call(text: str) -> tuple[str, JSONObject]:
    """Return the name and the arguments of a tool, from ``NAME=JSON``."""
    name, sign, written = text.partition("=")
    try:
        arguments = as_object(json.loads(written))
    except ValueError:
        arguments = None
    if not name or not sign or arguments is None:
        example = f"{name or 'add'}={{}}"
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a tool with arguments as JSON, such as '{example}'"
        )
    return name, arguments
