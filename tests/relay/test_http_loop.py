"""The loop behaves alike with and without epoll; timers run in order, unless they are stopped."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from mcpproxy.record.relay.http import loop as loops
from mcpproxy.record.relay.http.loop import READ, WRITE, Loop, SelectorEpoll, Timers

OnFault = Callable[[Callable[..., None], Exception], None]


def raised(work: Callable[..., None], fault: Exception) -> None:
    raise fault


@pytest.fixture(params=["epoll", "selectors"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[OnFault], Loop]:
    if request.param == "selectors":
        monkeypatch.setattr(loops, "make_epoll", SelectorEpoll)
    return Loop


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_a_handler_hears_what_was_asked_for(make: Callable[[OnFault], Loop], pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    heard: list[tuple[str, int]] = []
    loop = make(raised)
    loop.watch(reading, READ, lambda events: heard.append(("reading", events)))
    loop.watch(writing, 0, lambda events: heard.append(("writing", events)))
    loop.turn(0)
    assert heard == []
    loop.change(writing, WRITE)
    loop.turn(None)
    assert heard == [("writing", WRITE)]
    loop.change(writing, 0)
    os.write(writing, b"x")
    loop.turn(None)
    assert heard[1:] == [("reading", READ)]
    loop.change(reading, 0)
    loop.turn(0)
    assert len(heard) == 2
    loop.change(reading, READ)
    loop.forget(writing)
    loop.turn(None)
    assert len(heard) == 3
    loop.forget(reading)
    loop.turn(0)
    assert len(heard) == 3


def test_a_handler_that_was_forgotten_in_the_same_turn_is_not_called(
    make: Callable[[OnFault], Loop], pipe: tuple[int, int]
) -> None:
    heard: list[int] = []
    loop = make(raised)
    other = {pipe[0]: pipe[1], pipe[1]: pipe[0]}

    def handler(fd: int) -> Callable[[int], None]:
        def hear(events: int) -> None:
            heard.append(fd)
            loop.forget(other[fd])

        return hear

    os.write(pipe[1], b"x")
    loop.watch(pipe[0], READ, handler(pipe[0]))
    loop.watch(pipe[1], WRITE, handler(pipe[1]))
    loop.turn(None)
    assert len(heard) == 1


def test_a_handler_that_raises_stops_no_other(make: Callable[[OnFault], Loop], pipe: tuple[int, int]) -> None:
    faults: list[str] = []
    loop = make(lambda handler, fault: faults.append(f"{handler is faulty} {fault}"))

    def faulty(events: int) -> None:
        raise ValueError(events)

    os.write(pipe[1], b"x")
    loop.watch(pipe[0], READ, faulty)
    loop.watch(pipe[1], WRITE, faulty)
    loop.turn(None)
    assert sorted(faults) == ["True 1", "True 4"]


def test_timers_go_off_in_order_and_not_when_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    timers = Timers(raised)
    done: list[str] = []
    timers.start(2, lambda: done.append("second"))
    timers.start(1, lambda: done.append("first"))
    stopped = timers.start(1.5, lambda: done.append("stopped"))
    assert timers.run() == 1
    now = 101.0
    assert timers.run() == 0.5
    stopped.stop()
    assert timers.run() == 1
    now = 105.0
    assert timers.run() is None
    assert done == ["first", "second"]


def test_a_timer_that_raises_stops_no_other() -> None:
    faults: list[str] = []
    done: list[str] = []
    timers = Timers(lambda work, fault: faults.append(f"{work is faulty} {fault}"))

    def faulty() -> None:
        raise ValueError("out of order")

    timers.start(0, faulty)
    timers.start(0, lambda: done.append("the next"))
    assert timers.run() is None
    assert faults == ["True out of order"]
    assert done == ["the next"]
