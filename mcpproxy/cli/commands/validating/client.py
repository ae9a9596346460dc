"""``mcpproxy validate client``: let a client meet legal, odd and wrong servers, and report what it does."""

import argparse
import os
from typing import TYPE_CHECKING, Final

from mcpproxy.base import paths
from mcpproxy.cli import async_main, baseline_options, output, report_options
from mcpproxy.cli.address_arguments import split_listen
from mcpproxy.cli.arguments import Parser, UsageError, positive, seconds
from mcpproxy.cli.checking import validation_report
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import tell, terminal_style
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.client_tests.config_template import ConfigTemplate
from mcpproxy.peers.client_tests.run import JOBS, QUIET_S, ClientTest, ClientTestRun
from mcpproxy.peers.client_tests.scenarios import chosen
from mcpproxy.peers.client_tests.served import CONFIG_PLACEHOLDER, MODEL_PLACEHOLDER, PLACEHOLDER, misspelt
from mcpproxy.peers.client_tests.visit import Invitation
from mcpproxy.peers.scripted_model.model_script import read_script_file
from mcpproxy.peers.validate.outcome import Validation

if TYPE_CHECKING:
    from mcpproxy.peers.client_tests.beside_model import BesideModel

DESCRIPTION: Final = """\
Start a client once for each of some ninety servers of ours, legal and odd, or wrong; record what they say to
each other, and judge the client. It finds its server in the environment variable MCPPROXY_SERVER, or where
{server} stands in its command: a command line, and with --listen a URL. With --listen and no command, you
lead a client with a window to a URL, which is the same for all servers, and connect it anew for each."""

EPILOG: Final = """\
exit codes: 0 valid, 1 invalid (with --strict also warnings), 2 the client could not be tested,
            130 interrupted

  mcpproxy validate client -- python client.py {server}
  mcpproxy validate client --listen 127.0.0.1:0 -- node client.js {server}
  mcpproxy validate client --config-template mcp.json -- host --mcp-config {config} -p go
  mcpproxy validate client --model --config-template mcp.json -- claude -p go --mcp-config {config}
  mcpproxy validate client --listen 127.0.0.1:8123
  mcpproxy validate client --only wrong,two-pages -v -- sh -c 'client --stdio "$MCPPROXY_SERVER"'"""

EXAMPLE: Final = "mcpproxy validate client -- python client.py {server}"


def run(argv: list[str]) -> int:
    """Test one client, and return the exit code.

    Raises:
        McpProxyError: the arguments are not valid, the client cannot be started, or a file cannot be written.
    """
    options, command = _arguments(argv)
    scenarios = chosen(options.only, options.skip)
    transport, other = ("HTTP", "leave --listen out") if options.listen else ("stdio", "add --listen")
    is_played = any(transport.lower() in scenario.transports for scenario in scenarios[1:])
    if len(scenarios) > 1 and not is_played:
        raise UsageError("--only", f"none of these servers is played over {transport}", other)
    _check_command(command, options)
    if options.listen:
        split_listen("validate client", options.listen)
    accepted = baseline_options.read(options)
    for path in filter(None, (options.output, options.facts)):
        output.check_writable(path)
    label = paths.label_for(command) if command else "by-hand"
    stem, _ = os.path.splitext(paths.trace_name(f"client-{label}"))
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
        _config_template(options, command),
        _beside_model(options, command),
        _job_count(options, command),
    )
    rules = ruleset.load()
    is_silent = validation_report.is_printed_at_end(options, accepted)
    printer = validation_report.ProgressPrinter(
        test.name, test.transport, terminal_style(), options.detail, is_silent=is_silent
    )
    client_run = ClientTestRun(
        test, rules, printer.callbacks(), lambda invitation: printer.tell(_invitation_lines(invitation))
    )
    result = _run_tests(client_run, printer)
    base = os.getcwd() if options.trace_dir else None
    result = validation_report.conclude(result, printer, options, accepted, rules.catalogue, base)
    if result.untested:
        tell(result.untested)
    elif options.facts:
        if table := client_run.facts():
            output.write(options.facts, table.splitlines())
            place = "rules/hosts in mcpproxy's source, where check --hosts reads it"
            tell(f"{options.facts} is a table for {place}")
        else:
            tell(f"{options.facts} is not written: the client did nothing that is a fact about a host")
    return result.exit_code


def _run_tests(client_run: ClientTestRun, printer: validation_report.ProgressPrinter) -> Validation:
    try:
        async_main.run_until_terminated(client_run.test())
    except KeyboardInterrupt:
        return client_run.result(is_interrupted=True)
    finally:
        printer.clear()
    return client_run.result()


def _invitation_lines(invitation: Invitation) -> list[str]:
    """Return the lines that ask a person to use the client in a certain way."""
    deed = {"initialize": "connect", "tools/list": "list its tools"}.get(invitation.wanted, "call its tool")
    again = "" if invitation.number == 1 else "connect anew" + ("" if deed == "connect" else " and ")
    asked = f"{again}{'' if again and deed == 'connect' else deed}"
    scenario = invitation.scenario
    line = f"{invitation.number} of {invitation.total}  {scenario.name}: {scenario.what}; {asked}"
    if invitation.number > 1:
        return [line]
    return [
        f"connect your client to {invitation.url}, which is the same for all {invitation.total} servers",
        "the next server comes when the client has done what is asked for and disconnects or rests, "
        f"at Enter, or after {invitation.limit_s:.0f} s; Ctrl-C ends with the report",
        line,
    ]


def _config_template(options: argparse.Namespace, command: list[str]) -> ConfigTemplate | None:
    if not options.config_template:
        return None
    if not command:
        raise UsageError("--config-template", "there is no command that gets it", EXAMPLE)
    transport = "http" if options.listen else "stdio"
    return ConfigTemplate.read(options.config_template, transport, has_model=_has_model(options))


def _job_count(options: argparse.Namespace, command: list[str]) -> int:
    """Return how many servers run at once; by default one for a host, which may keep a state.

    One is also the default with a fixed port, and without a command.

    Raises:
        UsageError: ``--jobs`` does not fit the other arguments.
    """
    has_one_address = bool(options.listen) and not options.listen.endswith(":0")
    if options.jobs > 1 and not command:
        raise UsageError("--jobs", "you lead the client to one server after the other", "leave it out")
    if options.jobs > 1 and has_one_address:
        raise UsageError("--jobs", f"at {options.listen} there is one server at a time", "give it port 0")
    if options.jobs:
        return options.jobs
    is_host = bool(options.config_template) or _has_model(options)
    return 1 if is_host or has_one_address or not command else JOBS


def _has_model(options: argparse.Namespace) -> bool:
    """Whether a scripted model is played beside each server, for a host."""
    return bool(options.model or options.script)


def _beside_model(options: argparse.Namespace, command: list[str]) -> "BesideModel | None":
    if not _has_model(options):
        return None
    if not command:
        raise UsageError("--model", "there is no command of a host", EXAMPLE)
    from mcpproxy.peers.client_tests.beside_model import BesideModel

    return BesideModel(read_script_file(options.script) if options.script else None)


def _check_command(command: list[str], options: argparse.Namespace) -> None:
    """Refuse a command that is missing, or that has a misspelt or useless placeholder.

    Raises:
        UsageError: the command is refused.
    """
    if not command and not options.listen:
        next_step = f"{EXAMPLE}, or --listen HOST:PORT for one that you connect yourself"
        raise UsageError("validate client", "the command of the client is missing", next_step)
    known = [PLACEHOLDER, CONFIG_PLACEHOLDER, MODEL_PLACEHOLDER]
    for word in command:
        if guess := misspelt(word, known):
            what = {PLACEHOLDER: "server", MODEL_PLACEHOLDER: "model"}.get(guess, "configuration")
            raise UsageError("validate client", f"{word!r} does not name the {what}", f"write {guess}")
        if MODEL_PLACEHOLDER in word and not _has_model(options):
            fact = f"{word!r} names a model, and there is none"
            raise UsageError("validate client", fact, "have one beside each server: --model")
        if CONFIG_PLACEHOLDER in word and not options.config_template:
            fact = f"{word!r} names a configuration, and there is none"
            raise UsageError("validate client", fact, "name the file for the server: --config-template FILE")


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("validate client", DESCRIPTION, EPILOG)
    parser.usage = """\
mcpproxy validate client [OPTION...] -- COMMAND [ARG...]
       mcpproxy validate client --listen HOST:PORT [OPTION...]"""
    add = parser.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="serve over HTTP there, and name the URL to the client, or to you; port 0 picks one",
    )
    add(
        "--config-template",
        metavar="FILE",
        help="the client's configuration (JSON, TOML, YAML), with {command} and {args}, {url}, or {server} "
        "in it; MCPPROXY_CONFIG, and {config} in the command, say where a copy with the server is",
    )
    add(
        "--model",
        action="store_true",
        help="have a model that calls the tool of each server; the host is told of it as by mcpproxy model "
        "--script, and {model} is its URL",
    )
    add("--script", metavar="FILE", help="what that model does instead, as for mcpproxy model --script")
    add(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=0.0,
        help="how long the client may take with one server (default: 20, or 8 times what it takes with the "
        "first; without a command 120)",
    )
    add(
        "--quiet-time",
        metavar="SECONDS",
        type=seconds,
        default=QUIET_S,
        help="end a client that does not exit by itself, or go on without a command, after this time without "
        "a message (default: 5)",
    )
    add(
        "--jobs",
        metavar="N",
        type=positive,
        default=0,
        help=f"how many servers to play at once (default: {JOBS}; 1 for a host with a file or a model, for "
        "one port, and without a command)",
    )
    add("--strict", action="store_true", help="let warnings count as failures do")
    add(
        "--only",
        metavar="GROUP,...",
        action="append",
        default=[],
        help="scenarios, categories, lawful, wrong, stateless or authorization; the ordinary server comes "
        "first in any case",
    )
    add("--skip", metavar="GROUP,...", action="append", default=[], help="scenarios to leave out")
    validation_report.add_detail_options(parser)
    report_options.add_options(parser)
    add(
        "--facts",
        metavar="FILE",
        help="also write what the client was seen to do, as a table of facts for check --hosts",
    )
    add("--trace-dir", metavar="DIR", help="record into new files in DIR, each named after its scenario")
    return parser.parse_args(argv), command
