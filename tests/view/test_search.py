"""A scan of the bytes finds the same rows as looking into every frame does."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcpproxy.judge.session.frame import Frame
from mcpproxy.read.view.details import places
from mcpproxy.read.view.index.columns import MAX_NAMES, Columns
from mcpproxy.read.view.rows import search
from mcpproxy.read.view.rows.search import spellings
from mcpproxy.read.view.view import open_view
from mcpproxy.record.trace.reader import read_trace
from tests.view.situations import C, S, begun, forecast, write

TEXTS = st.text(st.sampled_from('aAbB "\\\n\x1bé€😀{}:,'), min_size=1, max_size=6)


@example(said=[(":", "line")], wanted="}}", chunk=150, last_line_feed=True)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(st.tuples(TEXTS, st.sampled_from(["utf-8", "ascii", "line"])), min_size=1, max_size=8),
    wanted=TEXTS,
    chunk=st.sampled_from([1, 7, 150, 1 << 20]),
    last_line_feed=st.booleans(),
)
def test_a_text_is_found_where_it_is(
    said: list[tuple[str, str]], wanted: str, chunk: int, last_line_feed: bool, tmp_path: Path
) -> None:
    session = begun()
    for number, (text, form) in enumerate(said):
        if form == "line":
            session.says(S, text, 100 + number)
            continue
        message = json.dumps({"method": "x", "params": {"said": text}}, ensure_ascii=form == "ascii")
        head = f'{{"type":"frame","seq":{6 + number},"t":{100 + number},"from":"client","message":'
        session.records.append(head + message + "}")
        session.skip()
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(session.records) + "\n" * last_line_feed, encoding="utf-8")
    frames = [event for event in read_trace(str(path)).events() if isinstance(event, Frame)]
    needles = spellings(wanted)
    holding = [frame.seq for frame in frames if any(needle in frame.raw.lower() for needle in needles)]
    with pytest.MonkeyPatch.context() as patched, open_view(path) as view:
        patched.setattr(search, "CHUNK_BYTES", chunk)
        quoted = wanted.replace("\\", "\\\\").replace('"', '\\"')
        assert list(view.numbers(f'"{quoted}"')) == sorted({view.columns.row_of(seq) for seq in holding})


def test_a_search_goes_on_where_it_ended(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert [progress.done_bytes for progress in view.find('"oslo"')] == [
            (tmp_path / "s.jsonl").stat().st_size
        ]
        assert list(view.find('"oslo" from:client')) == []  # nothing is left to search
        assert view.count('"oslo" from:client') == 1


def test_the_places_of_a_value_are_found_by_its_bytes() -> None:
    columns = Columns()
    columns.parent.extend([1, 256, 65536, 1, 16777216, 1, 1, 257, 1 << 24 | 1, 0])
    for value in set(columns.parent):
        expected = [place for place, held in enumerate(columns.parent) if held == value]
        assert places(columns.parent, value) == expected
        assert places(columns.parent, value, 5) == [place for place in expected if place >= 5]


def test_names_beyond_the_limit_are_read_from_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy.read.view.index.columns.MAX_NAMES", 4)
    session = begun()
    for number in range(6):
        params: dict[str, Any] = {"name": f"tool{number}" * (100 if number == 5 else 1)}
        session.asks(number + 2, "tools/call", params, ms=100 + number, by=C)
        session.answers(number + 2, {"content": []}, ms=100 + number)
    with open_view(write(tmp_path / "s.jsonl", session.closes(ms=200))) as view:
        assert [call.target for call in view.calls("tool:tool*")][:5] == [f"tool{n}" for n in range(5)]
        assert [view.count(f"tool:tool{n}") for n in range(5)] == [1] * 5
        assert view.count("method:tools/call") == 6
    assert MAX_NAMES < 1 << 16
