"""The page answers those who have a key, from its own address, and nobody else."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.responses import PlainTextResponse

from mcpproxy.show.ui.access import Access
from mcpproxy.show.ui.bearer import PageKeys
from mcpproxy.show.ui.redirect_file import RedirectFile

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
DATA = "/api/recordings"
KEY = "k" * 43


class Browser:
    """Follows no redirect. ``ticket`` is that of the printed address, ``used`` counts its uses."""

    def __init__(self, home: str = HOME, seconds: float = 60) -> None:
        names = frozenset({"127.0.0.1", "localhost", "::1"})
        keys = PageKeys()
        self.used = 0
        self.ticket = keys.new_ticket(self._count, seconds)
        app = Access(keys.lock(PlainTextResponse("recordings")), names, PORT)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=home)

    def _count(self) -> None:
        self.used += 1

    def request(self, method: str, path: str, secret: str = "", **options: Any) -> httpx.Response:
        fields = {"Authorization": f"Bearer {secret}"} if secret else {}
        options["headers"] = options.get("headers", {}) | fields
        return self.send(self._client.build_request(method, path, **options))

    def send(self, request: httpx.Request) -> httpx.Response:
        return anyio.run(self._client.send, request)

    def get(self, path: str, secret: str = "", **options: Any) -> httpx.Response:
        return self.request("GET", path, secret, **options)

    def exchange(self, secret: str, key: str = KEY) -> httpx.Response:
        return self.request("POST", "/api/key", secret, headers={"Mcpproxy-Key": key} if key else {})

    def key(self) -> str:
        assert self.exchange(self.ticket).status_code == 204
        return KEY


def test_a_ticket_is_exchanged_for_a_key_once() -> None:
    client = Browser()
    key = client.key()
    assert client.get(DATA, key).text == "recordings"
    again = client.exchange(client.ticket)
    assert again.status_code == 401
    assert "each works once" in again.text
    assert client.get(DATA, client.ticket).status_code == 401
    assert client.exchange(key, "").status_code == 204  # a page with a key keeps it
    assert client.used == 1


def test_a_ticket_that_a_script_sends_is_its_key() -> None:
    client = Browser()
    assert client.get(DATA, client.ticket).text == "recordings"
    assert client.get(DATA, client.ticket).text == "recordings"
    assert client.used == 1
    assert client.exchange(client.ticket).status_code == 401  # the page may not think that it has a key
    assert client.get(DATA, KEY).status_code == 401


def test_a_ticket_is_good_for_its_time() -> None:
    client = Browser(seconds=0)
    assert client.exchange(client.ticket).status_code == 401
    assert client.get(DATA, client.ticket).status_code == 401


@pytest.mark.parametrize("key", [KEY, ""])
def test_a_used_ticket_has_its_key_whatever_happens_next(key: str) -> None:
    keys = PageKeys()
    admitted: list[bool] = []
    ticket = keys.new_ticket(lambda: admitted.append(keys.admits(key or ticket)))
    assert keys.exchange(ticket, key) if key else keys.admits(ticket)
    assert admitted == [True]


def test_the_file_of_a_used_ticket_may_be_anything_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    file = RedirectFile(HOME)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()  # no user may unlink it
    file.remove()
    assert path.is_dir()


@pytest.mark.parametrize("key", ["", "k" * 42, "k" * 44, "k" * 42 + "=", "k" * 42 + " "])
def test_a_key_that_is_none_takes_no_ticket(key: str) -> None:
    client = Browser()
    assert client.exchange(client.ticket, key).status_code == 401
    assert client.used == 0
    assert client.exchange(client.ticket).status_code == 204


def test_a_ticket_in_an_address_opens_nothing() -> None:
    client = Browser()
    assert client.get(f"{DATA}?token={client.ticket}").status_code == 401
    assert client.request("GET", "/api/key", client.ticket).status_code == 405
    assert client.used == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": f"mcpproxy-{PORT}=guess"},
        {"Authorization": "{ticket}"},
        {"Authorization": "Basic {ticket}"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer  {ticket}"},
        {"Authorization": "Bearer guess"},
        {"Authorization": "Bearer \udce9".encode("latin-1", "replace").decode()},
        {"Cookie": "{ticket}"},
    ],
)
def test_without_a_key_no_data_is_answered(headers: dict[str, str]) -> None:
    client = Browser()
    sent = {name: value.replace("{ticket}", client.ticket) for name, value in headers.items()}
    paths = (DATA, "/api/", "/api", "//api/recordings", "/static", "/other", "/static/../api/recordings")
    for path in paths:
        answer = client.get(path, headers=sent)
        assert answer.status_code == 401, path
        assert answer.text != "recordings"
    assert client.get("/", headers=sent).status_code == 200  # the page itself has no data
    assert client.get("/static/app.js", headers=sent).status_code == 200


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
    key = client.key()
    for path in ("/", "/static/app.js", "/api/key", DATA):
        assert client.request(method, path, key, headers=headers).status_code == 403


def test_two_hosts_are_refused() -> None:
    client = Browser()
    request = httpx.Request("GET", HOME, headers=[("Host", f"127.0.0.1:{PORT}"), ("Host", "evil.example")])
    assert client.send(request).status_code == 403


def test_only_the_page_itself_changes_anything() -> None:
    client = Browser()
    key = client.key()
    for site in ("cross-site", "same-site", "none"):
        for path in ("/api/key", DATA):
            answer = client.request("POST", path, key, headers={"Sec-Fetch-Site": site})
            assert answer.status_code == 403
    same = {"Sec-Fetch-Site": "same-origin", "Origin": HOME}
    assert client.request("POST", DATA, key, headers=same).status_code == 200


def test_every_answer_forbids_scripts_of_others() -> None:
    client = Browser()
    answers = client.get(DATA), client.exchange(client.ticket), client.get("/")
    assert [answer.status_code for answer in answers] == [401, 204, 200]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    client = Browser(f"http://[::1]:{PORT}")
    assert client.get(DATA, client.key()).status_code == 200
