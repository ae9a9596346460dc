"""How violations show ids and texts, and how checks read members of JSON."""

import pytest

from mcpproxy.judge.checks.engine.context import shortened, spelled
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, RequestId
from mcpproxy.protocol.message_parts import as_object, member, or_none


@pytest.mark.parametrize(
    ("id", "text"),
    [
        (7, "number 7"),
        ("7", 'string "7"'),
        ("", 'string ""'),
        (None, "null"),
        ("a\nb\ud800", 'string "a\ufffdb\ufffd"'),
        (10**900, "number 1" + "0" * 58 + "…"),
    ],
)
def test_an_id_shows_its_type(id: RequestId | None, text: str) -> None:
    assert spelled(id) == text


def test_a_long_text_is_cut() -> None:
    assert shortened("a" * 60) == "a" * 60
    assert shortened("a" * 61) == "a" * 59 + "…"
    assert shortened("abc", limit=2) == "a…"


VALUE: dict[str, JSON] = {"a": {"b": {"c": 1}}, "n": None, "l": [1]}


@pytest.mark.parametrize(
    ("names", "found"),
    [((), VALUE), (("a", "b", "c"), 1), (("a", "x"), None), (("n", "b"), None), (("l", "0"), None)],
)
def test_a_member_is_reached_as_far_as_it_is_there(names: tuple[str, ...], found: JSON) -> None:
    assert member(VALUE, *names) == found


def test_what_is_absent_has_no_members() -> None:
    assert or_none(ABSENT) is None
    assert member(ABSENT, "a") is None


def test_a_value_that_is_not_an_object_is_none() -> None:
    assert as_object({}) == {}
    assert as_object([]) is None
    assert as_object(ABSENT) is None
