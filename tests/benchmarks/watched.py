"""A live session of 5,000 frames a second, with and without the page open on it, in turns.

It is played twice: with all processes on all processors, and with client, relay and server on a processor of
their own (``apart``), which needs Linux with ``taskset``. The first says what a watcher costs on a machine as
small as this, where a browser shares the processors with the traffic; the second, what mcpproxy itself adds
to a call.

The client makes a call every 400 µs and waits for its answer, so a delay is a delay of the relay. Every byte
of the recording is compared. While the session lasts, a person selects rows and goes through the views; the
time of an action is from the key until its result is drawn.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page

from mcpproxy.show.ui.library import id_of
from tests.benchmarks import page as page_benchmark
from tests.benchmarks import peers, processes
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import (
    CLOSE,
    Load,
    WrongBytesError,
    last_frame,
    server,
    verify,
    wait_until_recorded,
)

CALLS_PER_S: Final = 2_500
LONG_S: Final = 8
SHORT_S: Final = 1
BYTES: Final = 150
UNWATCHED: Final = "without the page"
WATCHED: Final = "with the page"
TRAFFIC, OTHERS = {0}, {1}
"""The processors of the traffic and of everything else, where they are apart."""

WATCH_TASKS: Final = """
window.longest = 0;
new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""

ACT: Final = """async ([key, wanted]) => {
    const began = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await until(() => document.querySelector(wanted));
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    return performance.now() - began;
}"""

ACTIONS: Final = (
    ("j", ".row.selected .c-outcome"),
    ("G", ".detail h2"),
    ("5", "main table"),
    ("1", ".scroller .row .c-outcome"),
)
"""Keys, and what is there when the page has followed them."""


def drive(count: int, command: list[str]) -> int:
    """Be the client of ``command``: shake hands, make ``count`` calls at an even pace, print p50 and p99."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, out = process.stdin.fileno(), process.stdout.fileno()
        os.write(to, peers.INITIALIZE)
        if os.read(out, peers.ROOM) != peers.INITIALIZE_RESULT:
            return 1
        os.write(to, peers.INITIALIZED)
        say("ready", process.pid)
        sys.stdin.readline()
        took_ns: list[int] = []
        began_ns = time.perf_counter_ns()
        for index in range(count):
            due_ns = began_ns + index * 1_000_000_000 // CALLS_PER_S
            while (early_ns := due_ns - time.perf_counter_ns()) > 0:
                time.sleep(early_ns / 1e9)  # the pace of the load, not a wait for something
            said = peers.text(index, BYTES)
            sent_ns = time.perf_counter_ns()
            os.write(to, peers.CALL % (peers.FIRST_ID + index, said))
            got = os.read(out, peers.ROOM)
            took_ns.append(time.perf_counter_ns() - sent_ns)
            if got != peers.ANSWER % (peers.FIRST_ID + index, said):
                return 1
        ended_ns = time.monotonic_ns()
        seconds = (time.perf_counter_ns() - began_ns) / 1e9
        took_ns.sort()
        p50, p99 = (took_ns[count * part // 100] / 1e3 for part in (50, 99))
        say("done", p50, p99, ended_ns, 2 * count / seconds)
        sys.stdin.readline()
        process.stdin.close()
        return process.wait()


def say(*words: object) -> None:
    """Print a line for the process that measures."""
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


@contextmanager
def session(trace: Path, count: int, *options: str, apart: bool = False) -> Generator[subprocess.Popen[str]]:
    """Start the client with a server that is wrapped with ``options``.

    If ``apart``, they run on the processor of the traffic.
    """
    command = [sys.executable, "-m", "mcpproxy", "--quiet", *options, "--trace", str(trace)]
    wrapped = [*command, "--", *server()]
    command = [sys.executable, "-m", "tests.benchmarks.watched", str(count), *wrapped]
    prefix = ["taskset", "-c", ",".join(map(str, TRAFFIC))] if apart else []
    pipe = subprocess.PIPE
    with subprocess.Popen([*prefix, *command], stdin=pipe, stdout=pipe, text=True) as client:
        yield client


def measure(
    samples: Samples,
    variant: str,
    trace: Path,
    count: int,
    *options: str,
    browser: Browser | None = None,
    apart: bool = False,
) -> None:
    """Play one session, with ``options`` of mcpproxy; with a ``browser`` the page is open on it."""

    def add(row: str, value: float) -> None:
        samples.add(row, variant, value)

    with session(trace, count, *options, apart=apart) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        pid = int(heard(client, "ready")[0])
        pids = processes.find(pid)
        if apart:
            assert pids is not None
            os.sched_setaffinity(pids.recorder, OTHERS)
        looking = looks(browser, trace) if browser else None
        page = next(looking) if looking else None
        before = processes.cpu_seconds(pids.recorder) if pids else 0
        client.stdin.write("\n")
        client.stdin.flush()
        acted = list(acts(page, count / CALLS_PER_S)) if page else []
        p50, p99, ended_ns, rate = map(float, heard(client, "done"))
        load = Load(BYTES, count, 1)
        lag_ns = wait_until_recorded(trace, last_frame(load)) - ended_ns
        add("frames/s", rate)
        add("a call, p50, µs", p50)
        add("a call, p99, µs", p99)
        if pids:
            used = processes.cpu_seconds(pids.recorder) - before
            add("CPU of the recorder for 10,000 frames, s", used * 10_000 / (2 * count))
        add("recorder is behind at the end, ms", lag_ns / 1e6)
        if page:
            view_rows = page.locator("#filter-state")
            view_rows.get_by_text(f"{count + 2:,} rows").wait_for()
            acted.sort()
            add("an action in the page, p50, ms", acted[len(acted) // 2])
            add("an action in the page, most, ms", acted[-1])
            add("longest task of the page, ms", page.evaluate("window.longest"))
        if looking:
            next(looking, None)
        began_s = time.perf_counter()
        client.stdin.write("\n")
        client.stdin.flush()
        if client.wait():
            raise WrongBytesError(f"{variant}: the session did not end in order")
        add("until the session has ended, ms", (time.perf_counter() - began_s) * 1000)
    wait_until_recorded(trace, CLOSE)
    verify(trace, load)
    trace.unlink()


def heard(client: "subprocess.Popen[str]", word: str) -> list[str]:
    """Return the values of a line that the client prints."""
    assert client.stdout is not None
    said, *values = client.stdout.readline().split() or ["nothing"]
    if said != word:
        raise WrongBytesError(f"waited for {word}: {said}")
    return values


def looks(browser: Browser, trace: Path) -> Generator[Page]:
    """Open the page on the running session; yield it, and close it when the generator is resumed."""
    with page_benchmark.serving(str(trace.parent), str(trace.parent / "cache")) as (url, _):
        page, _ = page_benchmark.new_page(browser, url)
        page.add_init_script(WATCH_TASKS)
        home = url.partition("/?")[0]
        page.goto(f"{home}/?recording={id_of(str(trace))}")
        page.wait_for_selector(".scroller .row .c-outcome")
        page.keyboard.press("f")
        yield page
        page.context.close()


def acts(page: Page, seconds: float) -> Generator[float]:
    """Use the page for some time; yield how long each action took."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for key, wanted in ACTIONS:
            yield page.evaluate(ACT, [key, wanted])
            page.wait_for_timeout(200)  # a person looks


def run(options: Options) -> list[Section]:
    """Play sessions in turns, with the processors shared and apart."""
    count = CALLS_PER_S * options.size(LONG_S, SHORT_S)
    found = [in_turns("watched, all processes on all processors", options.rounds, count, apart=False)]
    if processes.AVAILABLE and (os.cpu_count() or 1) >= 2 and shutil.which("taskset"):
        os.sched_setaffinity(0, OTHERS)  # the browser and the page inherit this
        title = "watched, client, relay and server on a processor of their own"
        found.append(in_turns(title, options.rounds, count, apart=True))
    return found


def in_turns(title: str, rounds: int, count: int, *, apart: bool) -> Section:
    """Play the sessions, and return their table."""
    samples = Samples()
    with (
        tempfile.TemporaryDirectory(prefix="mcpproxy-watched-") as folder,
        page_benchmark.chromium() as browser,
    ):
        for number in range(rounds):
            trace = Path(folder) / f"session-{number}.jsonl"
            for variant in (UNWATCHED, WATCHED) if number % 2 else (WATCHED, UNWATCHED):
                looking = browser if variant == WATCHED else None
                measure(samples, variant, trace, count, browser=looking, apart=apart)
    return Section(title, samples, (UNWATCHED, WATCHED))


if __name__ == "__main__":
    sys.exit(drive(int(sys.argv[1]), sys.argv[2:]))
