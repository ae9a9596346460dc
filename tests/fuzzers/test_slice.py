"""The first cases of each target, the same ones every time."""

import os
import subprocess
import sys

import pytest

from tests.fuzzers.targets import TARGETS


@pytest.mark.skipif(os.name != "posix", reason="breaks off by an alarm")
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_damage_is_answered_with_a_sentence(target: str) -> None:
    # A process of its own, whose memory no other test has used.
    command = [sys.executable, "-m", "tests.fuzzers", target, "--executions", "150", "--seconds", "600"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert ran.stdout.startswith(f"{target}: 150 executions, ")
