"""A command that is killed at any moment leaves whole files, and a way back."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNS = 16
"""``python -m tests.hosts.killed FOLDER 400`` kills it more often."""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
def test_every_file_is_as_before_or_as_after_and_comes_back(tmp_path: Path) -> None:
    played = subprocess.run(
        [sys.executable, "-m", "tests.hosts.killed", str(tmp_path), str(RUNS)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=900,  # a busy machine takes ten times as long as a quiet one
    )
    assert played.returncode == 0, played.stderr
    seen = dict(part.rsplit(": ", 1) for part in played.stdout.strip().split(", "))
    assert sum(map(int, seen.values())) == RUNS
    assert int(seen["some files were written"]) > 0
