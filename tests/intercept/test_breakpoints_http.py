"""``mcpproxy http --break``: requests, answers and events that are held until somebody answers them."""

import base64
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mcpproxy.gate.intercept.asking.control_client import ask
from mcpproxy.gate.intercept.control import Command, control_path
from mcpproxy.judge.session.frame import Frame, RequestHead
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from tests.intercept.test_breakpoints import refused_commands
from tests.intercept.test_fault_http import (
    ANSWER,
    CALL,
    LOG_LINE,
    THE_STREAMS_S,
    Streams,
    Talk,
    findings,
    streams,
)
from tests.relay.hosts import DEADLINE_S
from tests.relay.test_http_enforce import SESSION, Proxied

__all__ = ["streams"]

ACCEPT: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
AS_JSON: Final = {"X-Method": ""}
AT_ONCE: Final = {"X-Method": "tools/call at once"}


class Held(Talk):
    """A client whose calls are made in threads, and the control of its proxy."""

    def __init__(self, folder: Path, server: Streams, *options: str) -> None:
        self.proxied = Proxied(folder, server, *options)
        self.proxied.open()
        self.trace = str(self.proxied.trace)
        self.pool = ThreadPoolExecutor(100)

    def call(self, id: int, **headers: str) -> Future[list[str]]:
        return self.pool.submit(self._call, id, headers)

    def _call(self, id: int, headers: dict[str, str]) -> list[str]:
        connection = HTTPConnection(
            self.proxied.connection.host, self.proxied.connection.port, timeout=DEADLINE_S
        )
        try:
            usual = {**ACCEPT, "X-Method": "tools/call", **SESSION, **headers}
            connection.request("POST", "/mcp", json.dumps({**CALL, "id": id}), usual)
            return connection.getresponse().read().decode().split("\n")
        except (RemoteDisconnected, ConnectionResetError):
            return ["closed"]
        finally:
            connection.close()

    def held(self, at_least: int = 1) -> dict[int, int]:
        """The id of each held message -> its number; when so many are held."""
        while True:
            messages = cast("list[dict[str, Any]]", ask(self.trace, {"do": "list"})["held"])
            if len(messages) >= at_least:
                return {
                    json.loads(base64.b64decode(each["base64"]))["id"]: each["number"] for each in messages
                }

    def release(self, how: str, number: int, edited: object = None) -> None:
        command: Command = {"do": how, "number": number}
        if edited is not None:
            command["base64"] = base64.b64encode(json.dumps(edited).encode()).decode()
        assert ask(self.trace, command)["done"] == how

    def close(self) -> None:
        super().close()
        self.pool.shutdown()


@pytest.fixture
def hold(tmp_path: Path, streams: Streams) -> Iterator[Callable[..., Held]]:
    started: list[Held] = []

    def make(*options: str) -> Held:
        started.append(Held(tmp_path, streams, *options))
        return started[-1]

    yield make
    for each in started:
        each.close()


Hold = Callable[..., Held]
DECLINED: Final = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"Internal error"}}'
CALLS: Final = "from:client tool:search"
ANSWERS: Final = "from:server tool:search"


def words(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def test_a_held_request_is_answered_in_each_way(hold: Hold, streams: Streams) -> None:
    held = hold("--break", CALLS)
    calls = {id: held.call(id) for id in (1, 2, 3, 4)}
    numbers = held.held(4)
    assert [message.get("id") for message in streams.heard] == [0, None]
    held.release("resume", numbers[1])
    held.release("edit", numbers[2], {**CALL, "id": 2, "params": {"name": "find", "arguments": {}}})
    held.release("drop", numbers[3])
    held.release("error", numbers[4])
    assert words(calls[1].result(DEADLINE_S)) == [LOG_LINE, ANSWER % 1]
    assert words(calls[2].result(DEADLINE_S)) == [LOG_LINE, ANSWER % 2]
    assert calls[3].result(DEADLINE_S) == ["closed"]
    assert json.loads(calls[4].result(DEADLINE_S)[0])["error"]["code"] == -32603
    heard = {message["id"]: message["params"]["name"] for message in streams.heard[2:]}
    assert heard == {1: "search", 2: "find"}
    told = held.proxied.stop()
    assert not os.path.exists(control_path(held.trace))
    assert findings(held.proxied) == THE_STREAMS_S
    sent = [event for event in told if isinstance(event, Frame) and event.fault and not event.by_proxy]
    assert sorted(json.loads(frame.raw)["id"] for frame in sent) == [1, 2, 3, 4]


@pytest.mark.parametrize("form", [AS_JSON, {}, AT_ONCE], ids=["JSON", "stream", "stream at once"])
def test_a_held_answer_is_given_in_each_way(hold: Hold, form: dict[str, str]) -> None:
    held = hold("--break", ANSWERS)
    calls = {id: held.call(id, **form) for id in (1, 2, 3, 4)}
    numbers = held.held(4)
    held.release("resume", numbers[1])
    held.release("edit", numbers[2], {"jsonrpc": "2.0", "id": 2, "result": {"content": [5]}})
    held.release("drop", numbers[3])
    held.release("error", numbers[4])
    given = {id: words(call.result(DEADLINE_S)) for id, call in calls.items()}
    assert '"id": 1' in given[1][-1]
    assert '{"content": [5]}' in given[2][-1]
    assert given[3] == (["closed"] if form is AS_JSON else [LOG_LINE])
    assert '"Internal error"' in given[4][-1]
    told = held.proxied.stop()
    sent = [
        event
        for event in told
        if isinstance(event, Frame) and event.sender == "server" and not event.by_proxy
    ]
    answers = [json.loads(frame.raw)["id"] for frame in sent if b'"result"' in frame.raw]
    assert sorted(answers) == [0, 1, 2, 3, 4]
    expected = ["TOOL-005 server"] if form is AS_JSON else THE_STREAMS_S
    assert findings(held.proxied) == expected


def test_a_hundred_held_calls_are_answered_in_any_order(hold: Hold, streams: Streams) -> None:
    held = hold("--break", CALLS)
    calls = {id: held.call(id) for id in range(1, 101)}
    numbers = held.held(100)
    draw = random.Random(7)
    ways = {id: draw.choice(["resume", "drop", "error", "edit"]) for id in draw.sample(range(1, 101), 100)}
    for id, how in ways.items():
        held.release(how, numbers[id], {**CALL, "id": id + 1000} if how == "edit" else None)
    for id, how in ways.items():
        given = words(calls[id].result(DEADLINE_S))
        expected = {
            "drop": "closed",
            "resume": ANSWER % id,
            "edit": ANSWER % (id + 1000),
            "error": DECLINED.replace("ID", str(id)),
        }
        assert given[-1] == expected[how]
    assert ask(held.trace, {"do": "list"}) == {"held": []}
    told = held.proxied.stop()
    assert (
        sum(isinstance(event, Frame) and event.fault is not None and not event.by_proxy for event in told)
        == 100
    )
    assert findings(held.proxied) == THE_STREAMS_S


@pytest.mark.parametrize(("then", "given"), [("pass", ANSWER % 1), ("drop", "closed")])
def test_what_becomes_of_it_when_nobody_answers(hold: Hold, then: str, given: str) -> None:
    held = hold("--break", CALLS, "--break-timeout", "50ms", "--break-then", then)
    assert words(held.call(1).result(DEADLINE_S))[-1] == given
    held.proxied.stop()
    assert findings(held.proxied) == THE_STREAMS_S[: then == "pass"]


def test_other_connections_go_on_while_a_call_is_held(hold: Hold) -> None:
    held = hold("--break", f"{CALLS} id:1")
    call = held.call(1)
    held.held()
    assert words(held.call(2).result(DEADLINE_S))[-1] == ANSWER % 2
    held.release("resume", held.held()[1])
    assert words(call.result(DEADLINE_S))[-1] == ANSWER % 1


def test_a_proxy_that_is_stopped_ends_what_it_holds_and_records_it(hold: Hold) -> None:
    held = hold("--break", CALLS)
    call = held.call(1)
    held.held()
    told = held.proxied.stop()
    assert call.result(DEADLINE_S) == ["closed"]
    assert [json.loads(event.raw)["id"] for event in told if isinstance(event, Frame) and event.fault] == [1]
    assert not os.path.exists(control_path(held.trace))
    assert findings(held.proxied) == []


def test_a_proxy_that_is_killed_leaves_what_the_client_said(hold: Hold) -> None:
    held = hold("--break", CALLS)
    call = held.call(1)
    held.held()
    held.proxied.process.kill()
    held.proxied.process.wait(DEADLINE_S)
    assert call.result(DEADLINE_S) == ["closed"]
    while os.path.isdir(journal.folder(held.trace)):  # the recorder ends by itself
        recover(held.trace)
    told = list(read_trace(held.trace).events())
    assert [json.loads(event.raw)["id"] for event in told if isinstance(event, Frame) and event.fault] == [1]
    assert findings(held.proxied) == []


def test_a_client_that_leaves_while_its_call_is_held_changes_nothing_for_others(
    hold: Hold, streams: Streams
) -> None:
    held = hold("--break", f"{CALLS} id:1")
    connection = HTTPConnection(
        held.proxied.connection.host, held.proxied.connection.port, timeout=DEADLINE_S
    )
    connection.request(
        "POST", "/mcp", json.dumps({**CALL, "id": 1}), {**ACCEPT, "X-Method": "tools/call", **SESSION}
    )
    number = held.held()[1]
    connection.close()
    held.release("resume", number)
    assert words(held.call(2).result(DEADLINE_S))[-1] == ANSWER % 2
    told = held.proxied.stop()
    heads = [event.exchange for event in told if isinstance(event, RequestHead) and event.fault]
    assert len(set(heads)) == 1
    assert findings(held.proxied) == THE_STREAMS_S


def test_edits_that_wait_on_two_connections_keep_their_own_messages(tmp_path: Path, streams: Streams) -> None:
    rule = 'from:client tool:search => set {"/params/name": "find"}, delay 100ms'
    held = Held(tmp_path, streams, "--fault", rule)
    barrier = threading.Barrier(5)

    def meet(id: int) -> list[str]:
        barrier.wait(DEADLINE_S)
        return words(held.call(id).result(DEADLINE_S))

    calls = [held.pool.submit(meet, id) for id in range(1, 6)]
    assert sorted(call.result(DEADLINE_S)[-1] for call in calls) == [ANSWER % id for id in range(1, 6)]
    assert sorted((message["id"], message["params"]["name"]) for message in streams.heard[2:]) == [
        (id, "find") for id in range(1, 6)
    ]
    held.close()


def test_what_is_no_command_is_refused_and_the_message_is_still_held(hold: Hold) -> None:
    held = hold("--break", CALLS)
    answer = held.call(1)
    assert held.held() == {1: 1}
    refused_commands(held.trace)
    held.release("resume", 1)
    assert words(answer.result(DEADLINE_S)) == [LOG_LINE, ANSWER % 1]
