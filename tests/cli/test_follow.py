"""``mcpproxy show --follow``: calls as they are answered, those that wait below, and the next session."""

import fcntl
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mcpproxy.base.style import Style
from mcpproxy.cli.calls import following
from mcpproxy.cli.calls.following import FollowedSession
from mcpproxy.cli.calls.screen import Screen
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.read.view.view import View, open_view
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN
from tests.view.situations import SITUATIONS

BEGUN = 6
"""The records of the handshake and the listing, and the header."""


class Page(Screen):
    """A screen that keeps what is printed, and what stands at its bottom."""

    def __init__(self, *, rewrites: bool = True) -> None:
        super().__init__()
        self.rewrites = rewrites
        self.printed: list[str] = []
        self.bottom: list[str] = []

    @property
    def style(self) -> Style:
        return Style(width=80)

    def print(self, lines: Iterable[str]) -> None:
        self.printed += [line.rstrip() for line in lines]

    def redraw(self, lines: list[str]) -> None:
        self.bottom = lines


class Session:
    """A recording that grows, with the lock of its recorder beside it."""

    def __init__(self, path: Path, records: tuple[str, ...]) -> None:
        self.path = path
        self._records = list(records)
        journal = path.with_name(path.name + ".journal")
        journal.mkdir()
        self._lock = (journal / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.record(1)

    def record(self, number: int) -> None:
        """Add the next records."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(record + "\n" for record in self._records[:number])
        del self._records[:number]

    def close(self) -> None:
        self._lock.close()


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path / "t.jsonl", SITUATIONS["server request in a call"])
    yield session
    session.close()


def step(view: View, followed: FollowedSession) -> None:
    view.refresh()
    followed.print_news()


def test_a_call_waits_at_the_bottom_with_the_requests_in_it(crowded: Session) -> None:
    page = Page()
    with open_view(crowded.path) as view:
        followed = FollowedSession(view, parse_filter(""), page)
        crowded.record(5)
        step(view, followed)
        assert [line.split()[2] for line in page.printed] == [
            "initialize", "notifications/initialized", "tools/list",
        ]  # fmt: skip
        crowded.record(2)
        step(view, followed)
        call, inner, status = page.bottom
        assert 'tools/call forecast {"city":"Springfield"} … waiting for ' in call
        assert "  ← elicitation/create" in inner
        assert "… waiting for" in inner
        assert status == "recording weather: 7 frames; Ctrl-C ends"
        crowded.record(2)
        step(view, followed)
        assert [line.split()[0] for line in page.printed[3:]] == ["4", "5"]
        assert len(page.bottom) == 1


def test_a_finding_that_comes_late_names_its_call(tmp_path: Path) -> None:
    session = Session(tmp_path / "t.jsonl", SITUATIONS["finding"])
    page = Page()
    with open_view(session.path) as view:
        followed = FollowedSession(view, parse_filter(""), page)
        session.record(7)
        step(view, followed)
        assert "not a message" in page.printed[-1]
        session.record(1)
        step(view, followed)
        assert page.printed[-2].strip().startswith("└ error STDIO-002 server wrote something")
        assert page.printed[-1].strip().endswith("(call 5)")
    session.close()


def test_a_call_that_waits_says_how_far_it_is(tmp_path: Path) -> None:
    session, page = Session(tmp_path / "t.jsonl", SITUATIONS["progress"]), Page()
    with open_view(session.path) as view:
        followed = FollowedSession(view, parse_filter(""), page)
        session.record(8)
        step(view, followed)
        oslo, lima, _ = page.bottom
        assert ", 1 of 2" in oslo
        assert "waiting for" in lima
        assert "1 of 2" not in lima
        session.record(1)
        step(view, followed)
        assert ", 2 of 2" in page.bottom[0]
    session.close()


def test_in_a_pipe_a_long_call_is_printed_while_it_waits(
    crowded: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_LONG_NS", 0)
    page = Page(rewrites=False)
    with open_view(crowded.path) as view:
        followed = FollowedSession(view, parse_filter(""), page)
        crowded.record(6)
        step(view, followed)
        step(view, followed)
        assert sum("waiting for" in line for line in page.printed) == 1


def test_one_recording_is_followed_to_its_end(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    shown = mcpproxy("show", "--follow", path)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == mcpproxy("show", path).out.splitlines()


def test_it_waits_for_the_next_session(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before is not shown, and a new recording is."""
    state_dir.mkdir(parents=True)
    recordings.write(state_dir / "20261121T102030.000Z-old-1.jsonl", CLEAN)
    new = state_dir / "20261121T112030.000Z-new-1.jsonl"

    def wait(_: float) -> None:
        assert not new.exists(), "it was not shown"
        recordings.write(new, CLEAN)

    monkeypatch.setattr(following.time, "sleep", wait)
    sessions = following.sessions_of(str(state_dir))
    assert next(sessions) == str(new)
