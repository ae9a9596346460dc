"""``mcpproxy diff A B``: compare what a server did in two recordings."""

from itertools import zip_longest
from typing import Final

from mcpproxy.cli import comparison_options, find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.peers.replay.diff.comparison import Comparison
from mcpproxy.peers.replay.recording import RecordedSession, load
from mcpproxy.peers.replay.server.replay_source import replay_source, sessions_of

DESCRIPTION: Final = """\
Compare what the server said in recording B with what it said in recording A: answers to the same requests
(same method and params, equal ones in order), lists by name, and the server's notifications and requests."""

EPILOG: Final = f"""\
{comparison_options.EPILOG}
  mcpproxy diff weather             the last two labelled weather
  mcpproxy diff weather~3           the latest with this label, and the third before it
  mcpproxy diff before.jsonl after.jsonl
  mcpproxy diff before.jsonl after.jsonl --alike timestamps,uuids --ignore notifications/message"""


def run(argv: list[str]) -> int:
    """Compare two recordings; return 1 if they differ.

    Raises:
        McpProxyError: the arguments are not valid, or a trace cannot be read.
    """
    parser = Parser("diff", DESCRIPTION, EPILOG)
    parser.add_argument(
        "a",
        nargs="?",
        metavar="A",
        help="the recording with the expected behaviour; without it the one before B with its label; "
        "a label without B: the last two with this label",
    )
    parser.add_argument(
        "b",
        nargs="?",
        metavar="B",
        help="the recording to compare with A; without it the latest of A's label",
    )
    parser.add_argument(
        "--session",
        metavar="ID",
        action="append",
        default=[],
        help="compare only this HTTP session; give it again if the session has another id in B",
    )
    comparison_options.add_options(parser)
    options = parser.parse_args(argv)
    a, b = find_traces.find_pair(options.a, options.b)
    comparison = Comparison(a, b)
    comparison_rules = comparison_options.rules_from(options)
    ids: list[str] = options.session
    if len(ids) > 2:
        raise UsageError("--session", f"given {len(ids)} times", "give it once for A and once for B")
    sessions_a, sessions_b = _sessions(a, comparison), _sessions(b, comparison)
    if ids:
        sessions_a = [comparison_options.choose_session(a, sessions_a, ids[0])]
        sessions_b = [_counterpart(b, sessions_b, ids)]
    for expected, found in zip_longest(sessions_a, sessions_b):
        comparison_options.compare(comparison, expected, found, comparison_rules)
    return comparison_options.report(comparison, options.format)


def _counterpart(path: str, sessions: list[RecordedSession], ids: list[str]) -> RecordedSession:
    """Return the session of recording B to compare: the one that the second of ``ids`` names.

    With one id, it is the only session of B, or the session of B with that id.
    """
    if len(ids) == 1 and len(sessions) == 1:
        return sessions[0]
    return comparison_options.choose_session(path, sessions, ids[-1])


def _sessions(path: str, comparison: Comparison) -> list[RecordedSession]:
    """Return the sessions of a recording, and add its notes to ``comparison``.

    Raises:
        TraceError: the recording cannot be read, or has no message.
    """
    source = replay_source(load(path, SERVER))
    comparison.notes += [f"{path}: {note}" for note in source.notes]
    sessions = sessions_of(source)
    if not sessions:
        raise find_traces.no_message(path)
    return sessions
