"""A recording of a million calls as rows: its index, its first rows, a jump, filters, a search, and memory.

Each round is a process of its own, whose cache is empty at first. Beside the time that passed, the index is
measured in processor time, which says the same on a machine that is busy.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mcpproxy.read.view.view import open_view
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import WrongBytesError

CALLS: Final = 1_000_000
SHORT_CALLS: Final = 60_000
TOOLS: Final = 10
WINDOW: Final = 200
JUMPS: Final = 100
FAILS_EVERY: Final = 100
VARIANT: Final = "mcpproxy"

HEADER: Final = (
    b'{"type":"header","format":1,"mcpproxy":"0.1.0","transport":"stdio","command":["python","weather.py"],'
    b'"label":"weather","cwd":"/srv","pid":77,"started_at":"2026-11-21T10:20:30.123456Z","started_ns":5,'
    b'"redaction":"none"}\n'
)
REQUEST: Final = (
    b'{"type":"frame","seq":%d,"t":%d,"from":"client","message":{"jsonrpc":"2.0","id":%d,'
    b'"method":"tools/call","params":{"name":"search%d","arguments":{"query":"item %d of the list"}}}}\n'
)
RESULT: Final = (
    b'{"type":"frame","seq":%d,"t":%d,"from":"server","message":{"jsonrpc":"2.0","id":%d,"result":'
    b'{"content":[{"type":"text","text":"found %d things, all in good order and well described"}]%b}}}\n'
)
CLOSE: Final = (
    b'{"type":"close","t":%d,"ending":"exited","exit_code":0,"signal":null,"frames":{"client":%d,'
    b'"server":%d},"findings":{"error":0,"warning":0,"info":0},"judge_error":null}\n'
)


def write(path: Path, calls: int) -> None:
    """Write a recording of ``calls`` calls of ten tools, of which one in a hundred fails."""
    with path.open("wb", 1 << 20) as file:
        file.write(HEADER)
        for number in range(calls):
            seq, at_ns = 2 * number + 1, 200_000 * number
            file.write(REQUEST % (seq, at_ns, number, number % TOOLS, number))
            failed = b',"isError":true' if number % FAILS_EVERY == 7 else b""
            file.write(RESULT % (seq + 1, at_ns + 100_000 + number % 1000, number, number % 77, failed))
        file.write(CLOSE % (200_000 * calls, calls, calls))


def measure(path: str, calls: int) -> dict[str, float]:
    """Measure everything on the recording ``path`` and return the values."""
    found: dict[str, float] = {}
    began, used = time.perf_counter(), time.process_time()
    view = open_view(path)
    elapsed_s, used_s = time.perf_counter() - began, time.process_time() - used
    found["index in one pass, frames/s"] = view.frames / elapsed_s
    found["index in one pass, frames per second of processor time"] = view.frames / used_s
    expect(view.frames, 2 * calls)
    view.close()
    del view  # or the columns of two would be in memory

    def timed(row: str, act: Callable[[], int], wanted: int) -> float:
        start = time.perf_counter()
        expect(act(), wanted)
        found[row] = (time.perf_counter() - start) * 1e3
        return found[row] / 1e3

    start = time.perf_counter()
    view = open_view(path)
    expect(len(view.calls(limit=WINDOW)), WINDOW)
    found["first rows with the index that was kept, ms"] = (time.perf_counter() - start) * 1e3
    chance, jumps = random.Random(7), list[float]()
    for _ in range(JUMPS):
        to = chance.randrange(calls - WINDOW)
        start = time.perf_counter()
        expect(view.calls(start=to, limit=WINDOW)[0].number, to + 1)
        jumps.append((time.perf_counter() - start) * 1e3)
    found[f"jump to any of the rows, {WINDOW} of them, p95, ms"] = sorted(jumps)[JUMPS * 95 // 100 - 1]
    timed("filter by tool, ms", lambda: view.count("tool:search3"), calls // TOOLS)
    timed("filter by outcome, ms", lambda: view.count("status:error"), calls // FAILS_EVERY)
    timed("filter by latency, ms", lambda: view.count("latency:>1s"), 0)
    timed("everything that belongs to a call, ms", lambda: len(view.parts(calls // 2).parts), 2)
    size = os.stat(path).st_size
    used = time.process_time()
    found["free text, MB/s"] = size / 1e6 / timed("free text, ms", lambda: view.count('"in bad order"'), 0)
    found["free text, MB per second of processor time"] = size / 1e6 / (time.process_time() - used)
    found["peak of the process, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def expect(found: int, wanted: int) -> None:
    """Fail if a value is not the right one."""
    if found != wanted:
        raise WrongBytesError(f"the view says {found}, and it is {wanted}")


def run(options: Options) -> list[Section]:
    """Measure each round in a process of its own."""
    calls = options.size(CALLS, SHORT_CALLS)
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-view-") as folder:
        path = Path(folder) / "calls.jsonl"
        write(path, calls)
        samples.notes.append(f"{calls:,} calls, {path.stat().st_size / 1e6:,.0f} MB.")
        for number in range(options.rounds):
            environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, f"cache{number}")}
            command = [sys.executable, "-m", "tests.benchmarks.view", str(path), str(calls)]
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if ran.returncode:
                raise WrongBytesError(ran.stderr.strip().splitlines()[-1])
            for row, value in json.loads(ran.stdout).items():
                samples.add(row, VARIANT, value)
    return [Section("view", samples, (VARIANT,))]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
