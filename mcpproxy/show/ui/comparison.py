"""Compare what the server did in two recordings, for the page."""

import json
from typing import Final

from mcpproxy.judge.session.frame import SERVER
from mcpproxy.peers.replay.diff.compare_traces import compare_recordings
from mcpproxy.peers.replay.diff.comparison import ComparedItem
from mcpproxy.peers.replay.diff.comparison_report import summary
from mcpproxy.peers.replay.recording import load
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

_MAX_DIFFERENCES: Final = 200
"""How many differences are shown at most."""
_MAX_CHARACTERS: Final = 2000
"""How many characters of each value are shown."""


def compared(before: str, after: str) -> JSONObject:
    """Return the ``differences`` between two recordings, their ``summary``, and how many ``more`` there are.

    Raises:
        TraceError: one of the recordings cannot be read.
    """
    comparison = compare_recordings(load(before, SERVER), load(after, SERVER))
    differences = [item for item in comparison.items if item.verdict != "same"]
    return {
        "summary": summary(comparison),
        "differences": [_difference_row(item) for item in differences[:_MAX_DIFFERENCES]],
        "more": max(0, len(differences) - _MAX_DIFFERENCES),
    }


def _difference_row(item: ComparedItem) -> JSONObject:
    """Return a difference. Each of its lines is a mark and a text: ``-`` before, ``+`` after, or a space."""
    lines: list[JSON] = []
    for change in item.changes:
        lines.append([" ", change.text])
        for mark, value in (("-", change.expected), ("+", change.found)):
            if value is not None:
                lines.append([mark, _json_text(value)])
    frames: JSONObject = {"frame": item.frame, "found_frame": item.found_frame}
    return {"title": item.what, "kind": item.verdict, "lines": lines, **frames}


def _json_text(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
