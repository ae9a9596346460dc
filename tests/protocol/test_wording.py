"""How findings speak of JSON values."""

import pytest

from mcpproxy.protocol import wording
from mcpproxy.protocol.jsonrpc import JSON


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, "null", "null"),
        (True, "true", "true"),
        (False, "false", "false"),
        (7, "a number", "7"),
        (0.5, "a number", "0.5"),
        ("é", "a string", '"é"'),
        ([1], "an array", "an array"),
        ({}, "an object", "an object"),
        ("x" * 80, "a string", '"' + "x" * 38 + "…" + "x" * 19 + '"'),
    ],
)
def test_a_value_in_words(value: JSON, kind: str, shown: str) -> None:
    assert wording.kind(value) == kind
    assert wording.shown(value) == shown


def test_a_step_of_a_pointer_is_an_escaped_name_or_an_index() -> None:
    assert wording.token("a/b~c") == "/a~1b~0c"
    assert wording.token(3) == "/3"


def test_a_number_of_thousands_of_digits_is_not_written_out() -> None:
    assert wording.shown(10**5000) == "a very large number"


def test_of_a_long_text_both_ends_are_shown_between_its_quotes() -> None:
    east, west = (
        f"compare_the_readings_of_all_gauges_of_the_river_at_the_{side}_weir" for side in ("east", "west")
    )
    assert wording.shown(east) == '"compare_the_readings_of_all_gauges_of_…er_at_the_east_weir"'
    assert wording.shown(west) == '"compare_the_readings_of_all_gauges_of_…er_at_the_west_weir"'
    assert wording.unquoted(east) == wording.shown(east)[1:-1]


def test_a_name_is_shown_whole_as_far_as_tools_have_one() -> None:
    assert wording.shown_name("x" * 128) == f'"{"x" * 128}"'
    assert len(wording.shown_name("x" * 500)) == 130


def test_a_lone_surrogate_can_be_written() -> None:
    assert wording.shown("a\ud800") == r'"a\ud800"'
    assert wording.token("a\ud800/b") == r"/a\ud800~1b"


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("tools/list result", "a tools/list result"),
        ("elicitation/create result", "an elicitation/create result"),
        ("initialize result", "an initialize result"),
        ("OPTIONS", "an OPTIONS"),
        ("", "a "),
    ],
)
def test_a_noun_has_its_article(noun: str, expected: str) -> None:
    assert wording.with_article(noun) == expected


@pytest.mark.parametrize(
    ("duration_ns", "expected"), [(200_000_000, "0.2 s"), (1_000_000_000, "1.0 s"), (60_000_000_000, "60 s")]
)
def test_a_duration_in_seconds(duration_ns: int, expected: str) -> None:
    assert wording.seconds(duration_ns) == expected
