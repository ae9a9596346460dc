"""What a fault makes of a message; every byte that it does not name stays as it was."""

import pytest

from mcpproxy.gate.intercept.fault_decisions import FaultDecider
from mcpproxy.gate.intercept.fault_effects import FaultEffect, effect_of
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.gate.intercept.message_facts import OpenRequests
from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.protocol.jsonrpc import parse

RAW = (
    b'{"jsonrpc": "2.0","id":  18446744073709551617 ,"method":"x",'
    b'"params":{"a":[1.50,{"b":null}],"c":"\\u00e9"}}'
)


def effect(do: str, raw: bytes = RAW) -> FaultEffect | None:
    decider = FaultDecider(read_faults([], [f"=> {do}"], "stdio", 7))
    message = parse(raw)
    decision = decider.decide(0, CLIENT, OpenRequests().facts(CLIENT, raw, message))
    assert decision is not None
    return effect_of(decision, raw, message)


def given(do: str, raw: bytes = RAW) -> list[bytes]:
    made = effect(do, raw)
    assert made is not None
    return [data for _, data in made.given]


@pytest.mark.parametrize(
    ("do", "before", "after"),
    [
        ('set {"/params/a/0": 2}', b"1.50", b"2"),
        ('set {"/params/a/-": "x"}', b'{"b":null}]', b'{"b":null},"x"]'),
        ('set {"/params/d": {"e": []}}', b'"\\u00e9"', b'"\\u00e9","d":{"e":[]}'),
        ('set {"/id": "1"}', b"18446744073709551617", b'"1"'),
        ('remove ["/params/a/0"]', b"1.50,", b""),
        ('remove ["/params/a"]', b'"a":[1.50,{"b":null}],', b""),
        ('remove "/params"', b',"params":{"a":[1.50,{"b":null}],"c":"\\u00e9"}', b""),
        ('remove "/jsonrpc"', b'"jsonrpc": "2.0",', b""),
        ('merge {"/params": {"c": null, "a": 3}}', b'{"a":[1.50,{"b":null}],"c":"\\u00e9"}', b'{"a":3}'),
        ('replace {"\\\\d\\\\.50": "2"}', b"1.50", b"2"),
    ],
)
def test_an_edit_changes_nothing_else(do: str, before: bytes, after: bytes) -> None:
    assert RAW.count(before) == 1
    assert given(do) == [RAW.replace(before, after)]


@pytest.mark.parametrize(
    "do", ['set {"/params/z/0": 1}', 'remove "/params/z"', 'set {"/params/a/7": 1}', 'replace {"zz": ""}']
)
def test_an_edit_of_what_is_not_there_lets_the_message_pass(do: str) -> None:
    assert effect(do) is None


def test_of_two_members_of_one_name_the_last_counts() -> None:
    assert given('set {"/a": 3}', b'{"a":1,"a":2}') == [b'{"a":1,"a":3}']


def test_a_line_that_is_not_json_is_not_edited() -> None:
    assert effect('set {"/a": 3}', b"hello") is None


def test_copies_pieces_and_sizes() -> None:
    assert given("drop") == []
    assert given("duplicate 2") == [RAW] * 3
    assert given("truncate 9") == [RAW[:9]]
    assert b"".join(pieces := given("split 3")) == RAW
    assert [bool(piece) for piece in pieces] == [True] * 3
    assert given("raw hello") == [b"hello"]
    assert given("oversize 1k") == [RAW + b" " * (1024 - len(RAW))]
    noise, message = given("garbage 100")
    assert (len(noise), message) == (100, RAW)


def test_corruption_is_the_same_in_each_run_and_ends_no_line() -> None:
    (once,), (again,) = given("corrupt 3"), given("corrupt 3")
    assert once == again != RAW
    assert len(once) == len(RAW)
    assert sum(a != b for a, b in zip(once, RAW, strict=True)) in (1, 2, 3)
    for raw in (bytes(range(33, 127)) * 20, b"\x0b" * 200):
        assert not set(b"\r\n") & set(given("corrupt 200", raw)[0])


def test_an_error_answers_with_the_id_as_it_was_written() -> None:
    made = effect('error {"code": -32001, "message": "no", "data": [1]}')
    assert made == FaultEffect(
        answer=b'{"jsonrpc":"2.0","id":18446744073709551617,'
        b'"error":{"code":-32001,"message":"no","data":[1]}}'
    )
    made = effect("error -32000", b'{"jsonrpc":"2.0","id":"a","result":{}}')
    error = b'{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"Internal error"}}'
    assert made == FaultEffect(((0, error),))


def test_jitter_stays_within_its_bounds_and_bandwidth_follows_the_size() -> None:
    decider = FaultDecider(read_faults([], ["=> delay 2s, jitter 500ms"], "stdio", 7))
    facts = OpenRequests().facts(CLIENT, RAW, parse(RAW))
    delays: set[int] = set()
    for _ in range(200):
        decision = decider.decide(0, CLIENT, facts)
        assert decision is not None
        delays.add(decision.delay_ns)
    assert min(delays) >= 1_500_000_000
    assert max(delays) <= 2_500_000_000
    assert len(delays) == 200
    decider = FaultDecider(read_faults([], ["=> bandwidth 1000"], "stdio", 7))
    decision = decider.decide(0, CLIENT, facts, 500)
    assert decision is not None
    assert decision.delay_ns == 500_000_000
