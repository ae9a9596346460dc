"""The handshake as a table: total, and each mistake told once."""

import pytest

from mcpproxy.protocol.lifecycle import TRANSITIONS, Input, State, Step

I, S = Input, State  # noqa: E741 # as in the table

WALKS: dict[str, tuple[tuple[Input, str | None], ...]] = {
    "the handshake": (
        (I.INITIALIZE, None),
        (I.INITIALIZE_RESULT, None),
        (I.INITIALIZED, None),
        (I.CLIENT_REQUEST, None),
        (I.SERVER_REQUEST, None),
    ),
    "pings at any time": (
        (I.PING, None),
        (I.INITIALIZE, None),
        (I.PING, None),
        (I.INITIALIZE_RESULT, None),
        (I.PING, None),
        (I.INITIALIZED, None),
        (I.PING, None),
    ),
    "no handshake": ((I.CLIENT_REQUEST, "R-028"), (I.CLIENT_REQUEST, None), (I.SERVER_REQUEST, None)),
    "no handshake, but the notification": ((I.INITIALIZED, "R-037"), (I.CLIENT_REQUEST, None)),
    "a server that cannot wait": (
        (I.SERVER_REQUEST, "R-036"),
        (I.INITIALIZE, None),
        (I.SERVER_REQUEST, "R-036"),
        (I.INITIALIZE_RESULT, None),
        (I.SERVER_REQUEST, "R-036"),
        (I.INITIALIZED, None),
        (I.SERVER_REQUEST, None),
    ),
    "a client that cannot wait": (
        (I.INITIALIZE, None),
        (I.CLIENT_REQUEST, "R-033"),
        (I.INITIALIZE_RESULT, None),
        (I.CLIENT_REQUEST, "R-035"),
        (I.CLIENT_REQUEST, None),
        (I.INITIALIZED, None),
        (I.CLIENT_REQUEST, None),
    ),
    "a refusal, then another try": (
        (I.INITIALIZE, None),
        (I.INITIALIZE_ERROR, None),
        (I.PING, None),
        (I.INITIALIZE, None),
        (I.INITIALIZE_RESULT, None),
        (I.INITIALIZED, None),
    ),
    "a refusal that is not heard": (
        (I.INITIALIZE, None),
        (I.INITIALIZE_ERROR, None),
        (I.CLIENT_REQUEST, "R-039"),
        (I.CLIENT_REQUEST, None),
    ),
    "a refusal that is confirmed": (
        (I.INITIALIZE, None),
        (I.INITIALIZE_ERROR, None),
        (I.INITIALIZED, "R-037"),
        (I.INITIALIZED, None),
    ),
    "once is enough": (
        (I.INITIALIZE, None),
        (I.INITIALIZE, "R-038"),
        (I.INITIALIZE_RESULT, None),
        (I.INITIALIZE_RESULT, None),
        (I.INITIALIZED, None),
        (I.INITIALIZED, "R-037"),
        (I.INITIALIZE, "R-038"),
        (I.INITIALIZE_ERROR, None),
        (I.CLIENT_REQUEST, None),
    ),
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_walk(walk: tuple[tuple[Input, str | None], ...]) -> None:
    state = State.IDLE
    for happened, broken in walk:
        step = TRANSITIONS[state][happened]
        assert (step.breaks[1] if step.breaks else None) == broken, f"{happened} in {state}"
        state = step.to


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("happened", Input)
def test_every_state_answers_every_input(state: State, happened: Input) -> None:
    assert isinstance(TRANSITIONS[state][happened], Step)


@pytest.mark.parametrize("state", State)
def test_a_ping_is_always_allowed_and_changes_no_state(state: State) -> None:
    assert TRANSITIONS[state][Input.PING] == Step(state)


def test_nothing_is_forbidden_in_the_unknown_state() -> None:
    assert all(step.breaks is None for step in TRANSITIONS[State.UNKNOWN].values())


def test_every_state_but_the_unknown_is_reached() -> None:
    reached, open_ = {State.IDLE}, [State.IDLE]
    while open_:
        for step in TRANSITIONS[open_.pop()].values():
            if step.to not in reached:
                reached.add(step.to)
                open_.append(step.to)
    assert reached == set(State) - {State.UNKNOWN}
