"""The recordings that the page has open, and that it closes them when it ends."""

from pathlib import Path

import anyio
import httpx

from mcpproxy.ui.library import Library, id_of
from mcpproxy.ui.page_app import PageApp
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
