"""Describe how a value does not match a schema: the place, the expected value and the actual value.

The library jsonschema-rs finds the failures. Its own messages are not used, because they quote whole values
and differ in style from other findings.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.shapes.nodes import either
from mcpproxy.protocol.wording import kind, shown, token

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError


class Mismatch(NamedTuple):
    """One difference between a value and its schema. ``what`` is a clause, such as
    ``should be a string, is a number``.

    ``pointer`` is the JSON Pointer of the place in the value. For a missing member it is the place where the
    member would be.
    """

    pointer: str
    what: str


def is_sure(error: "ValidationError") -> bool:
    """Whether a failure is certain: ``_UNSURE`` and ``_is_whole_number`` apply to none of its causes."""
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
"""Kinds of failure: the library gave up, or the failure is about an annotation such as ``format``."""


def _is_whole_number(error: "ValidationError") -> bool:
    """Whether a failure says that a number like 1.0 is not an integer.

    In all dialects except draft-04 it is an integer, and many languages cannot distinguish 1.0 from 1.
    """
    return (
        type(error.kind).__name__ == "Type"
        and isinstance(error.instance, float)
        and error.instance.is_integer()
        and "integer" in error.kind.value
    )


def _leaves(error: "ValidationError") -> "Iterator[ValidationError]":
    """Yield the failures that caused a failure; the failure itself if it has no causes."""
    branches = cast("list[list[ValidationError]]", getattr(error.kind, "context", []))
    causes = [failure for branch in branches for failure in branch]
    if not causes:
        yield error
    for failure in causes:
        yield from _leaves(failure)


def mismatch_of(error: "ValidationError", value: JSON) -> Mismatch:
    """Return the place of a failure in ``value``, and its description."""
    name, details = error.kind.name, error.kind.as_dict()
    path, actual = "", value
    for step in error.instance_path:
        path += token(step)
        actual = cast("JSON", actual[step])  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript, reportUnknownVariableType]
    if name == "required":
        return Mismatch(path + token(details["property"]), "is missing")
    unexpected = details.get("unexpected")
    if name == "falseSchema" and error.schema_path[-1] == "additionalProperties" and isinstance(actual, dict):
        unexpected = list(actual)  # If no member is allowed, the library does not name the unexpected ones.
    if unexpected:
        return Mismatch(path + token(unexpected[0]), "is not allowed")
    return Mismatch(path, _clause(error, name, details, actual))


def _clause(error: "ValidationError", name: str, details: Mapping[str, JSON], actual: JSON) -> str:
    """Return a clause that says how the value ``actual`` fails the keyword ``name``."""
    if name in ("anyOf", "oneOf", "type"):
        if type(error.kind).__name__ == "OneOfMultipleValid":
            return "fits more than one of the schemas under oneOf"
        types = _types(error)
        if not types:
            return f"fits none of the schemas under {name}"
        type_text = shown(actual) if isinstance(actual, float) and "integer" in types else kind(actual)
        return (
            f"should be {either([_TYPES.get(type_name, type_name) for type_name in types])}, is {type_text}"
        )
    if name in ("enum", "const"):
        options = cast("list[JSON]", details.get("options", [details.get("expected_value")]))
        if not options:
            return "fits no value of the empty enum"
        shown_options = [shown(option) for option in options[:6]] + ["…"] * (len(options) > 6)
        return f"should be {either(shown_options)}, is {shown(actual)}"
    if name in _LIMITS:
        phrase, unit = _LIMITS[name]
        limit = shown(details.get("limit", details.get("multiple_of")))
        if not unit:
            return f"should be {phrase} {limit}, is {shown(actual)}"
        return f"should have {phrase} {limit} {unit}, has {len(cast('str', actual))}"
    if name == "pattern":
        return f"should match {shown(details.get('pattern'))}, is {shown(actual)}"
    return _PHRASES.get(name, f"does not fit {name}")


def _types(error: "ValidationError") -> list[str] | None:
    """Return the types that the value may have; ``None`` if the failure is not about the type alone."""
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
"""The types with their articles; ``null`` has none."""

# By keyword: how a clause describes the limit, and the unit (empty for a number).
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
"""By keyword: the whole clause."""
