"""Values replaced in the text of a message, and nothing else touched."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.protocol.raw_json import elements, find, put, renamed, spliced, value_bytes

CASES = (
    (b'{"id":1}', ("id",), b"1"),
    (b'\t{ "a" : "}" , "id" :\r\n "x\\"y" }', ("id",), b'"x\\"y"'),
    (b'{"params":{"id":1},"id":2}', ("id",), b"2"),
    (b'{"a":[{"id":1},"{"],"params":{"_meta":{"t":-1.5e3}}}', ("params", "_meta", "t"), b"-1.5e3"),
    (b'{"id":1,"id":null}', ("id",), b"null"),
    (b'{"\\u0069d":[1,[2]]}', ("id",), b"[1,[2]]"),
    (b'{"params":[1]}', ("params", "x"), None),
    (b'{"params":"x"}', ("params", "x"), None),
    (b"[]", ("id",), None),
    (b"{}", ("id",), None),
    (b'{"id"', ("id",), None),
    (b'{"id":', ("id",), None),
    (b'{"id":{', ("id",), None),
    (b"", ("id",), None),
)


@pytest.mark.parametrize(("raw", "path", "value"), CASES)
def test_a_value_is_found_where_it_stands(raw: bytes, path: tuple[str, ...], value: bytes | None) -> None:
    assert value_bytes(raw, path) == value


def test_several_values_of_other_lengths_are_replaced() -> None:
    raw = b'{"id":1,"params":{"t":"long","n":2},"x":[1]}'
    edits = {("params", "t"): b"0", ("id",): b'"longer"', ("params", "gone"): b"9"}
    assert spliced(raw, edits) == b'{"id":"longer","params":{"t":0,"n":2},"x":[1]}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["id", "a", "params", "\u2028"]), JSON), st.booleans())
def test_any_object_keeps_all_else(value: dict[str, object], is_ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert (find(raw, ("id",)) is None) == ("id" not in value)
    expected = value | {"id": [0]} if "id" in value else value
    assert json.loads(spliced(raw, {("id",): b"[0]"})) == expected


def test_the_elements_of_an_array_are_its_bytes() -> None:
    raw = b' [ {"a" : 18446744073709551616} , [1,[2]],"\\ud800,]" , 1e400,null ] '
    assert list(elements(raw)) == [
        b'{"a" : 18446744073709551616}',
        b"[1,[2]]",
        b'"\\ud800,]"',
        b"1e400",
        b"null",
    ]
    assert list(elements(b"[ ]")) == []


@pytest.mark.parametrize(
    ("raw", "after"),
    [
        (b'{"params":{"cursor":1, "x":1e400}}', b'{"params":{"cursor":"c", "x":1e400}}'),
        (b'{"params":{ }}\r\n', b'{"params":{"cursor":"c"}}\r\n'),
        (b'{"id":1,"params":[1]}', b'{"id":1,"params":{"cursor":"c"}}'),
        (b'{"id":1}', b'{"id":1,"params":{"cursor":"c"}}'),
        (b"{}", b'{"params":{"cursor":"c"}}'),
    ],
)
def test_a_value_is_put_where_there_may_be_none(raw: bytes, after: bytes) -> None:
    assert put(raw, ("params", "cursor"), b'"c"') == after


def test_members_get_other_names_and_keep_their_values() -> None:
    raw = b'{ "a" : 18446744073709551616 ,"b":{"a":"\\ud800"}}'
    assert renamed(raw, {"a": "x"}) == b'{"x":18446744073709551616,"b":{"a":"\\ud800"}}'
