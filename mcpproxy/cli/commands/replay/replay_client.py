"""``mcpproxy replay client``: play the recorded client to a live server, and compare what the server does."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mcpproxy.cli import async_main, comparison_options, find_traces, replay_update, upstream_options
from mcpproxy.cli.arguments import Parser, UsageError, move_url, seconds, url
from mcpproxy.cli.calls.part_of_recording import load_calls
from mcpproxy.cli.comparison_options import ComparisonRules
from mcpproxy.cli.option_table import split_command
from mcpproxy.cli.replay_update import Update
from mcpproxy.cli.terminal import tell
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.peers.replay.client.driver import TIMEOUT_S, Link, play
from mcpproxy.peers.replay.client.player import Player
from mcpproxy.peers.replay.client.stdio_link import StdioLink
from mcpproxy.peers.replay.diff.comparison import Comparison
from mcpproxy.peers.replay.recording import LoadedTrace, RecordedSession
from mcpproxy.peers.replay.server.replay_source import replay_source, sessions_of
from mcpproxy.record.recorder.secret_arguments import shown

if TYPE_CHECKING:
    from mcpproxy.peers.client.refusals import HttpRefusal
    from mcpproxy.peers.replay.client.http_link import HttpLink

DESCRIPTION: Final = """\
Play the recorded client against a live server, and compare what the server says now with what it said then.
A message is sent when everything that the recorded client had seen before it has been seen again."""

EPILOG: Final = f"""\
{comparison_options.EPILOG}
  mcpproxy replay client session.jsonl -- python server.py
  mcpproxy replay client session.jsonl http://127.0.0.1:3000/mcp --format junit > report.xml
  mcpproxy replay client session.jsonl --update -- python server.py"""


def run(argv: list[str]) -> int:
    """Play one recording, and return the exit code.

    It is 1 if the server differs from the recorded one, and 0 if it does not, or if it was recorded anew.

    Raises:
        McpProxyError: the arguments are not valid, the trace cannot be read, or the server cannot be reached
            or sends nothing.
    """
    options, command = _arguments(argv)
    path = find_traces.one(options.trace)
    recording = load_calls(path, options.filter, SERVER)
    comparison_rules = comparison_options.rules_from(options)
    upstream = upstream_options.from_namespace(options, options.url or "")
    comparison = Comparison(path, shown((options.url,) if options.url else command))
    with replay_update.updating(
        recording, options.url or "", command, upstream, wanted=options.update
    ) as update:
        is_complete = _play_all(recording, comparison, comparison_rules, options, update)
        update.keeps = is_complete  # the new recording, which then replaces the old one
    code = comparison_options.report(comparison, options.format)
    if options.update:
        if not is_complete:
            tell(f"{path} is unchanged: the replay did not reach its end")
            return code
        tell(f"{path} was replaced by the new recording")
        return 0
    return code


def _play_all(
    recording: LoadedTrace,
    comparison: Comparison,
    comparison_rules: ComparisonRules,
    options: argparse.Namespace,
    live: Update,
) -> bool:
    """Play the chosen sessions to the ``live`` server. Return whether all were played to their end.

    Raises:
        McpProxyError: the recording has no message, or the server cannot be reached or sends nothing.
    """
    source = replay_source(recording)
    sessions = sessions_of(source)
    if options.session:
        sessions = [comparison_options.choose_session(recording.path, sessions, options.session)]
    comparison.notes += [f"{recording.path}: {note}" for note in source.notes]
    if not sessions:
        raise find_traces.no_message(recording.path)
    received, is_complete, refused = 0, True, list["HttpRefusal"]()
    for session in sessions:
        player = Player(session)
        http = _http_link(live, session, options.header, is_direct=not options.update) if live.url else None
        link: Link = http or StdioLink(live.command)
        async_main.run_until_terminated(play(player, link, options.timeout))
        received += player.received_count
        refused += http.refused if http else ()
        comparison.notes += player.notes
        is_complete = is_complete and not player.is_stopped
        comparison_options.compare(comparison, session, player.live, comparison_rules, player.pairing)
    if not received:
        why = comparison.notes[-1] if comparison.notes else "the server said nothing"
        why = f"{comparison.found}: {why}"
        if refused and not options.update:  # with --update, a proxy of ours stands before the server
            why = _why_no_server(live, refused[0])
        refusal = str(refused[0]) if refused else why
        for note in dict.fromkeys(comparison.notes):
            if not (why.endswith(note) or refusal in note):  # otherwise the error below says it
                tell(note)
        raise McpProxyError(f"{why}; nothing could be compared")
    return is_complete


def _why_no_server(live: Update, refusal: "HttpRefusal") -> str:
    """Return why the server answered with nothing but refusals, of which ``refusal`` was the first."""
    from mcpproxy.peers.validate.errors import HttpStatusError
    from mcpproxy.peers.validate.transports.reachability import why_no_server

    fault = HttpStatusError(f"HTTP status {refusal.words}", (), refusal.status, refusal.advice)
    why = async_main.run_until_terminated(why_no_server(live.url, fault, live.upstream))
    return why or f"{shown((live.url,))}: {fault}"


def _http_link(
    live: Update, session: RecordedSession, headers: Sequence[tuple[str, str]], *, is_direct: bool
) -> "HttpLink":
    from mcpproxy.peers.replay.client.http_link import HttpLink  # imports h11, which stdio does not need

    return HttpLink(live.url, session, headers, upstream=live.upstream, is_direct=is_direct)


def _arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    argv, command = split_command(argv)
    parser = Parser("replay client", DESCRIPTION, EPILOG)
    parser.usage = "mcpproxy replay client [TRACE] [OPTION...] (-- COMMAND [ARG...] | URL)"
    add = parser.add_argument
    add("trace", metavar="TRACE", nargs="?", help="the recording; without it the latest")
    add("url", metavar="URL", nargs="?", type=url, help="the MCP endpoint of a live server over HTTP")
    add(
        "--filter",
        metavar="EXPR",
        default="",
        help="play the calls that pass, such as tool:search*, and what they depend on",
    )
    add(
        "--session",
        metavar="ID",
        default="",
        help="play this HTTP session alone: its eight digits in show, or the first of them",
    )
    comparison_options.add_options(parser)
    add("--update", action="store_true", help="replace the recording by what the server says now")
    add(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=TIMEOUT_S,
        help=f"how long an answer may take (default: {TIMEOUT_S:g})",
    )
    upstream_options.add_options(parser)
    options = parser.parse_args(argv)
    move_url(options)
    if bool(options.url) + bool(command) != 1:
        raise UsageError(
            "replay client",
            "one of -- COMMAND and URL is needed",
            "mcpproxy replay client TRACE -- python server.py",
        )
    if options.header and not options.url:
        raise UsageError("--header", "goes together with a URL", "leave it out for a command")
    for name in ("session", "filter"):
        if getattr(options, name) and options.update:
            raise UsageError(f"--{name}", "is not for --update, which replaces all", "leave one of them out")
    return options, command
