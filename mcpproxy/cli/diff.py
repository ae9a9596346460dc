"""``mcpproxy diff A B``: what a server did in two recordings, compared."""

from itertools import zip_longest
from typing import Final

from mcpproxy.cli import comparing, traces
from mcpproxy.cli.usage import Parser
from mcpproxy.errors import TraceError
from mcpproxy.replay.material import material
from mcpproxy.replay.outcome import Comparison
from mcpproxy.replay.recording import Session, load

DESCRIPTION: Final = """\
Compares what the server said in recording B with what it said in recording A: answers to the same requests
(same method and params, equal ones in order), lists by name, notifications and requests of its own."""

EPILOG: Final = f"""\
{comparing.EPILOG}
  mcpproxy diff before.jsonl after.jsonl
  mcpproxy diff before.jsonl after.jsonl --alike timestamps,uuids --ignore notifications/message"""


def run(argv: list[str]) -> int:
    """Compare two recordings; 1 if they differ.

    Raises:
        McpProxyError: the arguments cannot be followed, or a trace cannot be read.
    """
    parser = Parser("diff", DESCRIPTION, EPILOG)
    parser.add_argument("a", metavar="A", help="the recording that is right")
    parser.add_argument("b", metavar="B", help="the recording to compare with it")
    comparing.add_options(parser)
    options = parser.parse_args(argv)
    a, b = (traces.expand(path)[0] for path in (options.a, options.b))
    comparison = Comparison(a, b)
    how = comparing.counting(options)
    for expected, found in zip_longest(_sessions(a, comparison), _sessions(b, comparison)):
        comparing.compare(comparison, expected, found, how)
    return comparing.report(comparison, options.format)


def _sessions(path: str, comparison: Comparison) -> list[Session]:
    found = material(load(path))
    comparison.notes += [f"{path}: {note}" for note in found.notes]
    sessions = comparing.sessions_of(found)
    if not sessions:
        raise TraceError(path, None, "holds no message", "record a session first")
    return sessions
