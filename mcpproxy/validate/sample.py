"""Generates arguments for a tool: roughly the smallest value that its schema accepts."""

from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, JSONObject

_DEPTH: Final = 8
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


def sample(schema: JSON, depth: int = 0) -> JSON:
    """A value for ``schema``: its default, constant, first example or first choice, else a small value.

    It is a guess; the schema may reject it.
    """
    if not isinstance(schema, dict) or depth > _DEPTH:
        return {} if depth == 0 else None
    for member in ("default", "const"):
        if member in schema:
            return schema[member]
    for member in ("examples", "enum"):
        choices = schema.get(member)
        if isinstance(choices, list) and choices:
            return choices[0]
    for member in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(member)
        if isinstance(choices, list) and choices and "type" not in schema and "properties" not in schema:
            return sample(choices[0], depth + 1)
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "string":
            return _text(schema)
        case "integer":
            return _number(schema)
        case "number":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
        case "array":
            least = schema.get("minItems")
            count = least if isinstance(least, int) and 0 < least <= 16 else 0
            return [sample(schema.get("items"), depth + 1) for _ in range(count)]
        case _:
            return _object(schema, depth)


def _object(schema: JSONObject, depth: int) -> JSON:
    properties, required = schema.get("properties"), schema.get("required")
    found: JSONObject = {}
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str):
            found[name] = sample(properties.get(name) if isinstance(properties, dict) else None, depth + 1)
    return found


def _text(schema: JSONObject) -> str:
    form = schema.get("format")
    if isinstance(form, str) and form in _FORMATS:
        return _FORMATS[form]
    least = schema.get("minLength")
    most = schema.get("maxLength")
    text = "example"
    if isinstance(least, int) and least > len(text):
        text = text.ljust(min(least, 10_000), "x")
    return text[:most] if isinstance(most, int) and most >= 0 else text


def _number(schema: JSONObject) -> JSON:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    if isinstance(least, int | float):
        return least
    if isinstance(above, int | float):
        return above + 1
    return most if isinstance(most, int | float) and most < 1 else 1
