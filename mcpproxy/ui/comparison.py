"""Compare what the server did in two recordings, for the page."""

import json
from itertools import zip_longest
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.replay.diff.comparison import ComparedItem, Comparison
from mcpproxy.replay.diff.session_diff import compare_sessions, pair_requests
from mcpproxy.replay.diff.values import DiffRules
from mcpproxy.replay.recording import RecordedSession, load
from mcpproxy.replay.server.replay_source import replay_source, sessions_of
from mcpproxy.reports.comparison import summary

_MAX_DIFFERENCES: Final = 200
_MAX_CHARACTERS: Final = 2000
"""How many differences are shown, and how many characters of each value."""


def compared(before: str, after: str) -> JSONObject:
    """Return the differences between two recordings.

    Raises:
        TraceError: one of the recordings cannot be read.
    """
    rules = DiffRules()
    comparison = Comparison(before, after)
    sessions = (sessions_of(replay_source(load(path))) for path in (before, after))
    for expected, found in zip_longest(*sessions):
        expected, found = expected or RecordedSession(), found or RecordedSession()
        pairing = pair_requests(expected, found, rules)
        comparison.items += compare_sessions(expected, found, pairing, rules)
    differences = [item for item in comparison.items if item.verdict != "same"]
    return {
        "summary": summary(comparison),
        "differences": [_difference(item) for item in differences[:_MAX_DIFFERENCES]],
        "more": max(0, len(differences) - _MAX_DIFFERENCES),
    }


def _difference(item: ComparedItem) -> JSONObject:
    lines: list[JSON] = []
    for change in item.changes:
        lines.append([" ", change.text])
        for mark, value in (("-", change.expected), ("+", change.found)):
            if value is not None:
                lines.append([mark, _text(value)])
    frames: JSONObject = {"frame": item.frame, "found_frame": item.found_frame}
    return {"title": item.what, "kind": item.verdict, "lines": lines, **frames}


def _text(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
