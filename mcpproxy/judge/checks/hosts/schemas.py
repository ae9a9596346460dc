"""Parts of the schemas of tools that hosts (programs with an MCP client) refuse, drop or change."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mcpproxy.judge.checks.hosts.hits import Hit, Settings, Tools, words
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.soundness import subschemas
from mcpproxy.protocol.wording import shown, token


def keywords(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose schema has one of the keywords, at its root or anywhere (the setting ``at``).

    Here and below, the setting ``of`` is the member of the tool that is the schema.
    """
    wanted, of = frozenset(settings["keywords"]), settings["of"]
    for index, name, tool in tools:
        schema = tool.get(of)
        places = subschemas(schema) if settings["at"] == "anywhere" else [("", schema)]
        matches = [
            (pointer + token(keyword), keyword)
            for pointer, subschema in places
            if isinstance(subschema, dict)
            for keyword in subschema
            if keyword in wanted
        ]
        if matches:
            yield Hit(f"/{index}/{of}{matches[0][0]}", name, words(keyword for _, keyword in matches))


def shapes(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose schema has, anywhere in it, the shape that the settings name (see ``SHAPES``)."""
    find_shape, of = SHAPES[settings["shape"]], settings["of"]
    for index, name, tool in tools:
        for pointer, schema in subschemas(tool.get(of)):
            if (at := find_shape(schema, pointer)) is not None:
                yield Hit(f"/{index}/{of}{pointer}{at}", name, pointer + at)
                break


def dialects(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose schema names a dialect that the host does not accept."""
    of = settings["of"]
    for index, name, tool in tools:
        schema = tool.get(of)
        dialect = schema.get("$schema") if isinstance(schema, dict) else None
        if isinstance(dialect, str) and any(refused in dialect for refused in settings["refuses"]):
            yield Hit(f"/{index}/{of}/$schema", name, shown(dialect))


def _boolean_property(schema: JSONObject, pointer: str) -> str | None:
    properties = schema.get("properties")
    names = [name for name, value in _items(properties) if isinstance(value, bool)]
    return f"/properties{token(names[0])}" if names else None


def _type_array(schema: JSONObject, pointer: str) -> str | None:
    return "/type" if isinstance(schema.get("type"), list) else None


def _nullable_union(schema: JSONObject, pointer: str) -> str | None:
    """Find a list of three types or more, one of which is null."""
    types = schema.get("type")
    return "/type" if isinstance(types, list) and len(types) > 2 and "null" in types else None


def _array_without_items(schema: JSONObject, pointer: str) -> str | None:
    return "" if schema.get("type") == "array" and "items" not in schema else None


def _unknown_required(schema: JSONObject, pointer: str) -> str | None:
    """Find a required name that is not a property. A branch without properties of its own does not count."""
    required, known = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(known, dict):
        return None
    return "/required" if any(isinstance(name, str) and name not in known for name in required) else None


def _open_object(schema: JSONObject, pointer: str) -> str | None:
    """Find a root that allows arguments of any name, and names none."""
    is_free = schema.keys().isdisjoint(("additionalProperties", "properties", "patternProperties"))
    return "" if not pointer and is_free and schema.get("type") == "object" else None


def _untyped_property(schema: JSONObject, pointer: str) -> str | None:
    typing_keywords = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")
    for name, value in _items(schema.get("properties")):
        if isinstance(value, dict) and not any(keyword in value for keyword in typing_keywords):
            return f"/properties{token(name)}"
    return None


def _shared_definition(schema: JSONObject, pointer: str) -> str | None:
    """Find a root with definitions, in a schema that has references."""
    if pointer or not isinstance(schema.get("$defs"), dict):
        return None
    refers = any("$ref" in subschema for _, subschema in subschemas(schema))
    return "/$defs" if refers else None


def _array_of_union(schema: JSONObject, pointer: str) -> str | None:
    items = schema.get("items")
    return "/items/anyOf" if isinstance(items, dict) and "anyOf" in items else None


def _other_format(schema: JSONObject, pointer: str) -> str | None:
    value = schema.get("format")
    return "/format" if isinstance(value, str) and value not in _USUAL_FORMATS else None


def _root_without_object(schema: JSONObject, pointer: str) -> str | None:
    return "" if not pointer and schema.get("type") != "object" else None


def _items(value: JSON) -> list[tuple[str, JSON]]:
    return list(value.items()) if isinstance(value, dict) else []


_USUAL_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)

SHAPES: Final[Mapping[str, Callable[[JSONObject, str], str | None]]] = {
    "boolean-property": _boolean_property,
    "type-array": _type_array,
    "nullable-union": _nullable_union,
    "array-without-items": _array_without_items,
    "unknown-required": _unknown_required,
    "open-object": _open_object,
    "untyped-property": _untyped_property,
    "shared-definition": _shared_definition,
    "array-of-union": _array_of_union,
    "other-format": _other_format,
    "root-without-object": _root_without_object,
}
"""The function that finds each shape in a subschema.

It takes the subschema and its JSON Pointer, which is empty for the root. It returns the place of the shape as
a JSON Pointer in the subschema, or ``None`` if the subschema does not have the shape.
"""
