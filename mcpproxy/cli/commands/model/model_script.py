"""``mcpproxy model --script``: hosts talk to a model that follows a script instead of a real one."""

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcpproxy.base.json_values import dumps
from mcpproxy.base.style import count
from mcpproxy.base.system_words import os_reason
from mcpproxy.cli.address_arguments import split_listen
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.record.relay.exit_status import shell_code

if TYPE_CHECKING:
    from mcpproxy.peers.scripted_model.model_server import ModelServer

DESCRIPTION: Final = "Be the model of a host: answer it by a script, in the interface of every service."

EPILOG: Final = """\
A script has one turn on each line. Tools are called by the names that their server lists, whatever the host
makes of them:

  {"call": "forecast", "arguments": {"city": "Oslo"}, "expect": {"contains": "sunny"}}
  {"say": "It is sunny in Oslo."}

A host that is started by this command is told in its environment where its model is. Others are told so in
their settings. When the host has ended, or at Ctrl-C, there is a line for each turn; the exit code is 1 if a
turn failed or did not run.

  mcpproxy model --script oslo.jsonl -- claude -p go --mcp-config servers.json --allowedTools mcp__weather
  mcpproxy model --script oslo.jsonl --listen 127.0.0.1:8901

What a real model did in a recording of its interface becomes a script with --from:

  mcpproxy model --from model > oslo.jsonl"""

_END_S: Final = 5.0
"""How long a host may take to end before it is killed."""


def run(argv: list[str]) -> int:
    """Serve a script until its host has ended, or until interrupted; with ``--from``, only print one.

    Return the exit code, as ``serve`` and ``print_script`` do.

    Raises:
        McpProxyError: the arguments are not valid, or as for ``serve`` and ``print_script``.
    """
    argv, host = split_command(argv)
    parser = Parser("model", DESCRIPTION, EPILOG)
    parser.usage = (
        "mcpproxy model --script FILE [OPTION...] [-- HOST [ARG...]]\n       mcpproxy model --from TRACE"
    )
    add_options(parser)
    options = parser.parse_args(argv)
    return print_script(options.recording) if options.recording else serve(options, host)


def add_options(parser: Parser) -> None:
    """Add the options of a scripted model."""
    parser.add_argument("--script", metavar="FILE", help="the turns of the model, one on each line")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="where to listen (default: a free port of 127.0.0.1)",
    )
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")
    parser.add_argument(
        "--from",
        dest="recording",
        metavar="TRACE",
        help="print the script of what a model did in a recording of its interface, and serve nothing",
    )


def print_script(recording: str) -> int:
    """Print what a model did in a recording as a script, and return 0.

    Tools are called by the names that their servers list, if the servers were recorded beside the model.

    Raises:
        McpProxyError: the recording cannot be read, or has no answer of a model.
    """
    from mcpproxy.cli import find_traces
    from mcpproxy.judge.session.masked_values import holds_mask
    from mcpproxy.peers.scripted_model.recorded_script import has_other_arguments, recorded_turns
    from mcpproxy.read.opening import open_trace
    from mcpproxy.read.prompt.run import open_beside, read_servers
    from mcpproxy.record.recorder.model.turns import model_turns

    path = find_traces.one(recording)
    turns = list(recorded_turns(model_turns(open_trace(path)), read_servers(open_beside(path))))
    if not turns:
        raise UsageError(path, "has no answer of a model to a request with tools", "name another recording")
    emit(map(dumps, turns))
    if masked := sum(map(holds_mask, turns)):
        tell(f"{count(masked, 'turn')} with arguments that are masked in the recording; write the real ones")
    if strange := sum(map(has_other_arguments, turns)):
        tell(f"{count(strange, 'turn')} with arguments that are no JSON object; write one")
    return 0


def serve(options: argparse.Namespace, host: Sequence[str]) -> int:
    """Serve the script that the options name, to the host with the command ``host``; empty for none.

    Return 1 if a turn failed or did not run, otherwise the exit code of the host; 0 without one.

    Raises:
        McpProxyError: the script cannot be read, the port is taken, or the host cannot be started.
    """
    if options.script is None:
        raise UsageError("model", "there is no script", "name one: --script FILE")
    from mcpproxy.peers.scripted_model.model_script import read_script_file

    script = read_script_file(options.script)
    address = split_listen("model", options.listen)

    from mcpproxy.peers.scripted_model import run_report
    from mcpproxy.peers.scripted_model.model_server import ModelServer

    try:
        server = ModelServer(script, *address)
    except OSError as error:
        raise UsageError(options.listen, os_reason(error), "choose another address with --listen") from None
    code = asyncio.run(_serve_until_end(server, host))
    player = server.player
    emit([dumps(run_report.as_json(player))] if options.json else run_report.lines(player, terminal_style()))
    return 1 if run_report.has_failed(player) else code


async def _serve_until_end(server: "ModelServer", host: Sequence[str]) -> int:
    """Serve until a signal comes or the host has ended. Return the exit code of the host; 0 without one.

    Raises:
        UsageError: the host cannot be started.
    """
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # on Windows, Ctrl-C ends the process
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
    tell(f"listening on {server.url}; interfaces of OpenAI below {server.url}/v1")
    if not server.is_local:
        tell("other machines can reach this model")
    serving = asyncio.create_task(server.serve())
    if not host:
        await serving
        return 0
    from mcpproxy.peers.scripted_model.host_settings import environment

    try:
        process = await asyncio.create_subprocess_exec(
            *host, stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **environment(server.url)}
        )
    except OSError as error:
        server.stop()
        await serving
        reason = os_reason(error)
        raise UsageError(host[0], f"cannot be started ({reason})", "name the command of a host") from None
    ended = asyncio.create_task(process.wait())
    await asyncio.wait([ended, serving], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        process.terminate()
    server.stop()
    await serving
    if not (await asyncio.wait([ended], timeout=_END_S))[0]:
        process.kill()
    code = await ended
    return shell_code(code)
