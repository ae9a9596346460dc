"""What happens to the lines of both directions, as a conversation with a clock of its own (in ms)."""

import json
from typing import Final

import pytest

from mcpproxy.gate.intercept.addons.addon_policy import AddonPolicy
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES, ClosedGate
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.policies import Passing, Policies, Policy
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender

MS: Final = 1_000_000
ONE: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}\n'
TWO: Final = b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
SAID_ONE: Final = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
SAID_TWO: Final = b'{"jsonrpc":"2.0","id":2,"result":{}}\n'
Shown = tuple[str, bytes]


class Played:
    """Lanes with a clock; each call returns what the relay has to do, as pairs of a word and bytes."""

    def __init__(self, *specs: str, before: Policy | None = None, closed: str = "") -> None:
        self.said: list[str] = []
        gate = ClosedGate(closed, self.said.append)
        policies = [FaultPolicy(read_faults([], specs, "stdio", 7), self.said.append)]
        addons = AddonPolicy(lambda _, __: False, gate)
        first = [before] if before is not None else []
        self.lanes = Lanes(Policies([*first, *policies, addons], self.said.append, gate), self.said.append)
        self.now_ms = 0
        self.steps: list[LaneStep] = []

    def client(self, data: bytes) -> list[Shown]:
        return self._shown(list(self.lanes.take_bytes(CLIENT, data, self.now_ms * MS)))

    def server(self, data: bytes) -> list[Shown]:
        return self._shown(list(self.lanes.take_bytes(SERVER, data, self.now_ms * MS)))

    def at(self, now_ms: int) -> list[Shown]:
        self.now_ms = now_ms
        return self._shown(list(self.lanes.take_due(now_ms * MS)))

    def end(self, sender: Sender) -> list[Shown]:
        return self._shown(list(self.lanes.end(sender, self.now_ms * MS)))

    def _shown(self, steps: list[LaneStep]) -> list[Shown]:
        self.steps += steps
        receiver = {CLIENT: "server", SERVER: "client"}
        words = {"give": "to {}", "answer": "to {}", "pass": "pass", "withhold": "keep", "end": "end"}
        return [
            (words[step.kind].format(receiver[step.sender]), step.data or step.ending.encode())
            for step in steps
        ]


def test_what_no_rule_matches_passes_at_once_as_it_came() -> None:
    lanes = Played("tool:other => drop")
    assert lanes.client(ONE + TWO[:9]) == [("pass", ONE)]
    assert lanes.client(TWO[9:]) == [("pass", TWO)]
    assert lanes.server(b"not JSON\r\n\n") == [("pass", b"not JSON\r\n"), ("pass", b"\n")]
    assert lanes.client(b"no line feed") == []
    assert lanes.end(CLIENT) == [("pass", b"no line feed")]
    assert lanes.lanes.next_due_ns is None


def test_a_delay_keeps_the_order_of_its_direction_only() -> None:
    lanes = Played("from:client tool:search => delay 100ms, name slow")
    assert lanes.client(ONE + TWO) == [("keep", ONE), ("keep", TWO)]
    assert lanes.server(SAID_TWO) == [("pass", SAID_TWO)]
    assert lanes.lanes.next_due_ns == 100 * MS
    assert lanes.at(99) == []
    assert lanes.at(100) == [("to server", ONE), ("to server", TWO)]
    marks = [(step.fault.rule, step.fault.action, step.fault.number) for step in lanes.steps if step.fault]
    assert marks == [("slow", "delay", 1), ("slow", "wait", 2), ("slow", "delay", 1), ("slow", "wait", 2)]
    assert lanes.client(TWO) == [("pass", TWO)]


def test_a_delay_of_one_message_lets_the_others_overtake() -> None:
    lanes = Played("tool:search => delay 100ms, hold one")
    assert lanes.client(ONE + TWO) == [("keep", ONE), ("pass", TWO)]
    assert lanes.at(100) == [("to server", ONE)]


@pytest.mark.parametrize(
    ("do", "given"),
    [
        ("drop", []),
        ("duplicate", [TWO, TWO]),
        ("truncate 5", [TWO[:5] + b"\n"]),
        ("raw hello", [b"hello\n"]),
        ("oversize 64", [TWO[:-1] + b" " * (65 - len(TWO)) + b"\n"]),
        ("split 2", [TWO[:23], TWO[23:]]),
        ('set {"/id": "2"}', [TWO.replace(b":2,", b':"2",')]),
        ("garbage 4", [b"#%b\n", TWO]),
    ],
)
def test_what_the_receiver_is_given_at_once(do: str, given: list[bytes]) -> None:
    lanes = Played(f"method:tools/list => {do}")
    (first, *rest) = lanes.client(TWO + ONE)
    assert first == ("keep", TWO)
    assert rest.pop() == ("pass", ONE)
    assert [len(data) for _, data in rest] == [
        len(data) + (2 if b"%b" in data else 0) - (1 if b"%b" in data else 0) for data in given
    ]
    assert [data for _, data in rest if not data.startswith(b"#")] == [
        data for data in given if b"%b" not in data
    ]


def test_copies_and_pieces_come_with_gaps() -> None:
    lanes = Played("method:tools/list => duplicate 2, gap 50ms")
    assert lanes.client(TWO) == [("keep", TWO), ("to server", TWO)]
    assert [lanes.at(ms) for ms in (50, 100)] == [[("to server", TWO)]] * 2
    lanes = Played("method:tools/list => split 2, gap 50ms")
    assert lanes.client(TWO + ONE) == [("keep", TWO), ("to server", TWO[:23]), ("keep", ONE)]
    assert lanes.at(50) == [("to server", TWO[23:]), ("to server", ONE)]


def test_messages_change_places_when_all_are_there_or_the_time_is_over() -> None:
    lanes = Played("from:client => reorder 3, within 200ms")
    messages = [TWO.replace(b"2,", b"%d," % number) for number in range(3, 6)]
    assert lanes.client(messages[0] + messages[1]) == [("keep", messages[0]), ("keep", messages[1])]
    keep, *given = lanes.client(messages[2])
    assert keep == ("keep", messages[2])
    assert sorted(data for _, data in given) == messages
    assert lanes.client(ONE) == [("keep", ONE)]
    assert lanes.at(199) == []
    assert lanes.at(200) == [("to server", ONE)]


def test_two_messages_are_joined_in_one_write() -> None:
    lanes = Played("tool:search => join, within 200ms")
    assert lanes.client(ONE) == [("keep", ONE)]
    assert lanes.client(TWO) == [("keep", TWO), ("to server", ONE + TWO)]
    lanes.client(ONE)
    assert lanes.at(200) == [("to server", ONE)]
    lanes.client(ONE)
    assert lanes.end(CLIENT) == [("to server", ONE)]


def test_bandwidth_is_a_slow_pipe() -> None:
    lanes = Played("from:client => bandwidth 1000")
    assert lanes.client(TWO + TWO) == [("keep", TWO), ("keep", TWO)]
    assert lanes.at(len(TWO)) == [("to server", TWO)]
    assert lanes.at(2 * len(TWO) - 1) == []
    assert lanes.at(2 * len(TWO)) == [("to server", TWO)]


def test_a_stalled_direction_is_not_read_any_more() -> None:
    lanes = Played("from:client => stall")
    assert lanes.client(ONE) == [("keep", ONE)]
    assert lanes.lanes.is_full(CLIENT)
    assert not lanes.lanes.is_full(SERVER)
    assert lanes.lanes.next_due_ns is None
    assert lanes.server(SAID_ONE) == [("pass", SAID_ONE)]


def test_a_lane_that_holds_too_much_is_not_read_until_it_is_empty() -> None:
    lanes = Played("from:client => delay 1s")
    line = b"x" * (LIMIT_BYTES // 2) + b"\n"
    lanes.client(line)
    assert not lanes.lanes.is_full(CLIENT)
    lanes.client(line)
    assert lanes.lanes.is_full(CLIENT)
    lanes.at(1000)
    assert not lanes.lanes.is_full(CLIENT)


def test_a_disconnect_comes_after_what_was_sent_before() -> None:
    lanes = Played("method:tools/list => disconnect half-close", "tool:search => delay 100ms")
    assert lanes.client(ONE + TWO) == [("keep", ONE), ("keep", TWO)]
    assert lanes.at(100) == [("to server", ONE), ("end", b"half-close")]


def test_a_line_too_long_to_hold_passes_and_nothing_enters_it() -> None:
    lanes = Played("from:server => drop", "tool:search => error")
    assert [word for word, _ in lanes.server(b"x" * (LIMIT_BYTES + 1))] == ["pass"]
    assert lanes.client(ONE) == [("keep", ONE)]
    *_, last = lanes.server(b"yy\n" + SAID_TWO)
    assert [step.kind for step in lanes.steps] == ["pass", "withhold", "pass", "answer", "withhold"]
    assert last == ("keep", SAID_TWO)
    assert len(lanes.said) == 1


def test_an_edit_that_fits_no_place_is_told_once() -> None:
    lanes = Played('from:client => set {"/params/x/y": 1}, name deep')
    assert lanes.client(TWO + TWO) == [("pass", TWO), ("pass", TWO)]
    assert lanes.said == ["fault rule deep: its edit fits not every message it matches"]


def test_a_bug_of_ours_lets_everything_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr("mcpproxy.gate.intercept.fault_policy.effect_of", fail)
    lanes = Played("=> drop")
    assert lanes.client(ONE + TWO) == [("pass", ONE), ("pass", TWO)]
    assert lanes.said == ["a fault of mcpproxy, no rule acts any more: LookupError: a bug"]


def test_a_bug_in_the_rules_opens_no_closed_gate() -> None:
    class Failing(Policy):
        def enter(self, passing: Passing) -> None:
            raise RuntimeError("a bug")

    lanes = Played("tool:none => drop", before=Failing(), closed="Guard")
    for id in (1, 2):  # the line that meets the bug, and one after it
        kept, (to, answer) = lanes.client(ONE.replace(b"1,", b"%d," % id))
        assert (kept[0], to, json.loads(answer)["id"]) == ("keep", "to client", id)
    assert [step[0] for step in lanes.server(SAID_ONE)] == ["keep", "to client"]
    assert "a fault of mcpproxy, no rule acts any more: RuntimeError: a bug" in lanes.said
