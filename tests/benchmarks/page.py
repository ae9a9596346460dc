"""The page on a recording of a million calls, in headless Chromium: first rows, jumps, filters, memory.

Each round starts ``mcpproxy ui`` twice. The first one reads the recording and keeps the index, and its peak
is measured; the second one, which finds that index, is what the browser looks at. Times are taken in the
browser, from the action until all visible rows are there. Processor times say the same on a machine that is
busy.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from mcpproxy.show.ui.library import id_of
from tests.benchmarks import processes, view
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import WrongBytesError

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
JUMPS: Final = 100
EXPORTED_PART: Final = 20
"""One in so many calls is exported: 50,000 of a million."""

VARIANT: Final = "mcpproxy"
TIMEOUT_MS: Final = 120_000

LOOK: Final = """
// Ends when what `isThere` says holds, which is looked at whenever the document changes. The document is
// watched and not its body, which a browser that has just begun to read does not have yet.
window.until = (isThere) => new Promise((done) => {
    if (isThere()) return done();
    const observer = new MutationObserver(() => {
        if (!isThere()) return;
        observer.disconnect();
        done();
    });
    const everything = { subtree: true, childList: true, characterData: true, attributes: true };
    observer.observe(document, everything);
});
window.rows = () => [...document.querySelectorAll(".scroller .row")];
window.areLoaded = () => rows().length > 0 && rows().every((row) => row.querySelector(".c-outcome"));
window.said = () => document.querySelector("#filter-state").textContent;
"""

FIRST_ROWS: Final = "async () => { await until(areLoaded); return performance.now(); }"

JUMP: Final = """async (part) => {
    const scroller = document.querySelector(".scroller");
    const rowsInAll = Number(document.querySelector(".grid").getAttribute("aria-rowcount")) - 1;
    const shown = Math.floor(scroller.clientHeight / 28);
    const began = performance.now();
    scroller.scrollTop = part * (scroller.scrollHeight - scroller.clientHeight);
    const first = scroller.scrollTop / (scroller.scrollHeight - scroller.clientHeight) * (rowsInAll - shown);
    const top = () => Number(rows()[0].getAttribute("aria-rowindex")) - 2;
    await until(() => areLoaded() && Math.abs(top() - first) < 2);
    return performance.now() - began;
}"""

FILTER: Final = """async ([filter, state]) => {
    const input = document.querySelector("#filter");
    input.value = filter;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done, 50));
    let wasProgress = 0;
    const began = performance.now();
    input.form.requestSubmit();
    await until(() => {
        wasProgress += document.querySelector(".searching") ? 1 : 0;
        return said().startsWith(state) && (areLoaded() || state.startsWith("0 "));
    });
    return [performance.now() - began, wasProgress];
}"""


@contextmanager
def chromium() -> Generator[Browser]:
    """Start the browser.

    Raises:
        WrongBytesError: there is none.
    """
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        raise WrongBytesError("a browser is needed here: install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        yield browser
        browser.close()


TAKE_KEY: Final = """async ([ticket, key]) => {
    const headers = { Authorization: `Bearer ${ticket}`, "Mcpproxy-Key": key };
    if (!(await fetch("/api/key", { method: "POST", headers })).ok) throw new Error("the ticket is refused");
    localStorage.setItem("mcpproxy-key", key);
}"""


@contextmanager
def serving(path: str, cache: str) -> Generator[tuple[str, int]]:
    """Run ``mcpproxy ui PATH``; yield the printed address and the process id."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    command = [sys.executable, "-m", "mcpproxy", "ui", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.send_signal(signal.SIGINT)


def new_page(browser: Browser, url: str) -> tuple[Page, CDPSession]:
    """Open a window that has the key of the page, but not the page yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    home, _, ticket = url.partition("/?token=")
    page.goto(f"{home}/static/icon.svg")
    page.evaluate(TAKE_KEY, [ticket, "k" * 43])
    page.add_init_script(LOOK)
    metrics = context.new_cdp_session(page)
    ask(metrics, "Performance.enable", timeDomain="threadTicks")
    return page, metrics


def ask(metrics: CDPSession, method: str, **params: str) -> dict[str, Any]:
    """Send a command of Chromium's own protocol."""
    session: Any = metrics  # Playwright leaves out the types of the values
    return session.send(method, params)


def metric(metrics: CDPSession, name: str) -> float:
    """Return one of the values that Chromium keeps for a page."""
    found = ask(metrics, "Performance.getMetrics")["metrics"]
    return next(each["value"] for each in found if each["name"] == name)


def heap_mb(metrics: CDPSession) -> float:
    """Return the bytes of living objects of the page's scripts, in millions."""
    ask(metrics, "HeapProfiler.collectGarbage")
    return metric(metrics, "JSHeapUsedSize") / 1e6


def measure(samples: Samples, browser: Browser, path: Path, calls: int, cache: str) -> None:
    """Look at the recording, and add what was measured."""

    def add(row: str, value: float) -> None:
        samples.add(row, VARIANT, value)

    with serving(str(path), cache) as (url, pid):
        home, _, token = url.partition("/?token=")
        answer = httpx.get(
            f"{home}/api/recordings/{id_of(str(path))}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_MS / 1e3,
        )
        view.expect(answer.json()["rows"], calls)
        add("peak of the server that reads the recording, MiB", processes.peak_mib(pid))
    with serving(str(path), cache) as (url, pid):
        page, metrics = new_page(browser, url)
        home = url.partition("/?")[0]
        page.goto(f"{home}/", wait_until="commit")
        add("first rows with the index that was kept, ms", page.evaluate(FIRST_ROWS))
        used_s = processes.cpu_seconds(pid), metric(metrics, "TaskDuration")
        jumps = sorted(page.evaluate(JUMP, (index * 37 % JUMPS) / JUMPS) for index in range(JUMPS))
        add("jump to any of the rows, p50, ms", jumps[len(jumps) // 2])
        add("jump to any of the rows, p95, ms", jumps[len(jumps) * 95 // 100 - 1])
        server_s, page_s = processes.cpu_seconds(pid) - used_s[0], metric(metrics, "TaskDuration") - used_s[1]
        add("jump, processor time of the server, ms", server_s * 1e3 / JUMPS)
        add("jump, processor time of the page, ms", page_s * 1e3 / JUMPS)
        state = f"{calls // view.TOOLS:,} of {calls:,}"
        add("filter by tool, ms", page.evaluate(FILTER, ["tool:search3", state])[0])
        state = f"{calls // view.FAILS_EVERY:,} of {calls:,}"
        add("filter by outcome, ms", page.evaluate(FILTER, ["status:error", state])[0])
        used_cpu_s = processes.cpu_seconds(pid)
        took_ms, times = page.evaluate(FILTER, ['"in bad order"', f"0 of {calls:,}"])
        used_cpu_s = processes.cpu_seconds(pid) - used_cpu_s
        add("free text, MB/s", path.stat().st_size / 1e3 / took_ms)
        add("free text, MB per second of processor time", path.stat().st_size / 1e6 / used_cpu_s)
        add("how often progress was shown", times)
        add("heap of the page, MB", heap_mb(metrics))
        add("peak of the server, MiB", processes.peak_mib(pid))
        page.context.close()


def measure_exported(samples: Samples, browser: Browser, folder: Path, calls: int) -> None:
    """Open an exported recording from disk, without a network."""
    trace, file = folder / "exported.jsonl", folder / "exported.html"
    view.write(trace, calls)
    command = [sys.executable, "-m", "mcpproxy", "export", "html", str(trace), "-o", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.add_init_script(LOOK)
    page.goto(file.as_uri(), wait_until="commit")
    first_ms = page.evaluate(FIRST_ROWS)
    view.expect(int(page.locator(".grid").get_attribute("aria-rowcount") or "0") - 1, calls)
    metrics = context.new_cdp_session(page)
    ask(metrics, "Performance.enable")
    samples.add(f"exported file of {calls:,} calls, MB", VARIANT, file.stat().st_size / 1e6)
    samples.add("its first rows, ms", VARIANT, first_ms)
    samples.add("heap of its page, MB", VARIANT, heap_mb(metrics))
    context.close()


def run(options: Options) -> list[Section]:
    """Look at one recording, in each round anew."""
    calls = options.size(view.CALLS, view.SHORT_CALLS)
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-page-") as folder, chromium() as browser:
        path = Path(folder) / "calls.jsonl"
        view.write(path, calls)
        samples.notes.append(f"{calls:,} calls, {path.stat().st_size / 1e6:,.0f} MB.")
        for number in range(options.rounds):
            measure(samples, browser, path, calls, os.path.join(folder, f"cache{number}"))
        measure_exported(samples, browser, Path(folder), calls // EXPORTED_PART)
    return [Section("page", samples, (VARIANT,))]
