"""The timeline: lanes say what overlapped, and nothing else; many calls are few bars."""

import re
from pathlib import Path

from playwright.sync_api import expect

from mcpproxy.cli.main import main
from tests.ui.browser import Visitor, browser, served, visitor
from tests.view.situations import SITUATIONS, write
from tests.view.test_lanes import talk_of

__all__ = ["browser", "visitor"]


def test_calls_one_after_the_other_are_one_lane_of_few_bars(visitor: Visitor, tmp_path: Path) -> None:
    one_by_one = [(1000.0 + 10 * number, 1001.0 + 10 * number) for number in range(2000)]
    with served(write(tmp_path / "s.jsonl", talk_of(one_by_one).closes(ms=21_000))) as running:
        visitor.opens(running.url)
        visitor.presses("2")
        _looks_at_many(visitor)


def _looks_at_many(visitor: Visitor) -> None:
    dense = visitor.page.locator(".span.dense")
    expect(dense.first).to_be_visible()
    tops = "[...new Set([...document.querySelectorAll('.span:not(.message)')].map((one) => one.style.top))]"
    assert visitor.page.evaluate(tops) == ["0px"]
    expect(visitor.page.locator(".lane h3")).not_to_contain_text("at a time")
    marks = visitor.page.locator(".ruler span").all_inner_texts()
    assert marks[:3] == ["0 s", "5 s", "10 s"]
    # A bar of many says how many, and a click on it shows them.
    dense.nth(5).hover()
    expect(visitor.page.locator(".tip")).to_have_text(re.compile(r"^\d+ rows"))
    before = visitor.page.locator(".actions .count").inner_text()
    dense.nth(5).click()
    expect(visitor.page.locator(".actions .count")).not_to_have_text(before)
    expect(visitor.page.locator(".span:not(.dense, .message)").nth(50)).to_be_visible()
    visitor.page.locator(".timeline").focus()
    visitor.presses("0")
    expect(visitor.page.locator(".actions .count")).to_have_text(before)


def test_it_is_zoomed_and_moved_by_keys_the_wheel_and_a_drag(visitor: Visitor, tmp_path: Path) -> None:
    talk = talk_of([(100, 900), (200, 300), (400, 500)])
    with served(write(tmp_path / "s.jsonl", talk.closes(ms=1000))) as running:
        visitor.opens(running.url)
        visitor.presses("2")
        _moves_about(visitor)


def _moves_about(visitor: Visitor) -> None:
    expect(visitor.page.locator(".lane h3")).to_contain_text("up to 2 calls at a time")
    marks = visitor.page.locator(".ruler span")
    expect(marks.first).to_have_text("0 ms")
    expect(marks.last).to_have_text("1.0 s")
    visitor.page.locator(".timeline").focus()
    visitor.presses("+")
    expect(marks.first).not_to_have_text("0 ms")
    middle = marks.first.inner_text()
    visitor.presses("ArrowLeft")
    expect(marks.first).not_to_have_text(middle)
    visitor.presses("0")
    expect(marks.first).to_have_text("0 ms")
    visitor.page.locator(".spans").hover()
    visitor.page.keyboard.down("Control")
    visitor.page.mouse.wheel(0, -300)
    visitor.page.keyboard.up("Control")
    expect(marks.first).not_to_have_text("0 ms")
    zoomed = marks.first.inner_text()
    box = visitor.page.locator(".spans").bounding_box()
    assert box
    visitor.page.mouse.move(box["x"] + 300, box["y"] + 10)
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 600, box["y"] + 10, steps=4)
    visitor.page.mouse.up()
    expect(marks.first).not_to_have_text(zoomed)
    assert "view=timeline" in visitor.page.url  # the drag ended on a bar, and was no click
    visitor.presses("0")
    visitor.page.locator(".span", has_text="forecast").first.click()
    expect(visitor.page.locator(".detail h2")).to_contain_text("forecast")


def test_a_bar_has_the_number_of_its_call_and_a_title(visitor: Visitor, tmp_path: Path) -> None:
    talk = talk_of([(100, 900), (910, 935), (950, 954)])
    with served(write(tmp_path / "s.jsonl", talk.closes(ms=1000))) as running:
        visitor.opens(running.url)
        visitor.presses("2")
        bars, tip = visitor.page.locator(".span:not(.message)"), visitor.page.locator(".tip")
        expect(bars.nth(-3)).to_have_text("#4 ✓ forecast")
        expect(bars.nth(-2)).to_have_text("#5")
        expect(bars.nth(-1)).to_have_text("")
        bars.nth(-1).hover()
        expect(tip).to_contain_text("#6 forecast ✓ ok")
        expect(tip).to_contain_text("took 4.00 ms")


def test_the_messages_are_a_sequence_and_text_for_mermaid(visitor: Visitor, tmp_path: Path) -> None:
    trace = write(tmp_path / "s.jsonl", SITUATIONS["server request in a call"])
    assert main(["export", "html", trace, "-o", str(tmp_path / "s.html")]) == 0
    with served(trace) as running:
        for address in (running.url, (tmp_path / "s.html").as_uri()):
            visitor.opens(address)
            visitor.presses("2")
            visitor.page.get_by_role("button", name="sequence").click()
            arrows = visitor.page.locator(".sequence .arrow")
            expect(arrows.first).to_have_text(re.compile(r"^client to weather:\s+initialize$"))
            asked = visitor.page.locator(".sequence .arrow.server:not(.answer)")
            expect(asked).to_contain_text("elicitation")
            if address.startswith("file:"):
                continue
            visitor.page.get_by_role("button", name="Copy as Mermaid").click()
            visitor.sees("copied")
            copied = visitor.page.evaluate("navigator.clipboard.readText()")
            assert copied.startswith("sequenceDiagram\n    participant C as desk\n")
            arrows.last.click()
            expect(visitor.page.locator(".detail h2")).to_be_visible()
