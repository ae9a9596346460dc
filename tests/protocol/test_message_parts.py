"""What is read from parsed messages: the messages of a frame, its value, and members."""

import pytest

from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, Notification, Request, parse
from mcpproxy.protocol.message_parts import (
    as_object,
    member,
    singles,
    target_of,
    text_member,
    updated_resource,
    value_of,
    well_formed,
)
from mcpproxy.protocol.raw_json import messages_with_bytes

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
NOTE = b'{"jsonrpc":"2.0","method":"note"}'
BATCH = b"[" + PING + b" , 7," + NOTE + b"]"


def test_a_batch_has_several_messages_and_every_other_frame_one() -> None:
    assert [type(single) for single in singles(parse(PING))] == [Request]
    assert len(singles(parse(BATCH))) == 3
    assert singles(parse(b"[]")) == ()
    assert len(singles(parse(b"{"))) == 1


def test_what_is_malformed_is_left_out_on_request() -> None:
    assert [type(single) for single in well_formed(parse(BATCH))] == [Request, Notification]
    assert well_formed(parse(b"{")) == ()


def test_each_message_of_a_batch_has_its_own_bytes() -> None:
    assert [raw for _, raw in messages_with_bytes(parse(BATCH), BATCH)] == [PING, b"7", NOTE]
    assert [raw for _, raw in messages_with_bytes(parse(b"{"), b"{")] == [b"{"]


def test_the_value_of_a_frame_is_what_was_sent() -> None:
    assert value_of(parse(b'[7,{"id":1,"method":"ping"}]')) == [7, {"id": 1, "method": "ping"}]
    assert value_of(parse(b"{")) is ABSENT


@pytest.mark.parametrize(
    ("value", "names", "expected"),
    [
        ({"a": {"b": 1}}, ("a", "b"), 1),
        ({"a": {"b": 1}}, ("a", "b", "c"), None),
        ({"a": []}, ("a", "b"), None),
        (ABSENT, ("a",), None),
        ({"a": None}, ("a",), None),
    ],
)
def test_a_member_is_reached_through_its_names(
    value: "JSON | Absent", names: tuple[str, ...], expected: "JSON"
) -> None:
    assert member(value, *names) == expected


def test_a_text_or_an_object_is_nothing_else() -> None:
    assert (text_member({"a": "b"}, "a"), text_member({"a": 1}, "a")) == ("b", None)
    assert (as_object({"a": 1}), as_object([])) == ({"a": 1}, None)


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/call", {"name": "add", "uri": "file:///a"}, "add"),
        ("prompts/get", {"name": "hello"}, "hello"),
        ("resources/read", {"name": "add", "uri": "file:///a"}, "file:///a"),
        ("resources/subscribe", {"uri": "file:///a"}, "file:///a"),
        ("resources/unsubscribe", {"uri": "file:///a"}, "file:///a"),
        ("tools/call", {"name": 7}, None),
        ("tools/call", {"uri": "file:///a"}, None),
        ("tools/call", ["add"], None),
        ("tools/call", ABSENT, None),
        ("tasks/get", {"taskId": "1"}, None),
        ("house/call", {"name": "add"}, None),
    ],
)
def test_the_target_of_a_request_is_the_member_that_its_method_defines(
    method: str, params: "JSON | Absent", expected: str | None
) -> None:
    assert target_of(method, params) == expected


def updated(params: str, method: str = "notifications/resources/updated") -> str | None:
    return updated_resource(
        *singles(parse(f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}'.encode()))
    )


def test_an_update_names_its_resource() -> None:
    assert updated('{"uri":"file:///a"}') == "file:///a"
    assert [updated('{"uri":7}'), updated("[]"), updated('{"uri":"file:///a"}', "notifications/other")] == [
        None
    ] * 3
