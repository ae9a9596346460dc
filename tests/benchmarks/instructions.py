"""How many instructions a start takes, counted by valgrind.

Unlike a time, a count is the same on a machine that is busy. What the kernel executes is not in it.
"""

import compileall
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import DEADLINE_S, ROOT, WrongBytesError
from tests.benchmarks.start import POLL_S, as_installed
from tests.peers.ports import free_port

STOP: Final = signal.SIGABRT
"""Ends a start at the moment up to which is counted: mcpproxy does not handle it."""

COUNTING: Final = (
    'ulimit -c 0; exec valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$@"'
)
COUNT: Final = re.compile(r"==(\d+)== I +refs: +([\d,]+)")


def run(options: Options) -> list[Section]:
    """Count the instructions of each start.

    Raises:
        WrongBytesError: something was not started.
    """
    samples = Samples()
    section = Section("instructions of a start, millions", samples, ["mcpproxy"])
    if shutil.which("valgrind") is None:
        samples.notes.append("There is no valgrind on this machine, so no instructions are counted.")
        return [section]
    compileall.compile_dir(ROOT / "mcpproxy", quiet=2)  # as installers do
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-", ignore_cleanup_errors=True) as folder:
        script = str(as_installed(Path(folder)))
        for number in range(options.rounds):
            trace = ["--trace", f"{folder}/{number}.jsonl"]
            alone = [sys.executable, "-c", f"import os; os.kill(os.getpid(), {STOP:d})"]
            samples.add("Python alone", "mcpproxy", counted(alone))
            wrapping = [sys.executable, script, *trace, "--", "sh", "-c", f"kill -{STOP:d} $PPID"]
            samples.add("until a wrapped server is started", "mcpproxy", counted(wrapping))
            port = free_port()
            http = [sys.executable, script, "http", "http://127.0.0.1:9/mcp", "--listen", f"127.0.0.1:{port}"]
            samples.add("until `mcpproxy http` listens", "mcpproxy", counted([*http, *trace], port))
    return [section]


def counted(command: list[str], port: int = 0) -> float:
    """The millions of instructions that ``command`` executes until it is stopped.

    It is stopped by itself, by the server that it starts, or by us as soon as it listens on ``port``.

    Raises:
        WrongBytesError: it is not stopped.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        ["sh", "-c", COUNTING, "sh", *command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if port:
            _wait_until_it_listens(process, port)
            process.send_signal(STOP)
        _, said = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    counts = {int(pid): int(count.replace(",", "")) for pid, count in COUNT.findall(said)}
    if process.pid not in counts:
        raise WrongBytesError(f"{command}: no instructions were counted: {said[-500:]}")
    return counts[process.pid] / 1e6


def _wait_until_it_listens(process: "subprocess.Popen[str]", port: int) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", port), DEADLINE_S).close()
            return
        except ConnectionRefusedError:
            time.sleep(POLL_S)
    raise WrongBytesError(f"nothing listens on port {port}")
