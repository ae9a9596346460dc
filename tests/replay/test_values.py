"""What counts as a difference between two JSON values, and where it is."""

import pytest

from mcpproxy.peers.replay.diff.values import Difference, DiffRules, differences, equal
from mcpproxy.protocol.jsonrpc import JSON

ONE: JSON = {
    "content": [{"type": "text", "text": "now 2026-11-22T01:02:03Z"}],
    "_meta": {"progressToken": 1, "a/b": [1]},
}


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        ({"a": 1}, {"a": 2}, ["/a is 2, was 1"]),
        ({"a": 1}, {}, ["/a is missing (was 1)"]),
        ({}, {"a/b": None}, ["/a~1b is new (null)"]),
        ([1, 2], [1], ["/1 is missing (was 2)"]),
        ([1], [1, {"a": 1}], ["/1 is new (an object)"]),
        (1, True, ["the whole is true, was 1"]),
        ("1", 1, ['the whole is 1, was "1"']),
        (1, 1.0, []),
        (None, None, []),
        ({"a": [{"b": "x"}, {"b": "y"}]}, {"a": [{"b": "x"}, {"b": "z"}]}, ['/a/1/b is "z", was "y"']),
        ({"a": {}}, {"a": []}, ["/a is an array, was an object"]),
    ],
)
def test_each_difference_says_where_and_what(expected: JSON, found: JSON, said: list[str]) -> None:
    assert [str(difference) for difference in differences(expected, found)] == said


@pytest.mark.parametrize(
    ("pattern", "ignored"),
    [
        ("/a", ["/a"]),
        ("/a/*/c", ["/a/0/c", "/a/b/c"]),
        ("/a/**", ["/a", "/a/0/c", "/a/b/c", "/a/b"]),
        ("/a~1b", ["/a~1b"]),
    ],
)
def test_a_pattern_ignores_what_it_names_and_nothing_else(pattern: str, ignored: list[str]) -> None:
    rules = DiffRules(ignore=(pattern,))
    everything = ["/a", "/a/0/c", "/a/b/c", "/a/b", "/a~1b", "/ab", "/b/a", ""]
    assert [pointer for pointer in everything if rules.ignores(pointer)] == [
        pointer for pointer in everything if pointer in ignored
    ]


@pytest.mark.parametrize(
    ("alike", "one", "other"),
    [
        ("timestamps", "at 2026-11-22T01:02:03.5Z", "at 2025-01-01 00:00:00+01:00"),
        ("timestamps", "on 2026-11-22", "on 2026-11-23"),
        ("timestamps", "at 3:04:05 PM", "at 11:12:13 am"),
        ("uuids", "6F9619FF-8B86-D011-B42D-00C04FC964FF", "00000000-0000-0000-0000-000000000000"),
        ("paths", "read /tmp/a/b.txt now", "read /home/me/c.txt now"),
        ("paths", r"in C:\Temp\x", r"in D:\y"),
    ],
)
def test_texts_may_differ_in_what_is_said_to_vary(alike: str, one: str, other: str) -> None:
    assert not equal(one, other)
    assert equal(one, other, DiffRules(alike=(alike,)))
    assert not equal(one, other + " !", DiffRules(alike=(alike,)))


def test_paths_are_not_found_in_urls() -> None:
    assert not equal("https://a.example/x", "https://a.example/y", DiffRules(alike=("paths",)))


def test_a_deep_value_is_no_trouble() -> None:
    deep: JSON = 1
    other: JSON = 2
    for _ in range(5_000):
        deep, other = [deep], [other]
    [difference] = differences(deep, other)
    assert difference == Difference("/0" * 5_000, "changed", 1, 2)


def test_a_mask_stands_for_anything_and_for_nothing_around_it() -> None:
    mask = "masked(len=9,visible=yes,hash=0123456789ab)"
    assert equal(f"session {mask} began", "session 7f3a-11 began")
    assert not equal(f"session {mask} began", "session 7f3a-11 ended")
    assert not equal("session 7f3a-11 began", f"session {mask} began")
