"""The numbers of frames and of calls in a recording are the same wherever they are said."""

import json
import re
from pathlib import Path

import pytest

from mcpproxy.base.style import count
from mcpproxy.read.view.view import open_view
from mcpproxy.show.tui.session_lines import head_line
from tests.cli.conftest import Mcpproxy
from tests.view.situations import Conversation, write

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_frames_are_counted_alike(mcpproxy: Mcpproxy, path: Path) -> None:
    listed = json.loads(mcpproxy("list", "--json", "--limit", "999", str(path.parent)).out)["traces"]
    (in_list,) = [entry["frames"] for entry in listed if entry["path"] == str(path)]
    in_check = json.loads(mcpproxy("check", "--format", "json", str(path)).out)["traces"][0]["frames"]
    in_stats = json.loads(mcpproxy("stats", "--json", str(path)).out)["frames"]
    of_calls = re.search(r"; ([\d,]+) frames?; ", mcpproxy("show", str(path)).out)
    of_frames = re.search(
        r"^ +([\d,]+) frames? \(", mcpproxy("show", "--frames", str(path)).out, re.MULTILINE
    )
    assert of_calls
    assert of_frames
    assert {in_check, in_stats, int(of_calls[1]), int(of_frames[1])} == {in_list}


@pytest.mark.parametrize("path", [*RECORDINGS, "an open stream"], ids=lambda path: Path(path).stem)
def test_calls_are_counted_alike(mcpproxy: Mcpproxy, path: Path | str, tmp_path: Path) -> None:
    if path == "an open stream":  # a GET has a row, but it is no call, so it is not without an answer
        session = Conversation(http=True)
        session.posts(1, ms=10, method="GET")
        path = write(tmp_path / "t.jsonl", tuple(session.records))
    rows = json.loads(mcpproxy("stats", "--json", str(path)).out)["calls"]
    in_stats = [sum(row[name] for row in rows) for name in ("count", "failed", "unanswered")]
    line = re.search(r"^([\d,]+ calls?.*); [\d,]+ frames?; ", mcpproxy("show", str(path)).out, re.MULTILINE)
    assert line
    in_show = [re.search(rf"([\d,]+) {words}", line[1]) for words in ("call", "failed", "unanswered")]
    assert [int(found[1]) if found else 0 for found in in_show] == in_stats
    with open_view(str(path)) as view:
        sessions = [(each.calls.total, each.calls.failed, each.calls.unanswered) for each in view.sessions]
        assert [sum(numbers) for numbers in zip(*sessions, strict=True)] == in_stats
        shown = "".join(span.text for span in head_line(view))
    assert count(in_stats[0], "call") in shown


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_failed_calls_are_counted_alike(mcpproxy: Mcpproxy, path: Path, tmp_path: Path) -> None:
    """A copy has the numbers in its last record; without that record the list reads the file."""
    copy = tmp_path / "copies" / path.name
    copy.parent.mkdir()
    assert mcpproxy("redact", str(path), "--preset", "secrets", "-o", str(copy)).code == 0
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(copy.read_bytes().splitlines(keepends=True)[:-1]))
    rows = json.loads(mcpproxy("stats", "--json", str(path)).out)["calls"]
    in_stats = [sum(row[name] for row in rows) for name in ("count", "failed", "unanswered")]
    for listed in (copy, cut):
        (entry,) = json.loads(mcpproxy("list", "--json", str(listed.parent)).out)["traces"]
        assert [entry[name] for name in ("calls", "failed", "unanswered")] == in_stats
