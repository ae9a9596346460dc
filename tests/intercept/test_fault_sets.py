"""The ready-made sets: nobody is blamed for what they do, and a peer's own fault beside it is found."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.gate.intercept import fault_sets
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import about, read_faults, transports_of
from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.policies import Policies
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.observer.two_views import CUT, TwoViews
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Event, Frame, Note, Sender
from tests.intercept.test_fault_http import Streams, Talk, streams
from tests.intercept.test_fault_relay import INITIALIZE, INITIALIZED, OPENED, call

__all__ = ["streams"]

MS: Final = 1_000_000
PATIENCE_NS: Final = 90_000 * MS
"""How long the client waits for an answer; longer than the slowest set."""

Message = dict[str, Any]
ON_STDIO: Final = [name for name in fault_sets.names() if "stdio" in transports_of(name)]
TOOLS: Final = [{"name": "search", "inputSchema": {"type": "object", "additionalProperties": False}}]


class Session:
    """A lawful client and a lawful server on stdio, with faults between them and a clock of their own.

    With ``is_planted`` the server forgets the content of its second result.
    """

    def __init__(self, faults: str, seed: int, *, is_planted: bool) -> None:
        rules = read_faults([faults], [], "stdio", seed)

        def say(text: str) -> None:
            assert "a fault of" not in text

        self.lanes = Lanes(Policies([FaultPolicy(rules)], say), say)
        self.events: list[Event] = []
        self.acted: set[str] = set()
        self.is_over = False
        self.now_ns = 0
        self._is_planted = is_planted
        self._calls = 0
        self._partial: dict[Sender, bytes] = {CLIENT: b"", SERVER: b""}
        self._answered: set[object] = set()
        self._seq = 0
        self._to_server: list[Message] = []

    def play(self, calls: int) -> None:
        self._ask(call(0, "initialize", **INITIALIZE))
        self._send(CLIENT, INITIALIZED)
        self._ask(call(1, "tools/list"))
        for id in range(2, calls + 2):
            if self.is_over:
                break
            self._ask(call(id, name="search", arguments={}))
        self.events.append(Close("cut", observed_at_ns=self.now_ns))

    def _ask(self, message: Message) -> None:
        self._send(CLIENT, message)
        deadline_ns = self.now_ns + PATIENCE_NS
        while message["id"] not in self._answered and not self.is_over:
            while self._to_server:
                self._serve(self._to_server.pop(0))
            due_ns = self.lanes.next_due_ns
            if due_ns is None or due_ns > deadline_ns:
                break
            self.now_ns = max(due_ns, self.now_ns)
            self._do(list(self.lanes.take_due(self.now_ns)))
        self.now_ns += MS

    def _serve(self, request: Message) -> None:
        self.now_ns += MS
        result: Message = {"content": []}
        if request["method"] == "initialize":
            result = OPENED
        elif request["method"] == "tools/list":
            result = {"tools": TOOLS}
        else:
            self._calls += 1
            result = {} if self._is_planted and self._calls == 2 else result
        self._send(SERVER, {"jsonrpc": "2.0", "id": request["id"], "result": result})

    def _send(self, sender: Sender, message: Message) -> None:
        line = json.dumps(message).encode() + b"\n"
        self._do(list(self.lanes.take_bytes(sender, line, self.now_ns)))

    def _do(self, steps: list[LaneStep]) -> None:
        """What the relay does, and what the recorder writes about it."""
        for step in steps:
            if step.fault:
                self.acted.add(step.fault.rule)
            if step.kind == "end":
                assert step.fault is not None
                self.events.append(Note(0, CUT, step.fault.rule, self.now_ns))
                self.is_over = True
                return
            *lines, rest = step.data.split(b"\n")
            for index, raw in enumerate([*lines, rest] if rest else lines):
                self._seq += 1
                frame = Frame(self._seq, step.sender, raw, self.now_ns, index < len(lines), fault=step.fault)
                frame.by_proxy = step.kind in ("give", "answer")
                frame.continues = frame.by_proxy and not frame.terminated
                self.events.append(frame)
            if step.kind != "withhold":
                self._receive(step.sender, step.data)

    def _receive(self, sender: Sender, data: bytes) -> None:
        *lines, self._partial[sender] = (self._partial[sender] + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if sender == CLIENT and "id" in message:
                self._to_server.append(message)
            elif sender == SERVER:
                self._answered.add(message.get("id"))

    def findings(self) -> list[str]:
        judge = TwoViews(lambda: Observer(catalogue.load()))
        return [f"{found.rule} {found.blame}" for event in self.events for found in judge.observe(event)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ON_STDIO)
def test_nobody_is_blamed_on_stdio(name: str, seed: int) -> None:
    session = Session(name, seed, is_planted=False)
    session.play(25)
    assert session.acted
    assert session.findings() == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ON_STDIO)
def test_a_fault_of_the_server_is_found_on_stdio(name: str, seed: int) -> None:
    session = Session(name, seed, is_planted=True)
    session.play(25)
    assert session.findings() == ["TOOL-005 server"]


THE_STREAMS_S: Final = "PROTO-009 server"
CALLS: Final = {"slow-tools": 1}
"""Over HTTP time passes."""


@pytest.mark.parametrize("name", fault_sets.names())
def test_only_the_fault_of_the_server_is_found_over_http(name: str, tmp_path: Path, streams: Streams) -> None:
    talk = Talk(tmp_path, streams, name, option="--faults")
    try:
        token = {"Authorization": "Bearer old"}
        for id in range(1, CALLS.get(name, 6) + 1):
            try:
                status, _ = talk.ask(id, **token)
            except ConnectionError:  # the answer was dropped, or the connection cut
                talk.proxied.connection.close()
                continue
            if status == 401:
                token = {"Authorization": "Bearer new"}
            elif status == 404:
                break
        assert talk.findings() == [THE_STREAMS_S]
    finally:
        talk.close()


@pytest.mark.parametrize("name", fault_sets.names())
def test_a_set_says_what_it_does(name: str) -> None:
    assert about(name)
    for transport in transports_of(name):
        assert read_faults([name], [], transport, 1).rules
