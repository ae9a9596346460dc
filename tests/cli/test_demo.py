"""``mcpproxy demo``: the real command, the real recorder, three faults and no more."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Mcpproxy
from tests.relay.hosts import until_recorded

FAULTS = {"PROTO-007", "SCHEMA-004", "STDIO-002"}


def demo() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy", "demo"], capture_output=True, text=True, timeout=60, check=False
    )


def test_shows_three_findings_and_what_to_do_next(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    shown = demo()
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert len(lines) <= 40
    assert sum("└ error" in line for line in lines) == 3
    until_recorded(state_dir)
    (trace,) = state_dir.glob("*-demo-*.jsonl")
    assert f"Recorded in {trace}" in lines
    handle = trace.stem.partition("Z-")[2]
    assert f"  the findings and their sources  mcpproxy check {handle}" in lines
    checked = mcpproxy("check", handle, "--format", "json")
    (judged,) = json.loads(checked.out)["traces"]
    assert judged["complete"]
    assert sorted(f["rule"] for f in judged["findings"]) == sorted(FAULTS)
    assert {f["blame"] for f in judged["findings"]} == {"server"}
    assert [line for line in mcpproxy("show", str(trace)).out.splitlines() if "exited with 0" in line]
