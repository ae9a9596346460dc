"""The page in a real browser: headless Chromium, driven by Playwright."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, expect, sync_playwright

from tests.peers.fixtures import had, page_tools

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS: Final = 60_000
"""How long an element may take to appear: only a test that fails takes so long."""

TWO_FRAMES: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Until it returns, whatever an answer leads to has been drawn."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium; without one the test is skipped, or fails where ``CI`` is set.

    Playwright runs an event loop in this thread, so it is stopped before the tests of another module.
    """
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("a browser is needed here: install Debian's package chromium")
        pytest.skip("there is no Chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


class Served:
    """``mcpproxy ui`` as it runs. ``bearer`` is for scripts."""

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
        httpx.get(f"{self.home}/api/recordings", headers=bearer, timeout=TIMEOUT_MS / 1000)
        self._printed = self._read()
        return bearer

    @property
    def url(self) -> str:
        """An address that nobody has used."""
        self._claimed()  # if it has been used before, the next one was printed then
        return self._printed


@contextmanager
def served(path: Path | str, *options: str) -> Generator[Served]:
    """Run ``mcpproxy ui PATH``."""
    command = [sys.executable, "-m", "mcpproxy", "ui", str(path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Served(process)
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
    assert errors == "", errors


class Visitor:
    """A person with a browser. ``faults`` are errors of scripts, and what the policy of the page refused."""

    def __init__(self, context: BrowserContext) -> None:
        context.set_default_timeout(TIMEOUT_MS)
        self.context: Final = context
        self.page: Final[Page] = context.new_page()
        self.faults: Final[list[str]] = []
        self.requests: Final[list[str]] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "console",
            lambda message: (
                self.faults.append(message.text)
                if message.type == "error" and "Failed to load" not in message.text
                else None
            ),
        )

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

    def breaks_no_rule(self, where: str, *, headings: bool = False) -> None:
        """Check the rules of accessibility on the page as it is now; or that headings skip no level."""
        self.page.evaluate((had(page_tools()) / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        rules = (
            "['heading-order']" if headings else "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']"
        )
        found = self.page.evaluate(f"axe.run(document, {{runOnly: {rules}}})")
        broken = [
            (each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found["violations"]
        ]
        assert not broken, (where, broken)

    def presses(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)


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
def visitor(browser: Browser) -> Iterator[Visitor]:
    """A browser window of 1280 by 800 pixels; no script may fail in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    person = Visitor(context)
    yield person
    context.close()
    assert person.faults == []
