"""What is known of a host that plays the script otherwise is data, and is held against each run."""

import pytest

from tests.real_hosts.__main__ import unexpected
from tests.real_hosts.hosts import HOSTS
from tests.real_hosts.script import SCRIPT, script_for


def test_a_host_has_its_own_text_in_place_of_what_the_script_expects() -> None:
    changed = [
        (turn, before)
        for turn, before in zip(script_for({"logbook": "truncated"}), SCRIPT, strict=True)
        if turn != before
    ]
    assert changed == [
        (
            {"call": "logbook", "expect": {"contains": "truncated"}},
            {"call": "logbook", "expect": {"contains": "entry 000000"}},
        )
    ]


@pytest.mark.parametrize("name", HOSTS)
def test_what_is_known_of_a_result_is_of_a_call_of_the_script(name: str) -> None:
    assert set(HOSTS[name].results) <= {turn.get("call") for turn in SCRIPT}


def test_a_finding_that_is_not_known_and_a_known_one_that_did_not_come_are_both_said() -> None:
    assert list(unexpected(["CONT-001: a", "PROTO-004: b"], ["CONT-001: a", "CONT-001: c"])) == [
        "not known of the host: PROTO-004: b",
        "known of the host, and not so: CONT-001: c",
    ]
