"""Makes the pictures of the README: the page with the session of ``mcpproxy demo``, light and dark.

``python -m tests.page_picture`` runs the demo and the page, opens the call that failed in a browser, and
writes ``.github/page-light.png`` and ``.github/page-dark.png``. It needs Chromium, as the page's tests do.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from mcpproxy.cli.commands.demo import FAILED_CALL
from tests.ui.browser import ARGUMENTS, BROWSERS, Command, ui_command

ROOT: Final = Path(__file__).parent.parent
BESIDE: Final = ("everything-2025-11-25", "echo-2026-07-28", "everything-http-2025-06-18")
"""Recordings that ship, shown in the list beside the demo."""
WINDOW: Final[ViewportSize] = {"width": 1200, "height": 660}


def main() -> None:
    """Write both pictures, and print their paths and sizes."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        sys.exit("page_picture: a browser is needed: install Debian's package chromium")
    with tempfile.TemporaryDirectory() as state:
        environment = os.environ | {"XDG_STATE_HOME": state}
        subprocess.run(
            [sys.executable, "-m", "mcpproxy", "demo"],
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )
        folder = Path(state, "mcpproxy")
        for name in BESIDE:
            shutil.copy(ROOT / "recordings" / f"{name}.jsonl", folder)
        with ui_command(folder) as page, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
            for theme in ("light", "dark"):
                picture = ROOT / ".github" / f"page-{theme}.png"
                _take(browser, page, theme == "dark", picture)
                sys.stdout.write(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes\n")


def _take(browser: Browser, page: Command, dark: bool, picture: Path) -> None:
    context = browser.new_context(viewport=WINDOW, color_scheme="dark" if dark else "light")
    window = context.new_page()
    window.goto(page.url)
    window.locator(".scroller .row", has_text="Atlantis").click()
    window.locator(".detail").get_by_text("no such city: Atlantis").first.wait_for()
    assert f"call={FAILED_CALL}" in window.url, window.url
    window.screenshot(path=picture, animations="disabled")
    context.close()


if __name__ == "__main__":
    main()
