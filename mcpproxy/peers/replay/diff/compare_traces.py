"""Compare what the server did in two recordings, session by session."""

from dataclasses import replace
from itertools import zip_longest

from mcpproxy.peers.replay.diff.comparison import Comparison
from mcpproxy.peers.replay.diff.session_diff import compare_sessions, pair_requests
from mcpproxy.peers.replay.diff.values import DiffRules
from mcpproxy.peers.replay.recording import LoadedTrace, RecordedSession, of_a_model
from mcpproxy.peers.replay.server.replay_source import replay_source, sessions_of


def compare_recordings(before: LoadedTrace, after: LoadedTrace) -> Comparison:
    """Compare the first session of ``before`` with the first session of ``after``, and so on.

    A session that one of them lacks counts as an empty session.

    Raises:
        TraceError: a recording is of a model's interface.
    """
    for recording in (before, after):
        if recording.header.model:
            raise of_a_model(recording.path)
    rules = DiffRules()
    comparison = Comparison(before.path, after.path)
    sources = replay_source(before), replay_source(after)
    for source in sources:
        comparison.notes += source.notes
    for expected, found in zip_longest(*map(sessions_of, sources)):
        expected, found = expected or RecordedSession(), found or RecordedSession()
        items = compare_sessions(expected, found, pair_requests(expected, found, rules), rules)
        name = expected.name or found.name
        comparison.items += [replace(item, session=name) for item in items] if name else items
    return comparison
