"""What a person sees of a session that failed, before the first click."""

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.ui.browser import Visitor, browser, served, visitor
from tests.view.situations import INITIALIZE, SITUATIONS, Conversation, begun, forecast, text, write

__all__ = ["browser", "visitor"]

BUSY = "the index is being built, come back in ten minutes"
CRASHED = "ModuleNotFoundError: No module named 'pandas'"


def refused_with_503() -> tuple[str, ...]:
    """A server that answers the first request of a client, and a GET, with an HTTP error."""
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.asks(0, "initialize", INITIALIZE, ms=1, exchange=1, connection=1)
    session.posts(2, ms=20, method="GET")
    for exchange in (1, 2):
        session.responds(exchange, 503, ms=30 + exchange, content_type="text/plain")
        session.says("server", BUSY, 40 + exchange, exchange=exchange, connection=exchange)
        session.ends(exchange, ms=50 + exchange)
    return session.closes(ms=100)


def test_the_status_of_http_and_its_reason_are_told_once_at_every_width(
    visitor: Visitor, tmp_path: Path
) -> None:
    with served(write(tmp_path / "s.jsonl", refused_with_503())) as running:
        visitor.opens(running.url)
        named = "desk 2.1 asked for MCP 2025-11-25; no server has told its name"
        expect(visitor.page.locator(".about")).to_contain_text(named)
        for width in (1440, 1000, 400):
            visitor.page.set_viewport_size({"width": width, "height": 800})
            rows = visitor.rows()
            assert [row.count("503") for row in rows] == [1, 1], (width, rows)
            expect(visitor.page.locator(".row .result").first).to_have_text(f"→ body: {BUSY}")
            told = visitor.page.locator(".row .c-preview .words").last
            expect(told).to_have_attribute("title", f"body: {BUSY}")


def exits_with_a_traceback() -> tuple[str, ...]:
    """A server whose first words are its last ones."""
    session = Conversation(started_at="2030-01-01T00:00:00Z")
    for line in ("Traceback (most recent call last):", "    import pandas", CRASHED):
        session.record("stderr", 60, {"text": line})
    *records, last = session.closes(ms=70, code=1)
    return *records, json.dumps({**json.loads(last), "reason": CRASHED})


def test_a_server_that_failed_before_any_message_is_shown_first_and_says_why(
    visitor: Visitor, tmp_path: Path
) -> None:
    *records, last = SITUATIONS["failed tool"]
    counted = {"total": 3, "failed": 1, "unanswered": 0, "cancelled": 0}
    write(tmp_path / "good.jsonl", (*records, json.dumps({**json.loads(last), "calls": counted})))
    write(tmp_path / "crashed.jsonl", exits_with_a_traceback())
    with served(tmp_path) as running:
        visitor.opens(running.url)
        why = f"the server exited with 1: {CRASHED}"
        about = visitor.page.locator(".about .bad")
        expect(about).to_have_text(why)
        expect(visitor.page.locator(".recording.here .who")).to_have_text(why)
        assert any(CRASHED in row for row in visitor.rows())
        link = visitor.page.locator(".choose a").first
        expect(link).to_have_text("1 with failed calls, 1 failed before any message")
        expect(link).to_have_class("troubled bad")
        visitor.presses("3")
        visitor.sees(f"There is nothing to judge: no message was sent before {why}.")
        visitor.breaks_no_rule("findings of a session that did not begin")


def test_the_plot_of_latencies_says_what_its_axis_is(visitor: Visitor, tmp_path: Path) -> None:
    session = begun()
    for number in range(5):
        session.asks(number + 2, "tools/call", forecast("Oslo"), ms=100 + number * 90)
        session.answers(number + 2, text("sunny"), ms=110 + number * 90)
    with served(write(tmp_path / "s.jsonl", session.closes(ms=65_000))) as running:
        visitor.opens(running.url)
        visitor.presses("5")
        told = "The calls began from 1.00 ms to 460 ms after the start of the recording, which took 1m05s."
        expect(visitor.page.locator("figcaption")).to_contain_text(told)


LONG = "Error executing tool forecast: the index of this region is locked by another writer, process 4121"


def test_a_reason_is_read_in_its_row_at_every_width(visitor: Visitor, tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.answers(2, text(LONG, isError=True), ms=110)
    with served(write(tmp_path / "s.jsonl", session.closes(ms=200))) as running:
        visitor.opens(running.url)
        result = visitor.page.locator(".row .result.bad")
        for width, letters in ((1440, 97), (1000, 80), (640, 50), (400, 30)):
            visitor.page.set_viewport_size({"width": width, "height": 800})
            expect(result).to_have_text(f"→ {LONG}")
            room = result.evaluate("node => node.getBoundingClientRect().width")
            per_letter = result.evaluate(
                "node => { const line = document.createElement('canvas').getContext('2d');"
                " line.font = getComputedStyle(node).font; return line.measureText('m').width; }"
            )
            assert room / per_letter >= min(letters, len(LONG)), width


def test_progress_does_not_bury_what_was_written_to_stderr(visitor: Visitor, tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", {**forecast("Oslo"), "_meta": {"progressToken": 2}}, ms=100)
    for number in range(60):
        session.notifies("notifications/progress", {"progressToken": 2, "progress": number}, ms=101 + number)
    session.record("stderr", 170, {"text": "the writer of the index is process 4121"})
    session.answers(2, text("broken", isError=True), ms=200)
    with served(write(tmp_path / "s.jsonl", session.closes(ms=300))) as running:
        visitor.opens(running.url)
        visitor.page.locator(".scroller .row", has_text="tool error").click()
        detail = visitor.page.locator(".detail")
        expect(detail).to_contain_text("the writer of the index is process 4121")
        expect(detail).to_contain_text("more record")
