"""Errors of ours as bytes."""

import json
from typing import Any

import pytest

from mcpproxy.base.json_string import quoted
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER, error_message
from mcpproxy.protocol.jsonrpc import ABSENT, ErrorResponse, parse


@pytest.mark.parametrize("text", ['a "b" \\ c', "\x00\x1f\n\t", "äöü €", "\u2028", "plain"])
def test_quoted_is_what_json_reads(text: str) -> None:
    assert json.loads(quoted(text)) == text


@pytest.mark.parametrize(
    ("id", "data", "members"),
    [
        (None, None, {}),
        (b"null", None, {"id": None}),
        (b'"a"', b'{"why":[1]}', {"id": "a", "data": {"why": [1]}}),
    ],
)
def test_an_error_has_an_id_and_data_if_they_are_given(
    id: bytes | None, data: bytes | None, members: dict[str, Any]
) -> None:
    error = {"code": -32000, "message": 'no "way"\n'}
    if "data" in members:
        error["data"] = members["data"]
    expected = {"jsonrpc": "2.0", "error": error} | {key: members[key] for key in members if key == "id"}
    assert json.loads(error_message(IN_PLACE_OF_PEER, 'no "way"\n', id, data)) == expected


def test_an_id_keeps_its_bytes() -> None:
    raw = error_message(IN_PLACE_OF_PEER, "no", b"18446744073709551616")
    message = parse(raw)
    assert isinstance(message, ErrorResponse)
    assert message.id == 18446744073709551616


def test_text_that_is_no_utf_8_is_replaced() -> None:
    message = parse(error_message(IN_PLACE_OF_PEER, "\ud800"))
    assert isinstance(message, ErrorResponse)
    assert (message.id, message.error) == (ABSENT, {"code": -32000, "message": "?"})
