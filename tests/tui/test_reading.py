"""A large recording: its first rows are shown, and keys work, while the rest is read."""

import time
from pathlib import Path

import pytest

from mcpproxy.read.view.index import indexed_trace
from mcpproxy.read.view.view import View
from mcpproxy.show.tui import shown_recording
from mcpproxy.show.tui.viewer import Viewer
from tests.tui.sitting import Person, sit, sitting
from tests.view.situations import begun, forecast, text, write

CALLS = 60
FIRST_LINES = 47
"""Ends within a call: its request was read, and its answer was not."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    session = begun()
    for number in range(CALLS):
        session.asks(number + 2, "tools/call", forecast(f"place {number}"), ms=100 + number)
        session.answers(number + 2, text("sunny", isError=number % 20 == 3), ms=100.5 + number)
    return Path(write(tmp_path / "large.jsonl", session.closes(ms=900)))


class Reading:
    """Lets a recording be opened, but the rest of it be read only when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(indexed_trace, "_STEP_LINES", FIRST_LINES)
        monkeypatch.setattr(shown_recording, "_FIRST_S", 0)
        monkeypatch.setattr(shown_recording, "_STEP_S", 0)
        self.goes_on = False
        read_on = View.read_on

        def held(view: View, for_s: float) -> None:
            if self.goes_on or not view.columns.rows:
                read_on(view, for_s)
            else:
                time.sleep(0.01)  # a disk that is slow: without it the viewer would try again without a pause

        monkeypatch.setattr(View, "read_on", held)


def test_the_first_rows_are_there_and_keys_work(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)

    async def scene() -> None:
        viewer = Viewer(str(path))
        async with viewer.run_test(size=(80, 24)) as pilot:
            person = Person(viewer, pilot)
            await person.sees(
                " Rows 24  reading, 3", '  4 ✓ → forecast {"city":"place 0"}', " desk 2.1 → weather 1.4"
            )
            assert "calls" not in person.screen().split("\n")[0]
            await person.presses("G")
            await person.sees(' 24 … → forecast {"city":"place 20"} ⇒ not read yet')
            assert "unanswered" not in person.screen()
            await person.presses("/")
            await person.types("status:error")
            await person.presses("enter")
            await person.sees(" Rows 1 of 24  status:error  reading")
            await person.presses("escape", "G")
            await person.sees(" Rows 24  reading")
            reading.goes_on = True
            await person.sees(f" Rows {CALLS + 3}", f"{CALLS + 2} calls, 3 failed")
            await person.waits(lambda: viewer.is_settled, "the whole recording")
            await person.sees(' 24 ✓ → forecast {"city":"place 20"} ⇒ sunny')
            assert "read" not in person.screen()
            await person.presses("g")
            await person.sees('  4 ✓ → forecast {"city":"place 0"}', " Call 1\n", "← answer  frame 2")
            monkeypatch.undo()
            async with sitting(path) as other:
                await other.sees(f" Rows {CALLS + 3}")
                await other.presses("j", "g")
                await other.waits(lambda: other.screen() == person.screen(), "the same")

    sit(scene)


def test_a_filter_takes_in_what_is_read_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)

    async def scene() -> None:
        viewer = Viewer(str(path))
        async with viewer.run_test(size=(80, 24)) as pilot:
            person = Person(viewer, pilot)
            await person.sees(" Rows 24  reading")
            await person.presses("/")
            await person.types('status:unanswered,error "place"')
            await person.presses("enter")
            await person.sees(" Rows 2 of 24", "not read yet")
            reading.goes_on = True
            await person.sees(f" Rows 3 of {CALLS + 3}", "place 43")
            assert "not read yet" not in person.screen()

    sit(scene)


def test_a_pause_stops_the_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)

    async def scene() -> None:
        viewer = Viewer(str(path))
        async with viewer.run_test(size=(80, 24)) as pilot:
            person = Person(viewer, pilot)
            await person.sees(" Rows 24  reading")
            await person.presses("p")
            reading.goes_on = True
            ticks = viewer.ticks
            await person.waits(lambda: viewer.ticks > ticks + 1, "two looks at the recording")
            assert " Rows 24  reading" in person.screen()
            await person.presses("p")
            await person.sees(f" Rows {CALLS + 3}", f"{CALLS + 2} calls, 3 failed")

    sit(scene)


def test_another_recording_may_be_opened_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path.parent / "small.jsonl", begun().closes(ms=200))
    reading = Reading(monkeypatch)

    async def scene() -> None:
        viewer = Viewer(str(path.parent))
        async with viewer.run_test(size=(80, 24)) as pilot:
            person = Person(viewer, pilot)
            await person.sees(" Sessions 2", " Rows ")
            before = viewer.sessions.cursor
            await person.presses("]" if before == 0 else "[")
            await person.waits(
                lambda: viewer.sessions.cursor != before and viewer.calls.total > 0, "the other"
            )
            reading.goes_on = True
            await person.waits(lambda: viewer.is_settled, "the other one, whole")
            await person.sees(" Rows 3" if viewer.calls.total == 3 else f" Rows {CALLS + 3}")
            await person.presses("[" if before == 0 else "]")
            await person.waits(
                lambda: viewer.sessions.cursor == before and viewer.is_settled, "the first again"
            )

    sit(scene)
