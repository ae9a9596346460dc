"""The first line of a recording in a list."""

from pathlib import Path

import pytest

from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.view import open_view
from mcpproxy.show.tui.session_lines import SessionItem, head_line, overview_lines, session_line
from mcpproxy.show.tui.spans import Line
from tests.view.situations import Conversation, begun, write


def text_of(line: Line) -> str:
    return "".join(span.text for span in line)


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
    ("findings", "mark"), [({"info": 6}, "i6"), ({"info": 6, "error": 1}, "✗1+"), ({"info": 0}, "desk")]
)
def test_a_recording_is_marked_by_its_worst_findings(findings: dict[str, int], mark: str) -> None:
    entry = RecordingEntry("/r/s.jsonl", "ended", label="s", client="desk", findings=findings)
    shown = "".join(span.text for span in session_line(SessionItem(entry), 80, "2026-11-22"))
    assert shown.split()[-1] == mark


@pytest.mark.parametrize(
    ("infos", "mark", "words"), [(0, "▲1", "1 warning"), (2, "▲1+", "1 warning, 2 info")]
)
def test_a_session_counts_the_findings_of_its_mark_and_the_head_all(
    infos: int, mark: str, words: str, tmp_path: Path
) -> None:
    session = begun()
    for severity in ["warning", *["info"] * infos]:
        session.finds("STDIO-002", 5, "a line", severity)
    path = write(tmp_path / "s.jsonl", session.closes(ms=200))
    with open_view(path) as view:
        item = SessionItem(recording(path), session=view.sessions[0])
        assert text_of(session_line(item, 80, "2026-11-22")).split()[-1] == mark
        assert f", {words}  " in text_of(head_line(view))


def test_without_a_revision_the_overview_has_no_line_for_it(tmp_path: Path) -> None:
    silent = Conversation()
    silent.notifies("notifications/message", {}, ms=1)
    for session, said in ((silent, []), (begun(), ["  revision  mcp 2025-11-25"])):
        path = write(tmp_path / "s.jsonl", session.closes(ms=200))
        with open_view(path) as view:
            lines = map(text_of, overview_lines(SessionItem(recording(path)), view))
            assert [line for line in lines if line.startswith("  revision")] == said
