"""What breakpoints hold, on the page: looked at, edited, resumed, dropped and answered with an error."""

import json
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, expect

from mcpproxy.gate.intercept.asking.control_client import ask
from mcpproxy.judge.session.frame import Close, Frame
from mcpproxy.record.trace.reader import read_trace
from tests.intercept.test_breakpoints import Held, search
from tests.intercept.test_breakpoints_http import ANSWER, words
from tests.intercept.test_breakpoints_http import Held as HeldHttp
from tests.intercept.test_fault_http import THE_STREAMS_S, Streams, findings, streams
from tests.intercept.test_fault_relay import THE_PEER_S
from tests.relay.hosts import DEADLINE_S, until_recorded
from tests.ui.browser import Served, Visitor, browser, served, ui_command, visitor
from tests.view.situations import SITUATIONS, write

__all__ = ["browser", "streams", "visitor"]

GIVES_UP: Final = re.compile(r"client (gives up in about \d|has probably given up)")
CALL_LINK: Final = re.compile(r"call \d")
PATIENT: Final = ("--break-timeout", "900s")
"""On a busy machine the browser needs longer than messages are held without it."""

BREAK: Final = (*PATIENT, "--break", "from:client tool:search")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    session = Held(tmp_path, *BREAK)
    yield session
    session.close()


@pytest.fixture
def page(held: Held, tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, may_send=True) as running:
        yield running


def goes(visitor: Visitor, running: Served, at_least: int = 1) -> Locator:
    """Open the page, and return the panel when it shows so many messages."""
    visitor.page.goto(running.url)
    panel = visitor.page.get_by_role("region", name="held")
    expect(panel.locator("li")).to_have_count(at_least)
    return panel


def row(visitor: Visitor, number: int) -> Locator:
    return visitor.page.locator(f".held li[data-number='{number}']")


def press(visitor: Visitor, name: str, number: int) -> None:
    row(visitor, number).get_by_role("button", name=f"{name} message {number}", exact=True).click()


def edits(visitor: Visitor, number: int, change: Callable[[str], str]) -> Locator:
    """Open the editor of a message and change its text; return the form."""
    press(visitor, "Edit", number)
    form = visitor.page.get_by_role("form", name=f"Edit message {number}", exact=True)
    area = form.get_by_label(f"Message {number}", exact=True)
    area.fill(change(area.input_value()))
    return form


def test_what_is_wrong_with_a_message_is_beside_it(tmp_path: Path, visitor: Visitor) -> None:
    session = Held(tmp_path, *PATIENT, "--break", "severity:error")
    try:
        with served(tmp_path, may_send=True) as running:
            session.call(1)
            panel = goes(visitor, running)
            expect(panel.locator(".held-found")).to_have_text(
                "TOOL-005 server sent a tools/call result in which result/content is missing"
            )
    finally:
        session.close()


def test_a_held_call_is_seen_at_once_and_resumed(held: Held, visitor: Visitor, page: Served) -> None:
    visitor.page.goto(page.url)
    visitor.page.wait_for_selector(".scroller .row")
    assert visitor.page.locator(".held").count() == 0
    held.call(1)
    expect(visitor.page.locator(".held h2")).to_contain_text("1 message held")
    expect(visitor.page).to_have_title(re.compile(r"^\(1 held\) "))
    expect(visitor.page.locator(".sidebar .warn", has_text="1 held")).to_have_count(1)
    said = row(visitor, 1)
    expect(said).to_contain_text("client → server tools/call search id 1")
    expect(said).to_contain_text(re.compile(r"passes in \d"))
    expect(said).to_contain_text(GIVES_UP)
    expect(said).to_contain_text(CALL_LINK)
    press(visitor, "Resume", 1)
    assert held.hear()["id"] == 1
    expect(visitor.page.locator(".held")).to_contain_text("Message 1 was resumed.")
    expect(visitor.page.locator(".held li")).to_have_count(0)
    expect(visitor.page).to_have_title(re.compile(r"^[^(]"))
    held.end()
    given = [e.raw for e in read_trace(held.trace).events() if isinstance(e, Frame) and e.by_proxy]
    assert given == [json.dumps(search(1)).encode()]


def test_a_hundred_held_calls_are_answered_in_any_order(held: Held, visitor: Visitor, page: Served) -> None:
    for id in range(1, 101):
        held.call(id)
    numbers = held.held(100)
    goes(visitor, page, 100)
    draw = random.Random(7)
    expected: set[int] = set()
    answered = draw.sample(range(1, 101), 24)
    for at, id in enumerate(answered):
        number, how = numbers[id], ("Resume", "Drop", "Edit", "Error")[at % 4]
        match how:
            case "Edit":
                form = edits(visitor, number, lambda text: text.replace('"id": ', '"id": 10', 1))
                form.get_by_role("button", name="Give the edited message").click()
            case "Error":
                name = f"Answer message {number} with an error"
                row(visitor, number).get_by_role("button", name=name).click()
                visitor.page.get_by_role("button", name="Answer with this error").click()
            case _:
                press(visitor, how, number)
        expect(row(visitor, number)).to_have_count(0)
        if how != "Drop":
            expected.add(int(f"10{id}") if how == "Edit" else id)
    visitor.page.get_by_role("button", name="Resume all 76").click()
    expect(visitor.page.locator(".held")).to_contain_text("76 messages resumed.")
    expected |= set(range(1, 101)) - set(answered)
    heard = [held.hear()["id"] for _ in expected]
    assert set(heard) == expected
    held.end()
    assert held.findings() == THE_PEER_S
    sent = [event for event in read_trace(held.trace).events() if isinstance(event, Frame) and event.fault]
    assert sum(not frame.by_proxy for frame in sent) == 100


def test_requests_and_answers_over_http_are_held_and_answered(
    visitor: Visitor, tmp_path: Path, streams: Streams
) -> None:
    options = (*PATIENT, "--break", "tool:search", "--break-then", "drop")
    held = HeldHttp(tmp_path, streams, *options)
    with served(tmp_path, may_send=True) as running:
        calls = {id: held.call(id) for id in (1, 2)}
        numbers = held.held(2)
        goes(visitor, running, 2)
        form = edits(visitor, numbers[2], lambda text: text.replace('"search"', '"find"'))
        form.get_by_role("button", name="Give the edited message").click()
        answer = visitor.page.locator(".held li", has_text="client ← server answer id 2")
        answer.get_by_role("button", name="Resume").click()
        assert words(calls[2].result(DEADLINE_S))[-1] == ANSWER % 2
        press(visitor, "Resume", numbers[1])
        answer = visitor.page.locator(".held li", has_text="client ← server answer id 1")
        expect(answer).to_contain_text(re.compile(r"is dropped in \d"))
        expect(answer).to_contain_text(GIVES_UP)
        number = int(answer.get_attribute("data-number") or 0)
        name = f"Replace message {number} with an error"
        answer.get_by_role("button", name=name).click()
        form = visitor.page.get_by_role("form", name="Replace by an error")
        form.get_by_label("code").fill("-32001")
        form.get_by_label("message").fill("declined <b>")
        form.get_by_role("button").click()
        given = json.loads(words(calls[1].result(DEADLINE_S))[-1].removeprefix("data: "))
        assert given == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "declined <b>"}}
    heard = {message["id"]: message["params"]["name"] for message in streams.heard[2:]}
    assert heard == {1: "search", 2: "find"}
    held.close()


def test_what_is_not_edited_keeps_its_bytes(held: Held, visitor: Visitor, page: Served) -> None:
    raw = b'{"jsonrpc":"2.0" ,"id":18446744073709551617,"method":"tools/call","params":{"name":"search",'
    raw += b'\t"x":1.0,"x":2e0}}'
    held.say_bytes(raw)
    held.say_bytes(raw.replace(b"617", b"618"))
    goes(visitor, page, 2)
    press(visitor, "Edit", 1)
    form = visitor.page.get_by_role("form", name="Edit message 1", exact=True)
    form.get_by_role("button", name="Give it unchanged").click()
    held.hear()
    form = edits(visitor, 2, lambda text: text.replace("2e0", "3e0"))
    visitor.presses("Control+Enter")
    held.hear()
    held.end()
    given = [e.raw for e in read_trace(held.trace).events() if isinstance(e, Frame) and e.by_proxy]
    assert given == [raw, raw.replace(b"617", b"618").replace(b"2e0", b"3e0")]


def test_what_is_not_json_is_given_only_if_somebody_says_so(
    held: Held, visitor: Visitor, page: Served
) -> None:
    held.call(1)
    goes(visitor, page)
    form = edits(visitor, 1, lambda text: text[:-1])
    give = form.get_by_role("button", name="Give the edited message")
    expect(form).to_contain_text("This is not JSON.")
    expect(give).to_be_disabled()
    refused = sends(visitor, {"do": "edit", "numbers": [1], "text": "{"})
    assert refused == [409, "This is not JSON. Confirm that it may be given all the same.\n"]
    form.get_by_label("Give it all the same.").check()
    give.click()
    expect(row(visitor, 1)).to_have_count(0)
    held.process.wait(DEADLINE_S)  # the peer ends when it cannot read a line
    until_recorded(held.trace)
    given = [e.raw for e in read_trace(held.trace).events() if isinstance(e, Frame) and e.by_proxy]
    assert [raw.count(b"{") - raw.count(b"}") for raw in given] == [1]


def sends(visitor: Visitor, body: dict[str, Any]) -> Any:
    """Let the page send a command about held messages, and return the status and the text."""
    return visitor.page.evaluate(
        """async (body) => {
            const recording = new URLSearchParams(location.search).get("recording");
            const address = `/api/recordings/${recording}/held`;
            const headers = { Authorization: `Bearer ${localStorage.getItem("mcpproxy-key")}` };
            const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
            return [answer.status, await answer.text()];
        }""",
        body,
    )


def test_what_is_no_command_is_refused(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    goes(visitor, page)
    for body in ({}, {"do": "jump", "numbers": [1]}, {"do": "drop"}, {"do": "edit", "numbers": [1]}):
        assert sends(visitor, body)[0] == 409, body
        assert held.held() == {1: 1}, body


def test_a_page_that_may_not_send_shows_and_says_why(held: Held, visitor: Visitor, tmp_path: Path) -> None:
    held.call(1)
    with served(tmp_path) as running:
        panel = goes(visitor, running)
        expect(panel).to_contain_text("This page only shows: it was started without --allow-send.")
        assert panel.get_by_role("button", name="Resume").count() == 0
        row(visitor, 1).locator(".j-toggle").click()
        expect(row(visitor, 1).locator("pre")).to_contain_text('"name": "search"')
        refused = sends(visitor, {"do": "resume", "numbers": [1]})
        assert refused == [403, "This page only shows. Start it with --allow-send to answer here.\n"]
    assert held.held() == {1: 1}


def test_a_message_that_was_released_meanwhile_says_so(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    held.call(2)
    goes(visitor, page, 2)
    edits(visitor, 1, lambda text: f"{text} ")
    assert ask(held.trace, {"do": "drop", "number": 1})["done"] == "drop"
    expect(row(visitor, 1)).to_contain_text("This message is not held any more")
    assert sends(visitor, {"do": "resume", "numbers": [1]}) == [409, "Message 1 was dropped already.\n"]
    assert sends(visitor, {"do": "drop", "numbers": [1, 2]}) == [200, '{"released":1,"missing":1}']
    row(visitor, 1).get_by_role("button", name="Close").click()
    expect(visitor.page.locator(".held li")).to_have_count(0)


def test_a_key_that_is_pressed_twice_releases_once(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    held.call(2)
    goes(visitor, page, 2)
    asked = visitor.withholds("**/held", lambda request: request.method == "POST")
    row(visitor, 1).locator(".j-toggle").focus()
    visitor.presses("r", "r")
    expect(row(visitor, 1)).to_be_visible()
    asked.first().continue_()
    expect(visitor.page.locator(".held")).to_contain_text("Message 1 was resumed.")
    expect(row(visitor, 1)).to_have_count(0)
    assert len(asked.routes) == 1


def test_a_text_that_comes_late_leaves_the_focus_where_it_is(
    held: Held, visitor: Visitor, page: Served
) -> None:
    held.call(1)
    held.call(2)
    goes(visitor, page, 2)
    late = visitor.withholds("**/held/1")
    row(visitor, 1).locator(".j-toggle").focus()
    visitor.presses("e", "j")
    expect(row(visitor, 2).locator(".j-toggle")).to_be_focused()
    late.first().continue_()
    expect(row(visitor, 1).locator("textarea")).to_be_visible()
    visitor.presses("r")
    expect(visitor.page.locator(".held")).to_contain_text("Message 2 was resumed.")


def test_a_form_has_the_focus_before_one_can_type(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    goes(visitor, page)
    button = row(visitor, 1).locator('[data-key="x"]')
    # Of the page's own turns only the one that builds the form: a focus that comes later takes what is typed.
    name = button.evaluate(
        "async (button) => { button.click(); await new Promise((after) => queueMicrotask(after));"
        " return document.activeElement.closest('label')?.textContent.trim() }"
    )
    assert name == "message"


def test_what_was_released_is_told_beside_its_recording_alone(
    held: Held, visitor: Visitor, tmp_path: Path
) -> None:
    write(tmp_path / "other.jsonl", SITUATIONS["failed tool"])
    held.call(1)
    with served(tmp_path, may_send=True) as running:
        goes(visitor, running)
        press(visitor, "Resume", 1)
        expect(visitor.page.locator(".held")).to_contain_text("Message 1 was resumed.")
        expect(row(visitor, 1)).to_have_count(0)
        visitor.page.locator(".recording:not(.here)").click()
        expect(visitor.page.locator(".about strong")).to_have_text("weather")
        assert visitor.page.locator(".held").count() == 0


def test_a_time_that_is_over_is_seen(visitor: Visitor, tmp_path: Path) -> None:
    session = Held(tmp_path, *BREAK[2:], "--break-timeout", "15s", "--break-then", "error")
    with served(tmp_path, may_send=True) as running:
        goes(visitor, running, 0)
        visitor.page.wait_for_selector(".scroller .row")
        session.call(1)
        expect(row(visitor, 1).locator(".held-times .bad")).to_contain_text("becomes an error in")
        row(visitor, 1).locator(".j-toggle").click()
        assert session.hear()["error"]["code"] == -32603
        expect(row(visitor, 1)).to_contain_text("its time was over")
    session.close()


def test_a_relay_that_is_killed_ends_what_is_held(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    goes(visitor, page)
    edits(visitor, 1, lambda text: f"{text} ")
    held.process.kill()
    held.process.wait(DEADLINE_S)
    expect(row(visitor, 1)).to_contain_text("The session has ended")
    expect(visitor.page.locator(".about .running")).to_have_count(0)
    visitor.page.locator(".scroller .row", has_text="search").click()
    expect(visitor.page.locator(".detail .error-box")).to_contain_text("until the recording ended")
    until_recorded(held.trace)
    sent = [e for e in read_trace(held.trace).events() if isinstance(e, Frame) and e.fault]
    assert [(json.loads(frame.raw)["id"], frame.by_proxy) for frame in sent] == [(1, False)]


def test_a_relay_that_is_stopped_is_said_and_nothing_waits_for_it(
    held: Held, visitor: Visitor, page: Served
) -> None:
    held.call(1)
    goes(visitor, page)
    held.process.send_signal(signal.SIGSTOP)
    try:
        expect(visitor.page.locator(".held")).to_contain_text("its session does not answer")
        visitor.presses("2", "1")
        visitor.page.wait_for_selector(".scroller .row")
    finally:
        held.process.send_signal(signal.SIGCONT)
    expect(visitor.page.locator(".held [role=alert]")).to_have_count(0)
    press(visitor, "Resume", 1)
    assert held.hear()["id"] == 1


def test_a_page_whose_server_is_killed_says_so_and_the_message_is_still_held(
    held: Held, visitor: Visitor, tmp_path: Path
) -> None:
    held.call(1)
    with ui_command(tmp_path, "--allow-send") as running:
        goes(visitor, running)
        running.process.kill()
        running.process.wait(DEADLINE_S)
        expect(visitor.page.locator(".held")).to_contain_text("The server of this page does not answer.")
        press(visitor, "Drop", 1)
        expect(row(visitor, 1)).to_contain_text("mcpproxy breakpoints can answer it")
    visitor.faults.clear()
    assert ask(held.trace, {"do": "resume", "number": held.held()[1]})["done"] == "resume"
    assert held.hear()["id"] == 1
    held.end()
    assert held.findings() == THE_PEER_S


def test_a_client_that_says_no_more_still_gets_its_answer(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    goes(visitor, page)
    assert held.process.stdin is not None
    held.process.stdin.close()
    press(visitor, "Resume", 1)
    assert held.hear()["id"] == 1
    assert held.process.wait(DEADLINE_S) == 0
    expect(visitor.page.locator(".about .running")).to_have_count(0)


def test_a_client_that_leaves_while_a_call_is_held_hangs_nothing(
    held: Held, visitor: Visitor, page: Served
) -> None:
    held.call(1)
    goes(visitor, page)
    row(visitor, 1).locator(".j-toggle").click()
    assert held.process.stdin is not None
    assert held.process.stdout is not None
    held.process.stdin.close()
    held.process.stdout.close()
    held.process.wait(DEADLINE_S)
    expect(row(visitor, 1)).to_contain_text("The session has ended")
    expect(visitor.page.locator(".about .running")).to_have_count(0)
    until_recorded(held.trace)
    told = list(read_trace(held.trace).events())
    sent = [event for event in told if isinstance(event, Frame) and event.fault]
    assert [(json.loads(frame.raw)["id"], frame.by_proxy) for frame in sent] == [(1, False)]
    assert isinstance(told[-1], Close)
    assert told[-1].ending == "exited"


def test_an_http_client_that_leaves_while_its_call_is_held_hangs_nothing(
    visitor: Visitor, tmp_path: Path, streams: Streams
) -> None:
    held = HeldHttp(tmp_path, streams, *PATIENT, "--break", "from:client tool:search id:1")
    with served(tmp_path, may_send=True) as running:
        call = held.call(1)
        number = held.held()[1]
        goes(visitor, running)
        press(visitor, "Drop", number)
        assert call.result(DEADLINE_S) == ["closed"]
        assert words(held.call(2).result(DEADLINE_S))[-1] == ANSWER % 2
    held.proxied.stop()
    assert findings(held.proxied) == THE_STREAMS_S
    held.close()


HOSTILE: Final = (
    "<script>window.executed = 1</script><img src=x onerror='window.executed = 1'>"
    "<a href='javascript:window.executed = 1'>click</a>\u202e\u200b"
)


def test_a_hostile_message_executes_nothing(visitor: Visitor, tmp_path: Path) -> None:
    held = Held(tmp_path, *BREAK, "--break", "from:client kind:not-a-message")
    with served(tmp_path, may_send=True) as running:
        looks_at_what_is_hostile(held, visitor, running)
    held.close()


def looks_at_what_is_hostile(held: Held, visitor: Visitor, page: Served) -> None:
    message = {"jsonrpc": "2.0", "id": HOSTILE, "method": "tools/call"}
    held.say({**message, "params": {"name": "search", "arguments": {HOSTILE: HOSTILE}}})
    held.say_bytes(b'{"jsonrpc":"2.0","id":"\xff","method":"tools/call","params":{"name":"search"}}')
    goes(visitor, page, 2)
    row(visitor, 1).locator(".j-toggle").click()
    expect(row(visitor, 1).locator("pre")).to_contain_text("\\u202e")
    edits(visitor, 1, lambda text: f"{text}{HOSTILE}")
    row(visitor, 2).locator(".j-toggle").click()
    expect(row(visitor, 2).locator("pre")).to_contain_text("\\udcff")
    assert visitor.page.evaluate("window.executed") is None
    assert visitor.page.locator("a[href^='javascript']").count() == 0


def test_the_keyboard_is_enough(held: Held, visitor: Visitor, page: Served) -> None:
    for id in (1, 2, 3, 4):
        held.call(id)
    goes(visitor, page, 4)
    visitor.presses("b", "j", "k", "j")
    visitor.presses("r")
    assert held.hear()["id"] == 2
    expect(row(visitor, 3).locator(".j-toggle")).to_be_focused()
    visitor.presses("x")
    expect(row(visitor, 3).get_by_label("message", exact=True)).to_be_focused()
    visitor.presses("Enter")
    assert held.hear()["error"]["code"] == -32603
    expect(row(visitor, 4).locator(".j-toggle")).to_be_focused()
    visitor.presses("e")
    expect(row(visitor, 4).locator("textarea")).to_be_focused()
    visitor.presses("Escape")
    expect(row(visitor, 4).locator("textarea")).to_have_count(0)
    expect(row(visitor, 4).get_by_role("button", name="Edit")).to_be_focused()
    visitor.presses("d")
    expect(row(visitor, 1).locator(".j-toggle")).to_be_focused()
    visitor.presses("s")
    expect(row(visitor, 1).locator("pre")).to_contain_text("search")
    visitor.presses("Tab", "Enter")
    assert held.hear()["id"] == 1


def test_what_another_session_holds_is_seen_too(
    held: Held, visitor: Visitor, page: Served, tmp_path: Path
) -> None:
    other = Held(tmp_path, *BREAK, name="other")
    visitor.page.goto(page.url)  # the newest is shown
    visitor.page.wait_for_selector(".scroller .row")
    held.call(7)
    panel = visitor.page.locator(".held")
    expect(panel).to_contain_text("Nothing is held here")
    panel.get_by_role("button", name="1 held in example").click()
    expect(row(visitor, 1)).to_contain_text("id 7")
    other.call(8)
    panel.get_by_role("button", name="1 held in example").click()
    expect(row(visitor, 1)).to_contain_text("id 8")
    expect(visitor.page.locator(".held-chip")).to_contain_text("2 held")
    press(visitor, "Resume", 1)
    assert other.hear()["id"] == 8
    assert held.held() == {7: 1}
    other.close()


def test_a_row_does_not_move_while_the_pointer_is_down(held: Held, visitor: Visitor, page: Served) -> None:
    """The first message goes between the press and the release of a click on the second."""
    held.call(1)
    held.call(2)
    goes(visitor, page, 2)
    for number in (1, 2):
        expect(row(visitor, number)).to_contain_text(GIVES_UP)
        expect(row(visitor, number)).to_contain_text(CALL_LINK)
    row(visitor, 2).get_by_role("button", name="Resume").hover()
    visitor.page.mouse.down()
    ask(held.trace, {"do": "drop", "number": 1})
    expect(visitor.page).to_have_title(re.compile(r"^\(1 held\) "))
    expect(row(visitor, 1)).to_have_count(1)
    visitor.page.mouse.up()
    assert held.hear()["id"] == 2
    expect(visitor.page.locator(".held li")).to_have_count(0)


def test_a_form_does_not_move_when_the_message_is_loaded(held: Held, visitor: Visitor, page: Served) -> None:
    """The text of the message comes between the press and the release of a click on the form's button."""
    held.call(1)
    goes(visitor, page)
    expect(row(visitor, 1)).to_contain_text(GIVES_UP)
    expect(row(visitor, 1)).to_contain_text(CALL_LINK)
    asked = visitor.withholds("**/held/1")
    row(visitor, 1).get_by_role("button", name="Answer message 1 with an error").click()
    loading = asked.first()
    visitor.page.get_by_role("button", name="Answer with this error").hover()
    visitor.page.mouse.down()
    loading.continue_()
    expect(row(visitor, 1).locator("pre")).to_contain_text("search")
    visitor.page.mouse.up()
    assert held.hear()["error"]["code"] == -32603
    expect(row(visitor, 1)).to_have_count(0)


def test_no_rule_of_accessibility_is_broken(held: Held, visitor: Visitor, page: Served) -> None:
    for id in (1, 2):
        held.call(id)
    goes(visitor, page, 2)
    edits(visitor, 1, lambda text: text[:-1])
    row(visitor, 2).get_by_role("button", name="Answer message 2 with an error").click()
    expect(row(visitor, 2)).to_contain_text(CALL_LINK)
    visitor.breaks_no_rule_in_either_theme("what is held")


def test_nothing_scrolls_sideways(held: Held, visitor: Visitor, page: Served) -> None:
    held.call(1)
    goes(visitor, page)
    press(visitor, "Edit", 1)
    expect(row(visitor, 1)).to_contain_text(CALL_LINK)
    for width in (900, 1280, 1920):
        visitor.page.set_viewport_size({"width": width, "height": 700})
        for what in ("document.documentElement", "document.querySelector('.held')"):
            assert visitor.page.evaluate(f"{what}.scrollWidth - {what}.clientWidth") <= 0, (width, what)
