"""The shape tables against the types of the Python SDK, which were made from the same schemas.

The SDK has types for two revisions. What it accepts, nothing is said of; a message that it refuses for
want of a member, something is said of. Four differences are known, and kept out of the way: the SDK
takes null for an absent member, refuses 2.0 as an integer, and does not look at the name of the
server in the metadata of a result, nor at the properties of a schema.
"""

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import methods as sdk
from pydantic import TypeAdapter, ValidationError

from mcpproxy.protocol.shapes.lookup import Part, ShapeViolation, violations

MODELLED: Final = ("2025-11-25", "2026-07-28")
NOT_MODELLED: Final = re.compile(r"_meta/io\.modelcontextprotocol~1serverInfo|Schema/properties/")
ODD: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [True, 0, 7, 1.5, "text", "url", "x", [], {}, ["x"], {"a": 1}]
)

Key = tuple[str, Part, str]


def surface() -> Iterator[tuple[Key, Any]]:
    """Each message that the SDK has a type for."""
    asked = (sdk.CLIENT_REQUESTS, sdk.SERVER_REQUESTS, sdk.CLIENT_NOTIFICATIONS, sdk.SERVER_NOTIFICATIONS)
    answered = (sdk.SERVER_RESULTS, sdk.CLIENT_RESULTS)
    tables: tuple[tuple[Part, Any], ...] = (("params", asked), ("result", answered))
    for part, mappings in tables:
        for mapping in mappings:
            for (method, revision), model in mapping.items():
                if revision in MODELLED:
                    yield (method, part, revision), model


SURFACE: Final = dict(surface())


@cache
def adapter(key: Key, *, input_required: bool) -> TypeAdapter[Any]:
    """The SDK's type; of a result that may ask for input, the half that was meant."""
    model = SURFACE[key]
    halves = get_args(model)
    return TypeAdapter(halves[input_required] if halves else model)


@cache
def schema(key: Key, *, input_required: bool) -> Any:
    """The same as a JSON Schema."""
    return adapter(key, input_required=input_required).json_schema()


def accepted(key: Key, value: Any) -> bool:
    """Whether the SDK takes ``value`` for those params or that result."""
    method, part, _ = key
    message = value
    if part == "params":
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": value}
        if method.startswith("notifications/"):
            del message["id"]
    try:
        meant = adapter(key, input_required=asks(value))
        meant.validate_json(json.dumps(message), strict=True)
    except ValidationError:
        return False
    return True


def asks(value: Any) -> bool:
    return value.get("resultType") == "input_required"


def ours(key: Key, value: Any) -> list[ShapeViolation]:
    method, part, revision = key
    found = violations(value, (method, part), revision)
    return [violation for violation in found if not NOT_MODELLED.search(violation.pointer)]


def instance(draw: st.DrawFn, like: Any, definitions: Any) -> Any:
    """A value that a JSON Schema, as the SDK's types give one, accepts."""
    match like:
        case {"$ref": ref}:
            return instance(draw, definitions[ref.rpartition("/")[2]], definitions)
        case {"const": const}:
            return const
        case {"enum": choices}:
            return draw(st.sampled_from(choices))
        case {"anyOf": variants}:
            variants = [variant for variant in variants if variant.get("type") != "null"]
            return instance(draw, draw(st.sampled_from(variants)), definitions)
        case {"type": "array"}:
            items = range(draw(st.integers(0, 2)))
            return [instance(draw, like["items"], definitions) for _ in items]
        case {"type": "string"}:
            return draw(st.sampled_from(["", "x", "https://example.com/"]))
        case {"type": "integer"}:
            return draw(st.integers(0, 9))
        case {"type": "number"}:
            return draw(st.sampled_from([0, 0.5, 1]))
        case {"type": "boolean"}:
            return draw(st.booleans())
        case {"type": "object"}:
            return members(draw, like, definitions)
        case _:
            return draw(ODD)


def members(draw: st.DrawFn, like: Any, definitions: Any) -> Any:
    required = like.get("required", ())
    made = {
        name: instance(draw, member, definitions)
        for name, member in like.get("properties", {}).items()
        if name in required or draw(st.booleans())
    }
    if isinstance(others := like.get("additionalProperties"), dict):
        made |= {n: instance(draw, others, definitions) for n in draw(st.sets(st.sampled_from("ab")))}
    return made


@st.composite
def messages(draw: st.DrawFn, key: Key) -> Any:
    """Params or a result that the SDK accepts."""
    input_required = bool(get_args(SURFACE[key])) and draw(st.booleans())
    made_like = schema(key, input_required=input_required)
    made = instance(draw, made_like, made_like.get("$defs", {}))
    if key[1] == "params":
        made = made.get("params", {})
    elif "resultType" in made:
        made["resultType"] = "input_required" if input_required else "complete"
    return made


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every object or array inside ``value``, with each of its names or indices."""
    found: list[tuple[Any, Any]] = []
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    for name, child in inner:
        found.append((cast("Any", value), name))
        found.extend(places(child))
    return found


@pytest.mark.parametrize("key", SURFACE, ids=" ".join)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_the_tables_agree_with_the_types_of_the_sdk(key: Key, data: st.DataObject) -> None:
    whole = data.draw(messages(key))
    assert accepted(key, whole)
    assert ours(key, whole) == []

    if spots := range(len(places(whole))):
        spot = data.draw(st.sampled_from(spots))
        lessened = copy.deepcopy(whole)
        container, name = places(lessened)[spot]
        del container[name]
        assert bool(ours(key, lessened)) == (not accepted(key, lessened)), lessened

        changed = copy.deepcopy(whole)
        container, name = places(changed)[spot]
        container[name] = data.draw(ODD)
        if accepted(key, changed):
            assert ours(key, changed) == [], changed
