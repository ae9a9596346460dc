"""Whatever stands in a query or a path, the page answers with data or with a refusal, and never fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
import httpx
import pytest

from mcpproxy.show.ui.library import Library
from mcpproxy.show.ui.page_app import PageApp
from mcpproxy.show.ui.send import CallSender
from tests.view.situations import SITUATIONS, write

ODD: Final = (
    *("", "0", "-1", "1.5", "1e3", "nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1e999", "1e308"),
    *("9007199254740993", "18446744073709551616", "9" * 400, "9" * 5000, "-" + "9" * 400, "0x10", "1_000"),
    *("\u0661\u0662", "\u00b2", "%00", "%ff", "%ed%a0%80", "..%2f..", "'\"<>", "null", "[]", "\u202e"),
)
"""Numbers that are none, not finite, or too large; digits of other scripts; what is not UTF-8."""

ONE: Final = "/api/recordings/{id}"
ROUTES: Final[dict[str, tuple[str, ...]]] = {
    "/api/compare": ("before", "after"),
    f"{ONE}/calls": ("start", "limit", "filter", "order"),
    f"{ONE}/position": ("call", "filter", "order"),
    f"{ONE}/calls/1/copy": ("form",),
    f"{ONE}/frames/1": ("download",),
    f"{ONE}/search": ("call", "filter", "order"),
    f"{ONE}/latencies": ("filter",),
    f"{ONE}/spans": ("from", "to", "narrow", "filter"),
    f"{ONE}/sequence": ("from", "to", "filter", "server"),
}
PATHS: Final = (
    "/api/recordings/{odd}",
    "/static/{odd}",
    *(f"{ONE}/{rest}" for rest in ("calls/{odd}", "calls/{odd}/copy", "frames/{odd}", "held/{odd}")),
)
TERMS: Final = ("call:", "frame:", "latency:>", "bytes:>", "code:", "session:", "id:")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.AsyncClient]:
    write(tmp_path / "a.jsonl", SITUATIONS["failed tool"])
    library = Library(str(tmp_path))
    app = PageApp(library, CallSender(str(tmp_path))).app()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    yield httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
    library.close()


def test_nothing_odd_is_a_failure_of_the_page(client: httpx.AsyncClient) -> None:
    async def play() -> list[tuple[int, str]]:
        (one,) = (await client.get("/api/recordings")).json()["recordings"]
        asked = [f"{route}?{name}={odd}" for route, names in ROUTES.items() for name in names for odd in ODD]
        asked += [f"{ONE}/calls?filter={term}{odd}" for term in TERMS for odd in ODD]
        asked += [path.replace("{odd}", odd) for path in PATHS for odd in ODD]
        failed: list[tuple[int, str]] = []
        for path in asked:
            answer = await client.get(path.replace("{id}", one["id"]))
            if answer.status_code >= 500:
                failed.append((answer.status_code, path[:80]))
        ids = {"Last-Event-ID": "9" * 5000}
        assert (await client.get(f"{ONE}/live".replace("{id}", one["id"]), headers=ids)).status_code == 200
        for body in (
            "",
            "[]",
            "{}",
            '{"call":1e400}',
            '{"call":' + "9" * 400 + "}",
            '{"call":true}',
            "\udc80",
        ):
            for what in ("send", "held"):
                url = f"{ONE}/{what}".replace("{id}", one["id"])
                answer = await client.post(url, content=body.encode("utf-8", "surrogateescape"))
                if answer.status_code >= 500:
                    failed.append((answer.status_code, f"{what} {body[:40]}"))
        return failed

    assert anyio.run(play) == []
