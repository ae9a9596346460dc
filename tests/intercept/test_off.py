"""Without an option that alters messages, nothing of it is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.relay.hosts import DEADLINE_S, HOME

OPTIONS = ("--fault", "tool:none => drop"), ("--break", "tool:none")


def imported(folder: Path, *options: str) -> set[str]:
    """Return the modules of mcpproxy that a wrapped session imports, relay and recorder together."""
    command = [sys.executable, "-X", "importtime", "-m", "mcpproxy", "--trace", str(folder / "t.jsonl")]
    done = subprocess.run(
        [*command, *options, "--", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=HOME,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {name for line in lines if (name := line.rpartition("|")[2].strip()).startswith("mcpproxy")}


def altering(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith(("mcpproxy.gate.intercept", "mcpproxy.addons"))}


def test_a_session_without_an_option_imports_nothing_of_it(tmp_path: Path) -> None:
    modules = imported(tmp_path)
    assert "mcpproxy.record.relay.stdio.relay" in modules
    assert altering(modules) == set()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options[0])
def test_fault_rules_import_no_addons(tmp_path: Path, options: tuple[str, str]) -> None:
    modules = altering(imported(tmp_path, *options))
    assert "mcpproxy.gate.intercept.stdio_gate" in modules
    assert {name for name in modules if "addon_calls" in name or "addon_host" in name} == set()
    assert "mcpproxy.addons" not in modules
