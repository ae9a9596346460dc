"""Rows in another order than that of the recording."""

from pathlib import Path

import pytest

from mcpproxy.read.view.rows import sort_rows
from mcpproxy.read.view.view import View, open_view
from tests.view.situations import begun, forecast, text, write

CALLS = (
    (10, 30, "Oslo", False),
    (20, 900, "Lima" * 50, False),
    (30, 30, "Bern", True),
    (40, None, "Rome", False),
)
"""When each is asked, in seconds, after how many milliseconds it is answered, for which city, and whether it
fails."""


def mixed(folder: Path) -> str:
    talk = begun()
    for id, (at_s, took, city, failed) in enumerate(CALLS, 10):
        talk.asks(id, "tools/call", forecast(city), ms=1000 * at_s)
        if took:
            talk.answers(id, text(city, isError=failed), ms=1000 * at_s + took)
    return write(folder / "s.jsonl", talk.closes(ms=41_000))


def numbers(view: View, filter: str | None, order: str) -> list[int]:
    return [call.number for call in view.calls(filter, order=order)]


@pytest.mark.parametrize("step", [2, 50_000])
def test_rows_are_sorted_and_equal_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(sort_rows, "_STEP_ROWS", step)
    with open_view(mixed(tmp_path)) as view:
        assert numbers(view, "tool:*", "") == [4, 5, 6, 7]
        assert numbers(view, "tool:*", "-latency") == [7, 5, 4, 6]  # the first has waited until the end
        assert numbers(view, "tool:*", "latency") == [4, 6, 5, 7]
        assert numbers(view, "tool:*", "-time") == [7, 6, 5, 4]
        assert numbers(view, "tool:*", "outcome") == [6, 7, 4, 5]
        assert numbers(view, "tool:*", "-bytes")[0] == 5
        assert numbers(view, None, "method") == [1, 2, 4, 5, 6, 7, 3]
        assert numbers(view, None, "latency")[-1] == 2  # a notification has none
        assert numbers(view, None, "-latency")[-1] == 2
        assert view.position(6, "tool:*", "outcome") == 0
        assert view.position(2, "tool:*", "outcome") == 4
        with pytest.raises(ValueError, match="rows are sorted by time, outcome, method, latency, bytes"):
            view.calls(order="size")


def test_sorting_yields_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_rows, "_STEP_ROWS", 2)
    with open_view(mixed(tmp_path)) as view:
        assert len(list(view.find(None, "-latency"))) == 7  # four parts of seven rows, and three merges
        assert list(view.find(None, "-latency")) == []
