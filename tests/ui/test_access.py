"""The page answers those who have its token, from its own address, and nobody else."""

from typing import Any

import anyio
import httpx
import pytest
from starlette.responses import PlainTextResponse

from mcpproxy.ui.access import Access

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
TOKEN = "the-token-of-the-printed-address"


class Browser:
    """Keeps cookies and follows no redirect."""

    def __init__(self, home: str = HOME) -> None:
        names = frozenset({"127.0.0.1", "localhost", "::1"})
        app = Access(PlainTextResponse("recordings"), names, PORT, TOKEN)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=home)
        self.cookies = self._client.cookies

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.send(self._client.build_request(method, path, **options))

    def send(self, request: httpx.Request) -> httpx.Response:
        return anyio.run(self._client.send, request)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)


def with_cookie(client: Browser) -> Browser:
    answer = client.get("/", params={"token": TOKEN})
    assert answer.status_code == 303
    return client


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address() -> None:
    client = Browser()
    answer = client.get(f"/calls?token={TOKEN}&filter=tool%3Asearch")
    assert (answer.status_code, answer.headers["location"]) == (303, "/calls?filter=tool%3Asearch")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/").text == "recordings"


def test_the_cookie_is_named_after_the_port() -> None:
    client = Browser()
    assert list(with_cookie(client).cookies) == [f"mcpproxy-{PORT}"]


def test_a_script_may_send_the_token_in_a_field() -> None:
    client = Browser()
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/", headers={"Authorization": "Bearer guess"}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": f"mcpproxy-{PORT}=guess"},
        {"Cookie": f"mcpproxy-{PORT}={TOKEN}"},
        {"Cookie": f"mcpproxy-{PORT}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer \udce9".encode("latin-1", "replace").decode()},
    ],
)
def test_without_token_or_cookie_nothing_is_answered(headers: dict[str, str]) -> None:
    client = Browser()
    for path in ("/", "/api/calls", "/static/app.js", "/?token=guess", "/?token="):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 401
        assert "recordings" not in answer.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": f"evil.example:{PORT}"},
        {"Host": "127.0.0.1"},
        {"Host": f"127.0.0.1:{PORT + 1}"},
        {"Host": f"127.0.0.1:{PORT}@evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": f"http://localhost:{PORT + 1}"},
        {"Origin": f"http://localhost:{PORT}"},
    ],
    ids=lambda headers: " ".join(*headers.items()),
)
def test_another_site_is_refused_on_every_method(method: str, headers: dict[str, str]) -> None:
    client = Browser()
    assert with_cookie(client).request(method, "/", headers=headers).status_code == 403


def test_two_hosts_are_refused() -> None:
    client = Browser()
    request = httpx.Request("GET", HOME, headers=[("Host", f"127.0.0.1:{PORT}"), ("Host", "evil.example")])
    assert client.send(request).status_code == 403


def test_only_the_page_itself_changes_anything() -> None:
    client = Browser()
    with_cookie(client)
    for site in ("cross-site", "same-site", "none"):
        assert client.request("POST", "/", headers={"Sec-Fetch-Site": site}).status_code == 403
    same = {"Sec-Fetch-Site": "same-origin", "Origin": HOME}
    assert client.request("POST", "/", headers=same).status_code == 200


def test_every_answer_forbids_scripts_of_others() -> None:
    client = Browser()
    refused, exchanged, page = client.get("/x"), client.get(f"/?token={TOKEN}"), client.get("/")
    assert [answer.status_code for answer in (refused, exchanged, page)] == [401, 303, 200]
    for answer in (refused, exchanged, page):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example"])
def test_the_exchange_leads_to_no_other_site(path: str) -> None:
    client = Browser()
    answer = client.get(f"{HOME}{path}?token={TOKEN}")
    assert answer.status_code == 303
    assert not answer.headers["location"].startswith(("//", "/\\"))


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    client = Browser(f"http://[::1]:{PORT}")
    assert with_cookie(client).get("/").status_code == 200
