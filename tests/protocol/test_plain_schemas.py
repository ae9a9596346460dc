"""What is told to fit a plain schema fits it by a validator, in every dialect."""

from typing import Any, Final

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.schema.fast_path import make_test

Schema = dict[str, Any]

ORACLES: Final[tuple[Any, ...]] = (
    jsonschema.Draft4Validator,
    jsonschema.Draft7Validator,
    jsonschema.Draft202012Validator,
)
TYPES: Final = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
NAMES: Final = st.sampled_from("abc")


EMPTY: Final[Schema] = {}


def schemas(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(st.sampled_from(["a", "b", 1]), min_size=1, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, min_size=1, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "description": st.just("a word"),
            "minimum": st.just(1),
        },
    )


PLAIN: Final = schemas(st.recursive(st.just(EMPTY) | schemas(st.just(EMPTY)), schemas, max_leaves=6))
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "b", "c", 1.0, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(PLAIN, VALUES)
def test_a_validator_accepts_what_the_test_accepts(schema: Schema, value: JSON) -> None:
    fits = make_test(schema)
    for oracle in ORACLES:
        if fits is not None and fits(value):
            assert validates(oracle, schema, value)


def validates(oracle: Any, schema: Schema, value: JSON) -> bool:
    return oracle(schema).is_valid(value)


TOLD: Final[list[tuple[Schema, list[JSON], list[JSON]]]] = [
    ({"type": "integer"}, [0, -7], [True, 1.0, 1.5, "1", None]),
    ({"type": ["number", "null"]}, [1, 1.5, None], [False, "1"]),
    ({"enum": ["a", "b"]}, ["a"], ["c", 1, None]),
    ({"properties": {"a": {"type": "string"}}}, [{}, {"a": "x"}, {"b": 1}, 7], [{"a": 1}]),
    ({"required": ["a"], "additionalProperties": False, "properties": {"a": {}}}, [{"a": 1}], [{}]),
    ({"additionalProperties": {"type": "null"}}, [{"b": None}], [{"b": 0}]),
    ({"items": {"type": "string"}}, [[], ["a"], "a"], [["a", 1]]),
    ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, ["a", None], [1]),
]


@pytest.mark.parametrize(("schema", "fit", "doubtful"), TOLD)
def test_a_simple_schema_has_a_test(schema: Schema, fit: list[JSON], doubtful: list[JSON]) -> None:
    fits = make_test(schema)
    assert fits is not None
    assert [fits(value) for value in (*fit, *doubtful)] == [True] * len(fit) + [False] * len(doubtful)


OTHERS: Final[list[Schema]] = [
    {"$ref": "#"},
    {"minimum": 1},
    {"type": "text"},
    {"type": 1},
    {"enum": [1]},
    {"enum": "a"},
    {"required": "a"},
    {"required": [1]},
    {"items": [{}]},
    {"items": True},
    {"anyOf": []},
    {"anyOf": [{"not": {}}]},
    {"properties": []},
    {"properties": {"a": True}},
    {"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#"}}},
    {"additionalProperties": None},
]


@pytest.mark.parametrize("schema", OTHERS)
def test_a_schema_with_other_keywords_has_no_test(schema: Schema) -> None:
    assert make_test(schema) is None


def test_a_deep_schema_has_no_test() -> None:
    schema: Schema = {}
    for _ in range(500):
        schema = {"items": schema}
    assert make_test(schema) is None
