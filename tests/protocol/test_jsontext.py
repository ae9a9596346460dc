"""What only the text of a frame shows: repeated names, JSON that stops halfway."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.jsontext import LIMIT, MAX_CHECKED_BYTES, repeated_names, unclosed
from mcpproxy.protocol.wording import token


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"{}", []),
        (b'{"a":1,"b":{"a":2}}', []),
        (b'{"a":1,"a":2}', ["/a"]),
        (b'{"a":1,"a":2,"a":3}', ["/a"]),
        (b'{"a":1,"\\u0061":2}', ["/a"]),
        (b'{"url":"http://x:80","time":"10:20"}', []),
        (b'{"url":"http://x:80","url":"y"}', ["/url"]),
        (b'[{"x":1},{"x":1,"x":1}]', ["/1/x"]),
        (b'{"a/b":{"c~d":1,"c~d":2}}', ["/a~1b/c~0d"]),
        # An escaped colon gives the value a colon that the text does not have.
        (b'{"a":"\\u003a","b":1}', []),
        (b'{"a":"\\u003A","a":"\\u003A"}', ["/a"]),
        (b'{"a":1,"a":{"b":1,"b":2}}', ["/a", "/a/b"]),
        (b'{"n":1e999,"n":2}', ["/n"]),
        (b"3", []),
    ],
)
def test_repeated_names(raw: bytes, expected: list[str]) -> None:
    assert repeated_names(raw, json.loads(raw)) == expected


def test_a_number_beyond_64_bits_is_no_obstacle() -> None:
    digits = b"9" * 5000
    assert repeated_names(b'{"a":' + digits + b',"a":1}', {"a": 1}) == ["/a"]
    assert repeated_names(b'{"a":1,"b":' + b"9" * 30 + b"}", {"a": 1, "b": 10**30 - 1}) == []


def test_the_number_of_repeated_names_is_limited() -> None:
    raw = "{" + ",".join(f'"{n}":1,"{n}":1' for n in range(3 * LIMIT)) + "}"
    assert len(repeated_names(raw.encode(), json.loads(raw))) == LIMIT


def test_text_that_cannot_be_read_has_no_repeated_names() -> None:
    assert repeated_names(b'{"a":1,"a"', None) == []
    assert repeated_names(b'{"a":' * 200_000, None) == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_a_serializer_never_repeats_a_name(value: JSON, ascii_only: bool, indent: int | None) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    assert repeated_names(raw, value) == []


@given(st.dictionaries(st.text(alphabet="ab:/~é", max_size=3), JSON_VALUES, min_size=1), st.data())
def test_a_member_written_twice_is_found(value: dict[str, JSON], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(value)))
    members = [f"{json.dumps(n)}:{json.dumps(v)}" for n, v in [(name, 0), *value.items()]]
    raw = ("{" + ",".join(members) + "}").encode()
    assert repeated_names(raw, value) == [token(name)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"{", True),
        (b"{\r", True),
        (b"  [", True),
        (b'{"a": [1, -2.5e3,', True),
        (b'{"a": "}"', True),
        (b'{"a": "\\"}', True),
        (b'{"a": "cut', True),
        (b'{"a": "cut\\', True),
        (b'[{"a": true}, {"b": null', True),
        (b"{}", False),
        (b'{"a": 1}', False),
        (b'{"a": 1} {', False),
        (b"", False),
        (b"   ", False),
        (b"}", False),
        (b"[}", False),
        (b'"a": 1,', False),
        (b"3", False),
        (b"[INFO] starting", False),
        (b"[INFO starting", False),
        (b"{ hello", False),
        (b"[::1]:8080", False),
        (b"[2026-11-21T10:00:00", False),
        (b"\xff{", False),
    ],
)
def test_unclosed(text: bytes, expected: bool) -> None:
    assert unclosed(text) is expected


def test_a_very_long_text_is_not_checked() -> None:
    assert unclosed(b"[" + b" " * (MAX_CHECKED_BYTES - 1))
    assert not unclosed(b"[" + b" " * MAX_CHECKED_BYTES)


@given(JSON_VALUES, st.data())
def test_every_line_that_opens_pretty_printed_json_is_recognised(value: JSON, data: st.DataObject) -> None:
    lines = json.dumps({"value": value}, indent=1).encode().split(b"\n")
    head = b"\n".join(lines[: data.draw(st.integers(1, len(lines) - 1))])
    assert unclosed(head)
    assert not unclosed(b"\n".join(lines))
