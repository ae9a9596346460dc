"""Values against schemas: what does not fit is told where it stands; what cannot be judged is left alone."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.schema.contracts import (
    LIMIT,
    MAX_FAST_TESTS,
    MAX_SCHEMA_BYTES,
    Mismatch,
    contract,
    find_mismatches,
)

NOW: Final = "2025-11-25"
THEN: Final = "2025-06-18"
DRAFT_4: Final = "http://json-schema.org/draft-04/schema#"
DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"

Schema = dict[str, Any]


def nested(levels: int, innermost: JSON = 1, name: str = "a") -> JSON:
    for _ in range(levels):
        innermost = {name: innermost}
    return innermost


# What is said

TOLD: Final[list[tuple[Schema, JSON, str, str]]] = [
    ({"type": "object"}, [], "", "should be an object, is an array"),
    ({"type": ["null", "string"]}, 3, "", "should be a string or null, is a number"),
    ({"type": "integer"}, 1.5, "", "should be an integer, is 1.5"),
    ({"properties": {"a/b": {"type": "string"}}}, {"a/b": 1}, "/a~1b", "should be a string, is a number"),
    ({"items": {"type": "string"}}, ["x", None], "/1", "should be a string, is null"),
    ({"required": ["a"]}, {}, "/a", "is missing"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "/b", "is missing"),
    ({"additionalProperties": False}, {"x": 1}, "/x", "is not allowed"),
    ({"properties": {"a": True}, "unevaluatedProperties": False}, {"x": 1}, "/x", "is not allowed"),
    ({"prefixItems": [True], "items": False}, [1, 2], "/1", "is not allowed"),
    ({"properties": {"a": False}}, {"a": 1}, "/a", "is not allowed"),
    ({"enum": ["on", "off"]}, "up", "", 'should be "on" or "off", is "up"'),
    ({"enum": list(range(9))}, 9, "", "should be 0, 1, 2, 3, 4, 5 or …, is 9"),
    ({"enum": []}, 1, "", "fits no value of the empty enum"),
    ({"const": None}, 1, "", "should be null, is 1"),
    ({"minimum": 1}, 0, "", "should be at least 1, is 0"),
    ({"exclusiveMaximum": 1}, 1.0, "", "should be below 1, is 1.0"),
    ({"multipleOf": 2}, 3, "", "should be a multiple of 2, is 3"),
    ({"maxLength": 2}, "äöü", "", "should have at most 2 characters, has 3"),
    ({"minItems": 1}, [], "", "should have at least 1 items, has 0"),
    ({"maxProperties": 0}, {"a": 1}, "", "should have at most 0 members, has 1"),
    ({"pattern": "^a"}, "b", "", 'should match "^a", is "b"'),
    ({"uniqueItems": True}, [1, 1], "", "has items that are equal"),
    ({"contains": {"type": "null"}}, [1], "", "has no item that fits contains"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "", "has a member whose name is not allowed"),
    ({"not": {"type": "null"}}, None, "", "fits the schema under not"),
    ({"oneOf": [True, True]}, 1, "", "fits more than one of the schemas under oneOf"),
    ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 1, "", "should be a string or null, is a number"),
    ({"anyOf": [{"type": "null"}, {"minimum": 2}]}, 1, "", "fits none of the schemas under anyOf"),
]


@pytest.mark.parametrize(("schema", "value", "pointer", "what"), TOLD)
def test_a_mismatch_has_its_place_and_its_description(
    schema: Schema, value: JSON, pointer: str, what: str
) -> None:
    assert find_mismatches(value, schema, NOW) == (Mismatch(pointer, what),)


def test_the_number_of_mismatches_is_limited() -> None:
    schema: Schema = {"items": {"type": "string"}, "minItems": 60}
    assert len(find_mismatches([*range(50)], schema, NOW)) == LIMIT


def sound_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas out of every keyword that judges something, and of schemas."""
    several, names = st.lists(inner, min_size=1, max_size=2), st.lists(st.sampled_from("abc"), unique=True)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "object", "array", "integer", "null", ["string", "null"]]),
            "enum": st.lists(st.sampled_from([0, 1, "a"]), unique=True),
            "minimum": st.integers(-1, 2),
            "multipleOf": st.sampled_from([2, 0.5]),
            "minLength": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "(?=a)b", "a{2}"]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": names,
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "propertyNames": inner,
            "dependentRequired": st.dictionaries(st.sampled_from("ab"), names, max_size=1),
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "uniqueItems": st.booleans(),
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), several),
            **dict.fromkeys(("not", "if", "then", "else"), inner),
            "$ref": st.sampled_from(["#", "#/$defs/x"]),
            "$defs": st.fixed_dictionaries({"x": inner}),
        },
    )


SOUND: Final = sound_schemas(st.recursive(st.booleans(), sound_schemas, max_leaves=8))
SMALL: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "aa", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(SMALL, SOUND)
def test_another_validator_rejects_the_same_values(value: Any, schema: Schema) -> None:
    oracle: Any = jsonschema.Draft202012Validator(schema)
    if find_mismatches(value, schema, NOW):
        assert not oracle.is_valid(value)


@settings(deadline=None)
@given(SMALL)
def test_another_validator_accepts_the_same_values(value: JSON) -> None:
    for schema, *_ in TOLD:
        oracle: Any = jsonschema.Draft202012Validator(schema)
        assert (find_mismatches(value, schema, NOW) == ()) == oracle.is_valid(value)


# In which dialect

DRAFT_6_LIST: Final[Schema] = {"items": [{"type": "string"}], "additionalItems": False}
NEW_LIST: Final[Schema] = {"prefixItems": [{"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "value", "revision", "fits"),
    [
        (NEW_LIST, [1], NOW, False),
        (NEW_LIST, [1], THEN, True),  # draft-07 knows no prefixItems
        (NEW_LIST | {"$schema": DRAFT_7}, [1], NOW, True),
        (DRAFT_6_LIST, ["a", 1], NOW, True),  # an unsound schema judges nothing
        (DRAFT_6_LIST | {"$schema": DRAFT_7}, ["a", 1], NOW, False),
        (DRAFT_6_LIST | {"$schema": DRAFT_7}, ["a", 1], THEN, False),
        ({"type": "string"}, 1, THEN, False),  # whatever the dialect
        ({"type": "string", "$schema": "https://example.org/mine"}, 1, NOW, True),
        ({"type": "string", "$schema": 7}, 1, NOW, True),
        ({"type": "integer", "$schema": DRAFT_4}, 1.0, NOW, True),  # nobody can tell it from 1
        ({"type": ["integer", "null"], "$schema": DRAFT_4}, 1.0, NOW, True),
        ({"type": "integer", "$schema": DRAFT_4}, 1.5, NOW, False),
        ({"contentEncoding": "base64", "$schema": DRAFT_7}, "%", NOW, True),
        ({"format": "date", "$schema": DRAFT_7}, "soon", NOW, True),
        ({"properties": {"a": {"$schema": DRAFT_7, "type": "string"}}}, {"a": 1}, NOW, True),
    ],
)
def test_the_schema_or_the_revision_names_the_dialect(
    schema: Schema, value: JSON, revision: str, fits: bool
) -> None:
    assert (find_mismatches(value, schema, revision) == ()) == fits


# References

LIST: Final[Schema] = {
    "$defs": {"cell": {"type": "object", "properties": {"next": {"$ref": "#/$defs/cell"}}}},
    "$ref": "#/$defs/cell",
}


def test_a_reference_within_the_schema_is_followed() -> None:
    assert find_mismatches(nested(3, 1, "next"), LIST, NOW) == (
        Mismatch("/next/next/next", "should be an object, is a number"),
    )


@pytest.mark.parametrize(
    "reference",
    [
        "https://example.org/schema.json",
        "file:///etc/passwd",
        "other.json",
        "#anchor",
        "#/$defs/missing",
        "#/allOf/7",
        "#/type",
        "https://json-schema.org/draft/2020-12/schema",
        7,
        "#",
    ],
)
def test_a_schema_with_an_unusable_reference_accepts_everything(reference: JSON) -> None:
    schema: Schema = {"type": "object", "allOf": [{"$ref": reference}]}
    assert find_mismatches(1, schema, NOW) == ()


@pytest.mark.parametrize(
    ("id", "reference"),
    [
        ("https://example.org/tree.json", "https://example.org/tree.json"),
        ("https://example.org/tree.json", "https://example.org/tree.json#"),
        ("https://example.org/tree.json", "tree.json"),
        ("urn:tree", "urn:tree"),
        ("urn:tree", "#"),
    ],
)
def test_a_schema_may_refer_to_itself_by_its_own_id(id: str, reference: str) -> None:
    schema: Schema = {
        "$id": id,
        "properties": {"value": {"type": "integer"}, "next": {"$ref": reference}},
    }
    assert find_mismatches({"next": {"value": 1}}, schema, NOW) == ()
    assert find_mismatches({"next": {"value": "x"}}, schema, NOW) == (
        Mismatch("/next/value", "should be an integer, is a string"),
    )


def test_a_dynamic_reference_is_followed_where_it_can_mean_one_schema_only() -> None:
    inner: Schema = {"$dynamicAnchor": "node", "type": "object"}
    schema: Schema = {
        "$dynamicAnchor": "node",
        "properties": {"value": {"type": "integer"}, "next": {"$dynamicRef": "#node"}},
    }
    assert find_mismatches({"next": {"value": 1}}, schema, NOW) == ()
    assert find_mismatches({"next": {"value": "x"}}, schema, NOW) == (
        Mismatch("/next/value", "should be an integer, is a string"),
    )
    assert find_mismatches({"next": {"value": "x"}}, {**schema, "$defs": {"other": inner}}, NOW) == ()


def test_a_dynamic_reference_to_itself_judges_nothing() -> None:
    assert find_mismatches(1, {"$dynamicAnchor": "a", "$dynamicRef": "#a", "type": "object"}, NOW) == ()


def test_names_within_the_schema_change_what_a_reference_means() -> None:
    inner: Schema = {"$id": "https://example.org/inner", "$defs": {"a": {}}, "$ref": "#/$defs/a"}
    assert find_mismatches({"x": 1, "y": 1}, {"properties": {"x": inner, "y": {"type": "string"}}}, NOW) == ()


def test_a_property_may_be_called_ref() -> None:
    schema: Schema = {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}
    assert find_mismatches({"$ref": 1}, schema, NOW) == (
        Mismatch("/$ref", "should be a string, is a number"),
    )


# What would take for ever, or more than there is

ENDLESS: Final[Schema] = {"allOf": [{"$ref": "#"}], "type": "object"}


def doubling(steps: int, keyword: str = "allOf") -> Schema:
    """Each definition tries the next one twice."""
    step = "#/$defs/{}".format
    definitions: Schema = {f"{i}": {keyword: [{"$ref": step(i + 1)}] * 2} for i in range(steps)}
    return {"$ref": step(0), "$defs": {**definitions, f"{steps}": {"type": "object"}}}


def branching() -> Schema:
    """An expression of five kinds, each with two more in it: fivefold with every level."""
    kinds: list[Schema] = [
        {"type": "object", "properties": {"t": {"const": i}, "l": {"$ref": "#"}, "r": {"$ref": "#"}}}
        for i in range(5)
    ]
    return {"anyOf": [*kinds, {"type": "number"}]}


def expression(levels: int) -> JSON:
    found: JSON = "wrong"
    for _ in range(levels):
        found = {"t": 4, "l": found, "r": 1}
    return found


DEEP: Final = {"type": "string"}

BEYOND: Final[list[tuple[str, Schema, Any]]] = [
    ("a schema that only comes back to itself", ENDLESS, 1),
    ("work that doubles with every reference", doubling(40), 1),
    ("the same, as a choice", doubling(40, "anyOf"), 1),
    ("work that multiplies with every level", branching(), expression(12)),
    (
        "a value as deep as a parser reads",
        {"properties": {"a": {"$ref": "#"}}, "type": "object"},
        nested(900),
    ),
    ("a value of many values", {"items": {"type": "string"}}, [1] * 60_000),
    ("many choices for many values", {"items": {"enum": [*range(5_000)]}}, ["x"] * 5_000),
    ("many names for many values", {"items": {"required": [f"{i}" for i in range(9_000)]}}, [{}] * 900),
    ("a schema of many schemas", {"properties": {f"{i}": {"minimum": 2} for i in range(5_001)}}, {"1": 1}),
    ("a schema that nests deep", {"properties": {"a": nested(120, {"type": "null"}, "not")}}, {"a": 1}),
    ("a long schema", {"type": "string", "description": "x" * MAX_SCHEMA_BYTES}, 1),
    ("a pattern that tries every way", {"pattern": r"^(?=a)(a+)+\1$"}, "a" * 40_000 + "b"),
    ("a pattern that is huge", {"pattern": "((a{100}){100}){100}", "type": "string"}, 1),
    ("much text and many patterns", {"allOf": [{"pattern": f"^{i}"} for i in range(99)]}, "a" * 99_999),
    ("half a character", {"pattern": "^a"}, "\ud800"),
    ("half a character in the schema", {"const": "\ud800"}, 1),
    ("a number beyond all types in the schema", {"maximum": 10**40}, 10**41),
]


@pytest.mark.parametrize(("schema", "value"), [c[1:] for c in BEYOND], ids=[c[0] for c in BEYOND])
@pytest.mark.parametrize("revision", [NOW, THEN])
def test_too_much_work_is_not_done(schema: Schema, value: JSON, revision: str) -> None:
    assert find_mismatches(value, schema, revision) == ()


@pytest.mark.parametrize(
    ("schema", "value", "mismatches"),
    [
        (branching(), expression(4), 1),  # too much to explain, not too much to judge
        (doubling(14), 1, 1),
        ({"items": {"type": "string"}}, [1] * 30_000, 1),
        ({"pattern": "^(a+)+$"}, "a" * 90_000 + "b", 1),
        ({"maximum": 1}, 10**900, 1),
        (LIST, nested(40, 1, "next"), 1),
    ],
)
def test_much_work_gives_a_short_answer(schema: Schema, value: JSON, mismatches: int) -> None:
    assert len(find_mismatches(value, schema, NOW)) == mismatches


ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
WORDS: Final = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "enum",
        "pattern",
        "not",
        "$id",
        "if",
    ]
)
SCHEMAS: Final = st.recursive(
    st.sampled_from(["string", "object", "#", "#/$defs/a", "^a(", "a", 1, True, None, "https://x/"]),
    lambda inner: st.dictionaries(WORDS | st.just("a"), inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(ANYTHING, SCHEMAS | ANYTHING, st.sampled_from([NOW, THEN]))
def test_no_value_or_schema_makes_it_raise(value: Any, schema: Any, revision: str) -> None:
    for mismatch in find_mismatches(value, schema, revision):
        assert mismatch.what.encode()


# What it costs


def test_a_schema_is_prepared_once() -> None:
    assert contract({"type": "string"}, NOW) is contract({"type": "string"}, NOW)
    assert contract({"type": "string"}, NOW) is not contract({"type": "string"}, THEN)


PLAIN_SCHEMA: Final[Schema] = {
    "$schema": DRAFT_7,
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "what to say"},
        "often": {"type": ["integer", "null"]},
    },
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "value", "loaded"),
    [
        (PLAIN_SCHEMA, {"text": "a", "often": None}, False),
        (PLAIN_SCHEMA, {"text": "a", "often": 2}, False),
        (PLAIN_SCHEMA, {"text": "a", "loud": True}, True),  # it has to say where
        (PLAIN_SCHEMA | {"minProperties": 1}, {"text": "a"}, True),
    ],
)
def test_the_library_is_loaded_only_when_it_is_needed(schema: Schema, value: JSON, loaded: bool) -> None:
    code = (
        "import sys; from mcpproxy.protocol.schema import contracts as contract\n"
        f"contract.find_mismatches({value!r}, {schema!r}, {NOW!r}); print('jsonschema_rs' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == (str(loaded), "")


def test_after_many_values_the_library_is_faster() -> None:
    ready = contract(PLAIN_SCHEMA | {"title": "asked often"}, NOW)
    assert ready is not None
    for text in (b'{"text":"a"}', None):
        for _ in range(MAX_FAST_TESTS):
            assert ready.find_mismatches({"text": "a"}, text) == ()
        assert len(ready.find_mismatches({"text": 1}, text)) == 1


def test_without_the_library_no_schema_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "jsonschema_rs.py").write_text("raise ImportError('DLL load failed')\n", encoding="utf-8")
    schema = PLAIN_SCHEMA | {"minProperties": 1}
    code = (
        "from mcpproxy.protocol.schema import contracts\n"
        f"print(repr(contracts.obstacle({schema!r}, {NOW!r})), contracts.UNCHECKED)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    note = "values are not checked against schemas: jsonschema_rs cannot be loaded (DLL load failed)"
    assert (ran.stdout, ran.stderr) == (f"'' {[note]}\n", "")


def test_without_the_library_only_values_go_unchecked(tmp_path: Path) -> None:
    (tmp_path / "jsonschema_rs.py").write_text("raise ImportError('DLL load failed')\n", encoding="utf-8")
    recording = Path(__file__).parents[2] / "recordings" / "everything-http-2025-06-18.jsonl"
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "check", recording],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert ran.stderr == ""
    note = (
        "incomplete: values are not checked against schemas: jsonschema_rs cannot be loaded (DLL load failed)"
    )
    assert ran.stdout.count(note) == 1
