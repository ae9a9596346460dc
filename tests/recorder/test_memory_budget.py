"""The memory to judge a text: the estimate is high enough, not too high, and fast."""

import json
import tracemalloc

import orjson
import pytest

from mcpproxy.record.recorder.http.memory_budget import BUDGET_BYTES, SMALL_BYTES, Budget, estimate_cost

TEXTS: dict[str, bytes] = {
    "a long string": b'"' + b"hello, world " * 100_000 + b'"',
    "a long string in another script": b'"' + "漢字".encode() * 200_000 + b'"',
    "one wide character makes all wide": b'"' + b"x" * 500_000 + "\U0001f600".encode() + b'"',
    "one that is written as an escape": b'"' + b"x" * 500_000 + rb'\ud83d\ude00"',
    "small objects": b"[" + b'{"a":0},' * 100_000 + b"0]",
    "small arrays": b"[" + b"[1],[]," * 100_000 + b"0]",
    "numbers": b"[" + b"1000," * 100_000 + b"0]",
    "fractions": b"[" + b"1.5," * 100_000 + b"0]",
    "short strings": b"[" + b'"abc",' * 100_000 + b"0]",
    "an object with many members": b"{" + b",".join(b'"k%07d":"v"' % n for n in range(50_000)) + b"}",
    "rows": b"[" + b'{"id":12345,"name":"somebody","tags":["a","b"],"n":1.5},' * 20_000 + b"0]",
}


@pytest.mark.parametrize("raw", TEXTS.values(), ids=TEXTS)
def test_the_estimate_is_not_below_what_judging_takes(raw: bytes) -> None:
    tracemalloc.start()
    value = orjson.loads(raw)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert value
    assert taken + len(raw) <= estimate_cost(raw)
    assert estimate_cost(raw) < 4 * taken + 8 * len(raw)


@pytest.mark.parametrize(
    "number", [b"-9223372036854775809", b"18446744073709551616", b"-99999999999999999999"]
)
def test_an_integer_beyond_64_bits_costs_a_second_reading(number: bytes) -> None:
    plain = b"[" + b'{"a":0},' * 140_000 + b"1000000000000000000]"
    assert estimate_cost(plain) < BUDGET_BYTES < estimate_cost(plain[:-20] + number + b"]")


def test_brackets_within_strings_do_not_count() -> None:
    inside = json.dumps((b"[" + b'{"a":0},' * 500_000 + b"0]").decode()).encode()
    assert estimate_cost(inside) < BUDGET_BYTES < estimate_cost(json.loads(inside).encode())


@pytest.mark.parametrize("raw", [b'"' * 8_000_001, b'"\\' * 4_000_000, b"[" * 8_000_000, b'"a' * 4_000_000])
def test_hostile_text_takes_no_time(raw: bytes) -> None:
    assert estimate_cost(raw) >= len(raw)


def test_the_budget_is_shared() -> None:
    budget = Budget()
    half = b"x" * (BUDGET_BYTES // 8)
    small = b"[" * SMALL_BYTES
    assert budget.cost(half) == BUDGET_BYTES // 2
    assert budget.cost(small) == 0
    budget.spent += BUDGET_BYTES // 2 + 1
    assert budget.cost(half) is None
    assert budget.cost(small) == 0
