"""The printed address works once, no other server gets the key, and no process has it as an argument."""

import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.peers.web_server import WebServer
from tests.ui.browser import Command, Visitor, browser, ui_command, visitor
from tests.view.situations import SITUATIONS, write

__all__ = ["browser", "visitor"]

OPENED = """
import sys
with open(sys.argv[1], "w") as seen:
    seen.write("\\n".join(sys.argv[2:]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "recordings"
    path.mkdir()
    write(path / "call.jsonl", SITUATIONS["failed tool"])
    return path


@pytest.fixture
def page(folder: Path) -> Iterator[Command]:
    with ui_command(folder) as running:
        yield running


@pytest.fixture
def neighbour() -> Iterator[tuple[str, list[str]]]:
    """A server of somebody else at another port: its address, and the fields of the requests it got."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(str(self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>neighbour</title>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with WebServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", got
        server.shutdown()
        thread.join()


def test_an_address_works_once_and_the_next_is_printed(
    visitor: Visitor, browser: Browser, page: Command
) -> None:
    url = page.url
    visitor.opens(url)
    other = browser.new_context()
    second = other.new_page()
    second.goto(url)
    refused = second.get_by_text("each works once")
    refused.wait_for()
    assert "token" not in second.url
    assert second.evaluate("localStorage.getItem('mcpproxy-key')") is None
    second.goto(page.url)
    second.wait_for_selector(".scroller .row .c-outcome")
    other.close()
    visitor.opens(url)  # who has the key needs no other address
    visitor.opens(url)


def test_an_address_works_if_the_server_was_out_of_reach_at_first(browser: Browser, page: Command) -> None:
    context = browser.new_context()
    first = context.new_page()
    first.route("**/api/key", lambda route: route.abort(), times=1)
    with first.expect_event("requestfailed"):
        first.goto(page.url)
    first.reload()
    first.wait_for_selector(".scroller .row .c-outcome")
    assert "token" not in first.url
    context.close()


def test_links_work_in_other_tabs_and_after_a_reload(visitor: Visitor, page: Command) -> None:
    visitor.opens(page.url)
    with visitor.context.expect_page() as opened:
        visitor.page.locator(".recording").first.click(modifiers=["Control"])
    tab = opened.value
    tab.wait_for_selector(".scroller .row .c-outcome")
    tab.reload()
    tab.wait_for_selector(".scroller .row .c-outcome")


def test_the_bytes_of_a_frame_are_saved(visitor: Visitor, page: Command) -> None:
    visitor.opens(page.url)
    visitor.presses("j")
    visitor.page.get_by_role("tab", name="Messages").click()
    with visitor.page.expect_download() as saving:
        visitor.page.locator(".detail").get_by_role("button", name="bytes").first.click()
    assert re.fullmatch(r"frame-\d+\.txt", saving.value.suggested_filename)
    assert Path(saving.value.path()).read_bytes().startswith(b'{"jsonrpc"')


def test_a_server_at_another_port_gets_no_secret(
    visitor: Visitor, page: Command, neighbour: tuple[str, list[str]]
) -> None:
    url, got = neighbour
    visitor.opens(page.url)
    key = visitor.page.evaluate("localStorage.getItem('mcpproxy-key')")
    data = f"{page.home}/api/recordings"
    assert httpx.get(data, headers={"Authorization": f"Bearer {key}"}).status_code == 200
    visitor.page.goto(url)
    expect(visitor.page).to_have_title("neighbour")
    assert got
    assert all(key not in fields and "Cookie:" not in fields for fields in got)
    assert visitor.page.evaluate("localStorage.length") == 0
    replayed = [dict(line.split(": ", 1) for line in fields.splitlines() if line) for fields in got]
    for fields in replayed:
        own = {name: value for name, value in fields.items() if name.lower() != "host"}
        assert httpx.get(data, headers=own).status_code == 401


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is found by BROWSER")
def test_the_browser_is_opened_without_a_secret_among_its_arguments(
    visitor: Visitor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, script = tmp_path / "seen", tmp_path / "browser.py"
    script.write_text(OPENED, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} {seen} %s")
    with ui_command(folder, "--open") as running:
        (file,) = tmp_path.glob("mcpproxy-*.html")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert seen.read_text(encoding="utf-8") == file.as_uri()
        visitor.opens(file.as_uri())
        assert visitor.page.url.startswith(running.home)
        assert not file.exists()
        assert "token" not in visitor.page.url


@pytest.mark.skipif(sys.platform == "win32", reason="a page that runs is found by its socket")
def test_a_page_that_runs_is_opened_again(
    visitor: Visitor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, script, state = tmp_path / "seen", tmp_path / "browser.py", tmp_path / "mcpproxy"
    script.write_text(OPENED, encoding="utf-8")
    state.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} {seen} %s")
    command = [sys.executable, "-m", "mcpproxy", "ui", str(folder), "--open"]
    with ui_command(folder) as running:
        (name,) = state.glob("page-*.sock")
        assert stat.S_IMODE(name.stat().st_mode) == 0o600
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as again:
            assert again.stdout is not None
            assert again.stdout.readline().startswith(f"{running.home}/?token=")
            visitor.opens(seen.read_text(encoding="utf-8"))
            assert visitor.page.url.startswith(running.home)
            assert "token" not in visitor.page.url
            assert again.wait(60) == 0
            assert again.stderr is not None
            assert again.stderr.read().startswith("mcpproxy: this page runs already")
        with ui_command(folder, "--open", "--allow-send") as another:
            assert another.home != running.home
    assert not [*tmp_path.glob("mcpproxy-*.html"), *state.glob("page-*.sock")]
    with ui_command(folder, "--open") as later:
        assert later.home.startswith("http://127.0.0.1:")


@pytest.mark.skipif(sys.platform == "win32", reason="the signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_the_page_leaves_no_file(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", "true %s")
    number = signal.Signals[name]
    with ui_command(folder, "--open") as running:
        assert [*tmp_path.glob("mcpproxy-*.html")]
        running.process.send_signal(number)
        assert running.process.wait(60) == -number
    assert not [*tmp_path.glob("mcpproxy-*.html")]


def test_a_folder_whose_recordings_are_in_folders_below_names_them(tmp_path: Path) -> None:
    (tmp_path / "validated").mkdir()
    write(tmp_path / "validated" / "session.jsonl", SITUATIONS["failed tool"])
    command = [sys.executable, "-m", "mcpproxy", "ui", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("http")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    below = tmp_path / "validated"
    assert said == f"mcpproxy: {below}: 1 recording in this folder left out; mcpproxy ui {below}\n"
