"""Is a tool's schema a sound schema: what is said, and what is lawful and passed over."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validators

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.dialects import URIS, Dialect, ValueKind, dialect_of, keywords
from mcpproxy.protocol.schema.soundness import MAX_DEPTH, MAX_SCHEMAS, FlawKind, flaws

DRAFT_03: Final = "http://json-schema.org/draft-03/schema#"
DRAFT_04: Final = "http://json-schema.org/draft-04/schema#"
DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"

Said = list[tuple[FlawKind, str]]


def said(schema: JSON, *, object_root: bool = True) -> Said:
    return [(flaw.kind, flaw.pointer) for flaw in flaws(schema, object_root=object_root)]


def tool(**members: Any) -> JSONObject:
    """A sound schema, but for ``members``."""
    return {"type": "object", "properties": {"a": {}}, **members}


ROOTS: dict[str, tuple[JSON, Said]] = {
    "no schema at all": (None, [("not-an-object", "")]),
    "a boolean schema": (True, [("not-an-object", "")]),
    "an array": ([], [("not-an-object", "")]),
    "an empty schema lacks its type": ({}, [("missing-root-type", "/type")]),
    "another type": ({"type": "array"}, [("root-type-not-object", "/type")]),
    "the right type in an array": ({"type": ["object"]}, [("root-type-not-object", "/type")]),
    "no type name at all": ({"type": "objekt"}, [("root-type-not-object", "/type")]),
    "a tool without parameters": ({"type": "object", "additionalProperties": False}, []),
    "without properties": ({"type": "object"}, [("no-properties", "/properties")]),
    "without properties, but with patterns": ({"type": "object", "patternProperties": {}}, []),
    "a map": ({"type": "object", "additionalProperties": {"type": "string"}}, []),
    "an ordinary one": (tool(), []),
}

TYPES: dict[str, tuple[JSON, Said]] = {
    "a nested schema needs no type": (tool(properties={"a": {"description": "x"}}), []),
    "a misspelt type name": (
        tool(properties={"a": {"type": "str"}}),
        [("bad-type-name", "/properties/a/type")],
    ),
    "two types": (tool(properties={"a": {"type": ["string", "null"]}}), []),
    "the same type twice": (
        tool(properties={"a": {"type": ["null", "null"]}}),
        [("bad-type-name", "/properties/a/type")],
    ),
    "no types": (tool(properties={"a": {"type": []}}), [("bad-type-name", "/properties/a/type")]),
    "a type that is a number": (
        tool(properties={"a": {"type": 3}}),
        [("bad-type-name", "/properties/a/type")],
    ),
    "a property called type": (tool(properties={"type": {"type": "string"}}), []),
    "a property called required": (tool(properties={"required": {"type": "boolean"}}), []),
    "data is not a schema": (
        tool(
            default={"type": "bogus"},
            examples=[{"type": "bogus", "required": True}],
            const={"properties": 3},
            enum=[{"type": "bogus"}],
        ),
        [],
    ),
    "an unknown keyword holds anything": (tool(**{"x-ui": {"type": "bogus", "properties": 1}}), []),
    "deep inside": (
        tool(properties={"a/b": {"items": {"anyOf": [{}, {"not": {"type": "x"}}]}}}),
        [("bad-type-name", "/properties/a~1b/items/anyOf/1/not/type")],
    ),
}

PROPERTIES: dict[str, tuple[JSON, Said]] = {
    "an array of properties": (tool(properties=[]), [("properties-not-object", "/properties")]),
    "null": (tool(properties=None), [("properties-not-object", "/properties")]),
    "a property that is a string": (
        tool(properties={"a": "string"}),
        [("property-not-schema", "/properties/a")],
    ),
    "a boolean property of the root": (
        tool(properties={"a": True}),
        [("boolean-property", "/properties/a")],
    ),
    "a boolean property further down": (
        tool(properties={"a": {"properties": {"b": False}}}),
        [],
    ),
    "a boolean property in draft-04": (
        tool(**{"$schema": DRAFT_04}, properties={"a": {"properties": {"b": False}}}),
        [("property-not-schema", "/properties/a/properties/b")],
    ),
}

REQUIRED: dict[str, tuple[JSON, Said]] = {
    "true": (tool(required=True), [("required-not-strings", "/required")]),
    "a string": (tool(required="a"), [("required-not-strings", "/required")]),
    "numbers": (tool(required=["a", 1]), [("required-not-strings", "/required")]),
    "true, in a property": (
        tool(properties={"a": {"type": "string", "required": True}}),
        [("required-not-strings", "/properties/a/required")],
    ),
    "none": (tool(required=[]), []),
    "none, in draft-04": (tool(**{"$schema": DRAFT_04}, required=[]), [("dialect", "/required")]),
    "one twice": (tool(required=["a", "a"]), [("dialect", "/required")]),
    "a known property": (tool(required=["a"]), []),
    "an unknown property": (tool(required=["a", "b"]), [("required-unknown-property", "/required/1")]),
    "without properties": (
        {"type": "object", "required": ["b"]},
        [("no-properties", "/properties"), ("required-unknown-property", "/required/0")],
    ),
    "an unknown property when no others are allowed": (
        tool(required=["b"], additionalProperties=False),
        [("required-forbidden-property", "/required/0")],
    ),
    "others are allowed as ever": (
        tool(required=["b"], additionalProperties=True),
        [("required-unknown-property", "/required/0")],
    ),
    "other names do not supply one": (
        tool(required=["b"], propertyNames={"maxLength": 3}),
        [("required-unknown-property", "/required/0")],
    ),
    "patternProperties may supply it": (tool(required=["b"], patternProperties={"^b": {}}), []),
    "additionalProperties may supply it": (tool(required=["b"], additionalProperties={}), []),
    "a reference may supply it": (tool(required=["b"], **{"$ref": "#/$defs/x", "$defs": {"x": {}}}), []),
    "allOf may supply it": (tool(required=["b"], allOf=[{}]), []),
    "anyOf may supply it": (tool(required=["b"], anyOf=[{}]), []),
    "oneOf may supply it": (tool(required=["b"], oneOf=[{}]), []),
    "if may supply it": (tool(required=["b"], **{"if": {}}), []),
    "dependentSchemas may supply it": (tool(required=["b"], dependentSchemas={}), []),
    "a branch requires what the whole defines": (
        tool(anyOf=[{"required": ["a"]}, {"properties": {"b": {"required": ["c"]}}}]),
        [],
    ),
    "a condition requires what the whole defines": (
        tool(**{"if": {"required": ["a"]}, "then": {"required": ["b"]}, "not": {"required": ["c"]}}),
        [],
    ),
    "a definition requires what its users define": (tool(**{"$defs": {"x": {"required": ["a"]}}}), []),
    "a definition that stands for itself": (
        tool(**{"$defs": {"x": {"properties": {}, "required": ["a"]}}}),
        [("required-unknown-property", "/$defs/x/required/0")],
    ),
    "properties are broken anyway": (
        tool(properties=[], required=["a"]),
        [("properties-not-object", "/properties")],
    ),
}

DIALECTS: dict[str, tuple[JSON, Said]] = {
    "a boolean limit, a habit of draft-04": (
        tool(properties={"a": {"minimum": 0, "exclusiveMinimum": True}}),
        [("dialect", "/properties/a/exclusiveMinimum")],
    ),
    "a boolean limit in draft-04": (
        tool(**{"$schema": DRAFT_04}, properties={"a": {"minimum": 0, "exclusiveMinimum": True}}),
        [],
    ),
    "a boolean limit of nothing in draft-04": (
        tool(**{"$schema": DRAFT_04}, properties={"a": {"exclusiveMinimum": True}}),
        [("dialect", "/properties/a/exclusiveMinimum")],
    ),
    "an array of items, a habit of draft-07": (
        tool(properties={"a": {"items": [{"type": "string"}]}}),
        [("dialect", "/properties/a/items")],
    ),
    "an array of items in draft-07": (
        tool(**{"$schema": DRAFT_07}, properties={"a": {"items": [{"type": "x"}]}}),
        [("bad-type-name", "/properties/a/items/0/type")],
    ),
    "definitions, another habit, break nothing": (tool(definitions={"x": {"type": "string"}}), []),
    "they are looked at all the same": (
        tool(definitions={"x": {"type": "text"}}),
        [("bad-type-name", "/definitions/x/type")],
    ),
    "an unknown dialect is unsupported, not invalid": (
        tool(
            **{"$schema": DRAFT_03},
            properties={"a": {"type": "any", "required": True, "minimum": "0"}},
            required=["z"],
            minProperties="1",
        ),
        [],
    ),
    "but MCP's own shape stands": (
        {"$schema": DRAFT_03, "type": "thing", "properties": {"a": 1}, "required": True},
        [
            ("root-type-not-object", "/type"),
            ("property-not-schema", "/properties/a"),
            ("required-not-strings", "/required"),
        ],
    ),
    "a dialect that is no string": (
        tool(**{"$schema": 7}, minProperties=-1),
        [("dialect", "/$schema"), ("dialect", "/minProperties")],
    ),
    "a part may name a dialect of its own": (
        tool(properties={"a": {"$schema": DRAFT_07, "items": [{}]}, "b": {"$schema": DRAFT_03, "items": 1}}),
        [],
    ),
    "a schema that is none": (tool(additionalProperties="no"), [("dialect", "/additionalProperties")]),
    "branches that are none": (
        tool(allOf=[], oneOf=[{}, 1]),
        [("dialect", "/allOf"), ("dialect", "/oneOf/1")],
    ),
    "dependencies of both kinds": (
        tool(dependencies={"a": ["b"], "c": {"type": "x"}, "d": 1}),
        [("dialect", "/dependencies/d"), ("bad-type-name", "/dependencies/c/type")],
    ),
    "a title that is a number": (tool(title=1), [("dialect", "/title")]),
    "dependent names": (
        tool(dependentRequired={"a": ["b"], "b": ["a", "a"]}),
        [("dialect", "/dependentRequired/b")],
    ),
    "definitions in an array": (tool(**{"$defs": []}), [("dialect", "/$defs")]),
    "items of one kind in draft-07": (tool(**{"$schema": DRAFT_07}, items={}), []),
    "items that are nothing": (
        tool(**{"$schema": DRAFT_07}, items=3),
        [("dialect", "/items")],
    ),
    "a name that is none": (tool(**{"$anchor": "9"}), [("dialect", "/$anchor")]),
    "a limit that is a string": (tool(minimum="1"), [("dialect", "/minimum")]),
    "an identifier with a fragment": (tool(**{"$id": "x:y#z"}), [("dialect", "/$id")]),
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(*case, id=f"{family}: {name}")
        for family, cases in {
            "root": ROOTS,
            "type": TYPES,
            "properties": PROPERTIES,
            "required": REQUIRED,
            "dialect": DIALECTS,
        }.items()
        for name, case in cases.items()
    ],
)
def test_the_flaws_of_a_schema(schema: JSON, expected: Said) -> None:
    assert said(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, []),
        ({"type": "array", "items": {}}, []),
        ({"type": ["object", "null"]}, []),
        ({"type": "objekt"}, [("bad-type-name", "/type")]),
        ({"$schema": DRAFT_03, "type": "any"}, []),
        (True, [("not-an-object", "")]),
    ],
)
def test_a_root_that_may_be_of_any_type(schema: JSON, expected: Said) -> None:
    assert said(schema, object_root=False) == expected


@pytest.mark.parametrize(
    ("schema", "clause"),
    [
        ([], "should be an object, is an array"),
        ({"type": ["object"]}, 'should be "object", is ["object"]'),
        (tool(required=[1, 2, 3, 4]), "should be an array of strings, is [1, 2, 3, …]"),
        (tool(minProperties=-1), "should be a non-negative integer, is -1"),
        (tool(maxProperties="5"), 'should be a non-negative integer, is "5"'),
        (tool(required=["b"]), 'names "b", which is not under properties'),
    ],
)
def test_a_flaw_is_a_clause(schema: JSON, clause: str) -> None:
    assert [flaw.what for flaw in flaws(schema)] == [clause]


def test_depth_and_size_are_bounded() -> None:
    deep: JSONObject = {"type": "bogus"}
    for _ in range(MAX_DEPTH):
        deep = {"not": deep}
    assert said(deep, object_root=False) == [("bad-type-name", "/not" * MAX_DEPTH + "/type")]
    assert said({"not": deep}, object_root=False) == []
    branches: list[JSON] = [{"type": "bogus"}] * (MAX_SCHEMAS + 5)
    assert len(said({"allOf": branches}, object_root=False)) == MAX_SCHEMAS - 1


@pytest.mark.parametrize(
    ("uri", "dialect"),
    [
        ("https://json-schema.org/draft/2020-12/schema", "2020-12"),
        ("http://json-schema.org/draft-07/schema#", "draft-07"),
        ("http://json-schema.org/draft-07/schema", "draft-07"),
        ("https://json-schema.org/draft-06/schema#", "draft-06"),
        (DRAFT_03, None),
        ("urn:mine", None),
        (7, None),
    ],
)
def test_the_name_of_a_dialect(uri: JSON, dialect: Dialect | None) -> None:
    assert dialect_of(uri) == dialect


# The table against the dialects' own meta-schemas.

INVALID: Final = {
    "dialect",
    "bad-type-name",
    "properties-not-object",
    "property-not-schema",
    "required-not-strings",
}
SCALARS = st.sampled_from(
    [None, True, False, -1, 0, 1, 2.5, -0.5, "", "a", "string", "null", "#", "a#b", "x:y", "9"]
)
NAMES = st.lists(st.sampled_from("abc"), max_size=3)
TYPE = st.sampled_from(["string", "object", "any"])


def values(schemas: st.SearchStrategy[Any], takes: ValueKind) -> st.SearchStrategy[Any]:
    """Values for a keyword, about as many right as wrong."""
    children = st.one_of(schemas, schemas, SCALARS, NAMES)
    right: st.SearchStrategy[Any] = SCALARS
    match takes:
        case "schema" | "schema?":
            right = schemas
        case "schemas" | "items":
            right = st.lists(children, max_size=2) | schemas
        case "map" | "needs" | "either" | "flags":
            right = st.dictionaries(st.sampled_from("ab"), children | SCALARS, max_size=2)
        case "names" | "names+" | "array" | "choices":
            right = NAMES
        case "type":
            right = TYPE | st.lists(TYPE, max_size=2)
        case _:
            pass
    # Distinctness of enum values is left out of the table.
    if takes == "choices":
        return st.lists(SCALARS, max_size=2, unique_by=repr) | SCALARS
    return st.one_of(right, right, right, SCALARS)


def schemas(dialect: Dialect) -> st.SearchStrategy[Any]:
    # The published meta-schema of draft-07 has writeOnly, the copy compared with has not.
    left_out = {"$schema", "writeOnly"}
    table = {name: takes for name, takes in keywords(dialect).items() if name not in left_out}

    def one(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        keyword: st.SearchStrategy[Any] = st.sampled_from(sorted(table.items()))
        members = keyword.flatmap(lambda item: st.tuples(st.just(item[0]), values(inner, item[1])))
        return st.lists(members, max_size=4).map(dict)

    nothing: st.SearchStrategy[Any] = st.sampled_from([True, False, {}])
    return one(st.recursive(nothing, one, max_leaves=8))


@cache
def judge(dialect: Dialect) -> tuple[str, Callable[[JSON], list[str]]]:
    """The URI of a dialect, and what its meta-schema has against a schema."""
    name = next(uri for uri, named in URIS.items() if named == dialect)
    uri = f"https://{name}" if "draft/" in name else f"http://{name}#"
    validator: Any = validators.validator_for({"$schema": uri})
    validator = validator(validator.META_SCHEMA)
    return uri, lambda schema: [error.message for error in validator.iter_errors(schema)]


@pytest.mark.parametrize("dialect", URIS.values())
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_the_table_agrees_with_the_meta_schema(dialect: Dialect, data: st.DataObject) -> None:
    uri, errors = judge(dialect)
    schema = {**data.draw(schemas(dialect)), "$schema": uri}
    ours = [flaw for flaw in flaws(schema, object_root=False) if flaw.kind in INVALID]
    theirs = errors(schema)
    assert bool(ours) == bool(theirs), (json.dumps(schema), ours, theirs)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(keywords("2019-09"))), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(ANYTHING, st.booleans())
def test_no_value_makes_it_raise(schema: JSON, object_root: bool) -> None:
    for flaw in flaws(schema, object_root=object_root):
        assert flaw.what
