"""Every attack that ``python -m tests.attacks`` plays, on the installed command."""

import pytest

from tests.attacks import stage
from tests.attacks.stage import Attack
from tests.attacks.table import CHAPTERS
from tests.benchmarks import processes

pytestmark = pytest.mark.skipif(not processes.AVAILABLE, reason="processes are found through /proc")

ATTACKS = [attack for attacks in CHAPTERS.values() for attack in attacks]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_it_has_no_effect(attack: Attack) -> None:
    with stage.stage(stage.installed()) as opened:
        assert attack.play(opened)


def test_each_says_what_must_hold() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert all(attack.line for attack in ATTACKS)
