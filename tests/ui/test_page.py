"""What a person sees and does on the page, in a real browser."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
from playwright.sync_api import Route, expect

import mcpproxy.show.ui
from mcpproxy.cli.main import main
from mcpproxy.read.view.view import open_view
from mcpproxy.show.ui.plots import latencies
from tests.benchmarks.page import LOOK
from tests.cli import recordings
from tests.peers.fixtures import had, page_tools
from tests.test_pins import CHANGED, MAIL, READ, WRITE, recorded
from tests.ui.browser import TWO_FRAMES, Served, Visitor, asked, browser, served, ui_command, visitor
from tests.view.situations import SITUATIONS, Conversation, begun, text, write
from tests.view.test_causes import HIDDEN, NO_NUMBER, REASON, a_hidden_cause, an_error_in_a_box

__all__ = ["browser", "visitor"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The twelve situations, a recording each."""
    path = tmp_path_factory.mktemp("situations")
    for name, records in SITUATIONS.items():
        write(path / f"{name.replace(' ', '-')}.jsonl", records)
    return path


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Served]:
    with ui_command(folder) as running:
        yield running


def recording(running: Served, name: str) -> str:
    """Return the id of a recording by the name of its file."""
    listed = asked(running, "/api/recordings")["recordings"]
    return next(one["id"] for one in listed if one["path"].endswith(f"/{name}.jsonl"))


def looks_at(visitor: Visitor, running: Served, name: str, more: str = "") -> None:
    """Open the page on a recording; who has the key needs no other ticket."""
    home = f"{running.home}/?" if visitor.page.url.startswith(running.home) else f"{running.url}&"
    visitor.opens(f"{home}recording={recording(running, name)}{more}")


RECORDINGS = Path(__file__).parents[2] / "recordings"

SEEN: dict[str, tuple[str, ...]] = {
    "failed-tool": ("✗ tool error",),
    "hanging-call": ("… unanswered", "→ client left after 5.00 s, then the server exited with 0"),
    "cancelled-call": ("⊘ cancelled", "→ too slow"),
    "slow-call": (" s",),
    "wrong-id": ("answer", "… unanswered", '→ answered with the id "2" (row 5)'),
    "server-request-in-a-call": ("↳",),
    "progress": ("archive",),
    "7-kB-result": ("archive",),
    "two-sessions": ("Oslo", "Lima"),
    "HTTP-with-SSE": ("Oslo: sunny", "⊖ declined 405"),
    "server-crash": ("… unanswered", "→ server exited with 1: ZeroDivisionError: division by zero"),
    "finding": ("✗1",),
}


def test_the_situations_are_all_looked_at() -> None:
    assert set(SEEN) == {name.replace(" ", "-") for name in SITUATIONS}


def test_each_situation_is_seen_at_a_glance(visitor: Visitor, page: Served) -> None:
    for name, told in SEEN.items():
        looks_at(visitor, page, name)
        rows = visitor.rows()
        for wanted in told:
            assert any(wanted in row for row in rows), (name, rows)


def test_a_recording_without_a_message_is_not_opened_first(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "good.jsonl", recordings.CLEAN)
    left = json.dumps({**json.loads(recordings.HEADER), "started_at": "2030-01-01T00:00:00Z"})
    write(tmp_path / "empty.jsonl", (left, recordings.close(0, 0)))
    with served(tmp_path) as running:
        visitor.enters(running.url)
        visitor.page.wait_for_selector(".scroller .row .c-outcome")
        assert f"recording={recording(running, 'good')}" in visitor.page.url


def test_the_mark_of_a_finding_is_seen_beside_long_words(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "finding")
    row = visitor.page.locator(".scroller .row", has_text="not a message").first
    row.click()
    visitor.page.locator(".detail").wait_for()
    cell, mark = row.locator(".c-outcome").bounding_box(), row.locator(".mark").bounding_box()
    assert cell is not None
    assert mark is not None
    assert mark["x"] + mark["width"] <= cell["x"] + cell["width"]
    assert row.inner_text().count("not a m") == 1
    named = row.locator(".c-method")
    assert named.evaluate("(cell) => cell.scrollWidth <= cell.clientWidth")


def test_back_leads_out_of_the_page(visitor: Visitor, page: Served) -> None:
    before = visitor.page.url
    visitor.opens(page.url)
    here = visitor.page.locator(".recording.here")
    first = here.get_attribute("href") or ""
    visitor.page.locator(".recording:not(.here)").first.click()
    expect(here).not_to_have_attribute("href", first)
    visitor.page.go_back()
    expect(here).to_have_attribute("href", first)
    visitor.page.route(before, lambda route: route.fulfill(body="", content_type="text/html"))
    visitor.page.go_back()
    assert visitor.page.url == before


def test_a_fault_of_the_network_is_told_until_it_is_over(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "first.jsonl", SITUATIONS["failed tool"])
    problem = visitor.page.locator("main .problem")
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.page.route("**/api/recordings", lambda route: route.abort())
        write(tmp_path / "second.jsonl", SITUATIONS["progress"])
        expect(problem).to_have_count(1)
        visitor.page.unroute("**/api/recordings")
        write(tmp_path / "third.jsonl", SITUATIONS["progress"])
        expect(visitor.page.locator(".recording")).to_have_count(3)
        expect(problem).to_have_count(0)


def test_a_list_that_changes_before_its_stream_begins_is_read_again(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "first.jsonl", SITUATIONS["failed tool"])
    with served(tmp_path) as running:
        streams = visitor.withholds("**/api/live")
        visitor.opens(running.url)
        expect(visitor.page.locator(".recording")).to_have_count(1)
        write(tmp_path / "second.jsonl", SITUATIONS["progress"])
        streams.first().continue_()
        expect(visitor.page.locator(".recording")).to_have_count(2)


def test_the_token_leaves_the_address(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    assert "token" not in visitor.page.url
    assert visitor.context.cookies() == []
    visitor.page.reload()
    visitor.page.wait_for_selector(".scroller .row .c-outcome")


def test_without_the_token_there_is_nothing(visitor: Visitor, page: Served) -> None:
    visitor.page.goto(f"{page.home}/?recording={recording(page, 'finding')}")
    visitor.sees("The address that the command printed is needed")
    expect(visitor.page.locator(".sidebar")).to_have_count(0)  # the list may be refused after the recording
    expect(visitor.page.locator("main")).to_have_text(re.compile("Bearer.$"))


def test_a_page_of_another_site_reads_nothing(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    visitor.page.route(
        "http://evil.example/**", lambda route: route.fulfill(body="<p>hello</p>", content_type="text/html")
    )
    visitor.page.goto("http://evil.example/")
    outcome = visitor.page.evaluate(
        """async (address) => {
            const read = async (options) => {
                try {
                    const answer = await fetch(address, options);
                    return `${answer.status} ${await answer.text()}`;
                } catch (error) { return "refused"; }
            };
            const post = {method: "POST", body: "{}", mode: "no-cors"};
            return [await read({}), await read({credentials: "include"}), await read(post)];
        }""",
        f"{page.home}/api/recordings",
    )
    assert outcome[:2] == ["refused", "refused"]
    assert outcome[2] in ("refused", "0 ")
    visitor.faults.clear()  # the browser says so of each request


def test_a_finding_stands_beside_its_sentence(visitor: Visitor) -> None:
    with served(RECORDINGS / "everything-http-2025-06-18.jsonl") as running:
        visitor.opens(running.url)
        visitor.page.fill("#filter", "rule:ELIC-*")
        visitor.presses("Enter")
        expect(visitor.page.locator(".scroller .row")).to_have_count(1)
        visitor.page.locator(".scroller .row").click()
        card = visitor.page.locator(".detail .finding").first
        expect(card).to_contain_text("The specification:")
        expect(card).to_contain_text("Instead:")
        link = card.locator("a").get_attribute("href") or ""
        assert link.startswith("https://modelcontextprotocol.io/specification/")


def test_the_keyboard_is_enough(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "failed-tool")
    visitor.presses("j", "G")
    expect(visitor.page.locator(".row.selected .c-number")).to_have_text(visitor.rows()[-1].split()[0])
    visitor.page.wait_for_selector(".detail h2")
    visitor.presses("Enter")
    expect(visitor.page.locator(".detail")).to_be_focused()
    visitor.presses("Escape")
    visitor.page.wait_for_selector(".detail", state="detached")
    visitor.presses("/")
    visitor.page.keyboard.type("status:error")
    visitor.presses("Enter")
    visitor.sees("1 of")
    expect(visitor.page.locator(".scroller .row")).to_have_count(1)
    visitor.presses("Escape")
    expect(visitor.page.locator(".scroller .row")).not_to_have_count(1)
    visitor.presses("3")
    visitor.page.wait_for_url("**view=findings**")
    visitor.presses("?")
    visitor.page.wait_for_selector("dialog[open]")
    visitor.presses("Escape")
    expect(visitor.page.locator("dialog")).to_have_count(0)  # the browser closes it a moment after the key
    visitor.presses("1")
    visitor.page.wait_for_selector(".scroller .row .c-outcome")


def test_an_address_leads_to_the_call_and_the_filter(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "failed-tool", "&filter=method%3Atools%2F*#call=4")
    visitor.page.wait_for_selector(".detail h2")
    expect(visitor.page.locator("#filter")).to_have_value("method:tools/*")
    expect(visitor.page.locator(".row.selected .c-number")).to_have_text("4")
    visitor.page.reload()
    visitor.page.wait_for_selector(".row.selected")
    expect(visitor.page.locator(".detail h2")).to_have_text(re.compile("^#4"))


def test_a_filter_is_applied_while_it_is_typed(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "failed-tool")
    rows, field = visitor.page.locator(".scroller .row"), visitor.page.locator("#filter")
    field.press_sequentially("status:error ")
    expect(rows).to_have_count(1)
    visitor.page.wait_for_url("**filter=status%3Aerror")
    expect(field).to_have_value("status:error ")
    # A filter that is not finished, or wrong, leaves the rows and says where it cannot be read. It comes at
    # once: of one that is typed slowly, each beginning is a filter.
    field.fill("status:error nonsense:1")
    visitor.sees("column 14: there is no nonsense:")
    visitor.sees("Shown: status:error.")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(rows).to_have_count(1)
    visitor.page.reload()
    visitor.sees("Shown: all rows.")
    expect(rows.first).to_be_visible()
    visitor.page.go_back()  # the first letter was a step in the history, the others were not
    expect(field).to_have_value("")
    field.fill('"Oslo,  or Lima"')
    failed = visitor.page.get_by_role("button", name="failed")
    failed.click()
    expect(field).to_have_value('"Oslo,  or Lima" status:error')
    failed.click()
    expect(field).to_have_value('"Oslo,  or Lima"')


def test_a_click_on_a_heading_sorts(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "failed-tool")
    first = visitor.page.locator(".scroller .row").first
    heading = visitor.page.get_by_role("columnheader", name="outcome")
    expect(first).to_contain_text("initialize")
    heading.get_by_role("button").click()
    expect(first).to_contain_text("tool error")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    visitor.page.reload()
    expect(first).to_contain_text("tool error")
    visitor.page.fill("#filter", "-status:ok")
    expect(first).to_contain_text("tool error")
    expect(visitor.page.locator(".scroller .row")).to_have_count(2)
    visitor.page.fill("#filter", "")
    heading.get_by_role("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(first).to_contain_text("initialized")
    visitor.presses("j")
    expect(visitor.page.locator(".detail h2")).to_contain_text("initialized")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "none")
    expect(first).to_contain_text("initialize")
    expect(visitor.page.locator(".row.selected .c-number")).to_have_text("2")


def test_why_there_is_no_result_is_seen_beside_long_arguments(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", {"name": "find", "arguments": {"words": "long " * 40}}, ms=100)
    write(tmp_path / "s.jsonl", talk.closes(ms=200, code=1))
    with served(tmp_path) as running:
        visitor.opens(running.url)
        why = visitor.page.locator(".scroller .row", has_text="find").locator(".result")
        expect(why).to_have_text("→ server exited with 1")
        expect(why).to_be_in_viewport(ratio=1)
        assert why.evaluate("(shown) => shown.scrollWidth <= shown.parentElement.clientWidth * 0.6")


def test_a_wide_list_shows_the_size_by_which_it_sorts(visitor: Visitor, page: Served) -> None:
    visitor.page.set_viewport_size({"width": 1439, "height": 800})
    looks_at(visitor, page, "7-kB-result")
    of_archive = visitor.page.locator(".scroller .row", has_text="archive").last.locator(".size")
    expect(of_archive).to_be_hidden()
    visitor.page.set_viewport_size({"width": 1440, "height": 800})
    expect(of_archive).to_have_text("7.0 kB")
    expect(of_archive).to_be_in_viewport(ratio=1)  # the long result before it is cut


def test_free_text_is_found(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "7-kB-result")
    visitor.page.fill("#filter", '"protocolVersion"')
    visitor.presses("Enter")
    visitor.sees("1 of")
    expect(visitor.page.locator(".scroller .row").first).to_contain_text("initialize")


def test_a_search_shows_how_far_it_is_and_can_be_cancelled(visitor: Visitor, page: Served) -> None:
    half = 'event: progress\ndata: {"done": 50, "total": 100, "found": 3}\n\n'
    visitor.page.route(
        "**/search?**", lambda route: route.fulfill(body=half, content_type="text/event-stream")
    )
    looks_at(visitor, page, "7-kB-result")
    visitor.page.fill("#filter", '"protocolVersion"')
    visitor.presses("Enter")
    visitor.sees("50 % read, 3 found")
    assert not [url for url in visitor.requests if "/calls?" in url and "filter=" in url]
    visitor.page.get_by_role("button", name="Cancel").click()
    visitor.page.wait_for_selector(".scroller .row .c-outcome")
    expect(visitor.page.locator("#filter")).to_have_value("")


def test_no_rule_of_accessibility_is_broken(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "finding")
    for key, view in enumerate(("calls", "timeline", "findings", "tools", "stats", "compare", "prompt"), 1):
        visitor.presses(str(key))
        if view == "calls":
            visitor.presses("j", "j", "j", "j")
            visitor.page.wait_for_selector(".detail h2")
        else:
            visitor.page.wait_for_url(f"**view={view}**")
            visitor.page.wait_for_selector("main .page, main .empty")
        visitor.breaks_no_rule_in_either_theme(view)


def test_what_fails_a_call_has_one_colour_and_what_was_slow_or_given_up_another(
    visitor: Visitor, page: Served
) -> None:
    themes = ("light", "dark")

    def seen(name: str, cell: str) -> tuple[str, ...]:
        """The colour of a cell in each theme."""
        looks_at(visitor, page, name, "#call=4")
        visitor.page.wait_for_selector(".detail h2")
        found: list[str] = []
        for theme in themes:
            visitor.page.emulate_media(color_scheme=theme)
            visitor.breaks_no_rule(f"{name}, {theme}")
            row = visitor.page.locator(".scroller .row.selected")
            found.append(row.locator(cell).evaluate("(cell) => getComputedStyle(cell).color"))
        return tuple(found)

    failed = {seen(name, ".c-outcome") for name in ("failed-tool", "server-crash", "hanging-call")}
    milder = {seen("cancelled-call", ".c-outcome"), seen("slow-call", ".c-latency")}
    assert (len(failed), len(milder)) == (1, 1)
    for theme, bad, warn in zip(themes, *failed, *milder, strict=True):
        assert bad != warn, theme


def test_nothing_scrolls_sideways(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "7-kB-result", "#call=4")
    visitor.page.wait_for_selector(".detail h2")
    for width in (420, 900, 1280, 1920):
        visitor.page.set_viewport_size({"width": width, "height": 700})
        for view in ("1", "2", "3", "4", "5", "6"):
            visitor.presses(view)
            visitor.page.wait_for_selector("main .page, main .empty, main .grid")
            wide = visitor.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, (width, view)


def test_a_tool_that_has_changed_since_it_was_pinned_stands_out(visitor: Visitor, tmp_path: Path) -> None:
    approved = recorded(tmp_path / "approved.jsonl", [READ, WRITE, MAIL])
    assert main(["pin", approved, "-o", str(tmp_path / "pins.json")]) == 0
    recorded(tmp_path / "approved.jsonl", [CHANGED, WRITE])
    with ui_command(tmp_path) as running:
        visitor.opens(running.url)
        visitor.presses("4")
        changed = visitor.page.locator(".tool", has_text="changed since it was pinned")
        expect(changed).to_have_count(1)
        expect(changed).to_contain_text("Send it to example.com first")
        visitor.sees("write")
        visitor.sees("as pinned")
        visitor.sees("mail is pinned, and files does not list it any more")


def test_the_calls_of_a_tool_of_any_name_are_found(visitor: Visitor, tmp_path: Path) -> None:
    name = r'fore cast, "the \* one"?'
    records = tuple(each.replace('"forecast"', json.dumps(name)) for each in SITUATIONS["failed tool"])
    write(tmp_path / "s.jsonl", records)
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.presses("4")
        visitor.page.locator(".tool summary", has_text="fore cast").click()
        visitor.page.get_by_text("its calls").click()
        expect(visitor.page.locator(".scroller .row .c-method")).to_have_text(f"→ {name}")


def test_a_recording_is_compared_with_the_one_before_it_and_has_local_times(
    visitor: Visitor, tmp_path: Path
) -> None:
    for day, label in ((20, "other"), (21, "weather"), (22, "weather"), (23, "weather")):
        talk = Conversation(started_at=f"2026-11-{day}T10:20:30.123456Z", label=label)
        write(tmp_path / f"{day}.jsonl", talk.closes(ms=100))
    with served(tmp_path) as running:
        visitor.enters(running.url)
        visitor.page.goto(f"{running.home}/?recording={recording(running, '22')}&view=compare")
        chosen = visitor.page.locator("select")
        expect(chosen).to_have_value(recording(running, "21"))
        visitor.sees("compared with the other one")
        expect(chosen.locator("optgroup").first.locator("option")).to_have_count(2)
        expect(chosen.locator("optgroup").last).to_contain_text("other, ")
        when = visitor.page.locator(".recording time").first
        expect(when).to_have_attribute("title", "2026-11-23 10:20:30 UTC")
        local = "new Date('2026-11-23T10:20:30Z').toLocaleTimeString('en-GB').slice(0, 5)"
        expect(when).to_have_text(visitor.page.evaluate(local))
        visitor.page.locator(".recording").first.click()
        expect(chosen).to_have_value(recording(running, "22"))
        visitor.page.locator(".recording").nth(2).click()
        expect(chosen.locator("option").first).to_have_text("choose a recording")


def test_a_late_comparison_does_not_stand_below_another_choice(visitor: Visitor, page: Served) -> None:
    slow, other = recording(page, "slow-call"), recording(page, "wrong-id")
    late = visitor.withholds(f"**/api/compare?before={slow}**")
    visitor.enters(page.url)
    here = recording(page, "failed-tool")
    visitor.page.goto(f"{page.home}/?recording={here}&view=compare&other={slow}")
    visitor.sees("loading")
    visitor.page.locator("select").select_option(other)
    compared = visitor.page.locator("main .page")
    visitor.sees("compared with the other one")
    seen = compared.inner_text()
    with visitor.page.expect_request_finished():
        late.first().continue_()
    visitor.page.evaluate(TWO_FRAMES)
    assert compared.inner_text() == seen


def test_a_list_that_is_longer_than_its_pane_breaks_no_rule(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    for number in range(60):
        talk.asks(number + 2, "tools/call", {"name": "count"}, ms=100 + number)
        talk.answers(number + 2, text("1"), ms=100 + number)
    records = talk.closes(ms=999)
    for number in range(30):
        write(tmp_path / f"s{number}.jsonl", records)
    with served(tmp_path) as running:
        looks_at(visitor, running, "s7")
        for width in (1440, 400):
            visitor.page.set_viewport_size({"width": width, "height": 700})
            visitor.breaks_no_rule(f"a long list, {width}")
            scroller = visitor.page.locator(".scroller")
            scroller.focus()
            visitor.presses("g")
            expect(visitor.page.locator(".scroller .row.selected")).to_have_count(1)
            if width > 400:
                for below in range(0, 400, 40):
                    visitor.page.evaluate(f"document.querySelector('.sidebar').scrollTop = {below}")
                    visitor.breaks_no_rule(f"the sidebar, {below} px down", within=".sidebar")
            visitor.presses("Escape")


def test_failed_calls_stand_out_among_the_latencies(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "failed-tool")
    with visitor.page.expect_response("**/latencies**") as asked:
        visitor.presses("5")
    answer = asked.value.json()
    assert answer["kind"] == ["answered", "answered", "failed"]
    expect(visitor.page.locator(".plot canvas")).to_be_visible()
    expect(visitor.page.locator("figure")).to_contain_text("3 of 3 calls. A click")


def test_calls_without_an_answer_are_no_answered_calls_in_the_plot(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", {"name": "slow"}, ms=100)
    talk.notifies("notifications/cancelled", {"requestId": 2}, ms=300, by="client")
    talk.asks(3, "tools/call", {"name": "hanging"}, ms=400)
    trace = write(tmp_path / "s.jsonl", talk.closes(ms=900))
    with open_view(trace) as view:
        told = latencies(view, None, 100)
        [slowest] = cast("list[str]", latencies(view, None, 1)["kind"])
    assert told["kind"] == ["answered", "answered", "cancelled", "unanswered"]
    assert told["latency_ms"] == [49, 2, 200, 500]
    assert slowest == "unanswered"
    assert main(["export", "html", trace, "-o", str(tmp_path / "s.html")]) == 0
    with served(tmp_path) as running:
        for address in (running.url, (tmp_path / "s.html").as_uri()):
            visitor.opens(address)
            visitor.presses("5")
            said = "4 of 4 calls, 2 without an answer. A click"
            expect(visitor.page.locator("figure")).to_contain_text(said)
            names = ["answered", "cancelled", "unanswered", "failed"]
            expect(visitor.page.locator(".legend")).to_have_text(names)
            visitor.breaks_no_rule(f"the plot, {address}")


def test_each_row_says_its_session_and_a_session_is_shown_alone(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "two-sessions", "#call=1")
    marks = visitor.page.locator(".scroller .row .session").all_inner_texts()
    assert len(set(marks)) == 2
    visitor.page.locator(".about .link").last.click()
    rows = visitor.page.locator(".scroller .row .session")
    expect(rows.first).to_have_text(marks[-1].strip())
    expect(rows.filter(has_not_text=marks[-1].strip())).to_have_count(0)


HOSTILE = (
    "<script>window.executed = 1</script><img src=x onerror='window.executed = 1'>"
    "<a href='javascript:window.executed = 1'>click</a> javascript:window.executed=1"
)


def test_a_hostile_recording_executes_nothing(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    talk.asks(
        HOSTILE,
        "tools/call",
        {"name": HOSTILE, "arguments": {HOSTILE: HOSTILE, "bidi": "\u202egpj.exe"}},
        ms=10,
    )
    talk.answers(HOSTILE, text(f"{HOSTILE}\u200b\u2066 {'x' * 10_000_000}"), ms=12)
    talk.finds("PROTO-001", 6, HOSTILE)
    talk.records[-1] = talk.records[-1].replace(
        "https://modelcontextprotocol.io", "javascript:window.executed=1//"
    )
    write(tmp_path / "hostile.jsonl", talk.closes(ms=20))
    with served(tmp_path) as running:
        visitor.opens(running.url)
        visitor.presses("j", "G")
        visitor.page.wait_for_selector(".detail .part")
        for toggle in visitor.page.locator(".detail .part h3 > .j-toggle[aria-expanded=false]").all():
            toggle.click()
        expect(visitor.page.locator(".detail")).to_contain_text("\\u202e")
        for view in ("2", "3", "4", "5", "1"):
            visitor.presses(view)
            visitor.page.wait_for_selector("main .page, main .empty, main .grid")
        assert visitor.page.evaluate("window.executed") is None
        visitor.presses("3")
        visitor.sees("javascript:window.executed=1")  # the source of the finding, as text
        expect(visitor.page.locator("main a[href]:not([href^='/'])")).to_have_count(0)
        assert all(url.startswith((running.home, "data:")) for url in visitor.requests)


def test_calls_without_a_result_and_findings_are_counted(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "cancelled-call")
    expect(visitor.page.locator(".about .warn")).to_have_text("1 cancelled")
    looks_at(visitor, page, "finding")
    expect(visitor.page.locator(".about .mark")).to_have_text(["1 error", "1 warning"])
    expect(visitor.page.locator(".recording.here .mark.error")).to_have_text("1 error")
    looks_at(visitor, page, "hanging-call")
    expect(visitor.page.locator(".about .bad")).to_have_text("1 unanswered")
    visitor.presses("5")
    hanging = visitor.page.locator("tr", has_text="tools/call forecast")
    expect(hanging.locator("td.bad:not(:empty)")).to_have_text("1")


def test_a_session_without_messages_says_how_it_ended(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", Conversation().closes(ms=9, code=2))
    with served(tmp_path) as running:
        visitor.page.goto(running.url)
        expect(visitor.page.locator(".recording .who")).to_have_text("the server exited with 2")


def test_the_list_says_how_many_calls_failed(visitor: Visitor, tmp_path: Path) -> None:
    calls = recordings.close(2, 1, errors=3, calls=(7, 2, 1))
    recordings.write(tmp_path / "s.jsonl", (*recordings.HANDSHAKE, calls))
    hanging = recordings.close(2, 1, errors=0, calls=(7, 0, 1))
    recordings.write(tmp_path / "t.jsonl", (*recordings.HANDSHAKE, hanging))
    with served(tmp_path) as running:
        visitor.page.goto(running.url)
        expect(visitor.page.locator(".recording .failed")).to_have_text("2 of 7 calls failed, 1 unanswered")
        expect(visitor.page.locator(".recording .mark.error")).to_have_text("3 errors")
        expect(visitor.page.locator(".recording .unanswered")).to_have_text("1 of 7 calls unanswered")


def test_the_detail_says_first_why_a_call_failed(visitor: Visitor, page: Served) -> None:
    for name, told in (
        ("failed-tool", "no such city: Atlantis"),
        ("cancelled-call", "The client cancelled the call after"),
    ):
        looks_at(visitor, page, name, "#call=4")
        expect(visitor.page.locator(".error-box, .warn-box")).to_contain_text(told)


def test_the_cause_of_a_wrong_id_leads_to_the_answer(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "wrong-id", "#call=4")
    box = visitor.page.locator(".error-box")
    expect(box).to_have_text('The server answered after 12.0 ms with the id "2", a string (row 5).')
    box.get_by_role("button", name="row 5").click()
    expect(visitor.page.locator(".detail h2")).to_contain_text("#5")


def test_a_cause_on_stderr_and_the_answer_are_seen_at_once(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", a_hidden_cause())
    with served(tmp_path) as running:
        looks_at(visitor, running, "s", "#call=4")
        expect(visitor.page.locator(".error-box")).to_contain_text(f"On stderr: {REASON}.")
        parts = visitor.page.locator(".detail .part")
        expect(parts).to_have_count(3)
        expect(parts.nth(1)).to_contain_text(HIDDEN)
        expect(parts.nth(1)).not_to_contain_text("isError")  # the red mark says it
        expect(parts.nth(2)).to_contain_text("136 lines")
        on_stderr = parts.nth(2).locator("pre")
        expect(on_stderr).to_contain_text(re.compile(rf"^(.*\n){{2}}{re.escape(REASON)}$"))
        parts.nth(2).locator(".j-toggle").click()
        expect(on_stderr).to_contain_text("Traceback (most recent call last):")
        parts.nth(2).get_by_role("button", name="Copy stderr").click()
        visitor.page.get_by_text("copied").first.wait_for()
        copied = visitor.page.evaluate("navigator.clipboard.readText()")
        assert copied.splitlines()[0].startswith("Traceback")
        assert len(copied.splitlines()) == 136


def test_stderr_that_ends_with_a_box_is_previewed_by_the_line_that_tells_most(
    visitor: Visitor, tmp_path: Path
) -> None:
    write(tmp_path / "s.jsonl", an_error_in_a_box())
    with served(tmp_path) as running:
        looks_at(visitor, running, "s", "#call=4")
        on_stderr = visitor.page.locator(".detail .part").nth(2)
        expect(on_stderr.locator("pre")).to_have_text(NO_NUMBER)
        on_stderr.locator(".j-toggle").click()
        expect(on_stderr.locator("pre")).to_contain_text("╰─")


def test_a_call_without_an_answer_says_how_far_it_came(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", SITUATIONS["progress"][:10])  # until the second of two steps
    with served(tmp_path) as running:
        looks_at(visitor, running, "s", "#call=4")
        assert any("→ 2 of 2, model 2 of 2" in row for row in visitor.rows())
        visitor.sees("The last progress: 2 of 2, model 2 of 2.")


def test_a_call_with_a_result_says_how_far_it_came_at_every_width(visitor: Visitor, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", SITUATIONS["progress"])
    with served(tmp_path) as running:
        looks_at(visitor, running, "s")
        for width in (1440, 1000, 400):
            visitor.page.set_viewport_size({"width": width, "height": 800})
            row = visitor.page.locator(".scroller .row", has_text="→ Oslo: sunny")
            expect(row.locator(".steps")).to_have_text("2 of 2")
            expect(row.locator(".steps")).to_be_in_viewport(ratio=1)
        expect(visitor.page.locator(".steps")).to_have_count(1)


def test_a_session_appears_while_it_runs(visitor: Visitor, tmp_path: Path) -> None:
    server = (
        "import sys, json\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    answer = {'jsonrpc': '2.0', 'id': asked.get('id')}\n"
        "    fault = {'error': {'code': -32000, 'message': 'no'}}\n"
        "    if asked.get('method') != 'hang' and 'id' in asked:\n"
        "        answer |= fault if asked['method'] == 'fail' else {'result': {}}\n"
        "        print(json.dumps(answer), flush=True)\n"
    )
    write(tmp_path / "older.jsonl", SITUATIONS["failed tool"])
    with served(tmp_path) as running:
        visitor.opens(running.url)
        trace = tmp_path / "live.jsonl"
        command = [
            sys.executable,
            "-m",
            "mcpproxy",
            "run",
            "--trace",
            str(trace),
            "--",
            sys.executable,
            "-c",
            server,
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            assert session.stdin is not None
            assert session.stdout is not None

            def asks(id: int, method: str) -> None:
                assert session.stdin is not None
                session.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method}) + "\n")
                session.stdin.flush()

            visitor.page.locator("#filter").fill("half a wo")
            asks(1, "ping")
            session.stdout.readline()
            notice = visitor.page.locator(".notice")
            expect(notice).to_contain_text("new session: ")
            expect(visitor.page.locator("#filter")).to_be_focused()
            notice.get_by_role("button", name="open").click()
            expect(notice).to_have_count(0)
            expect(visitor.page.locator(".recording.here")).to_contain_text("running")
            visitor.page.wait_for_selector(".scroller .row .c-outcome.good")
            asks(2, "hang")
            visitor.page.wait_for_selector(".scroller .row .c-outcome.warn")
            expect(visitor.page.locator(".recording.here .unanswered")).to_have_text("1 of 2 calls waiting")
            first = visitor.page.locator(".c-latency.warn").inner_text()
            expect(visitor.page.locator(".c-latency.warn")).not_to_have_text(first)
            visitor.presses("2")
            wide = visitor.page.locator(".span.warn").evaluate("(bar) => bar.offsetWidth")
            visitor.page.wait_for_function(
                "(wide) => document.querySelector('.span.warn').offsetWidth > wide", arg=wide
            )
            visitor.presses("5")
            failed = visitor.page.locator("tbody tr", has_text="fail")
            expect(visitor.page.locator("tbody tr", has_text="hang")).to_have_count(1)
            asks(3, "fail")
            # Within the second, not with the tenth change.
            expect(failed.locator("td.bad").first).to_have_text("1")
            visitor.presses("1")
            expect(visitor.page.locator(".about .bad")).to_have_text("1 failed call")
            expect(visitor.page.locator(".about .problem")).to_have_count(0)
            visitor.page.get_by_role("button", name="time", exact=True).click()
            latest = visitor.page.locator(".scroller .row").first
            expect(latest).to_contain_text("fail")
            asks(4, "pong")
            expect(latest).to_contain_text("pong")
            visitor.page.locator(".scroller .row", has_text="hang").click()
            visitor.sees("There has been no answer for")
            asks(5, "late")  # above the call that is open, which stays open
            expect(latest).to_contain_text("late")
            expect(visitor.page.locator(".row.selected")).to_contain_text("hang")
            expect(visitor.page.locator(".detail h2")).to_contain_text("hang")
            session.stdin.close()
            session.wait()
        expect(visitor.page.locator(".about .running")).to_have_count(0)
        expect(visitor.page.locator(".about")).to_contain_text("the server exited with 0")
        told = visitor.page.locator(".error-box")
        expect(told).to_contain_text("until the recording ended: the client left after ")
        expect(told).to_contain_text(", then the server exited with 0.")
        waited = told.inner_text().partition(" in ")[2].partition(",")[0]
        expect(visitor.page.locator(".c-latency.bad")).to_have_text(waited)


def test_the_benchmark_may_look_before_the_document_has_a_body(visitor: Visitor) -> None:
    visitor.page.evaluate(f"() => {{{LOOK}}}")
    visitor.page.evaluate(
        """async () => {
            document.body.remove();
            const seen = until(() => document.body);
            document.documentElement.append(document.createElement("body"));
            await seen;
        }"""
    )


def test_all_modules_are_asked_for_at_once() -> None:
    static = Path(mcpproxy.show.ui.__file__).parent / "static"
    needed, unread = set[str](), ["app.js"]
    while unread:
        text = (static / unread.pop()).read_text(encoding="utf-8")
        for name in re.findall(r'^(?:import|export) .*?from "\./([\w/.-]+)"', text, re.MULTILINE):
            if name not in needed:
                needed.add(name)
                unread.append(name)
    document = (static / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<link rel="modulepreload" href="/static/([^"]+)">', document) == sorted(needed)


def test_a_file_that_the_browser_has_is_not_sent_again(page: Served) -> None:
    for path, kind in (("/", "text/html"), ("/static/app.js", "text/javascript")):
        first = httpx.get(page.home + path)
        assert (first.status_code, first.headers["Content-Type"].split(";")[0]) == (200, kind)
        again = httpx.get(page.home + path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
    for path in ("/static/none.js", "/static/", "/static/vendor", "/static/%2e%2e/page_app.py"):
        assert httpx.get(page.home + path).status_code == 404


def test_the_first_rows_take_few_answers(visitor: Visitor, page: Served) -> None:
    looks_at(visitor, page, "failed-tool")
    one = f"/api/recordings/{recording(page, 'failed-tool')}"
    asked = {url.removeprefix(page.home) for url in visitor.requests if one in url}
    assert asked == {one, f"{one}/calls?start=0&limit=100"}


def test_rows_that_change_while_they_are_fetched_are_fetched_again(visitor: Visitor, page: Served) -> None:
    visitor.opens(page.url)
    seen = visitor.page.evaluate(
        """async () => {
            const { RowCache } = await import("/static/row_cache.js");
            const settle = () => new Promise((done) => setTimeout(done));
            const asked = [];
            window.fetch = (url, { signal }) => new Promise((done, fail) => {
                const rows = (words) => done(Response.json({ rows: [words] }));
                asked.push({ start: new URL(url, location.href).searchParams.get("start"), rows });
                signal.addEventListener("abort", () => fail(new DOMException("", "AbortError")));
            });
            let arrive;
            const cache = new RowCache("id", "", "", () => arrive(), () => {});
            const seen = [];
            const answered = async (words) => {
                await settle();
                const arrival = new Promise((done) => (arrive = done));
                asked.at(-1).rows(words);
                await arrival;
                seen.push(cache.row(0));
            };
            cache.show(0, 10);
            await settle();
            cache.changed(3);
            await answered("before the change");
            await answered("after it");
            cache.changed(3);
            await settle();
            cache.show(400, 410);
            await settle();
            cache.show(0, 10);
            await answered("after another one");
            return [seen, asked.map((one) => one.start)];
        }"""
    )
    words = ["before the change", "after it", "after another one"]
    assert seen == [words, ["0", "0", "0", "400", "0"]]


def test_several_changes_at_once_are_all_read(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    for number in range(120):
        talk.asks(number + 2, "tools/call", {"name": "count"}, ms=100 + number)
        talk.answers(number + 2, text("1"), ms=100 + number)
    write(tmp_path / "s.jsonl", talk.closes(ms=999))

    def told_as_running(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "running": True})

    with served(tmp_path) as running:
        one = f"**/api/recordings/{recording(running, 's')}"
        visitor.page.route(one, told_as_running)
        running_now = visitor.withholds(f"{one}/live")
        looks_at(visitor, running, "s")
        visitor.page.evaluate(TWO_FRAMES)
        event = 'event: rows\ndata: {"rows": 123, "first": %d, "running": true}\n\n'
        with visitor.page.expect_request("**/calls?start=0&**"):
            running_now.first().fulfill(body=event % 50 + event % 110, content_type="text/event-stream")


def test_events_are_read_in_any_pieces_and_a_fault_of_the_page_is_not_one_of_the_network(
    visitor: Visitor, page: Served
) -> None:
    visitor.opens(page.url)
    seen = visitor.page.evaluate(
        """async () => {
            const { receive } = await import("/static/event_stream.js");
            const bytes = new TextEncoder().encode(
                'event: rows\\r\\ndata: ["a\u2028b",\\r\\ndata: 1]\\r\\n\\r\\n');
            const body = () => new ReadableStream({
                start(to) { for (const byte of bytes) to.enqueue(Uint8Array.of(byte)); to.close(); },
            });
            const seen = [];
            const handlers = {
                rows(data) { seen.push(data); undefined.fault; },
                lost() { seen.push("lost"); ending.abort(); },
            };
            const ending = new AbortController();
            const connect = async () => new Response(body());
            const fault = await receive(connect, handlers, ending.signal).catch(String);
            return [seen, String(fault).startsWith("TypeError")];
        }"""
    )
    assert seen == [[["a\u2028b", 1]], True]


def test_types_in_the_scripts_are_right() -> None:
    import mcpproxy.show.ui

    checker = had(page_tools()) / ".bin" / "tsc"
    config = Path(mcpproxy.show.ui.__file__).parent / "static" / "jsconfig.json"
    ran = subprocess.run([str(checker), "-p", str(config)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
