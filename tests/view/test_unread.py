"""A recording that is read in steps: first rows at once, and in the end the same as if read at once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.index import indexed_trace, saved_index
from mcpproxy.read.view.view import View, open_view
from tests.trace.test_foreign import TALK, mcpsnoop
from tests.view.situations import SITUATIONS, begun, forecast, text, write


def facts(view: View) -> tuple[object, ...]:
    """What a recording is, as far as readers see it."""
    about = view.sessions, view.frames, view.ended, view.notes, view.not_judged, view.findings.counts()
    rows = [view.parts(number) for number in view.numbers()]
    return *about, rows, list(view.numbers("status:error")), list(view.numbers("status:unanswered"))


def without_waiting(calls: list[Call]) -> list[Call]:
    """Leave out of calls without an answer what is known of them only at the end."""
    is_open = Outcome.UNANSWERED
    return [
        replace(call, waited_ns=None, cause="" if call.outcome is is_open else call.cause) for call in calls
    ]


@pytest.fixture(autouse=True)
def _line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_trace, "_STEP_LINES", 1)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_step_by_step_is_as_at_once(situation: str, tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", SITUATIONS[situation])
    with open_view(path) as whole, open_view(path, 0) as view:
        rows: list[Call] = view.calls()
        steps = 0
        while view.unread:
            view.count("status:unanswered")  # a filter that was applied before the end
            first = view.refresh(0).first
            rows[first - 1 if first else len(rows) :] = view.calls(start=first - 1) if first else []
            steps += 1
        assert steps > 5
        assert facts(view) == facts(whole)
        assert without_waiting(rows) == without_waiting(whole.calls())


def test_what_is_not_read_yet_is_not_said(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", SITUATIONS["hanging call"])
    with open_view(path, 0) as view:
        while not view.count() or view.call(view.count()).outcome is not Outcome.UNANSWERED:
            view.refresh(0)
        assert view.unread
        assert view.call(view.count()).waited_ns is None
        assert view.notes == ()
        while view.unread:
            view.refresh(0)
        assert view.call(view.count("status:unanswered") and view.count()).waited_ns


def test_rows_read_between_two_refreshes_are_told_by_the_second(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "session.jsonl", SITUATIONS["finding"]), 0) as view:
        before = view.count()
        while view.unread:
            view.read_on(0)
        assert view.refresh().first == before + 1
        assert view.refresh().first == 0


def cut(path: Path) -> None:
    path.write_text("\n".join(begun().records) + '\n{"type":"frame","seq":6,"t":1', encoding="utf-8")


def damaged(path: Path) -> None:
    write(path, (*begun().records, "{", *begun().records[1:]))


def foreign(path: Path) -> None:
    path.write_text(mcpsnoop(*TALK), encoding="utf-8")


@pytest.mark.parametrize("make", [cut, damaged, foreign])
def test_a_recording_that_is_not_whole_is_read_to_its_end(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    make(path)
    with open_view(path) as whole, open_view(path, 0) as view:
        assert view.unread
        while view.unread:
            assert not view.refresh(0).rebuilt
        assert facts(view) == facts(whole)


def test_the_index_is_saved_when_the_caller_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(indexed_trace, "SMALLEST_SAVED_BYTES", 0)
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.answers(2, text("Oslo: sunny"), ms=112)
    path = write(tmp_path / "session.jsonl", session.closes(ms=200))
    with open_view(path, 0) as view:
        while view.unread:
            assert view.index.prepare_save() is None
            view.refresh(0)
        assert not Path(saved_index.cache_dir()).exists()
        save = view.index.prepare_save()
        assert save is not None
        save()
        assert list(Path(saved_index.cache_dir()).iterdir())
        with open_view(path, 0) as loaded:
            assert loaded.unread is None
            assert facts(loaded) == facts(view)
