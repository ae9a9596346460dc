"""The same messages of a direction meet the same faults, however directions and sessions are interleaved."""

import random
from collections.abc import Iterable
from typing import Final

import pytest

from mcpproxy.gate.intercept.fault_decisions import FaultDecider, FaultDecision
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.gate.intercept.message_facts import OpenRequests
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from mcpproxy.protocol.jsonrpc import parse

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search_web"}}'
ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}'
FAILED = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no"}}'
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


class Session:
    """Feeds messages to a decider and returns the names of the rules that act."""

    def __init__(self, *specs: str, seed: int = 7) -> None:
        self.decider = FaultDecider(read_faults([], specs, "stdio", seed))
        self.requests = OpenRequests()

    def decide(self, sender: Sender, raw: bytes, session: int = 0) -> FaultDecision | None:
        return self.decider.decide(session, sender, self.requests.facts(sender, raw, parse(raw)))

    def say(self, sender: Sender, raw: bytes, session: int = 0) -> str:
        decision = self.decide(sender, raw, session)
        return decision.rule.name if decision else ""

    def acted(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if self.say(CLIENT, CALL % number)]


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        ("nth 3", [3]),
        ("nth 2-4", [2, 3, 4]),
        ("nth 1,5-6", [1, 5, 6]),
        ("every 4", [4, 8]),
        ("after 8", [9, 10]),
        ("after 5, every 2", [7, 9]),
        ("limit 2", [1, 2]),
        ("percentage 100", [*range(1, 11)]),
    ],
)
def test_which_of_the_messages_that_match(chosen: str, numbers: list[int]) -> None:
    assert Session(f"=> drop, {chosen}").acted(range(1, 11)) == numbers


@pytest.mark.parametrize(
    ("wanted", "acted"),
    [
        ("", [1, 2, 3, 4, 5]),
        ("from:server", [2, 5]),
        ("tool:search*", [1, 2]),
        ("-tool:search*", [3, 4, 5]),
        ("from:server tool:SEARCH_WEB status:ok", [2]),
        ("kind:answer", [2, 5]),
        ("kind:request,notification", [1, 3, 4]),
        ("method:ping", [3, 5]),
        ("id:1", [1, 2]),
        ('id:"\\"p\\""', [3, 5]),
        ("code:-32602", [5]),
        ("status:error", [5]),
        ("bytes:>70", [1]),
        ("search_web", [1]),
    ],
)
def test_an_answer_has_the_method_and_the_target_of_its_request(wanted: str, acted: list[int]) -> None:
    session = Session(f"{wanted} => drop")
    told: list[tuple[Sender, bytes]] = [
        (CLIENT, CALL % 1),
        (SERVER, ANSWER % 1),
        (CLIENT, PING),
        (CLIENT, NOTE),
        (SERVER, FAILED.replace(b"%d", b'"p"')),
    ]
    assert [n for n, (sender, raw) in enumerate(told, 1) if session.say(sender, raw)] == acted


@pytest.mark.parametrize(
    ("wanted", "request_", "answer", "acts"),
    [
        ("tool:*", b'"params":{}', b"", False),  # it calls no tool
        ("target:*", b'"params":{"name":7}', b"", False),
        ("status:input-required", b'"params":{}', b'{"resultType":"input_required"}', True),
        ("status:ok", b'"params":{}', b'{"resultType":"input_required"}', False),
        ("status:tool-error", b'"params":{}', b'{"isError":true}', True),
    ],
)
def test_a_condition_holds_for_what_it_selects_in_the_viewer(
    wanted: str, request_: bytes, answer: bytes, acts: bool
) -> None:
    session = Session(f"{wanted} => drop")
    acted = session.say(CLIENT, b'{"jsonrpc":"2.0","id":1,"method":"tools/call",%b}' % request_)
    if answer:
        acted = session.say(SERVER, b'{"jsonrpc":"2.0","id":1,"result":%b}' % answer)
    assert bool(acted) == acts


def test_a_batch_matches_if_one_of_its_messages_does() -> None:
    batch = b"[%b,%b]" % (PING, CALL % 2)
    assert Session("tool:search* => drop").say(CLIENT, batch)
    assert not Session("tool:search* => error").say(CLIENT, batch), "one error cannot answer two requests"


def test_the_first_rule_that_acts_wins_and_the_others_count() -> None:
    session = Session("=> drop, nth 1, name first", "=> drop, nth 2, name second")
    assert [session.say(CLIENT, CALL % n) for n in range(1, 4)] == ["first", "second", ""]


def test_only_what_can_be_answered_gets_an_error() -> None:
    session = Session("=> error")
    assert [bool(session.say(CLIENT, raw)) for raw in (NOTE, CALL % 1, b"not JSON")] == [False, True, False]


def test_the_interleaving_changes_nothing() -> None:
    def play(order: list[tuple[int, Sender]]) -> set[tuple[int, Sender, int]]:
        session = Session("=> drop, percentage 30")
        counts: dict[tuple[int, Sender], int] = {}
        acted: set[tuple[int, Sender, int]] = set()
        for lane in order:
            counts[lane] = count = counts.get(lane, 0) + 1
            if session.say(lane[1], PING, session=lane[0]):
                acted.add((*lane, count))
        return acted

    lanes: list[tuple[int, Sender]] = [(0, CLIENT), (0, SERVER), (1, CLIENT), (1, SERVER)]
    order = [lane for lane in lanes for _ in range(200)]
    expected = play(order)
    for shuffling in range(20):
        random.Random(shuffling).shuffle(order)
        assert play(order) == expected
    assert 160 < len(expected) < 320


def test_another_seed_gives_other_faults() -> None:
    faults = [Session("=> drop, percentage 50", seed=seed).acted(range(100)) for seed in range(5)]
    assert len({tuple(numbers) for numbers in faults}) == 5


@pytest.mark.parametrize("percentage", [1, 20, 50, 99])
def test_a_percentage_holds_within_one_percent(percentage: int) -> None:
    rules = read_faults([], [f"=> drop, percentage {percentage}"], "stdio", 7)
    decider, facts = FaultDecider(rules), OpenRequests().facts(CLIENT, PING, parse(PING))
    acted = sum(decider.decide(0, CLIENT, facts) is not None for _ in range(100_000))
    assert abs(acted - percentage * 1000) < 1000


IN_FLIGHT: Final = 16
CALLS: Final = 320
MIXED: Final = (
    "from:client tool:search_web => drop, percentage 10, name lost",
    "from:server tool:search_web => duplicate, percentage 20, name twice",
    "from:server kind:answer => delay 5ms, jitter 2ms, percentage 30, name late",
    "from:client => corrupt 2, every 50, name broken",
)


def in_flight(order: random.Random, seed: int = 7) -> tuple[set[tuple[str, Sender, int]], list[float]]:
    """Play calls, some at a time, whose answers come in any order and between any of the requests.

    Returns:
        Which rules acted, each with the occurrence, and the numbers that decide how long answers are late.
    """
    session = Session(*MIXED, seed=seed)
    acted: set[tuple[str, Sender, int]] = set()
    lateness: dict[int, float] = {}
    open_ids: list[int] = []
    said = 0
    while said < CALLS or open_ids:
        asks = said < CALLS and len(open_ids) < IN_FLIGHT and (not open_ids or order.random() < 0.5)
        if asks:
            said += 1
            open_ids.append(said)
            sender, raw = CLIENT, CALL % said
        else:
            sender, raw = SERVER, ANSWER % open_ids.pop(order.randrange(len(open_ids)))
        decision = session.decide(sender, raw)
        if decision is not None:
            acted.add((decision.rule.name, sender, decision.occurrence))
            if decision.rule.name == "late":
                lateness[decision.occurrence] = decision.draw("jitter")
    return acted, [lateness[occurrence] for occurrence in sorted(lateness)]


def test_sixteen_calls_in_flight_meet_the_same_faults_in_any_order() -> None:
    expected = in_flight(random.Random(0))
    assert {rule for rule, _, _ in expected[0]} == {"lost", "twice", "late", "broken"}
    assert all(in_flight(random.Random(shuffling)) == expected for shuffling in range(1, 20))
    assert in_flight(random.Random(0), seed=8)[0] != expected[0]
