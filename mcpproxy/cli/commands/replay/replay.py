"""``mcpproxy replay``, and ``mcpproxy replay server``: a recording replaces the server.

``replay_client`` is the module of ``mcpproxy replay client``.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Final

from mcpproxy.cli import find_traces, http_sessions
from mcpproxy.cli.address_arguments import split_listen
from mcpproxy.cli.arguments import Parser, UsageError, nearest
from mcpproxy.cli.calls.part_of_recording import load_calls
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.terminal import tell, tell_on_a_terminal
from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.peers.replay.recording import LoadedTrace
from mcpproxy.peers.replay.server.engine import ReplayEngine, summary
from mcpproxy.peers.replay.server.live_messages import ReplayOptions
from mcpproxy.peers.replay.server.matching import LEVELS
from mcpproxy.peers.replay.server.replay_source import ReplaySource, one_after_another, replay_source
from mcpproxy.peers.replay.server.stdio_server import StdioReplayServer

PARTS: Final = {
    "server": "answer a live client from a recording",
    "client": "play a recorded client against a live server, and compare",
}

DESCRIPTION: Final = "Answer a live client from a recording, as the recorded server did."

EPILOG: Final = """\
Requests match by method and params. Volatile values (_meta, progress tokens, cursors, the params of
initialize) do not count, except with --match strict. Equal requests are answered in the recorded order.
Unsolicited messages of the server are sent after the client message that they followed. If messages met
faults, the client gets what the recorded client was given, and with --as-sent what the server had sent.

A request that was not recorded, or not as often, is a miss: it is answered with an error that names the
nearest recorded request, reported on stderr, and makes the exit code 1.

  mcpproxy replay server session.jsonl                         on stdin and stdout, for any client
  mcpproxy replay server session.jsonl --http 127.0.0.1:8800   over Streamable HTTP
  mcpproxy replay server session.jsonl --on-miss passthrough -- python server.py"""


def run(argv: list[str]) -> int:
    """Run ``replay server`` or ``replay client``; return its exit code. Without arguments, print the help.

    Raises:
        McpProxyError: there is no such part, or it fails.
    """
    part = argv[0] if argv else "--help"
    if part in ("-h", "--help"):
        parser = Parser("replay", "Replace the server or the client by a recording.", _part_lines())
        parser.usage = "mcpproxy replay {server,client} [TRACE] [OPTION...]"
        parser.print_help()
        return 0
    if part == "client":
        code: int = import_module("mcpproxy.cli.commands.replay.replay_client").run(argv[1:])
        return code
    if part == "server":
        return serve(argv[1:])
    guess = nearest(part, PARTS)
    raise UsageError(
        f"replay {part}",
        "neither server nor client",
        f"did you mean {guess}?" if guess else "say mcpproxy replay server TRACE",
    )


def serve(argv: list[str]) -> int:
    """Serve a recording. Return 1 if a request was a miss: not in the recording, or not as often.

    Raises:
        McpProxyError: the arguments are not valid, the trace cannot be read, or the port is taken.
    """
    options, command = _arguments(argv)
    traces = [find_traces.one(trace) for trace in options.trace or [None]]
    peer = None if options.as_sent else CLIENT
    source = _combined_source([load_calls(trace, options.filter, peer) for trace in traces])
    replay_options = ReplayOptions(
        level=options.match,
        ignore=tuple(options.ignore),
        factor=options.timing,
        repeats=options.repeat,
        passes=bool(command),
        complete=source.complete,
        over_http=bool(options.http),
    )
    if options.session:
        sessions = {session.name: session for session in source.sessions}
        source = replace(source, sessions=(http_sessions.find_session(traces[0], options.session, sessions),))
    if options.http:
        return _serve_http(options.http, source, replay_options, command)
    session = source.as_one()  # the first session, with the messages before it had an id
    if len(source.sessions) > 1:
        number = len(source.sessions)
        tell(f"the recording holds {number} sessions; the first is replayed, --session selects another")
    tell_on_a_terminal("waiting for a client on stdin; give it this command as its server; Ctrl-C ends")
    server = StdioReplayServer(ReplayEngine(session, replay_options), tell, command)
    server.run()
    return print_summary([server.engine], server.passed_on)


def _combined_source(recordings: Sequence[LoadedTrace]) -> ReplaySource:
    """Return the replayable messages of ``recordings``, and print notes about the recordings to stderr.

    Raises:
        TraceError: a recording has no message.
        UsageError: one of several was recorded over HTTP.
    """
    sources = [replay_source(recording) for recording in recordings]
    for recording, source in zip(recordings, sources, strict=True):
        # ``unnamed`` has the messages without a session id: on stdio all of them.
        if not source.unnamed.messages and not source.sessions:
            raise find_traces.no_message(recording.path)
        if len(sources) > 1 and recording.transport != "stdio":
            raise UsageError(
                recording.path,
                "was recorded over HTTP, and cannot be combined with another recording",
                "name one recording",
            )
        for note in source.notes:
            tell(f"{recording.path}: {note}")
    return sources[0] if len(sources) == 1 else one_after_another(sources)


def print_summary(engines: Sequence[ReplayEngine], passed: int) -> int:
    """Print a summary of the replay. Return the exit code: 1 if there was a miss, otherwise 0.

    ``passed`` is how many requests were passed on to the command of ``--on-miss passthrough``.
    """
    tell(summary(engines, passed))
    return 1 if any(engine.misses for engine in engines) else 0


def _serve_http(
    where: str, source: ReplaySource, replay_options: ReplayOptions, command: Sequence[str]
) -> int:
    """Serve the replay over HTTP until interrupted, and return the exit code.

    Raises:
        UsageError: ``where`` is not HOST:PORT, or nothing can listen there.
    """
    host, port = split_listen("replay server", where, "--http")
    # This imports a web server, which stdio does not need.
    from mcpproxy.peers.replay.server.http_server import HttpReplayServer

    try:
        server = HttpReplayServer(host, port, source, replay_options, tell, command)
    except OSError as fault:
        raise UsageError(where, f"cannot listen there ({fault.strerror})", "choose another port") from None
    tell(f"replaying at {server.url}")
    server.run()
    return print_summary(server.engines, server.passed_on)


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("replay server", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add(
        "trace",
        metavar="TRACE",
        nargs="*",
        help="the recording, the latest without it; several if the client started the server several times",
    )
    add("--http", metavar="HOST:PORT", default="", help="serve Streamable HTTP there; port 0 picks one")
    add(
        "--timing",
        type=_factor,
        default="immediate",
        metavar="immediate|recorded|FACTOR",
        help="no pauses, the recorded pauses, or those times FACTOR (default: immediate)",
    )
    add("--match", choices=LEVELS, default="default", help="how alike a request must be (default: default)")
    add(
        "--ignore",
        metavar="POINTER",
        type=_pointer,
        action="append",
        default=[],
        help="what else does not count in a request: /params/arguments/now, with * for one step",
    )
    add(
        "--as-sent",
        action="store_true",
        help="if messages met faults: play what the server sent, not what the client was given",
    )
    add("--repeat", action="store_true", help="give the last answer again when the recorded ones are used up")
    add(
        "--filter",
        metavar="EXPR",
        default="",
        help="answer from the calls that pass, such as tool:search*, and from what they depend on",
    )
    add("--session", metavar="ID", default="", help="which HTTP session, if there are several")
    add(
        "--on-miss",
        choices=("error", "passthrough"),
        default="error",
        help="how a miss is answered: with an error, or by -- COMMAND (default: error)",
    )
    options = parser.parse_args(argv)
    if (options.on_miss == "passthrough") != bool(command):
        raise UsageError(
            "--on-miss passthrough",
            "goes together with -- COMMAND",
            "mcpproxy replay server TRACE --on-miss passthrough -- python server.py",
        )
    return options, command


def _factor(text: str) -> float:
    """Return the factor of ``--timing`` for recorded pauses: 0 for none, 1 for the recorded pauses."""
    if text in ("immediate", "recorded"):
        return float(text == "recorded")
    try:
        factor = float(text)
    except ValueError:
        factor = -1
    if not 0 <= factor <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is neither immediate, recorded nor a factor such as 0.5")
    return factor


def _pointer(text: str) -> str:
    """Return the JSON Pointer of an option."""
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON Pointer such as /params/arguments/now")
    return text


def _part_lines() -> str:
    return os.linesep.join(f"  {name:<8}{line}" for name, line in PARTS.items())
