"""``mcpproxy demo``: the real command, the real recorder, three faults and no more."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from mcpproxy.cli.commands.demo import FAILED_CALL
from tests import documents
from tests.cli.conftest import Mcpproxy
from tests.relay.hosts import until_recorded

FAULTS = {"PROTO-007", "SCHEMA-004", "STDIO-002"}


def demo(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mcpproxy", "demo"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | environment
    )


PROXY_LEFT = """
import sys
sys.path.insert(0, ".")
from mcpproxy.record.relay.journal import Journal
from tests.recorder import journals
written = Journal(sys.argv[1], journals.START[1], journals.STARTED_NS)
for kind, payload, at_ns, _ in journals.SESSION[1:-1]:
    written.append(kind, at_ns, payload)
written.close(0)
"""
"""A proxy that is killed with its recorder before there is a trace."""
DEMO_OF_IT = f"""
import sys
from mcpproxy.cli.commands import demo
demo.own_command = lambda module, option, trace, *rest: [sys.executable, "-c", {PROXY_LEFT!r}, trace]
sys.exit(demo.run([]))
"""


def without_times(text: str) -> list[str]:
    """Return the lines, without the columns of times and durations."""
    times = re.compile(r"(?<=\d  ) *\d+\.\d+(?= )|(after| )? *\d[\d.]* (µs|ms|s)(?=$|:)", re.MULTILINE)
    return times.sub("", text).splitlines()


def test_shows_three_findings_and_what_to_do_next(mcpproxy: Mcpproxy, state_dir: Path) -> None:
    shown = demo()
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert len(lines) <= 40
    wrapped = lines.index("  mcpproxy -- python -P -m mcpproxy.demo.server")
    assert "waits for what a client would send" in lines[wrapped + 1]
    assert sum("└ error" in line for line in lines) == 3
    until_recorded(state_dir)
    (trace,) = state_dir.glob("*-demo-*.jsonl")
    assert lines.count(str(trace)) == 1
    handle = trace.stem.partition("Z-")[2]
    assert f"  the findings and their sources  mcpproxy check {handle}" in lines
    assert f"  why a call failed               mcpproxy show --call {FAILED_CALL} {handle}" in lines
    assert "✗ tool error: no such city: Atlantis" in mcpproxy("show", "--call", str(FAILED_CALL), handle).out
    checked = mcpproxy("check", handle, "--format", "json")
    (judged,) = json.loads(checked.out)["traces"]
    assert judged["complete"]
    assert sorted(f["rule"] for f in judged["findings"]) == sorted(FAULTS)
    assert {f["blame"] for f in judged["findings"]} == {"server"}
    assert [line for line in mcpproxy("show", str(trace)).out.splitlines() if "exited with 0" in line]


def test_the_readme_shows_what_it_prints(state_dir: Path) -> None:
    shown = without_times(demo(COLUMNS="100").stdout)
    until_recorded(state_dir)
    promised = [line for line in without_times(documents.named("demo").text) if line]
    assert len(promised) > 8
    assert [line for line in shown if line in promised] == promised


def test_a_proxy_that_left_only_its_journal_is_shown_from_it(state_dir: Path) -> None:
    command = [sys.executable, "-c", DEMO_OF_IT]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 1
    assert "ping" in shown.stdout
    assert shown.stderr.startswith("mcpproxy: the demo failed: ")
    assert list(state_dir.glob("*.jsonl"))
