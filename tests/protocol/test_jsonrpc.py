"""Bytes in, one of six shapes out; ids exact to the last digit."""

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    Batch,
    ErrorResponse,
    Flaw,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    parse,
    parse_leniently,
    read,
    with_other_type,
)

SHAPES: Final[dict[str, type]] = {
    '{"jsonrpc": "2.0", "id": 1, "method": "ping"}': Request,
    '{"id": null, "method": "ping"}': Request,
    '{"id": [], "method": "ping"}': Request,
    '{"method": "ping"}': Notification,
    '{"method": "notifications/initialized"}': Notification,
    '{"id": 1, "method": "notifications/initialized"}': Notification,
    '{"id": 1, "result": {}}': Response,
    '{"id": 1, "result": null}': Response,
    '{"result": {}}': Response,
    '{"id": 1, "error": {}}': ErrorResponse,
    '{"error": {"code": -32000}}': ErrorResponse,
    '{"jsonrpc": "2.0", "error": null}': ErrorResponse,
    '{"error": "invalid_token", "error_description": "It expired."}': Malformed,
    '{"error": {"code": "locked"}}': Malformed,
    '{"error": null}': Malformed,
    '{"id": 1, "result": {}, "error": null}': ErrorResponse,
    '{"jsonrpc": "2.0", "id": 1}': ErrorResponse,
    '{"id": 1, "status": "ok"}': Malformed,
    "[]": Batch,
}


@pytest.mark.parametrize(("text", "shape"), SHAPES.items())
def test_the_members_decide_the_kind_of_a_message(text: str, shape: type) -> None:
    assert type(parse(text.encode())) is shape


FLAWS: Final[dict[bytes, Flaw]] = {
    b"": Flaw.EMPTY,
    b" \t\r\n": Flaw.EMPTY,
    b"ping": Flaw.NOT_JSON,
    b"{": Flaw.NOT_JSON,
    b"{} {}": Flaw.NOT_JSON,
    b"{'id': 1}": Flaw.NOT_JSON,
    b'{"a": NaN}': Flaw.NOT_JSON,
    b'{"a": -Infinity}': Flaw.NOT_JSON,
    b"\xef\xbb\xbf{}": Flaw.NOT_JSON,
    b"\x00": Flaw.NOT_JSON,
    b'{"a": "\xff"}': Flaw.NOT_UTF8,
    b'{"a": "\xed\xa0\x80"}': Flaw.NOT_UTF8,
    b"[" * 100_000 + b"]" * 100_000: Flaw.TOO_DEEP,
    b"7": Flaw.SCALAR,
    b'"ping"': Flaw.SCALAR,
    b"null": Flaw.SCALAR,
    b"{}": Flaw.NO_KIND,
    b'{"jsonrpc": "2.0", "params": {}}': Flaw.NO_KIND,
    b'{"method": "ping", "result": {}}': Flaw.MIXED_KIND,
    b'{"method": 1, "error": {}}': Flaw.MIXED_KIND,
    b'{"method": 1, "id": 1}': Flaw.BAD_METHOD,
    b'{"method": null}': Flaw.BAD_METHOD,
}


@pytest.mark.parametrize(("raw", "flaw"), FLAWS.items(), ids=lambda value: repr(value)[:40])
def test_a_malformed_frame_has_the_reason(raw: bytes, flaw: Flaw) -> None:
    message = parse(raw)
    assert isinstance(message, Malformed)
    assert message.flaw is flaw


def identified(spelling: str) -> object:
    message = parse(b'{"id": %s, "method": "ping"}' % spelling.encode())
    assert isinstance(message, Request)
    assert type(message.id) in (int, str, type(None))
    return message.id


IDS: Final[dict[str, object]] = {
    "1": 1,
    "1.0": 1,
    "1e2": 100,
    "-0": 0,
    "-0.0": 0,
    '"1"': "1",
    '""': "",
    '"\\ud800"': "\ud800",
    "9007199254740993": 2**53 + 1,
    "18446744073709551615": 2**64 - 1,
    "18446744073709551616": 2**64,
    "18446744073709551617": 2**64 + 1,
    "-18446744073709551617": -(2**64) - 1,
    "1e20": 10**20,
    "1E+23": 10**23,
    "9007199254740993.0": 2**53 + 1,
    "9007199254740993.5": None,
    "1.5": None,
    "true": None,
    "null": None,
    "[1]": None,
    "{}": None,
    "1e999999999": None,
    "1" * 5000: None,
    "1e-999999999": 0,
}


@pytest.mark.parametrize(("spelling", "id"), IDS.items(), ids=lambda value: str(value)[:24])
def test_an_id_is_exactly_the_one_in_the_text(spelling: str, id: object) -> None:
    assert identified(spelling) == id


@given(st.integers())
def test_a_whole_number_in_any_notation_is_an_integer_id(number: int) -> None:
    assert identified(str(number)) == number


INTEGERS: Final = (
    -(2**63), -(2**63) - 1, -(10**19) + 1, -(10**19), -(2**64), 2**63, 2**64 - 1, 2**64, 10**19 - 1, 10**19,
)  # fmt: skip


@pytest.mark.parametrize("number", INTEGERS)
def test_an_integer_is_read_exactly(number: int) -> None:
    assert read(b"[%d]" % number) == [number]
    message = parse(b'{"method":"m","id":1,"params":{"n":%d}}' % number)
    assert isinstance(message, Request)
    assert message.params == {"n": number}


def test_the_id_is_found_among_other_numbers() -> None:
    near = b'{"params": {"n": 18446744073709551616}, "id": 18446744073709551617, "method": "ping"}'
    message = parse(near)
    assert isinstance(message, Request)
    assert message.id == 2**64 + 1


def test_each_message_of_a_batch_has_its_own_id() -> None:
    message = parse(
        b'[{"id": 18446744073709551617, "method": "a"}, {"id": 18446744073709551618, "method": "b"}]'
    )
    assert isinstance(message, Batch)
    assert [getattr(item, "id", None) for item in message.items] == [2**64 + 1, 2**64 + 2]


def test_a_big_id_is_found_behind_lists() -> None:
    message = parse(b'{"params": [[], ["x", {"n": null}]], "id": 18446744073709551617, "method": "ping"}')
    assert isinstance(message, Request)
    assert message.id == 2**64 + 1


def test_absent_is_not_null() -> None:
    absent, null = parse(b'{"result": {}}'), parse(b'{"id": null, "result": {}}')
    assert isinstance(absent, Response)
    assert isinstance(null, Response)
    assert absent.id is ABSENT
    assert null.id is None
    assert repr(ABSENT) == "ABSENT"


def test_a_message_has_the_parts_that_were_sent() -> None:
    assert parse(b'{"id": "a", "method": "ping", "params": [1]}') == Request(
        {"id": "a", "method": "ping", "params": [1]}, "ping", "a", [1]
    )
    assert parse(b'{"id": 1, "error": {"code": 1}}') == ErrorResponse(
        {"id": 1, "error": {"code": 1}}, 1, {"code": 1}
    )
    assert parse(b'{"method": "x"}') == Notification({"method": "x"}, "x", ABSENT)


def test_a_batch_is_parsed_element_by_element() -> None:
    message = parse(b'[{"id": 1, "method": "ping"}, 7, [], {"id": 1, "result": {}}]')
    assert isinstance(message, Batch)
    assert [type(item) for item in message.items] == [Request, Malformed, Malformed, Response]
    assert message.items[1] == Malformed(Flaw.SCALAR, 7)


def test_a_number_of_any_length_is_read() -> None:
    assert isinstance(parse(b'{"id": 1, "method": "ping", "params": {"n": %s}}' % (b"9" * 20_000)), Request)
    assert isinstance(parse(b'{"id": 1, "method": "ping", "params": {"n": 1e400}}'), Request)


LENIENT: Final[dict[bytes, type | None]] = {
    b'{"id": NaN, "method": "ping"}': Request,
    b'{"id": 1, "method": "ping", "params": {"a": "\xff"}}': Request,
    b'[{"id": 1, "result": NaN}]': Batch,
    b'{"id": 1, "result": %s, "a": NaN}' % (b"9" * 5000): Response,
    b"NaN": None,
    b"oops \xff": None,
    b"[" * 100_000 + b"]" * 100_000: None,
}


@pytest.mark.parametrize(("raw", "shape"), LENIENT.items(), ids=lambda value: repr(value)[:40])
def test_invalid_text_is_read_leniently(raw: bytes, shape: type | None) -> None:
    message = parse_leniently(raw)
    assert message is None if shape is None else type(message) is shape


def test_a_big_id_in_bytes_that_are_no_utf8_is_exact_too() -> None:
    message = parse_leniently(b'{"id": 18446744073709551617, "method": "ping", "params": {"a": "\xff"}}')
    assert isinstance(message, Request)
    assert message.id == 2**64 + 1


@given(st.binary(max_size=60))
def test_any_bytes_are_read(raw: bytes) -> None:
    message: Message = parse(raw)
    assert isinstance(message, Malformed) or json.loads(raw) is not None


@pytest.mark.parametrize(
    ("id", "other"),
    [(7, "7"), ("7", 7), (-7, "-7"), ("-7", -7), (10**30, "1" + 30 * "0"), ("1" * 20, None), ("7a", None)],
)
def test_an_id_in_its_other_type(id: int | str, other: int | str | None) -> None:
    assert with_other_type(id) == other
    assert with_other_type("\N{FULLWIDTH DIGIT SEVEN}") is None
