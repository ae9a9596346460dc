"""The window of the page: nothing moves it as a whole, and keys reach the calls after a click elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.browser import TWO_FRAMES, Served, Visitor, browser, served, ui_command, visitor
from tests.view.situations import SITUATIONS, begun, text, write

__all__ = ["browser", "visitor"]

RECORDINGS = 40
"""More than fit into any window here; some have findings."""

STATE = """() => {
    const root = document.documentElement;
    const fixed = [root, document.body, document.querySelector("#app"), document.querySelector("main")];
    const longer = [root.scrollHeight - innerHeight, root.scrollWidth - innerWidth];
    return [...longer, ...fixed.map((one) => one.scrollTop)];
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("recordings")
    names = list(SITUATIONS)
    for number in range(RECORDINGS):
        write(folder / f"{number:02}.jsonl", SITUATIONS[names[number % len(names)]])
    with ui_command(folder) as running:
        yield running


def turns_the_wheel_everywhere(visitor: Visitor, width: int, height: int) -> None:
    for down in (3000, -500):
        for x in (20, width // 2, width - 40) if down > 0 else (width // 2,):
            for y in (15, height // 8, height // 3, height - 40):
                visitor.page.mouse.move(x, y)
                visitor.page.mouse.wheel(0, down)
    visitor.page.evaluate(TWO_FRAMES)  # scrolling is done before frames are


def test_the_window_stays_where_it_is(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    expect(visitor.page.locator(".recording")).to_have_count(RECORDINGS)
    for width, height in ((1440, 900), (1000, 700), (400, 800)):
        visitor.page.set_viewport_size({"width": width, "height": height})
        for view in ("1", "2", "3", "4", "5", "6", "detail", "help"):
            if view == "detail":
                visitor.presses("1", "j", "Enter")
                visitor.page.wait_for_selector(".detail h2")
            elif view == "help":
                visitor.presses("?")
                visitor.page.wait_for_selector("dialog[open]")
            else:
                visitor.presses(view)
                visitor.page.wait_for_selector("main .page, main .empty, main .grid")
            assert visitor.page.evaluate(STATE) == [0] * 6, (width, view)
            turns_the_wheel_everywhere(visitor, width, height)
            assert visitor.page.evaluate(STATE) == [0] * 6, (width, view)
            expect(visitor.page.locator("header.top")).to_be_in_viewport()
        # What has the focus is scrolled to, and that must not move the window either.
        visitor.presses("Escape", "Escape")
        if width < 640:
            visitor.page.get_by_role("button", name="Recordings").click()
            expect(visitor.page.locator(".recording.here")).to_be_focused()
        visitor.page.locator(".recording").last.focus()
        expect(visitor.page.locator(".recording").last).to_be_in_viewport()
        assert visitor.page.evaluate(STATE) == [0] * 6, width
        visitor.page.locator(".grid").focus()


def test_a_row_says_what_was_answered_in_any_window(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    for number in range(300):
        talk.asks(number + 2, "tools/call", {"name": "count"}, ms=100 + number)
        talk.answers(number + 2, text(f"number {number}"), ms=100 + number)
    visitor.page.set_viewport_size({"width": 400, "height": 700})
    selected = visitor.page.locator(".row.selected .c-preview")
    with served(write(tmp_path / "s.jsonl", talk.closes(ms=999))) as running:
        visitor.opens(running.url)
        visitor.presses("G")
        for width in (400, 1440, 1000, 1440, 400):  # the window becomes wider, and narrower again
            visitor.page.set_viewport_size({"width": width, "height": 700})
            visitor.page.wait_for_selector(".detail h2")
            expect(selected).to_contain_text("number 299")
            expect(selected).to_be_in_viewport()
            visitor.presses("Escape")
            expect(visitor.page.locator(".detail")).to_have_count(0)
            expect(selected).to_have_count(0)
            last = visitor.page.locator(".scroller .row", has_text="number 299")
            expect(last.locator(".c-preview")).to_be_in_viewport()
            above = visitor.page.locator(".scroller .row", has_text="number 298").bounding_box()
            box = last.bounding_box()
            assert box
            assert above
            assert abs(above["y"] + above["height"] - box["y"]) < 0.5  # no row is over another one
            visitor.presses("G")


def test_a_card_says_its_content_in_any_window(visitor: Visitor, tmp_path: Path) -> None:
    with served(write(tmp_path / "s.jsonl", SITUATIONS["progress"])) as running:
        visitor.opens(running.url)
        visitor.page.locator(".scroller .row", has_text="Oslo").click()
        told = visitor.page.locator(".detail .part .summary")
        said = ["1 of 2, model 1 of 2", "2 of 2, model 2 of 2", '{"level":"info","data":"almost done"}']
        for width in (1440, 1000, 400):
            visitor.page.set_viewport_size({"width": width, "height": 700})
            expect(told).to_have_text(said)
            for number in range(len(said)):
                assert told.nth(number).evaluate(
                    "(one) => one.closest('button').scrollWidth <= one.closest('button').clientWidth"
                ), width


def test_a_phone_shows_which_tools_two_sessions_call(visitor: Visitor, tmp_path: Path) -> None:
    visitor.page.set_viewport_size({"width": 400, "height": 800})
    with served(write(tmp_path / "s.jsonl", SITUATIONS["two sessions"])) as running:
        visitor.opens(running.url)
        named = visitor.page.locator(".scroller .c-method", has_text="forecast")
        expect(named.first).to_be_visible()
        for number in range(named.count()):
            assert named.nth(number).evaluate("(cell) => cell.scrollWidth <= cell.clientWidth")
        visitor.presses("5")
        told = visitor.page.locator("#stats-about")
        expect(told).to_be_visible()
        assert told.evaluate("(one) => one.getBoundingClientRect().right <= innerWidth")
        visitor.breaks_no_rule("statistics")


def test_the_detail_of_a_call_that_is_not_there_can_be_closed(visitor: Visitor, tmp_path: Path) -> None:
    visitor.page.set_viewport_size({"width": 400, "height": 800})
    with served(write(tmp_path / "s.jsonl", SITUATIONS["failed tool"])) as running:
        visitor.opens(running.url)
        visitor.page.evaluate("location.hash = '#call=99'")
        visitor.sees("there is no call 99")
        visitor.page.get_by_role("button", name="Close the detail").click()
        expect(visitor.page.locator(".detail")).to_have_count(0)
        expect(visitor.page.locator(".grid")).to_be_focused()


def test_the_bar_of_a_slow_call_has_the_colour_of_its_time(visitor: Visitor, tmp_path: Path) -> None:
    visitor.page.set_viewport_size({"width": 1440, "height": 800})
    with served(write(tmp_path / "s.jsonl", SITUATIONS["slow call"])) as running:
        visitor.opens(running.url)
        row = visitor.page.locator(".scroller .row", has=visitor.page.locator(".c-latency.warn"))
        expect(row.locator(".bar")).to_have_class("bar warn ok")


def test_the_list_of_recordings_can_be_put_away(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    button = visitor.page.get_by_role("button", name="List of recordings")
    sidebar, here = visitor.page.locator(".sidebar"), visitor.page.locator(".about strong")
    expect(button).to_have_attribute("aria-expanded", "true")
    width = (visitor.page.locator("main").bounding_box() or {})["width"]
    button.press("Enter")
    expect(sidebar).to_be_hidden()
    expect(button).to_have_attribute("aria-expanded", "false")
    visitor.page.reload()
    visitor.page.wait_for_selector(".scroller .row .c-outcome")
    expect(sidebar).to_be_hidden()
    assert (visitor.page.locator("main").bounding_box() or {})["width"] > width
    visitor.breaks_no_rule("without the list of recordings")
    shown = visitor.page.url
    visitor.presses("]")
    visitor.page.wait_for_url(lambda url: url != shown)
    expect(here).to_be_visible()
    visitor.presses("l")
    expect(visitor.page.locator(".recording.here")).to_be_in_viewport()
    visitor.page.set_viewport_size({"width": 400, "height": 800})
    expect(sidebar).to_be_hidden()
    visitor.presses("l")
    expect(visitor.page.locator(".recording.here")).to_be_focused()


def test_keys_act_after_a_click(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    selected = visitor.page.locator(".row.selected .c-number")
    visitor.page.locator(".recording").nth(3).click()
    expect(visitor.page.locator(".grid")).to_be_focused()
    visitor.page.wait_for_selector(".scroller .row .c-outcome")
    for key, row in (("j", "1"), ("ArrowDown", "2"), ("k", "1"), ("G", visitor.rows()[-1].split()[0])):
        visitor.presses(key)
        expect(selected).to_have_text(row)
    visitor.page.wait_for_selector(".detail h2")
    visitor.presses("Enter")
    expect(visitor.page.locator(".detail")).to_be_focused()
    visitor.presses("g")  # from within the detail
    expect(selected).to_have_text("1")
    visitor.page.get_by_role("button", name="Stats").click()
    visitor.page.get_by_role("button", name="Calls", exact=True).click()
    visitor.presses("j")
    expect(selected).to_have_text("2")


def test_what_has_the_focus_keeps_the_keys_that_it_needs(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    visitor.page.get_by_role("button", name="Findings", exact=True).focus()
    visitor.presses("Enter")
    visitor.page.wait_for_url("**view=findings**")
    visitor.presses("1")
    visitor.page.locator("#filter").focus()
    visitor.page.keyboard.type("jkgG")
    expect(visitor.page.locator("#filter")).to_have_value("jkgG")
    expect(visitor.page.locator(".row.selected")).to_have_count(0)
    visitor.page.locator(".recording").nth(5).focus()
    visitor.presses("Enter")
    expect(visitor.page.locator(".recording").nth(5)).to_have_class("recording here")
    expect(visitor.page.locator(".grid")).to_be_focused()
    # A click on the recording that is shown gives its list the focus once, and not when it comes back later.
    visitor.page.locator(".recording").nth(5).click()
    visitor.page.locator("#filter").press_sequentially("target:nothing")
    visitor.sees("No call fits this filter.")
    visitor.page.locator("#filter").fill("kind:request")
    visitor.page.wait_for_selector(".scroller .row .c-outcome")
    expect(visitor.page.locator("#filter")).to_be_focused()
