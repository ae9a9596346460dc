"""The first line of a recording in a list."""

import pytest

from mcpproxy.tui.session_lines import SessionItem, session_line
from mcpproxy.view.recording_entry import RecordingEntry

NAMED = {
    "a label that says nothing": ("server", "weather", "server (weather) desk"),
    "and begins with the host": ("cursor.index", "weather", "cursor.index (weather) desk"),
    "a label of its own": ("forecasts", "weather", "forecasts weather desk"),
    "a server with the same name": ("main", "main", "main desk"),
    "a server that has not said its name": ("server", "", "server desk"),
    "no label": ("", "weather", "weather desk"),
}


@pytest.mark.parametrize(("label", "server", "line"), NAMED.values(), ids=NAMED)
def test_a_recording_is_called_by_its_label_or_what_the_server_says(
    label: str, server: str, line: str
) -> None:
    entry = RecordingEntry("/r/s.jsonl", "ended", label=label, server=server, client="desk")
    shown = "".join(span.text for span in session_line(SessionItem(entry), 80, "2026-11-22"))
    assert shown.split("--:-- ")[1].strip() == line


@pytest.mark.parametrize(
    ("findings", "mark"), [({"info": 6}, "i6"), ({"info": 6, "error": 1}, "✗1"), ({"info": 0}, "desk")]
)
def test_a_recording_is_marked_by_its_worst_findings(findings: dict[str, int], mark: str) -> None:
    entry = RecordingEntry("/r/s.jsonl", "ended", label="s", client="desk", findings=findings)
    shown = "".join(span.text for span in session_line(SessionItem(entry), 80, "2026-11-22"))
    assert shown.split()[-1] == mark
