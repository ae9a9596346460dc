"""Generates a value for a JSON Schema, such as the arguments of a tool: roughly the smallest valid one."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, JSONObject

_MAX_DEPTH: Final = 8
"""How many schemas may be around a schema for which a value is generated."""
_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "user@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
}
"""Format of a string in a schema -> a value of it."""


def sample(schema: JSON, depth: int = 0) -> JSON:
    """Return a value for ``schema``: its default, constant, first example or choice, else a small value.

    The value is a guess, so the schema may reject it. ``depth`` is the number of schemas around ``schema``.
    If ``schema`` is not an object, or lies deeper than ``_MAX_DEPTH``, the value is ``{}`` if no schema is
    around it, otherwise ``None``.
    """
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {} if depth == 0 else None
    for member in ("default", "const"):
        if member in schema:
            return schema[member]
    for value in _first_of(schema, "examples", "enum"):
        return value
    if "type" not in schema and "properties" not in schema:
        for choice in _first_of(schema, "anyOf", "oneOf", "allOf"):
            return sample(choice, depth + 1)
    schema_type = schema.get("type")
    match schema_type[0] if isinstance(schema_type, list) and schema_type else schema_type:
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
        case "array":
            return _array(schema, depth)
        case _:
            return _object(schema, depth)


def _first_of(schema: JSONObject, *members: str) -> Iterator[JSON]:
    """Yield the first element of each of ``members`` that has elements."""
    for member in members:
        elements = schema.get(member)
        if isinstance(elements, list) and elements:
            yield elements[0]


def _array(schema: JSONObject, depth: int) -> JSON:
    minimum = schema.get("minItems")
    count = minimum if isinstance(minimum, int) and 0 < minimum <= 16 else 0
    return [sample(schema.get("items"), depth + 1) for _ in range(count)]


def _object(schema: JSONObject, depth: int) -> JSON:
    """Return an object with the required members."""
    properties, required = schema.get("properties"), schema.get("required")
    value: JSONObject = {}
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str):
            value[name] = sample(properties.get(name) if isinstance(properties, dict) else None, depth + 1)
    return value


def _text(schema: JSONObject) -> str:
    format = schema.get("format")
    if isinstance(format, str) and format in _FORMATS:
        return _FORMATS[format]
    minimum = schema.get("minLength")
    maximum = schema.get("maxLength")
    text = "example"
    if isinstance(minimum, int) and minimum > len(text):
        text = text.ljust(min(minimum, 10_000), "x")
    return text[:maximum] if isinstance(maximum, int) and maximum >= 0 else text


def _number(schema: JSONObject) -> JSON:
    minimum, exclusive_minimum = schema.get("minimum"), schema.get("exclusiveMinimum")
    maximum = schema.get("maximum")
    if isinstance(minimum, int | float):
        return minimum
    if isinstance(exclusive_minimum, int | float):
        return exclusive_minimum + 1
    return maximum if isinstance(maximum, int | float) and maximum < 1 else 1
