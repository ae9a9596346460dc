"""A few of the kills that ``python -m tests.kills`` makes by the dozen; see there."""

from pathlib import Path

import pytest

from tests.benchmarks import processes
from tests.kills.session import PACES, TARGETS, Case, compiled, play

pytestmark = pytest.mark.skipif(not processes.AVAILABLE, reason="processes are found through /proc")

CASES = [
    *(Case(target, seed=number) for number, target in enumerate(TARGETS)),
    Case("relay", "slow", is_enforced=True),
    Case("relay", "slow", is_enforced=True, transport="http"),
    *(Case(target, transport="model", seed=number) for number, target in enumerate(TARGETS)),
    Case("relay", "slow", transport="model"),
]
AT_A_CALL = [
    *(Case("relay", "slow", steps=steps, seed=steps) for steps in range(3, 9)),
    Case("relay", "slow", is_enforced=True, steps=5),
    Case("relay", is_enforced=True, transport="http", steps=5),
    *(Case("relay", pace, transport="model", steps=5) for pace in PACES),
]


def named(case: Case) -> str:
    enforced = "enforced" if case.is_enforced else "plain"
    return f"{case.transport}-{case.pace}-{enforced}-{case.target}-{case.steps}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_no_byte_is_missing_after_a_kill(case: Case, tmp_path: Path) -> None:
    found = play(case, tmp_path)
    assert found.is_good, found


@pytest.mark.parametrize("case", AT_A_CALL, ids=named)
def test_no_byte_is_missing_after_a_kill_at_a_system_call(case: Case, tmp_path: Path) -> None:
    preload = compiled(tmp_path)
    if preload is None:
        pytest.skip("there is no C compiler")
    found = play(case, tmp_path, preload)
    assert found.is_good, found
