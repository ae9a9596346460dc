"""A clean session on a machine with no core to spare is recorded whole, in order, and found clean."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.sessions import CLOSE, ROOT, VARIANTS, Load, Session, verify, wait_until_recorded

BURN: Final = "import resource as r; r.setrlimit(r.RLIMIT_CPU, (120, 120))\nwhile True: pass"
"""Keeps a core busy, and ends by itself should nobody be left to end it."""


@pytest.fixture
def every_core_busy() -> Generator[None]:
    """One process per core that does nothing but work, while the test runs."""
    burners = [
        subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.DEVNULL)
        for _ in range(os.cpu_count() or 1)
    ]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


@pytest.mark.usefixtures("every_core_busy")
def test_no_answer_is_numbered_before_its_request_and_nothing_is_found(tmp_path: Path) -> None:
    load = Load(size=150, count=10_000, window=64)
    trace = tmp_path / "trace.jsonl"

    with Session(VARIANTS[-1], "pipe", load, trace) as session:
        session.go()
        session.close()

    wait_until_recorded(trace, CLOSE)
    verify(trace, load)
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "check", "--strict", "--format", "json", str(trace)],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["traces"]
    assert (report["complete"], report["findings"]) == (True, [])
