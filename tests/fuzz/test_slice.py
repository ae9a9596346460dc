"""The first cases of each target, the same ones every time."""

import os

import pytest

from tests.fuzz.run import run
from tests.fuzz.targets import TARGETS


@pytest.mark.skipif(os.name != "posix", reason="breaks off by an alarm")
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_damage_is_answered_with_a_sentence(target: str) -> None:
    outcome = run(target, seed=1, executions=150)
    assert outcome.findings == []
    assert outcome.executions == 150
