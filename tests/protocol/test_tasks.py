"""The life of a task as a table: total, final where it should be, and each mistake told once."""

from datetime import UTC, datetime

import pytest

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.task_lifecycle import TRANSITIONS, TaskState, parse_time, state_of_status

S = TaskState

REPORTS = tuple(state for state in TaskState if state is not S.UNSEEN)

WALKS: dict[str, tuple[tuple[TaskState, str | None], ...]] = {
    "an easy life": ((S.WORKING, None), (S.COMPLETED, None), (S.SETTLED, None), (S.COMPLETED, None)),
    "with questions": ((S.WORKING, None), (S.INPUT_REQUIRED, None), (S.WORKING, None), (S.FAILED, None)),
    "hardly seen": ((S.CANCELLED, None), (S.CANCELLED, None)),
    "back to life, told once": ((S.COMPLETED, None), (S.WORKING, "R-195"), (S.COMPLETED, None)),
    "two ends": ((S.FAILED, None), (S.COMPLETED, "R-195"), (S.COMPLETED, None)),
    "cancelled, but not for good": ((S.CANCELLED, None), (S.COMPLETED, "R-200"), (S.COMPLETED, None)),
    "a result too early": ((S.WORKING, None), (S.SETTLED, None), (S.WORKING, "R-197"), (S.WORKING, None)),
    "a result in time": ((S.WORKING, None), (S.SETTLED, None), (S.FAILED, None)),
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_a_walk_breaks_what_it_should(walk: tuple[tuple[TaskState, str | None], ...]) -> None:
    state = S.UNSEEN
    for report, broken in walk:
        step = TRANSITIONS[state][report]
        assert (step.breaks[1] if step.breaks else None) == broken, report
        state = step.to


@pytest.mark.parametrize("state", TaskState)
def test_every_state_answers_every_report(state: TaskState) -> None:
    assert set(TRANSITIONS[state]) == set(REPORTS)


@pytest.mark.parametrize("state", TaskState)
def test_only_a_change_after_a_final_state_is_forbidden(state: TaskState) -> None:
    for report, step in TRANSITIONS[state].items():
        assert step.breaks is None or state.final, report
        if report is state:
            assert step == (state, None)


def test_a_result_does_not_hide_how_a_task_ended() -> None:
    for state in (S.COMPLETED, S.FAILED, S.CANCELLED):
        assert TRANSITIONS[state][S.SETTLED].to is state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("working", S.WORKING),
        ("cancelled", S.CANCELLED),
        ("settled", None),
        ("", None),
        (None, None),
        ([], None),
    ],
)
def test_a_status_names_a_state_or_none(status: JSON, state: TaskState | None) -> None:
    assert state_of_status(status) is state


TEN = datetime(2025, 11, 25, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2025-11-25T10:00:00Z", TEN),
        ("2025-11-25t10:00:00.000000000z", TEN),
        ("2025-11-25T11:00:00+01:00", TEN),
        ("2025-11-25T10:00:00", TEN),
        ("2025-11-25T09:59:60Z", TEN.replace(hour=9, minute=59, second=59)),
        ("Tue, 25 Nov 2025 10:00:00 GMT", None),
        ("just now", None),
        ("", None),
        (1764064800, None),
        (None, None),
    ],
)
def test_a_timestamp_is_read_in_any_form_of_the_standard(text: JSON, found: datetime | None) -> None:
    assert parse_time(text) == found
