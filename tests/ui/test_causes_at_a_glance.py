"""What a person sees of a session that failed, before the first click."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.browser import Visitor, browser, served, visitor
from tests.view.situations import INITIALIZE, Conversation, write

__all__ = ["browser", "visitor"]

BUSY = "the index is being built, come back in ten minutes"


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


@pytest.mark.parametrize("width", [1440, 1000, 400])
def test_a_row_says_the_status_of_http_once_and_the_reason(
    visitor: Visitor, tmp_path: Path, width: int
) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 800})
    with served(write(tmp_path / "s.jsonl", refused_with_503())) as running:
        visitor.opens(running.url)
        rows = visitor.rows()
        assert [row.count("503") for row in rows] == [1, 1], rows
        expect(visitor.page.locator(".row .result").first).to_have_text(f"→ body: {BUSY}")
        told = visitor.page.locator(".row .c-preview .words").last
        expect(told).to_have_attribute("title", f"body: {BUSY}")
