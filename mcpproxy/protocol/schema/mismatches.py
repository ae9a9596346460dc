"""Describe how a value does not match a schema: the place, the expected value and the actual value.

The messages of jsonschema-rs quote whole values and differ in style from other findings.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.shapes.nodes import either
from mcpproxy.protocol.wording import kind, shown, token

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError


class Mismatch(NamedTuple):
    """Where a value does not match, as a JSON Pointer from its root, and how: ``should be a string, is 3``.

    For a missing member, the pointer is the place where the member would be.
    """

    pointer: str
    what: str


def is_sure(error: "ValidationError") -> bool:
    """Whether a failure is certain: the library did not give up, and an annotation did not cause it."""
    return not any(type(leaf.kind).__name__ in _UNSURE or _is_whole_number(leaf) for leaf in _leaves(error))


_UNSURE: Final = frozenset(
    {
        "BacktrackLimitExceeded",
        "RegexEngineFailure",
        "ContentEncoding",
        "ContentMediaType",
        "FromUtf8",
        "Format",
        "Custom",
        "Referencing",
    }
)


def _is_whole_number(error: "ValidationError") -> bool:
    """Whether draft-04 rejects a number like 1.0 as an integer: many languages cannot tell it from 1."""
    return (
        type(error.kind).__name__ == "Type"
        and isinstance(error.instance, float)
        and error.instance.is_integer()
        and error.kind.value == ["integer"]
    )


def _leaves(error: "ValidationError") -> "Iterator[ValidationError]":
    """Yield the failures that caused a failure; the failure itself if it has no causes."""
    branches = cast("list[list[ValidationError]]", getattr(error.kind, "context", []))
    inner = [failure for branch in branches for failure in branch]
    if not inner:
        yield error
    for failure in inner:
        yield from _leaves(failure)


def mismatch_of(error: "ValidationError", value: JSON) -> Mismatch:
    """Return the place of a failure in ``value``, and its description."""
    name, details = error.kind.name, error.kind.as_dict()
    path, found = "", value
    for step in error.instance_path:
        path += token(step)
        found = cast("JSON", found[step])  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript, reportUnknownVariableType]
    if name == "required":
        return Mismatch(path + token(details["property"]), "is missing")
    unexpected = details.get("unexpected")
    if name == "falseSchema" and error.schema_path[-1] == "additionalProperties" and isinstance(found, dict):
        unexpected = list(found)  # If no member is allowed, the library names none of them.
    if unexpected:
        return Mismatch(path + token(unexpected[0]), "is not allowed")
    return Mismatch(path, _clause(error, name, details, found))


def _clause(error: "ValidationError", name: str, details: Mapping[str, JSON], found: JSON) -> str:
    if name in ("anyOf", "oneOf", "type"):
        if type(error.kind).__name__ == "OneOfMultipleValid":
            return "fits more than one of the schemas under oneOf"
        types = _types(error)
        if not types:
            return f"fits none of the schemas under {name}"
        actual = shown(found) if isinstance(found, float) and "integer" in types else kind(found)
        return f"should be {either([_TYPES.get(t, t) for t in types])}, is {actual}"
    if name in ("enum", "const"):
        options = cast("list[JSON]", details.get("options", [details.get("expected_value")]))
        if not options:
            return "has no value to be"
        most = [shown(option) for option in options[:6]] + ["…"] * (len(options) > 6)
        return f"should be {either(most)}, is {shown(found)}"
    if name in _LIMITS:
        phrase, unit = _LIMITS[name]
        limit = shown(details.get("limit", details.get("multiple_of")))
        if not unit:
            return f"should be {phrase} {limit}, is {shown(found)}"
        return f"should have {phrase} {limit} {unit}, has {len(cast('str', found))}"
    if name == "pattern":
        return f"should match {shown(details.get('pattern'))}, is {shown(found)}"
    return _PHRASES.get(name, f"does not fit {name}")


def _types(error: "ValidationError") -> list[str] | None:
    """Return the types that the value may have; ``None`` if something else is wrong with it, too."""
    types: list[str] = []
    for leaf in _leaves(error):
        if type(leaf.kind).__name__ != "Type" or leaf.instance_path != error.instance_path:
            return None
        types += cast("list[str]", leaf.kind.value)
    # null goes last: "a string or null" reads better than "null or a string".
    return sorted(dict.fromkeys(types), key=lambda name: name == "null")


_TYPES: Final[Mapping[str, str]] = {
    "boolean": "a boolean",
    "object": "an object",
    "array": "an array",
    "number": "a number",
    "string": "a string",
    "integer": "an integer",
}

_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "minimum": ("at least", ""),
    "maximum": ("at most", ""),
    "exclusiveMinimum": ("above", ""),
    "exclusiveMaximum": ("below", ""),
    "multipleOf": ("a multiple of", ""),
    "minLength": ("at least", "characters"),
    "maxLength": ("at most", "characters"),
    "minItems": ("at least", "items"),
    "maxItems": ("at most", "items"),
    "minProperties": ("at least", "members"),
    "maxProperties": ("at most", "members"),
}

_PHRASES: Final[Mapping[str, str]] = {
    "falseSchema": "is not allowed",
    "not": "fits the schema under not",
    "uniqueItems": "has items that are equal",
    "contains": "has no item that fits contains",
    "propertyNames": "has a member whose name is not allowed",
}
