"""The same seed gives the same faults in real sessions with 16 calls in flight, and another seed others."""

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame
from mcpproxy.record.trace.reader import read_trace
from tests.intercept.test_fault_http import CALL, THE_SERVER_S, Proxied, Server, findings, server
from tests.intercept.test_fault_relay import INITIALIZE, INITIALIZED, OPENED, call
from tests.relay.hosts import DEADLINE_S, HOME, until_recorded
from tests.relay.test_http_enforce import SESSION

__all__ = ["server"]

IN_FLIGHT: Final = 16
CALLS: Final = 160
RULES: Final = (
    "from:client tool:search => error, percentage 20, name refused",
    "from:server tool:search => delay 3ms, jitter 3ms, hold one, percentage 20, name late",
    'from:server tool:search => set {"/result/content": []}, percentage 20, name changed',
)
SHUFFLING_PEER: Final = f"""
import json, random, select, sys
order = random.Random(int(sys.argv[1]))
asked = []
def say(id, result):
    sys.stdout.write(json.dumps({{"jsonrpc": "2.0", "id": id, "result": result}}) + "\\n")
    sys.stdout.flush()
for line in iter(sys.stdin.readline, ""):
    message = json.loads(line)
    if message["method"] == "initialize":
        say(message["id"], json.loads(sys.argv[2]))
    elif message.get("method") == "tools/call":
        asked.append(message["id"])
    while asked and (len(asked) >= {IN_FLIGHT // 2} or not select.select([sys.stdin], [], [], 0)[0]):
        say(asked.pop(order.randrange(len(asked))), {{"content": [{{"type": "text", "text": ""}}]}})
"""


def play(folder: Path, shuffling: int, seed: int) -> set[tuple[str, str, int]]:
    """Play one session; return which rules acted on which calls and answers, counted for each direction."""
    trace = folder / f"{shuffling}-{seed}.jsonl"
    options = [word for rule in RULES for word in ("--fault", rule)]
    command = [sys.executable, "-m", "mcpproxy", "--trace", str(trace), *options, "--fault-seed", str(seed)]
    peer = [sys.executable, "-c", SHUFFLING_PEER, str(shuffling), json.dumps(OPENED)]
    with subprocess.Popen(
        [*command, "--quiet", "--", *peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=HOME
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def say(*messages: object) -> None:
            assert process.stdin is not None
            process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
            process.stdin.flush()

        say(call(0, "initialize", **INITIALIZE))
        process.stdout.readline()
        say(INITIALIZED, *(_search(id) for id in range(1, IN_FLIGHT + 1)))
        for id in range(IN_FLIGHT + 1, CALLS + IN_FLIGHT + 1):
            assert process.stdout.readline()
            if id <= CALLS:
                say(_search(id))
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
    until_recorded(trace)
    acted: set[tuple[str, str, int]] = set()
    occurrences = {CLIENT: 0, SERVER: -1}  # the first answer is that to initialize
    for event in read_trace(str(trace)).events():
        if isinstance(event, Frame) and not event.by_proxy and b'"id"' in event.raw:
            is_call = event.sender == SERVER or b"tools/call" in event.raw
            occurrences[event.sender] += is_call
            if event.fault is not None and event.fault.action != "wait":
                acted.add((event.fault.rule, event.sender, occurrences[event.sender]))
    return acted


def _search(id: int) -> dict[str, object]:
    return call(id, name="search", arguments={})


def test_a_session_meets_the_same_faults_in_whatever_order_its_calls_are_answered(tmp_path: Path) -> None:
    expected = play(tmp_path, 0, seed=7)
    assert {rule for rule, _, _ in expected} == {"refused", "late", "changed"}
    assert [play(tmp_path, shuffling, seed=7) for shuffling in (1, 2)] == [expected, expected]
    assert play(tmp_path, 0, seed=8) != expected


@pytest.mark.parametrize("seed", [7, 8])
def test_as_many_requests_meet_a_fault_on_sixteen_connections(
    tmp_path: Path, server: Server, seed: int
) -> None:
    def refused(run: int) -> int:
        (tmp_path / str(run)).mkdir()
        rule = "from:client tool:search => status 503, percentage 30"
        proxied = Proxied(tmp_path / str(run), server, "--fault", rule, "--fault-seed", str(seed))
        proxied.open()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            ids = random.Random(run).sample(range(1, 81), 80)
            statuses = list(pool.map(partial(_post, proxied.connection), ids))
        proxied.stop()
        assert findings(proxied) == THE_SERVER_S
        return statuses.count(503)

    first = refused(0)
    assert 10 < first < 40
    assert refused(1) == first


def _post(to: HTTPConnection, id: int) -> int:
    connection = HTTPConnection(to.host, to.port, timeout=DEADLINE_S)
    accept = "application/json, text/event-stream"
    headers = {"Content-Type": "application/json", "Accept": accept, **SESSION}
    connection.request("POST", "/mcp", json.dumps({**CALL, "id": id}), headers)
    status = connection.getresponse().status
    connection.close()
    return status
