"""The recordings that the page has open, and that it closes them when it ends."""

from pathlib import Path

import anyio
import httpx

from mcpproxy.show.ui.library import Library, id_of
from mcpproxy.show.ui.page_app import PageApp
from tests import descriptors
from tests.cli import recordings


def test_a_page_that_has_ended_has_no_recording_open(tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "s.jsonl", recordings.CLEAN)
    app = PageApp(Library(str(tmp_path))).app()

    async def play() -> None:
        before = descriptors.opened()
        async with app.router.lifespan_context(app):
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
            async with client:
                answer = await client.get(f"/api/recordings/{id_of(path)}/calls")
            assert answer.status_code == 200
            assert descriptors.opened() != before
        assert descriptors.opened() == before

    anyio.run(play)


def test_calls_of_a_long_session_are_within_all_time(tmp_path: Path) -> None:
    late = 200 * 24 * 3600 * 1000
    lines = *recordings.HANDSHAKE, recordings.frame(4, "client", recordings.LIST_TOOLS, ms=late)
    path = recordings.write(tmp_path / "s.jsonl", lines)
    app = PageApp(Library(str(tmp_path))).app()

    async def play() -> list[str]:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        async with app.router.lifespan_context(app), client:
            answer = await client.get(f"/api/recordings/{id_of(path)}/spans?from={late - 1}&to=inf")
        return [bar["call"]["method"] for bar in answer.json()["bars"]]

    assert "tools/list" in anyio.run(play)
