"""What keys do, what hostile text cannot do, and a recording that goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.read.view.folder import recording
from mcpproxy.record.trace.reader import Trace
from mcpproxy.show.tui.call_lines import offset
from mcpproxy.show.tui.session_lines import session_items, session_line
from tests.cli import recordings
from tests.tui.sitting import Person, sit, sitting
from tests.view.situations import SITUATIONS, begun, forecast, text, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The twelve situations, a recording each."""
    for name, records in SITUATIONS.items():
        write(tmp_path / f"{name.replace(' ', '-')}.jsonl", records)
    return tmp_path


def row(person: Person) -> str:
    """The number of the call under the cursor."""
    chosen = person.viewer.calls.chosen
    return str(chosen.number) if chosen else ""


def test_the_keys_move_the_cursor(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder / "finding.jsonl") as person:
            moves = [("j", "2"), ("j", "3"), ("k", "2"), ("G", "5"), ("g", "1"), ("down", "2"), ("end", "5")]
            for key, wanted in moves:
                await person.presses(key)
                assert row(person) == wanted, key
            await person.sees("  looking up Oslo ...", "✗ error STDIO-002")

    sit(scene)


def test_a_search_says_which_file_it_could_not_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", SITUATIONS["failed tool"])
    write(tmp_path / "empty.jsonl", ())

    async def scene() -> None:
        async with sitting(tmp_path, width=120) as person:
            await person.presses("a")
            await person.types("status:error")
            await person.presses("enter")
            await person.sees("1 call, 2 recordings searched; 1 not read whole: ", "empty.jsonl")

    sit(scene)


def test_a_search_for_failures_finds_servers_that_did_not_begin(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", SITUATIONS["failed tool"])
    records = recordings.without_a_message("2026-11-21T10:20:30Z", "npxx", "no such command")
    recordings.write(tmp_path / "b.jsonl", records)

    async def scene() -> None:
        async with sitting(tmp_path, width=120) as person:
            await person.presses("a")
            await person.types("status:unsuccessful")
            await person.presses("enter")
            await person.sees("1 call, 1 failed before any message, 2 recordings searched")
            found = person.screen().splitlines()
            (line,) = [number for number, text in enumerate(found) if "npxx: no such command" in text]
            (other,) = [number for number, text in enumerate(found) if "no such city" in text]
            await person.presses(*(("j",) if line > other else ()), "enter")
            await person.waits(lambda: len(person.viewer.screen_stack) == 1, "the search is closed")
            await person.sees("Recording", "the server could not be started: npxx: no such command")

    sit(scene)


def test_a_call_is_found_in_any_recording_and_opened(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder, width=120) as person:
            await person.presses("a")
            await person.sees("Enter searches 12 recordings")
            await person.types("nonsense:1")
            await person.presses("enter")
            await person.sees("there is no nonsense:")
            await person.presses("ctrl+u")
            await person.types("status:error,declined")
            await person.presses("enter")
            await person.sees("2 calls, 12 recordings searched", "no such city: Atlantis", "405")
            found = person.screen().splitlines()
            (line,) = [number for number, text in enumerate(found) if "no such city" in text]
            (other,) = [number for number, text in enumerate(found) if "declined: 405" in text]
            await person.presses(*(("j",) if line > other else ()), "enter")
            await person.sees("Call 4", "no such city: Atlantis")
            await person.waits(lambda: row(person) == "4", "the call")
            await person.presses("a", "escape")
            await person.waits(lambda: len(person.viewer.screen_stack) == 1, "the search is closed")

    sit(scene)


FAILED = {
    (7, 2, 1): "2 failed ✗3",
    (7, 0, 1): "1 unanswered ✗3",
    (7, 0, 0): " ✗3",
    (): " ✗3",
}


@pytest.mark.parametrize(("calls", "ending"), FAILED.items(), ids=str)
def test_failed_calls_stand_before_findings(tmp_path: Path, calls: tuple[int, ...], ending: str) -> None:
    close = recordings.close(2, 1, errors=3, calls=calls)
    entry = recording(recordings.write(tmp_path / "s.jsonl", (*recordings.HANDSHAKE, close)))
    (item,) = session_items([entry])
    assert "".join(span.text for span in session_line(item, 60, "2026-11-21")).endswith(ending)


def test_a_server_that_did_not_begin_has_failed(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", recordings.without_a_message("2026-11-21T10:20:30Z"))
    (item,) = session_items([recording(path)])
    assert "".join(span.text for span in session_line(item, 60, "2026-11-21")).endswith(" failed")


def test_the_label_comes_before_the_server(tmp_path: Path) -> None:
    talk = begun()
    talk.records[0] = talk.records[0].replace('"weather"', '"team.prod"')
    path = write(tmp_path / "s.jsonl", talk.closes(ms=200))
    (item,) = session_items([recording(path)])
    line = "".join(span.text for span in session_line(item, 60, "2026-11-21"))
    assert line.split()[-3:] == ["team.prod", "weather", "desk"]

    async def scene() -> None:
        async with sitting(path) as person:
            await person.sees(" team.prod  desk 2.1 → weather 1.4  2 calls")

    sit(scene)


def test_a_recording_without_a_message_is_not_opened_first(folder: Path) -> None:
    write(folder / "empty.jsonl", recordings.without_a_message("2030-01-01T00:00:00Z"))

    async def scene() -> None:
        async with sitting(folder) as person:
            await person.sees(" Sessions 13", " Rows ")
            sessions = person.viewer.sessions
            assert sessions.items[0].entry.is_empty
            assert sessions.chosen == sessions.items[1]

    sit(scene)


def test_enter_opens_and_escape_goes_back(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder) as person:
            viewer = person.viewer
            await person.sees(" Sessions 12", " Rows ")
            await person.presses("escape")
            assert viewer.focused is viewer.sessions
            await person.sees(" Recording", "  recording ")
            await person.presses("g", "enter")
            assert viewer.focused is viewer.calls
            await person.presses("enter")
            assert viewer.focused is viewer.detail
            await person.waits(lambda: "Rows " not in person.screen(), "the detail alone")
            await person.presses("escape")
            assert viewer.focused is viewer.calls
            await person.sees(" Rows ")

    sit(scene)


@pytest.mark.parametrize("height", [24, 50])
def test_an_opened_detail_has_the_whole_height(folder: Path, height: int) -> None:
    async def scene() -> None:
        async with sitting(folder / "finding.jsonl", 100, height) as person:
            await person.presses("enter")
            around = 3  # the head, the title of the detail, the keys
            await person.waits(lambda: person.viewer.detail.size.height == height - around, "all of it")

    sit(scene)


def test_the_panes_show_the_session_under_the_cursor(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder, 120, 50) as person:
            viewer = person.viewer
            await person.presses("escape")
            for key in ("G", "g", "j", "j", "k", "end"):
                await person.presses(key)
                await person.waits(lambda: viewer.is_settled, "the session")
                item, rows = viewer.sessions.chosen, viewer.calls.rows
                assert item is not None
                assert rows is not None
                assert rows.view.path == item.entry.path, key
                await person.sees(f"recording {item.entry.path}"[:60])
                assert viewer.focused is viewer.sessions

    sit(scene)


def test_brackets_go_from_session_to_session(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder) as person:
            first = person.viewer.sessions.chosen
            await person.presses("]")
            await person.waits(lambda: person.viewer.is_settled, "the next recording")
            assert first is not None
            second = person.viewer.sessions.chosen
            assert second is not None
            assert second.entry.path != first.entry.path
            await person.presses("[")
            await person.waits(lambda: person.viewer.is_settled, "the first recording")
            assert person.viewer.sessions.chosen == first

    sit(scene)


def test_a_session_among_several_is_shown_alone(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder / "two-sessions.jsonl") as person:
            await person.sees(" Rows 4")
            await person.presses("]", "]")
            await person.sees(" Rows 2 of 4  session 5e6f7a8b", "Lima: fog")
            assert "Oslo" not in person.screen()
            await person.presses("escape")
            await person.sees(" Rows 4", "Oslo: fog")

    sit(scene)


def test_words_choose_sessions_while_they_are_typed(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder, 120, 50) as person:
            viewer = person.viewer
            await person.sees(" Sessions 12")
            await person.presses("escape", "/")
            await person.types("SSE")
            await person.sees(" Sessions 1 of 12  SSE  times in UTC")
            await person.waits(
                lambda: viewer.is_settled and viewer.calls.rows is not None, "the calls of the one"
            )
            assert viewer.calls.rows is not None
            assert viewer.calls.rows.view.path == str(folder / "HTTP-with-SSE.jsonl")
            await person.types(" nowhere")
            await person.sees(" Sessions 0 of 12  SSE nowhere")
            await person.presses("enter")
            assert viewer.focused is viewer.sessions
            await person.presses("escape")
            await person.sees(" Sessions 12")
            await person.presses("/", "escape", "enter", "/")
            await person.types("status:refused")
            await person.presses("enter")
            await person.sees("status:refused")  # of the calls

    sit(scene)


def test_a_filter_is_written_applied_and_cleared(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder / "finding.jsonl") as person:
            await person.presses("/")
            await person.types("status:eror")
            await person.sees("'eror' is no status; do you mean error?")
            await person.presses("enter")  # it stays open
            await person.presses(*["backspace"] * 11)
            await person.types('rule:STDIO-* "looking up"')
            await person.presses("enter")
            await person.sees(' Rows 1 of 5  rule:STDIO-* "looking up"', "✗ error STDIO-002")
            assert row(person) == "5"
            await person.presses("escape")
            await person.sees(" Rows 5")
            assert row(person) == "5"
            await person.presses("/")
            await person.types("status:refused")
            await person.presses("enter")
            await person.sees(" Rows 0 of 5", "No call passes the filter.")

    sit(scene)


def test_copied_is_what_passed(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder / "failed-tool.jsonl") as person:
            await person.presses("G", "y")
            await person.sees("copied 2 messages of call 4")
            request, answer = person.viewer.clipboard.split("\n")
            assert json.loads(request)["params"] == forecast("Atlantis")
            assert json.loads(answer)["result"] == text("no such city: Atlantis", isError=True)

    sit(scene)


def test_raw_shows_the_bytes_and_the_fields_of_http(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder / "HTTP-with-SSE.jsonl", 100, 60) as person:
            await person.presses("j", "r")
            await person.sees(
                "content-type: text/event-stream", '{"jsonrpc":"2.0","id":1,"method":"tools/call"'
            )

    sit(scene)


def test_help_themes_and_panes(folder: Path) -> None:
    async def scene() -> None:
        async with sitting(folder) as person:
            await person.presses("?")
            await person.sees("Keys", "previous, next session")
            ticks = person.viewer.ticks
            await person.waits(lambda: person.viewer.ticks > ticks, "what goes on below")
            await person.presses("escape", "t")
            await person.sees("theme textual-light")
            focused = [person.viewer.focused]
            for _ in range(3):
                await person.presses("tab")
                focused.append(person.viewer.focused)
            assert len(set(focused[:3])) == 3
            assert focused[3] is focused[0]
            await person.presses("q")

    sit(scene)


def test_a_key_shows_all_findings_also_those_about_no_call(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.finds(
        "STDIO-002", session.says("server", "looking up ...", 105), "server wrote what is no message"
    )
    session.answers(2, text("Oslo: sunny"), ms=112)
    session.finds("BASE-001", 0, "server has done nothing else", "warning")
    path = write(tmp_path / "s.jsonl", session.closes(ms=200))

    async def scene() -> None:
        async with sitting(path, 120, 50) as person:
            await person.sees(" Rows ", "F findings")
            await person.presses("F")
            await person.sees(
                "Findings: 1 error, 1 warning",
                "✗ error STDIO-002",
                "server wrote what is no message",
                "call 5",
                "BASE-001",
                "the whole session",
                "server has done nothing else",
            )
            await person.presses("F")
            await person.waits(lambda: len(person.viewer.screen_stack) == 1, "the findings are closed")

    sit(scene)


HOSTILE = "[bold red]x[/] [@click=app.quit]y[/] \x1b]0;z\x07 \u202eabc \u200b [/nothing] $error"


def hostile() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", {"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}, ms=100)
    session.answers(2, text(HOSTILE, isError=True), ms=112)
    session.finds("PROTO-007", 7, HOSTILE)
    session.says("server", HOSTILE, 120)
    session.records[0] = session.records[0].replace('"weather"', json.dumps(HOSTILE))
    return session.closes(ms=200)


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (59_999_400_000, "59.999"),
        (59_999_600_000, "1:00.0"),
        (119_980_000_000, "2:00.0"),
        (3_659_700_000_000, "1:00:59"),
        (3_660_000_000_000, "1:01:00"),
    ],
)
def test_no_part_of_a_time_is_60(ns: int, shown: str) -> None:
    assert offset(ns) == shown


def test_recorded_text_is_only_text(tmp_path: Path) -> None:
    write(tmp_path / "[bold]name[].jsonl", hostile())

    async def scene() -> None:
        async with sitting(tmp_path, 160, 50) as person:
            await person.presses("G", "k")
            await person.sees(
                "[bold red]x[/] [@click=app.quit]y[/]", "\\u001b]0;z\\u0007", "\\u202eabc", "✗1"
            )
            screen = person.screen()
            assert not set("\x1b\x07\u202e\u200b") & set(screen)
            await person.presses("/")
            await person.types('"[bold red]x[/]"')
            await person.presses("enter")
            await person.sees(' Rows 2 of 5  "[bold red]x[/]"')
            await person.presses("r")
            await person.sees("bytes as they passed")
            await person.presses("escape", "escape")
            await person.sees("[bold]name[].jsonl")

    sit(scene)


def test_a_large_message_is_shown_in_part(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.answers(2, text("x" * 10_000_000), ms=112)
    path = write(tmp_path / "large.jsonl", session.closes(ms=200))

    async def scene() -> None:
        async with sitting(path) as person:
            await person.presses("G")
            await person.sees("B → 10.0 MB")
            await person.presses("y")
            await person.sees("10.0 MB are too much for the clipboard of a terminal")
            await person.presses("enter", "G")
            await person.sees("… 9.90 MB more, not shown here")

    sit(scene)


class Running:
    """A recording to which records are added; ``end`` ends it."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.session = begun()
        self.is_running = True
        self._written = 0
        monkeypatch.setattr(Trace, "is_recording", property(lambda _: self.is_running))
        self.flush()

    def flush(self) -> None:
        """Write what was said since the last time."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{record}\n" for record in self.session.records[self._written :])
        self._written = len(self.session.records)

    def says(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Add what a method of the conversation writes."""
        getattr(self.session, method)(*args, **kwargs)
        self.flush()

    def end(self) -> None:
        """Write the last record."""
        self.session.closes(ms=300)
        self.is_running = False
        self.flush()


def test_a_recording_that_goes_on_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(tmp_path / "live.jsonl", monkeypatch)

    async def scene() -> None:
        async with sitting(running.path) as person:
            await person.sees(" ● desk 2.1 → weather 1.4", " Rows 3  following")
            running.says("asks", 2, "tools/call", forecast("Oslo"), ms=100)
            await person.sees('  4 … → forecast {"city":"Oslo"} ⇒ waiting', " Rows 4  following")
            assert row(person) == "4"
            waited = person.screen()
            await person.waits(lambda: person.screen() != waited, "the timer of the call")
            running.says("answers", 2, text("Oslo: sunny"), ms=112)
            await person.sees('  4 ✓ → forecast {"city":"Oslo"} ⇒ Oslo: sunny', "← answer  frame 7")
            await person.presses("k")
            assert not person.viewer.follows
            running.says("asks", 3, "ping", ms=120)
            await person.sees("  5 … → ping ⇒ waiting")
            assert row(person) == "3"
            await person.presses("f")
            assert row(person) == "5"
            running.end()
            await person.sees("  5 … → ping ⇒ unanswered")

    sit(scene)


def test_who_switched_following_off_stays_off_in_another_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trace, "is_recording", property(lambda _: True))
    for name in ("one", "two"):
        write(tmp_path / f"{name}.jsonl", tuple(begun().records))

    async def scene() -> None:
        async with sitting(tmp_path) as person:
            viewer = person.viewer

            async def goes(key: str) -> None:
                before = viewer.sessions.cursor
                await person.presses(key)
                await person.waits(lambda: viewer.sessions.cursor != before and viewer.is_settled, "another")
                await person.sees(" Rows 3")

            assert viewer.follows
            await goes("]")
            assert viewer.follows
            await person.presses("f")
            await goes("[")
            assert not viewer.follows
            await person.presses("f")
            await goes("]")
            assert viewer.follows

    sit(scene)


def test_a_call_that_waits_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = SITUATIONS["progress"]
    path = tmp_path / "session.jsonl"
    write(path, records[:9])
    monkeypatch.setattr(Trace, "is_recording", property(lambda _: True))

    async def scene() -> None:
        async with sitting(path) as person:
            await person.sees("⇒ waiting: 1 of 2, model 1 of 2")
            with path.open("a", encoding="utf-8") as file:
                file.write(records[9] + "\n")
            await person.sees("⇒ waiting: 2 of 2, model 2 of 2")

    sit(scene)


def test_pause_keeps_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(tmp_path / "live.jsonl", monkeypatch)

    async def scene() -> None:
        async with sitting(running.path) as person:
            await person.presses("p")
            await person.sees("paused")
            running.says("asks", 2, "tools/call", forecast("Oslo"), ms=100)
            ticks = person.viewer.ticks
            await person.waits(lambda: person.viewer.ticks > ticks + 1, "two looks at the recording")
            assert " Rows 3" in person.screen()
            await person.presses("p")
            await person.sees(" Rows 4")

    sit(scene)


def test_a_recording_appears_in_a_folder(tmp_path: Path) -> None:
    async def scene() -> None:
        async with sitting(tmp_path) as person:
            await person.sees("Nothing recorded yet in")
            write(tmp_path / "first.jsonl", SITUATIONS["failed tool"])
            await person.sees(" Sessions 1", "tool error:")

    sit(scene)


def test_a_file_that_is_no_recording_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("[bold]hello\n", encoding="utf-8")

    async def scene() -> None:
        async with sitting(tmp_path) as person:
            await person.sees(" Sessions 1", "bad.jsonl")
            await person.presses("j", "enter", "y", "/", "escape", "r", "p", "f")

    sit(scene)
