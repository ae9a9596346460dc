"""Nothing that waits is forgotten: what wakes the relay when nobody sends anything any more."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.policies import Policies
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from tests.intercept.test_fault_relay import INITIALIZE, OPENED, PEER, call
from tests.relay.hosts import DEADLINE_S, HOME

MS: Final = 1_000_000

RULES: Final = [
    "from:client => delay 30ms, jitter 20ms, percentage 30",
    "from:client => delay 30ms, hold one, percentage 20",
    "from:server => delay 70ms, percentage 20",
    "from:server => reorder 3, within 40ms, percentage 30",
    "from:client => join, within 25ms, percentage 20",
    "from:server => split 3, gap 9ms, percentage 20",
    "from:server => duplicate 2, gap 9ms, percentage 20",
    "from:client => bandwidth 5k, percentage 20",
    "from:client => stall 50ms, percentage 5",
    "from:client kind:request => error, percentage 10",
]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_everything_is_given_when_it_is_due(seed: int) -> None:
    """A clock that only moves to the next line, or to when the lanes want to be asked again."""
    draw = random.Random(seed)  # a test that can be repeated
    rules = draw.sample(RULES, 4)
    policies = Policies([FaultPolicy(read_faults([], rules, "stdio", seed))], lambda text: None)
    lanes = Lanes(policies, lambda text: None)
    arrivals: list[tuple[int, Sender, bytes]] = []
    for sender in (CLIENT, SERVER):
        for number in range(60):
            content = f'"id":{number},"method":"ping"' if sender == CLIENT else f'"id":{number},"result":{{}}'
            line = b'{"jsonrpc":"2.0",%s}\n' % content.encode()
            arrivals.append((draw.randrange(2_000 * MS), sender, line))
    arrivals.sort()
    received: dict[Sender, bytes] = {CLIENT: b"", SERVER: b""}

    def take(steps: list[LaneStep]) -> None:
        for step in steps:
            if step.kind in ("pass", "give", "answer"):
                received[step.sender] += step.data

    ends: list[Sender] = [CLIENT, SERVER]
    now_ns = 0
    while True:
        due_ns = lanes.next_due_ns
        if arrivals and (due_ns is None or arrivals[0][0] <= due_ns):
            now_ns, sender, line = arrivals.pop(0)
            take(list(lanes.take_bytes(sender, line, now_ns)))
        elif due_ns is not None:
            assert due_ns >= now_ns, "what is due by now has been given"
            now_ns = due_ns
            take(list(lanes.take_due(now_ns)))
            next_ns = lanes.next_due_ns
            assert next_ns is None or next_ns > now_ns, "the relay would not sleep"
        elif ends:
            take(list(lanes.end(ends.pop(), now_ns)))
        else:
            break
    assert not lanes.is_waiting(CLIENT)
    assert not lanes.is_waiting(SERVER)
    assert not lanes.is_full(CLIENT)
    assert not lanes.is_full(SERVER)
    given = [Counter(json.loads(line)["id"] for line in data.splitlines()) for data in received.values()]
    assert all(set(ids) == set(range(60)) for ids in ([*given[0], *given[1]], given[1]))


@pytest.mark.parametrize("sender", ["client", "server"])
@pytest.mark.parametrize(
    "do", ["delay 50ms", "delay 50ms, hold one", "reorder, within 50ms", "join, within 50ms", "stall 50ms"]
)
def test_one_late_message_arrives_although_nothing_else_happens(tmp_path: Path, sender: str, do: str) -> None:
    """The client keeps its streams open, and sends nothing while it waits."""
    command = [sys.executable, "-m", "mcpproxy", "--trace", str(tmp_path / "session.jsonl")]
    with subprocess.Popen(
        [*command, "--fault", f"from:{sender} => {do}", "--", sys.executable, PEER, json.dumps(OPENED)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=HOME,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = [call(0, "initialize", **INITIALIZE), *(call(number, "ping") for number in (1, 2, 3))]
        for message in asked:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            ready = is_readable(process.stdout, DEADLINE_S)
            assert ready, f"no answer to {message['id']}"
            assert json.loads(os.read(process.stdout.fileno(), 1 << 16))["id"] == message["id"]
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


_PAGE: Final = 4096

_LATE_READER: Final = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
while os.read(0, 1 << 16):
    pass
print("end", flush=True)
signal.sigwait([signal.SIGUSR1])
"""


def test_a_stream_that_is_closed_when_it_has_room_again_is_not_watched(tmp_path: Path) -> None:
    """The end waits behind bytes for which the server's pipe has no room."""
    fault = "tool:last => disconnect half-close"
    command = [sys.executable, "-m", "tests.intercept.watched_command", "--trace", str(tmp_path / "s.jsonl")]
    with subprocess.Popen(
        [*command, "--fault", fault, "--", sys.executable, "-c", _LATE_READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=HOME,
        pipesize=_PAGE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        # Our pipe holds one page, so that the relay reads page by page; the server's pipe holds 16 of them.
        page = b"x" * (_PAGE - 1) + b"\n"
        ending = json.dumps(call(1, name="last")).encode() + b"\n"
        for data in (*[page] * 16, page[len(ending) :] + ending, b"x" * _PAGE):
            process.stdin.write(data)
            process.stdin.flush()
        # The last page has found room, so the relay has read the one before.
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == b"end\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(DEADLINE_S) == 0
        assert b"Traceback" not in process.stderr.read()
