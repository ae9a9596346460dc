"""``mcpproxy validate client``: play servers to a client, odd and wrong ones, and report what it does."""

import argparse
import os
from typing import Final

from mcpproxy.base import paths
from mcpproxy.cli import async_main, baseline_options, output, report_options, validation_report
from mcpproxy.cli.address_arguments import split_listen
from mcpproxy.cli.arguments import Parser, UsageError, nearest, seconds
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import tell, terminal_style
from mcpproxy.client_tests.run import QUIET_S, TIMEOUT_S, ClientTest, ClientTestRun
from mcpproxy.client_tests.scenarios import chosen
from mcpproxy.client_tests.served import PLACEHOLDER
from mcpproxy.ruleset import ruleset
from mcpproxy.validate.outcome import Validation

DESCRIPTION: Final = """\
Start a client once for each of some thirty servers of ours, legal and odd, or wrong; record what they say to
each other, and judge the client. It finds its server in the environment variable MCPPROXY_SERVER, or where
{server} stands in its command: a command line, and with --listen a URL."""

EPILOG: Final = """\
exit codes: 0 valid, 1 invalid (with --strict also warnings), 2 the client could not be tested,
            130 interrupted

  mcpproxy validate client -- python client.py {server}
  mcpproxy validate client --listen 127.0.0.1:0 -- node client.js {server}
  mcpproxy validate client --only wrong,two-pages -v -- sh -c 'client --stdio "$MCPPROXY_SERVER"'"""

EXAMPLE: Final = "mcpproxy validate client -- python client.py {server}"


def run(argv: list[str]) -> int:
    """Test one client.

    Raises:
        McpProxyError: the arguments are not valid, or the client cannot be started.
    """
    options, command = _arguments(argv)
    scenarios = chosen(options.only, options.skip)
    _check_command(command)
    if options.listen:
        split_listen("validate client", options.listen)
    accepted = baseline_options.read(options)
    if options.output:
        output.check_writable(options.output)
    stem, _ = os.path.splitext(paths.trace_name(f"client-{paths.label_for(command)}"))
    folder = options.trace_dir or os.path.join(paths.probe_folder("validate"), stem)
    if os.path.isdir(folder) and any(name.endswith(".jsonl") for name in os.listdir(folder)):
        raise UsageError(folder, "has recordings already", "name another folder with --trace-dir")
    test = ClientTest(
        tuple(command),
        scenarios,
        folder,
        options.listen,
        options.timeout,
        options.quiet_time,
        options.strict,
    )
    rules = ruleset.load()
    is_silent = validation_report.is_printed_at_end(options, accepted)
    printer = validation_report.ProgressPrinter(
        test.name, test.transport, terminal_style(), options.detail, is_silent=is_silent
    )
    result = _played(ClientTestRun(test, rules, printer.callbacks()), printer)
    base = os.getcwd() if options.trace_dir else None
    result = validation_report.conclude(result, printer, options, accepted, rules.catalogue, base)
    if result.untested:
        tell(result.untested)
    return result.exit_code


def _played(client_run: ClientTestRun, printer: validation_report.ProgressPrinter) -> Validation:
    try:
        async_main.run_until_terminated(client_run.test())
    except KeyboardInterrupt:
        return client_run.result(is_interrupted=True)
    finally:
        printer.clear()
    return client_run.result()


def _check_command(command: list[str]) -> None:
    if not command:
        raise UsageError("validate client", "the command of the client is missing", EXAMPLE)
    for word in command:
        inner = word[1:-1].lower()
        if word[:1] == "{" and word[-1:] == "}" and word != PLACEHOLDER and nearest(inner, ["server"]):
            raise UsageError("validate client", f"{word!r} does not name the server", f"write {PLACEHOLDER}")


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("validate client", DESCRIPTION, EPILOG)
    parser.usage = "mcpproxy validate client [OPTION...] -- COMMAND [ARG...]"
    add = parser.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="serve over HTTP there, and name the URL to the client; port 0 picks one",
    )
    add(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=TIMEOUT_S,
        help="how long the client may take with one server (default: 20)",
    )
    add(
        "--quiet-time",
        metavar="SECONDS",
        type=seconds,
        default=QUIET_S,
        help="end a client that does not exit by itself after this time without a message (default: 5)",
    )
    add("--strict", action="store_true", help="let warnings count as failures do")
    add(
        "--only",
        metavar="GROUP,...",
        action="append",
        default=[],
        help="scenarios, categories, lawful or wrong; the ordinary server comes first in any case",
    )
    add("--skip", metavar="GROUP,...", action="append", default=[], help="scenarios to leave out")
    validation_report.add_detail_options(parser)
    report_options.add_options(parser)
    add("--trace-dir", metavar="DIR", help="record into new files in DIR, each named after its scenario")
    return parser.parse_args(argv), command
