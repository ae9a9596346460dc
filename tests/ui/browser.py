"""The page in a real browser: headless Chromium, driven by Playwright."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, Final, Protocol

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)
from sse_starlette.sse import AppStatus

from mcpproxy.show.ui.bearer import PageKeys
from mcpproxy.show.ui.library import Library
from mcpproxy.show.ui.page_app import PageApp
from mcpproxy.show.ui.page_server import PageServer
from mcpproxy.show.ui.send import CallSender
from tests.peers.fixtures import had, page_tools

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
"""The first that is there is used."""
SHELL: Final = "chromium-headless-shell"
"""Draws and executes a page as the whole browser does, and has no windows around it: it needs less time."""

_NOT_NEEDED: Final = (
    # Each window of the whole browser has two hidden pages, which cost as much as the page under test.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
    # A process for a page that may be opened next: a test opens one.
    "SpareRendererForSitePerProcess",
    # Chromium reads the last list alone, so what Playwright switches off is repeated.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
ARGUMENTS: Final = ("--no-sandbox", f"--disable-features={','.join(_NOT_NEEDED)}")
"""What the browser is started with."""

TIMEOUT_MS: Final = 60_000
"""How long an element may take to appear: only a test that fails takes so long."""

EMPTY: Final = "http://127.0.0.1/empty"
"""A page without anything, of the site of all servers here: the browser keeps its process for the next."""

TWO_FRAMES: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Until it returns, whatever an answer leads to has been drawn."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium, the shell if there is one; without a browser the test is skipped.

    Where ``CI`` is set, it fails instead.

    Playwright runs an event loop in this thread, so it is stopped before the tests of another module.
    """
    yield from _started(SHELL, *BROWSERS)


@pytest.fixture(scope="module")
def whole_browser() -> Iterator[Browser]:
    """The same, with all that the shell does not have: the developer tools."""
    yield from _started(*BROWSERS)


def _started(*names: str) -> Iterator[Browser]:
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("a browser is needed here: install Debian's package chromium")
        pytest.skip("there is no Chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


class Served(Protocol):
    """A page that runs. ``url`` is an address that nobody has used, ``bearer`` is for scripts."""

    @property
    def home(self) -> str: ...
    @property
    def bearer(self) -> dict[str, str]: ...
    @property
    def url(self) -> str: ...


def asked(page: Served, path: str) -> Any:
    """Return the JSON that a page answers a script with."""
    return _get(f"{page.home}{path}", page.bearer).raise_for_status().json()


def _get(url: str, bearer: dict[str, str]) -> httpx.Response:
    # Without ``verify`` no certificates are read, which takes longer than the answer.
    return httpx.get(url, headers=bearer, timeout=TIMEOUT_MS / 1000, verify=False)


class Within:
    """A page that this process serves. Each of its addresses has a ticket of its own."""

    def __init__(self, server: PageServer, keys: PageKeys) -> None:
        self._keys: Final = keys
        self.home: Final = server.url_of("")
        self.bearer: Final = {"Authorization": f"Bearer {self._ticket()}"}

    def _ticket(self) -> str:
        return self._keys.new_ticket(lambda: None, TIMEOUT_MS / 1000)

    @property
    def url(self) -> str:
        return f"{self.home}/?token={self._ticket()}"


@contextmanager
def served(path: Path | str, *, may_send: bool = False) -> Generator[Within]:
    """Serve the page of a recording or a folder from a thread: no process has to be started for it."""
    folder = os.path.dirname(path) if os.path.isfile(path) else str(path)
    server, keys = PageServer("127.0.0.1", 0), PageKeys()
    page = PageApp(Library(str(path)), CallSender(folder) if may_send else None)
    thread = Thread(target=server.run, args=(keys.lock(page.app()),))
    thread.start()
    try:
        yield Within(server, keys)
    finally:
        AppStatus.should_exit = True  # ends the streams of events, as the signal does that ends the command
        server.stop()
        thread.join()
        AppStatus.should_exit = False


class Command:
    """``mcpproxy ui`` as it runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process: Final = process
        self._printed = self._read()
        self.home: Final = self._printed.partition("/?")[0]
        self.bearer: Final = self._claimed()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _claimed(self) -> dict[str, str]:
        """Use the printed address as a script does; the next one is printed."""
        bearer = {"Authorization": f"Bearer {self._printed.partition('token=')[2]}"}
        _get(f"{self.home}/api/recordings", bearer)
        self._printed = self._read()
        return bearer

    @property
    def url(self) -> str:
        self._claimed()  # if it has been used before, the next one was printed then
        return self._printed


@contextmanager
def ui_command(
    path: Path | str, *options: str, program: Sequence[str] = ("-m", "mcpproxy")
) -> Generator[Command]:
    """Run ``mcpproxy ui PATH``: for what the command does, and for a page that several tests look at.

    ``program`` are the arguments of Python that run mcpproxy.
    """
    arguments = [sys.executable, *program, "ui", str(path), *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Command(process)
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
    assert errors == "", errors


class Visitor:
    """A person with a browser. ``faults`` are errors of scripts, and what the policy of the page refused."""

    def __init__(self, context: BrowserContext) -> None:
        context.set_default_timeout(TIMEOUT_MS)
        self.context: Final = context
        self.page: Final[Page] = context.pages[0] if context.pages else context.new_page()
        self.page.set_viewport_size({"width": 1280, "height": 800})
        self.faults: Final[list[str]] = []
        self.requests: Final[list[str]] = []
        self.page.on("pageerror", self._sees_an_error)
        self.page.on("request", self._sees_a_request)
        self.page.on("console", self._sees_a_message)

    def _sees_an_error(self, error: Error) -> None:
        self.faults.append(str(error))

    def _sees_a_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _sees_a_message(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load" not in message.text:
            self.faults.append(message.text)

    def leaves(self) -> None:
        """Leave an empty window, as a new one is: without a page, what pages have stored, and settings."""
        self.page.remove_listener("pageerror", self._sees_an_error)
        self.page.remove_listener("request", self._sees_a_request)
        self.page.remove_listener("console", self._sees_a_message)
        for other in self.context.pages[1:]:
            other.close()
        self.page.unroute_all(behavior="ignoreErrors")
        self.context.set_offline(False)
        if self.page.url.startswith("file:"):
            self.page.evaluate("localStorage.clear()")
        self.page.route(EMPTY, lambda route: route.fulfill(body="", content_type="text/html"))
        self.page.goto(EMPTY)
        self.page.unroute(EMPTY)
        self.page.emulate_media(color_scheme="light")
        self.page.mouse.move(0, 0)
        session = self.context.new_cdp_session(self.page)
        for origin in {str(httpx.URL(url).join("/"))[:-1] for url in self.requests if url.startswith("http")}:
            wanted = {"origin": origin, "storageTypes": "local_storage"}
            session.send("Storage.clearDataForOrigin", wanted)  # pyright: ignore[reportUnknownMemberType] # a dict
        session.detach()

    def opens(self, url: str) -> None:
        """Go to an address and wait until rows are shown."""
        self.page.goto(url)
        self.page.wait_for_selector(".scroller .row .c-outcome")

    def enters(self, url: str) -> None:
        """Go to the printed address, and wait until its ticket was exchanged: then others may be opened."""
        self.page.goto(url)
        self.page.wait_for_url(lambda now: "token=" not in now)

    def rows(self) -> list[str]:
        """Return the texts of the rows, each on one line."""
        found = self.page.locator(".scroller .row").all_inner_texts()
        return [" ".join(text.split()) for text in found]

    def sees(self, text: str) -> None:
        """Wait until the page shows ``text``."""
        self.page.get_by_text(text).first.wait_for()

    def withholds(self, url: str, which: "Callable[[Request], bool]" = lambda _: True) -> "Withheld":
        """Let no more request for ``url`` go on to the server, until the test says so."""
        return Withheld(self.page, url, which)

    def breaks_no_rule(self, where: str, *, headings: bool = False, within: str = "html") -> None:
        """Check the rules of accessibility on the page as it is now; or that headings skip no level.

        ``within`` is a selector of the part that has changed since the whole page was looked at.
        """
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(_axe())
        rules = ["heading-order"] if headings else ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        broken = self.page.evaluate(_BROKEN, [within, rules])
        assert not broken, (where, broken)

    def breaks_no_rule_in_either_theme(self, where: str) -> None:
        """Check the rules on the page as it is now, light and then dark; it stays dark."""
        self.page.emulate_media(color_scheme="light")
        self.breaks_no_rule(f"{where}, light")
        self.page.emulate_media(color_scheme="dark")
        self.breaks_no_rule(f"{where}, dark")

    def presses(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)


_BROKEN: Final = """async ([within, rules]) => {
    const found = await axe.run(within, { runOnly: rules, resultTypes: ["violations"] });
    return found.violations.map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]);
}"""
"""The rules that are broken, and by what; all that axe has looked at would be some megabytes."""


@cache
def _axe() -> str:
    return (had(page_tools()) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


class Withheld:
    """Requests of a page that wait in the browser. A key that was pressed says nothing about its request."""

    def __init__(self, page: Page, url: str, which: Callable[[Request], bool]) -> None:
        self._page: Final = page
        self.routes: Final[list[Route]] = []
        page.route(
            url, lambda route: self.routes.append(route) if which(route.request) else route.continue_()
        )

    def first(self) -> Route:
        """Wait until the page has asked, and return the first of its requests."""
        ends = time.monotonic() + TIMEOUT_MS / 1000
        while not self.routes:
            assert time.monotonic() < ends, "the page did not ask"
            self._page.evaluate(TWO_FRAMES)
        return self.routes[0]


@pytest.fixture
def visitor(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A browser window of 1280 by 800 pixels; no script may fail in it.

    The window of the test before is used again, with nothing in it that was remembered, unless that test has
    failed: a new window costs a third of what a test does in it.
    """
    failures = request.session.testsfailed
    context = browser.contexts[0] if browser.contexts else browser.new_context(color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    person = Visitor(context)
    yield person
    if request.session.testsfailed > failures or person.faults:
        context.close()
    else:
        person.leaves()
    assert person.faults == []
