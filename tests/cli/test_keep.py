"""``--keep AGE``: a session deletes old recordings of its folder while it runs, and never its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.relay.hosts import until_recorded

PROXY = (sys.executable, "-m", "mcpproxy")
DAY_S = 86_400


def recorded(folder: Path, name: str, days: float) -> Path:
    path = folder / f"{name}.jsonl"
    recordings.write(path, recordings.CLEAN)
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="refused there")
def test_old_recordings_are_deleted_while_a_session_runs(tmp_path: Path) -> None:
    old, new = recorded(tmp_path, "old", 8), recorded(tmp_path, "new", 6)
    notes = tmp_path / "notes.txt"
    notes.write_text("not a recording")
    os.utime(notes, (0, 0))
    command = [*PROXY, "--keep", "7d", "--trace-dir", str(tmp_path), "--label", "cat", "--", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stderr
        lines = iter(process.stderr.readline, "")
        assert next(line for line in lines if "deleted" in line).startswith("mcpproxy: deleted 1 recording, ")
        assert not old.exists()
        assert process.poll() is None
        process.stdin.close()
        assert any("; trace " in line or "the recorder is not done" in line for line in lines)
    until_recorded(tmp_path)
    assert new.exists()
    assert notes.exists()
    assert len(list(tmp_path.glob("*-cat-*.jsonl"))) == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--keep", "soon"], "'soon' is not an age such as 30d"),
        (["--keep", "7d", "--trace", "t.jsonl"], "name the folder with --trace-dir"),
    ],
    ids=["no age", "a file"],
)
def test_what_cannot_be_kept(mcpproxy: Mcpproxy, options: list[str], why: str) -> None:
    refused = mcpproxy(*options, "--", "true")
    assert refused.code == 2
    assert why in refused.err


def test_prune_takes_a_folder(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    old, new = recorded(tmp_path, "old", 8), recorded(tmp_path, "new", 6)
    assert mcpproxy("prune", "--older-than", "7d", "--yes", str(tmp_path)).code == 0
    assert (old.exists(), new.exists()) == (False, True)
    assert "no such folder" in mcpproxy("prune", "--older-than", "7d", str(tmp_path / "gone")).err
