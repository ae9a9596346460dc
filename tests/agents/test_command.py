"""``mcpproxy mcp`` refuses in one line what cannot work, and over HTTP whoever has not its token."""

import socket
from pathlib import Path
from typing import Final

import anyio
import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcpproxy.base import extras
from mcpproxy.cli.main import main
from mcpproxy.protocol.error_message import HEADER_MISMATCH
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.show.agents.http import RequestChecks
from tests.agents.agent import RECORDINGS
from tests.agents.test_clients import TOKEN, mcp
from tests.peers.processes import Process


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-folder"], "no-such-folder: no such folder; name a folder of recordings"),
        ([str(RECORDINGS / "README.md")], "not a folder; name a folder of recordings"),
        (["--http", "1" * 5000], "1 has no port; write HOST:PORT"),
        (["--http", "8080x"], "--http: 8080x has no port; write HOST:PORT, such as 127.0.0.1:8080"),
        (["--allow-everything"], "unknown option --allow-everything"),
    ],
)
def test_what_cannot_work_is_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", *argv]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert says in said.err


def test_a_token_that_is_easy_to_guess_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPPROXY_MCP_TOKEN", "short")
    assert main(["mcp", str(RECORDINGS), "--http", "127.0.0.1:0"]) == 2
    assert "MCPPROXY_MCP_TOKEN: is easy to guess" in capsys.readouterr().err


def test_an_address_in_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["mcp", str(RECORDINGS), "--http", address]) == 2
    assert "choose another address with --http" in capsys.readouterr().err


def test_without_the_sdk_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def nothing(name: str) -> None:
        del name

    monkeypatch.setattr(extras, "find_spec", nothing)
    assert main(["mcp", str(tmp_path)]) == 2
    assert "pip install 'mcpproxy[mcp]'" in capsys.readouterr().err


PING: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_a_second_answer_to_one_request_is_not_sent() -> None:
    async def answers_twice(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=202)(scope, receive, send)
        await Response(status_code=500)(scope, receive, send)
        raise anyio.ClosedResourceError

    async def post() -> None:
        transport = httpx.ASGITransport(RequestChecks(answers_twice))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            assert (await client.post("/", json=PING)).status_code == 202

    anyio.run(post)


@pytest.mark.parametrize(
    ("header", "named", "status"),
    [
        ("2025-11-25", "2026-07-28", 400),
        ("2026-07-28", "2026-07-28", 202),
        ("", "2026-07-28", 400),
        (None, "2026-07-28", 202),
        ("2025-11-25", None, 202),
    ],
)
def test_a_header_with_another_revision_than_the_request_is_refused(
    header: str | None, named: str | None, status: int
) -> None:
    meta = {} if named is None else {"params": {"_meta": {VERSION_KEY: named}}}

    async def post() -> None:
        transport = httpx.ASGITransport(RequestChecks(Response(status_code=202)))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            fields = {} if header is None else {"MCP-Protocol-Version": header}
            answer = await client.post("/", json={**PING, **meta}, headers=fields)
            assert answer.status_code == status
            if status == 400:
                assert (answer.json()["id"], answer.json()["error"]["code"]) == (1, HEADER_MISMATCH)

    anyio.run(post)


def test_over_http_only_those_with_the_token_are_served() -> None:
    process = Process(mcp(str(RECORDINGS), "--http", "127.0.0.1:0"), {"MCPPROXY_MCP_TOKEN": TOKEN})
    try:
        url = process.expect(r"(http://\S+)")
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        refused: tuple[dict[str, str], ...] = (
            {},
            {"Authorization": "Bearer another"},
            {**bearer, "Host": "evil.example"},
            {**bearer, "Origin": "http://evil.example"},
            {**bearer, "Origin": "null"},
            {**bearer, "Host": "127.0.0.1:1"},
            {**bearer, "Host": "localhost.evil.example"},
            {**bearer, "Sec-Fetch-Site": "cross-site"},
            {"Cookie": f"token={TOKEN}"},
        )
        for method in ("POST", "GET", "DELETE", "OPTIONS"):
            for fields in refused[: -2 if method == "GET" else None]:
                answer = httpx.request(method, url, headers=fields, json=PING if method == "POST" else None)
                assert answer.status_code == 403, (method, fields)
        assert httpx.post(f"{url}?token={TOKEN}", json=PING).status_code == 403
        assert httpx.post(url, json=PING, headers=bearer).status_code != 403
        too_large = httpx.post(url, content=b" " * (2 << 20), headers=bearer)
        assert too_large.status_code == 413
    finally:
        process.kill()
