"""The list of recordings, the search in all of them, a narrow window, and a folder without recordings."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mcpproxy.show.ui import found_rows
from mcpproxy.show.ui.found_rows import MOST_ROWS
from tests.cli import recordings
from tests.ui.browser import TWO_FRAMES, Served, Visitor, browser, served, ui_command, visitor
from tests.view.situations import SITUATIONS, Conversation, begun, write

__all__ = ["browser", "visitor"]

MANY = 30
"""More recordings than fit into a window."""

PATIENT = """
import sys
from mcpproxy.cli.main import main
from mcpproxy.show.ui import found_rows
found_rows._SEARCH_S = 3600
sys.exit(main())
"""
"""mcpproxy with a search that a busy machine does not end early."""


def labelled(records: tuple[str, ...], label: str, days: int) -> tuple[str, ...]:
    """Return the records of a recording with this label that began so many days ago, at noon."""
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0) - timedelta(days=days)
    header = {**json.loads(records[0]), "label": label, "started_at": noon.astimezone(UTC).isoformat()}
    return (json.dumps(header), *records[1:])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings")
    closes = recordings.close(2, 1, errors=3, calls=(7, 2, 1)).replace('"info":0', '"info":6')
    failed = *recordings.HANDSHAKE, closes
    write(path / "today.jsonl", labelled(failed, "cursor.shop", 0))
    write(path / "yesterday.jsonl", labelled(SITUATIONS["failed tool"], "desk.weather", 1))
    talk = begun()
    for number in range(MOST_ROWS + 5):
        talk.asks(number + 2, "tools/call", {"name": "count"}, ms=100 + number)
    write(path / "older.jsonl", labelled(talk.closes(ms=999), "server", 2))
    for number in range(MANY):
        write(path / f"{number:02}.jsonl", labelled(SITUATIONS["slow call"], f"old.{number}", 40 + number))
    return path


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Served]:
    with ui_command(folder, program=("-c", PATIENT)) as running:
        yield running


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give pages that this process serves the same search."""
    monkeypatch.setattr(found_rows, "_SEARCH_S", 3600)


def test_the_list_is_by_day_and_is_filtered_while_one_types(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    all_of_them = visitor.page.locator(".recording")
    expect(all_of_them).to_have_count(MANY + 3)
    assert visitor.page.locator(".sidebar h3").all_inner_texts()[:2] == ["Today", "Yesterday"]
    expect(all_of_them.first.locator("strong")).to_have_text("cursor.shop")
    expect(all_of_them.first.locator(".who")).to_have_text("c → s")
    expect(all_of_them.first.locator(".failed")).to_have_text("2 of 7 calls failed, 1 unanswered")
    marks = all_of_them.first.locator(".mark")
    expect(marks).to_have_text(["3 errors", "6 info"])
    expect(marks.last).to_have_class("mark info")
    expect(all_of_them.nth(2).locator("strong")).to_have_text("server (weather)")
    expect(all_of_them.nth(2).locator(".who")).to_have_text("desk")
    expect(visitor.page.locator(".about strong")).to_have_text("cursor.shop")
    expect(visitor.page).to_have_title("cursor.shop – mcpproxy")

    visitor.page.locator("#choose").press_sequentially("OLD.7 weather")
    expect(all_of_them).to_have_count(1)
    expect(visitor.page.locator(".choose .count")).to_have_text(f"1 of {MANY + 3}")
    visitor.presses("Enter")
    expect(visitor.page.locator(".about strong")).to_have_text("old.7")
    expect(visitor.page.locator(".grid")).to_be_focused()
    visitor.page.locator("#choose").press("Escape")
    expect(all_of_them).to_have_count(MANY + 3)
    visitor.page.locator("#choose").fill("no such words")
    visitor.sees("No recording has these words.")
    visitor.page.locator("#choose").fill("")
    visitor.page.get_by_role("link", name="1 with failed calls").click()
    expect(visitor.page.locator(".found")).to_contain_text("no such city: Atlantis.")
    visitor.page.go_back()
    visitor.page.get_by_role("link", name="with findings").click()
    expect(visitor.page.get_by_placeholder("search all recordings")).to_have_value("severity:error,warning")
    visitor.page.go_back()
    visitor.page.locator("#choose").fill("3 errors findings")
    expect(all_of_them).to_have_count(1)
    visitor.page.locator("#choose").fill("")

    last = all_of_them.last.get_attribute("href") or ""
    visitor.opens(f"{page.home}{last}")
    expect(visitor.page.locator(".recording.here")).to_be_in_viewport()
    visitor.presses("[")
    expect(visitor.page.locator(".about strong")).to_have_text(f"old.{MANY - 2}")
    expect(visitor.page.locator(".recording.here")).to_be_in_viewport()


def test_of_a_closed_day_only_the_chosen_recording_is_listed(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    all_of_them, here = visitor.page.locator(".recording"), visitor.page.locator(".recording.here")
    today, yesterday = (visitor.page.get_by_role("button", name=name) for name in ("Today", "Yesterday"))
    yesterday.click()
    expect(yesterday).to_have_text(re.compile(r"^Yesterday\s+1$"))
    expect(yesterday).to_have_attribute("aria-expanded", "false")
    expect(all_of_them).to_have_count(MANY + 2)
    today.focus()
    visitor.presses("Enter")
    expect(today).to_have_attribute("aria-expanded", "false")
    expect(here.locator("strong")).to_have_text("cursor.shop")
    visitor.breaks_no_rule("a closed day")
    visitor.presses("]")
    expect(here.locator("strong")).to_have_text("server (weather)")
    expect(all_of_them).to_have_count(MANY + 1)
    visitor.page.locator("#choose").fill("cursor")
    expect(all_of_them.locator("strong")).to_have_text("cursor.shop")
    visitor.page.locator("#choose").fill("")
    expect(all_of_them).to_have_count(MANY + 1)
    yesterday.click()
    expect(all_of_them).to_have_count(MANY + 2)


def test_a_click_chooses_the_recording_where_it_stands(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    box, here = visitor.page.locator(".sidebar .list"), visitor.page.locator(".recording.here")
    box.hover()
    visitor.page.mouse.wheel(0, 300)
    visitor.page.wait_for_function("() => document.querySelector('.sidebar .list').scrollTop === 300")
    wanted, other = visitor.page.locator(".recording").nth(8), visitor.page.locator(".recording").nth(9)
    wanted.click()
    expect(here.locator("strong")).to_have_text("old.5")
    expect(visitor.page.locator(".about strong")).to_have_text("old.5")
    visitor.page.evaluate(TWO_FRAMES)
    assert box.evaluate("(list) => list.scrollTop") == 300
    other.hover()
    colours = "(entry) => getComputedStyle(entry).backgroundColor"
    assert other.evaluate(colours) not in (here.evaluate(colours), box.evaluate(colours))


def test_calls_of_all_recordings_are_found_and_opened(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    visitor.presses("a")
    visitor.page.keyboard.type("status:error")
    visitor.presses("Enter")
    said, found = visitor.page.locator(".found [role=status]"), visitor.page.locator(".found a")
    expect(said).to_have_text(f"1 row; all {MANY + 3} recordings searched")
    expect(visitor.page.locator(".found h3")).to_contain_text("desk.weather")
    expect(found).to_contain_text("no such city: Atlantis")
    visitor.breaks_no_rule_in_either_theme("found")
    visitor.presses("ArrowDown", "Enter")
    expect(visitor.page.locator(".detail h2")).to_have_text("#4 forecast")
    expect(visitor.page.locator(".about strong")).to_have_text("desk.weather")
    asked = len([url for url in visitor.requests if "/api/search?" in url])
    visitor.page.go_back()
    expect(found).to_contain_text("no such city: Atlantis")
    assert len([url for url in visitor.requests if "/api/search?" in url]) == asked

    visitor.page.locator("#find").fill("target:count")
    visitor.presses("Enter")
    expect(said).to_have_text(f"{MOST_ROWS} rows; 2 of {MANY + 3} recordings searched so far")
    visitor.page.route("**/api/search?**", lambda route: route.abort())
    visitor.page.get_by_role("button", name="Search on").click()
    expect(visitor.page.locator(".found .problem")).to_be_visible()
    expect(found).to_have_count(MOST_ROWS)
    visitor.page.unroute("**/api/search?**")
    visitor.page.get_by_role("button", name="Search on").click()
    expect(said).to_have_text(f"{MOST_ROWS + 5} rows; all {MANY + 3} recordings searched")
    expect(found).to_have_count(MOST_ROWS + 5)
    visitor.page.locator("#find").fill("nonsense:1")
    visitor.presses("Enter")
    visitor.sees("there is no nonsense:")
    visitor.presses("Escape", "1")
    visitor.page.wait_for_selector(".scroller .row .c-outcome")


def test_all_recordings_are_searched_while_one_types(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    said, found = visitor.page.locator(".found [role=status]"), visitor.page.locator(".found a")
    visitor.presses("a")
    visitor.page.keyboard.type("atlantis")
    expect(said).to_have_text(f"1 row; all {MANY + 3} recordings searched")
    visitor.page.keyboard.type(" ")  # it stays: further words may follow
    visitor.page.keyboard.type("weather")
    expect(said).to_have_text(f"no call fits; all {MANY + 3} recordings searched")
    expect(visitor.page.locator("#find")).to_have_value("atlantis weather")
    expect(visitor.page.locator("#find")).to_be_focused()
    visitor.page.locator("#find").fill("protocolversion")
    expect(found.first.locator("mark")).to_have_text("protocolVersion")
    expect(found.first.locator(".passage")).to_contain_text('"params":{"protocolVersion":"2025-11-25"')
    visitor.breaks_no_rule("what was found")

    # Nobody waits for the answer to a text that is another one by now.
    visitor.page.route("**/api/search?filter=slow**", lambda route: None)
    with visitor.page.expect_request("**/api/search?filter=slow**"):
        visitor.page.locator("#find").fill("slow")
    with visitor.page.expect_event("requestfailed", lambda request: "filter=slow" in request.url):
        visitor.page.locator("#find").fill("atlantis")
    expect(said).to_have_text(f"1 row; all {MANY + 3} recordings searched")
    visitor.page.go_back()
    visitor.page.wait_for_selector(".scroller .row .c-outcome")


def test_a_narrow_window_is_used_by_touch_and_by_keys(visitor: Visitor, page: Served) -> None:
    visitor.page.set_viewport_size({"width": 400, "height": 800})
    visitor.opens(page.url)
    menu = visitor.page.get_by_role("button", name="Recordings")
    sidebar, here = visitor.page.locator(".sidebar"), visitor.page.locator(".recording.here")
    expect(sidebar).to_be_hidden()
    menu.press("Enter")
    expect(here).to_be_focused()
    expect(here).to_be_in_viewport()
    visitor.breaks_no_rule_in_either_theme("menu")
    visitor.presses("Escape")
    expect(sidebar).to_be_hidden()
    expect(menu).to_be_focused()
    menu.click()
    visitor.page.locator(".recording", has_text="desk.weather").click()
    expect(sidebar).to_be_hidden()
    expect(visitor.page.locator(".about strong")).to_have_text("desk.weather")
    expect(visitor.page.locator(".grid")).to_be_focused()

    visitor.page.locator(".scroller .row", has_text="forecast").last.click()
    detail, main = (visitor.page.locator(one) for one in (".detail", "main"))
    visitor.page.wait_for_selector(".detail h2")
    assert detail.bounding_box() == main.bounding_box()
    visitor.breaks_no_rule_in_either_theme("detail")
    visitor.page.mouse.move(200, 500)
    visitor.page.mouse.wheel(0, 5000)
    close = visitor.page.get_by_role("button", name="Close the detail")
    expect(close).to_be_in_viewport()
    expect(visitor.page.locator(".widen")).to_be_hidden()
    close.click()
    expect(detail).to_have_count(0)
    visitor.presses("j")
    visitor.page.wait_for_selector(".detail h2")
    visitor.presses("Enter", "Escape")
    expect(detail).to_have_count(0)
    for view in ("Timeline", "Findings", "Compare"):
        visitor.page.get_by_role("button", name=view).click()
        visitor.page.wait_for_selector("main .lane, main .empty, main select")
        visitor.breaks_no_rule(view, headings=True)
    tabs = visitor.page.locator("nav:has(> .tabs)")
    assert tabs.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_recordings_in_folders_below_are_named_with_the_commands_that_show_them(
    visitor: Visitor, tmp_path: Path
) -> None:
    with served(tmp_path) as running:
        for number, name in enumerate(["a", "b b", "b b/c", "d", "e"], 1):
            (tmp_path / name).mkdir()
            for each in range(number):
                write(tmp_path / name / f"{each}.jsonl", SITUATIONS["failed tool"])
        visitor.enters(running.url)
        visitor.sees("The recordings are in folders below")
        shows = [
            f"mcpproxy ui {tmp_path}/a",
            f"mcpproxy ui '{tmp_path}/b b'",
            f"mcpproxy ui '{tmp_path}/b b/c'",
        ]
        records = f"mcpproxy --trace-dir '{tmp_path}' -- python server.py"
        expect(visitor.page.locator(".welcome dt code")).to_have_text([*shows, records])
        expect(visitor.page.locator(".welcome dd").nth(1)).to_have_text(
            f"shows 2 recordings in {tmp_path}/b b"
        )
        visitor.sees("2 more folders with recordings")
        visitor.breaks_no_rule("folders below")
        write(tmp_path / "own.jsonl", SITUATIONS["failed tool"])
        visitor.page.wait_for_selector(".scroller .row .c-outcome")


def test_without_a_recording_there_are_commands_to_copy(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    of_all, other = tmp_path / "mcpproxy", tmp_path / "other's"
    of_all.mkdir()
    other.mkdir()
    commands = visitor.page.locator(".welcome dt code")
    with served(other) as running:
        visitor.enters(running.url)
        expect(commands).to_have_text([f"mcpproxy --trace-dir '{tmp_path}/other'\\''s' -- python server.py"])
    with served(of_all) as running:
        visitor.enters(running.url)
        expect(commands).to_have_text(
            ["mcpproxy demo", "mcpproxy wrap --all", "mcpproxy -- python server.py"]
        )
        visitor.breaks_no_rule("without a recording")
        visitor.page.get_by_role("button", name="Copy").nth(1).click()
        visitor.page.get_by_text("copied").first.wait_for()
        assert visitor.page.evaluate("navigator.clipboard.readText()") == "mcpproxy wrap --all"
        write(of_all / "first.jsonl", SITUATIONS["failed tool"])
        visitor.page.wait_for_selector(".scroller .row .c-outcome")


def test_what_was_found_is_told_in_the_rows_of_a_search(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", SITUATIONS["finding"])
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.page.get_by_role("link", name="with findings").click()
        told = visitor.page.locator(".found .why")
        expect(told.first).to_have_text("▲ warning RES-004: a warning about the answer")
        expect(told.last).to_contain_text("✗ error STDIO-002: server wrote something to stdout")
        visitor.breaks_no_rule("findings in found rows")


def test_the_number_of_recordings_with_failed_calls_is_that_which_a_search_shows(
    visitor: Visitor, tmp_path: Path
) -> None:
    def counted(situation: str, calls: dict[str, int]) -> tuple[str, ...]:
        *records, last = SITUATIONS[situation]
        return *records, json.dumps({**json.loads(last), "calls": calls})

    three = {"total": 3, "failed": 0, "unanswered": 0, "cancelled": 0}
    write(tmp_path / "a.jsonl", counted("failed tool", {**three, "failed": 1}))
    write(tmp_path / "b.jsonl", counted("finding", three))
    talk = Conversation(http=True)
    talk.posts(1, ms=1)
    talk.asks(0, "server/discover", {}, ms=1, exchange=1, connection=1)
    talk.responds(1, 400, ms=2)
    talk.ends(1, ms=3)
    talk.posts(2, ms=4, method="GET")  # it fails, and is no call
    talk.responds(2, 404, ms=5)
    talk.ends(2, ms=6)
    *records, last = talk.closes(ms=9)
    declined = {"total": 1, "failed": 0, "unanswered": 0, "cancelled": 0, "declined": 1}
    write(tmp_path / "c.jsonl", (*records, json.dumps({**json.loads(last), "calls": declined})))
    with served(tmp_path) as running:
        visitor.opens(running.url)
        link, found = visitor.page.locator(".choose a").first, visitor.page.locator(".found h3")
        expect(link).to_have_text("1 with failed calls")
        expect(link).to_have_class("troubled bad")
        link.click()
        expect(found).to_have_count(1)
        visitor.sees("1 row; all 3 recordings searched")
        write(tmp_path / "d.jsonl", SITUATIONS["hanging call"])  # of an earlier release: nobody counted
        expect(link).to_have_text("at least 1 with failed calls")
        visitor.page.keyboard.press("Escape")
        visitor.page.locator("#find").press("Enter")
        expect(found).to_have_count(2)


def test_a_finding_about_a_whole_session_leads_to_the_findings(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    talk.finds("PROTO-013", 0, "client never sent initialized")
    write(tmp_path / "s.jsonl", talk.closes(ms=99))
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.page.get_by_role("link", name="1 with findings").click()
        visitor.sees("1 finding about a whole session; all 1 recording searched")
        visitor.breaks_no_rule("a finding about a whole session")
        visitor.page.get_by_role("link", name="1 finding about the whole session").click()
        expect(visitor.page.locator("main section.finding")).to_contain_text("client never sent initialized")
        visitor.page.go_back()
        visitor.sees("1 finding about the whole session")


def test_a_server_that_failed_before_any_message_is_among_the_failed(
    visitor: Visitor, tmp_path: Path
) -> None:
    write(tmp_path / "s.jsonl", Conversation().closes(ms=9, code=3))
    with served(tmp_path) as running:
        visitor.enters(running.url)
        said = visitor.page.locator(".recording .failed")
        expect(said).to_have_text("failed before any message")
        expect(said).to_have_class("failed bad")
        visitor.page.get_by_role("link", name="1 failed before any message").click()
        visitor.sees("1 server that failed before any message; all 1 recording searched")
        visitor.breaks_no_rule("a server that did not begin")
        visitor.page.locator(".found a", has_text="the server exited with 3").click()
        visitor.sees("This recording has no messages: the server exited with 3")
        visitor.sees("Its command was python weather.py")


def test_recordings_that_are_known_to_have_no_failed_call_are_not_searched(
    visitor: Visitor, tmp_path: Path
) -> None:
    good, bad = ({"total": 3, "failed": failed, "unanswered": 0, "cancelled": 0} for failed in (0, 1))

    def counted(name: str, situation: str, calls: dict[str, int]) -> None:
        *records, last = SITUATIONS[situation]
        write(tmp_path / name, (*records, json.dumps({**json.loads(last), "calls": calls})))

    counted("a.jsonl", "failed tool", bad)
    counted("b.jsonl", "failed tool", good)  # it says so, so it is not read
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.page.get_by_role("link", name="1 with failed calls").click()
        visitor.sees("1 row; all 2 recordings searched")
        visitor.page.locator("#find").fill("kind:request")  # it does not ask for failed calls
        visitor.sees("rows; all 2 recordings searched")


def test_recordings_with_no_call_that_failed_are_amber(visitor: Visitor, tmp_path: Path) -> None:
    *records, last = SITUATIONS["cancelled call"]
    calls = {"total": 3, "failed": 0, "unanswered": 0, "cancelled": 1}
    write(tmp_path / "s.jsonl", (*records, json.dumps({**json.loads(last), "calls": calls})))
    with served(tmp_path) as running:
        visitor.opens(running.url)
        link = visitor.page.get_by_role("link", name="1 with cancelled calls")
        expect(link).to_have_class("troubled warn")
        link.click()
        expect(visitor.page.locator(".found a")).to_have_count(1)


def test_a_failed_call_that_is_found_for_its_finding_says_both(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", {"name": "forecast"}, ms=10)
    talk.finds("RES-004", 7, "a warning about the request")
    talk.answers(2, {"content": [{"type": "text", "text": "no such city"}], "isError": True}, ms=20)
    write(tmp_path / "s.jsonl", talk.closes(ms=99))
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.page.locator("#find").fill("severity:error,warning")
        told = visitor.page.locator(".found .why")
        expect(told.first).to_have_text("no such city.")
        expect(told.last).to_contain_text("RES-004: a warning about the request")
