"""The scanner of JSON with comments: it sees what ``json`` sees, says where, and refuses what is damaged."""

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.hosts.errors import UnreadableTextError
from mcpproxy.hosts.jsonc import MOST_LEVELS, read_jsonc
from mcpproxy.hosts.text_nodes import Node, plain, within

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
SPACE = st.text(" \t\r\n", max_size=3)
COMMENTS = st.lists(
    SPACE
    | st.text(st.characters(exclude_characters="\r\n", codec="utf-8")).map(lambda text: f"//{text}\n")
    | st.text(st.characters(codec="utf-8"))
    .filter(lambda text: "*/" not in text and not text.endswith("*"))
    .map(lambda text: f"/*{text}*/"),
    max_size=2,
).map("".join)


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_it_sees_what_json_sees(value: object, is_ascii: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert plain(read_jsonc(text)) == json.loads(text)


@given(VALUES, st.data())
def test_comments_and_trailing_commas_change_nothing(value: object, data: st.DataObject) -> None:
    text = commented(json.dumps(value, indent=1), data)
    assert plain(read_jsonc(text)) == json.loads(json.dumps(value))


def commented(text: str, data: st.DataObject) -> str:
    """Put comments between all tokens, and commas behind the last elements."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+|[{}\[\],:]', text)
    parts = [data.draw(COMMENTS)]
    for before, token in zip(["", *tokens], tokens, strict=False):
        if token in ("}", "]") and before not in ("{", "[") and data.draw(st.booleans()):
            parts.append(f",{data.draw(COMMENTS)}")
        parts += (token, data.draw(COMMENTS))
    return "".join(parts)


@given(VALUES, st.data())
def test_each_value_stands_where_it_says(value: object, data: st.DataObject) -> None:
    text = commented(json.dumps(value), data)
    for node in within(read_jsonc(text)):
        assert plain(read_jsonc(text[node.start : node.end])) == plain(node)
        for key, member in (node.members or {}).items():
            end = text.index('"', member.key_start + 1) + 1
            while text[member.key_start : end].count("\\") and not _is_string(text[member.key_start : end]):
                end = text.index('"', end) + 1
            assert json.loads(text[member.key_start : end]) == key


def _is_string(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.text('{}[]",:/*\\ \n\t01-.eEtrufalsn', max_size=30))
def test_every_json_text_is_read_and_any_other_is_read_or_refused(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=_refuse)
    except ValueError:
        with suppress(UnreadableTextError):
            read_jsonc(text)
    else:
        assert plain(read_jsonc(text)) == expected


def _refuse(name: str) -> None:
    raise ValueError(name)


DAMAGED = {
    '{"a": 1': (7, "a comma or } is missing"),
    '{"a" 1}': (5, "no colon after a name"),
    '{a: 1}': (1, "'a' where a name should be"),
    "{'a': 1}": (1, '"\'" where a name should be'),
    '{"a": }': (6, "'}' where a value should be"),
    "[1 2]": (3, "a comma or ] is missing"),
    "[,]": (1, "',' where a value should be"),
    '["a\nb"]': (1, "a string that does not end on its line, or has a wrong escape"),
    '["\\x"]': (1, "a string that does not end on its line, or has a wrong escape"),
    "{} {}": (3, "text after the end of the value"),
    "[/* x": (1, "a comment that does not end"),
    "[1, ": (4, "it ends too early"),
    "[NaN]": (1, "'N' where a value should be"),
    "[truely]": (1, "'t' where a value should be"),
    "[" * (MOST_LEVELS + 2): (MOST_LEVELS + 1, "more than 200 levels"),
}  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_what_is_damaged_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(UnreadableTextError) as refused:
        read_jsonc(text)
    assert (refused.value.index, refused.value.fact) == DAMAGED[text]


def test_of_two_members_with_one_name_the_last_counts() -> None:
    assert plain(read_jsonc('{"a": 1, "b": 2, "a": 3}')) == {"a": 3, "b": 2}


def test_an_empty_text_holds_nothing() -> None:
    for text in ("", "\ufeff", " // nothing\n"):
        assert read_jsonc(text) == Node(len(text), len(text))
