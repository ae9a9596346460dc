"""Tests are shared out so that the long ones start first and pairs of peers stay together."""

from pathlib import Path

from tests import schedule

ROOT = Path(__file__).parent.parent

STDIO = "tests/test_real_sessions.py::test_a_real_session_is_the_same_and_found_clean"
REPLAYED = "tests/replay/test_server_real.py::test_another_client_is_answered_as_well"


def test_what_belongs_to_a_pair_of_peers_goes_together() -> None:
    pair = schedule.scope(f"{STDIO}[python 1 - everything]")
    assert pair == schedule.scope(f"{REPLAYED}[python 1 - everything, typescript 1]")
    assert pair != schedule.scope(f"{STDIO}[python 1 - python 2]")


def test_a_long_test_goes_alone_and_a_file_of_short_ones_whole() -> None:
    one, other = "tests/test_oauth.py::test_one", "tests/test_oauth.py::test_other[a]"
    assert schedule.scope(one) != schedule.scope(other)
    assert schedule.scope("tests/relay/test_run.py::test_one[a - b]") == "tests/relay/test_run.py"


def test_files_that_share_verdicts_go_together() -> None:
    rules = schedule.scope("tests/rules/test_rules.py::test_one[a - b]")
    assert rules == schedule.scope("tests/rules/test_levels.py::test_one")
    assert rules == schedule.scope("tests/test_new_revision.py::test_one")


def test_long_tests_go_out_first() -> None:
    short = "tests/checks/test_table.py::test_one"
    whole = "tests/rules/test_rules.py::test_one"
    assert sorted([short, whole, STDIO], key=schedule.rank) == [STDIO, whole, short]


def test_what_is_named_is_there() -> None:
    together = (file for group in schedule.TOGETHER for file in group)
    missing = [file for file in (*schedule.SINGLY, *schedule.EARLY, *together) if not (ROOT / file).exists()]
    assert missing == []
