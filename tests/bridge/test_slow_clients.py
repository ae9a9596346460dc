"""A client that takes its messages slowly gets every one of them, and the server waits for it."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge.ends import Bridge, Reply, call, result
from tests.bridge.test_stdio import FIELDS, PROGRESS, STATELESS, WITH_TOKEN, pid_of
from tests.relay.test_signals import state

FLOOD = 400
"""Times 64 KiB: more than is kept, and more than fits between the two."""

LOGGED = re.compile(rb'"data":"(\d+) x')


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    with Bridge(tmp_path) as bridge:
        yield bridge


def wait_until_blocked(bridge: Bridge, pid: int) -> None:
    """Wait until a server writes no further, for now or at all, and the bridge has nothing to do."""
    written, same = b"", 0
    while same < 30:
        now = next(line for line in Path(f"/proc/{pid}/io").read_bytes().splitlines() if b"wchar" in line)
        is_idle = state(pid) == state(bridge.process.pid) == "S"  # and not ready to run on a busy machine
        same = same + 1 if now == written and is_idle else 0
        written = now
        time.sleep(0.01)  # nothing says that a process is blocked


def heard(reply: Reply) -> tuple[list[int], str, bool]:
    """Return the numbers of the log messages of a connection, the last id, and if it was answered."""
    numbers: list[int] = []
    last_id, is_answered = "", False
    for event in reply.events():
        last_id = event.get("id", b"").decode()
        if found := LOGGED.search(event["data"]):
            numbers.append(int(found[1]))
        is_answered |= b'"result"' in event["data"]
    return numbers, last_id, is_answered


def test_the_server_waits_for_a_client_that_reads_slowly(bridge: Bridge) -> None:
    session = bridge.begin()
    pid = pid_of(bridge, session)
    reply = bridge.ask(call(1, f"flood {FLOOD}", result(1)), session)
    wait_until_blocked(bridge, pid)
    assert heard(reply) == ([*range(FLOOD)], f"3-{FLOOD + 2}", True)


def test_the_server_waits_in_the_gap_between_two_polls(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--poll-after", "0") as bridge:
        session = bridge.begin()
        _, last_id, _ = heard(bridge.ask(call(1, f"flood {FLOOD}", result(1)), session))
        numbers: list[int] = []
        is_answered = False
        while not is_answered:
            more, last_id, is_answered = heard(
                bridge.ask(method="GET", session=session, Last_Event_ID=last_id)
            )
            numbers += more
        assert numbers == [*range(FLOOD)]


def test_nobody_waits_for_a_client_that_has_gone(bridge: Bridge) -> None:
    session = bridge.begin()
    pid = pid_of(bridge, session)
    reply = bridge.ask(call(1, f"flood {FLOOD}", result(1)), session)
    wait_until_blocked(bridge, pid)
    reply.drop()
    bridge.process.expect("(the client does not read one of its streams)")
    *_, answer = bridge.ask(call(2, result(2)), session).events()
    assert answer["data"] == result(2)


def test_a_server_that_exits_is_read_to_its_end(bridge: Bridge) -> None:
    session = bridge.begin()
    pid = pid_of(bridge, session)
    reply = bridge.ask(call(1, f"flood {FLOOD}", "exit 0"), session)
    wait_until_blocked(bridge, pid)
    numbers, _, _ = heard(reply)
    assert numbers == [*range(FLOOD)]


def test_stateless_requests_go_to_another_process_while_one_is_behind(bridge: Bridge) -> None:
    pid = bridge.ask(call(1, "pid", **STATELESS), **FIELDS).body()
    reply = bridge.ask(call(2, PROGRESS, f"flood {FLOOD}", result(2), **WITH_TOKEN), **FIELDS)
    wait_until_blocked(bridge, int(re.findall(rb'"pid":(\d+)', pid)[0]))
    assert bridge.ask(call(3, "pid", **STATELESS), **FIELDS).body() != pid.replace(b'"id":1', b'"id":3')
    numbers, _, is_answered = heard(reply)
    assert (numbers, is_answered) == ([*range(FLOOD)], True)
