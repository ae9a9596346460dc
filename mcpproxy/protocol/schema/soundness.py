"""Find the flaws of a tool's ``inputSchema`` or ``outputSchema``.

This module yields every flaw with its kind. Whether a flaw breaks a requirement depends on the protocol
revision, so the checks decide that. Only subschemas are visited: a property called ``type`` is not the
keyword ``type``, and the values of ``const``, ``enum``, ``default`` and ``examples`` are data. If the dialect
is unknown, only the keywords that MCP itself describes are checked, and only at the root.

Nothing here raises, whatever the schema is. The number and the depth of the visited subschemas are limited.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias, TypeGuard, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, JSONObject
from mcpproxy.protocol.schema.dialects import (
    DEFAULT,
    DEFINITIONS,
    PARTNERS,
    PROPERTY_SOURCES,
    SAME_VALUE,
    TYPES,
    WITH_SUBSCHEMAS,
    Dialect,
    ValueKind,
    dialect_of,
    keywords,
)
from mcpproxy.protocol.schema.references import target_of_path
from mcpproxy.protocol.wording import kind, shown, token

MAX_SCHEMAS: Final = 20_000
MAX_DEPTH: Final = 256
"""The limits for the number of subschemas that are visited, and for their depth."""

FlawKind: TypeAlias = Literal[
    "not-an-object",  # the root is not an object
    "missing-root-type",
    "root-type-not-object",
    "bad-type-name",
    "properties-not-object",
    "property-not-schema",
    "boolean-property",  # a property of the root is true or false: valid JSON Schema, but not valid in MCP
    "required-not-strings",
    "required-unknown-property",
    "required-forbidden-property",  # additionalProperties forbids the property: no value can match
    "no-properties",
    "dangling-reference",  # $ref names a path in this document at which there is nothing
    "dialect",  # anything else that the meta-schema rejects
]


@slotted(frozen=True)
class SchemaFlaw:
    """One flaw of a schema. ``what`` is a clause about the faulty value: ``should be a string, is 3``.

    ``pointer`` is the JSON Pointer of the value in the schema. For a missing member it is the place where the
    member would be. ``keyword`` is the one whose value is faulty; empty if the root is not an object.
    """

    pointer: str
    keyword: str
    what: str
    kind: FlawKind


Place: TypeAlias = Literal["root", "own", "composed", "definition"]
"""Where a subschema is in the whole schema; ``_Subschema`` explains the words."""


@slotted(frozen=True)
class _Subschema:
    """A subschema to visit. ``place`` says whether other schemas apply to the same value.

    For a ``root`` or ``own`` subschema, no other schema does. For a ``composed`` subschema, which is below a
    keyword such as anyOf, the schema around it does. For a ``definition`` this depends on the references to
    the definition. ``dialect`` is ``None`` if it is unknown. ``document`` is the innermost schema with an id
    of its own, or else the root: paths in references begin there.
    """

    pointer: str
    schema: JSONObject
    document: JSONObject
    dialect: Dialect | None
    place: Place
    depth: int


def flaws(schema: JSON, *, object_root: bool = True) -> Iterator[SchemaFlaw]:
    """Yield the flaws of ``schema`` in the order of the document, depth first.

    ``object_root`` says whether the type of the root must be "object". This is so for every schema of a tool
    except the ``outputSchema`` from revision 2026-07-28 on. At most ``MAX_SCHEMAS`` subschemas are visited.
    """
    if not isinstance(schema, dict):
        yield SchemaFlaw("", "", f"should be an object, is {kind(schema)}", "not-an-object")
        return
    stack = [_Subschema("", schema, schema, _dialect(schema, DEFAULT), "root", 0)]
    visited = 0
    while stack and visited < MAX_SCHEMAS:
        subschema = stack.pop()
        visited += 1
        yield from _own_flaws(subschema, object_root=object_root)
        stack.extend(reversed(list(_children(subschema))))


def subschemas(schema: JSON) -> Iterator[tuple[str, JSONObject]]:
    """Yield ``schema`` and every schema in it, each with its JSON Pointer, in the order of the document.

    Data (see the top of the module) and booleans are left out, and so are the schemas in a schema of an
    unknown dialect. At most ``MAX_SCHEMAS`` are yielded, none of them more than ``MAX_DEPTH`` levels deep.
    """
    stack = (
        [_Subschema("", schema, schema, _dialect(schema, DEFAULT), "root", 0)]
        if isinstance(schema, dict)
        else []
    )
    for _ in range(MAX_SCHEMAS):
        if not stack:
            return
        subschema = stack.pop()
        yield subschema.pointer, subschema.schema
        stack.extend(reversed(list(_children(subschema))))


def _dialect(schema: JSONObject, inherited: Dialect | None) -> Dialect | None:
    """Return the dialect that a subschema names; if it names none, the dialect of the schema around it.

    It is ``None`` if the subschema names an unknown dialect, or none where the dialect around it is unknown.
    """
    uri = schema.get("$schema")
    return dialect_of(uri) if isinstance(uri, str) else inherited


def _own_flaws(subschema: _Subschema, *, object_root: bool) -> Iterator[SchemaFlaw]:
    """Yield the flaws of one subschema, without those of the subschemas in it."""
    schema, dialect = subschema.schema, subschema.dialect
    at_root = subschema.place == "root"
    table: Mapping[str, ValueKind] = _ROOT_KEYWORDS if dialect is None else keywords(dialect)
    if dialect is None and not at_root:
        return
    needs_object = at_root and object_root
    if needs_object and "type" not in schema:
        yield SchemaFlaw("/type", "type", "is missing", "missing-root-type")
    for keyword, value in schema.items():
        value_kind = table.get(keyword)
        if value_kind is None:
            continue
        pointer = subschema.pointer + token(keyword)
        if keyword == "type":
            yield from _type_flaws(pointer, value, needs_object=needs_object, is_known=dialect is not None)
        elif keyword == "properties":
            yield from _properties_flaws(pointer, value, dialect, at_root=at_root)
        elif keyword == "required" and not _are_strings(value):
            what = f"should be an array of strings, is {_shown_value(value)}"
            yield SchemaFlaw(pointer, keyword, what, "required-not-strings")
        elif dialect is not None:
            for fault_pointer, what in _value_faults(value, value_kind, dialect):
                yield SchemaFlaw(pointer + fault_pointer, keyword, what, "dialect")
            # A keyword without a partner is its own partner, which is never missing.
            if dialect == "draft-04" and (partner := PARTNERS.get(keyword, keyword)) not in schema:
                yield SchemaFlaw(pointer, keyword, f"stands without {partner}", "dialect")
    if dialect is not None:
        yield from _dangling_reference(subschema)
        if subschema.place != "composed":
            yield from _likely_mistakes(subschema)


def _type_flaws(pointer: str, value: JSON, *, needs_object: bool, is_known: bool) -> Iterator[SchemaFlaw]:
    if needs_object:
        if value != "object":
            what = f'should be "object", is {_shown_value(value)}'
            yield SchemaFlaw(pointer, "type", what, "root-type-not-object")
    elif is_known and not _is_type(value):
        what = f"should be a type name or an array of distinct type names, is {_shown_value(value)}"
        yield SchemaFlaw(pointer, "type", what, "bad-type-name")


def _properties_flaws(
    pointer: str, value: JSON, dialect: Dialect | None, *, at_root: bool
) -> Iterator[SchemaFlaw]:
    if not isinstance(value, dict):
        what = f"should be an object, is {kind(value)}"
        yield SchemaFlaw(pointer, "properties", what, "properties-not-object")
        return
    for name, schema in value.items():
        if not _is_schema(schema, dialect):
            what = f"should be a schema, is {kind(schema)}"
            yield SchemaFlaw(pointer + token(name), "properties", what, "property-not-schema")
        elif at_root and isinstance(schema, bool):
            what = f"should be an object, is {kind(schema)}"
            yield SchemaFlaw(pointer + token(name), "properties", what, "boolean-property")


def _dangling_reference(subschema: _Subschema) -> Iterator[SchemaFlaw]:
    reference = subschema.schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return
    if target_of_path(subschema.document, reference) is ABSENT:
        what = f"names {shown(reference)}, which is not in the schema"
        yield SchemaFlaw(subschema.pointer + "/$ref", "$ref", what, "dangling-reference")


def _likely_mistakes(subschema: _Subschema) -> Iterator[SchemaFlaw]:
    """Yield likely mistakes: an object without properties; an unknown or forbidden required property."""
    schema = subschema.schema
    properties = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    # Other keywords may describe properties that ``properties`` does not list.
    has_other_source = isinstance(additional, dict) or any(name in schema for name in PROPERTY_SOURCES)
    if has_other_source or not isinstance(properties, dict):
        return
    if "properties" not in schema:
        if subschema.place == "definition":
            return
        if schema.get("type") == "object" and additional is not False:
            yield SchemaFlaw(subschema.pointer + "/properties", "properties", "is missing", "no-properties")
    required = schema.get("required")
    if not isinstance(required, list):
        return
    for index, name in enumerate(required):
        if isinstance(name, str) and name not in properties:
            pointer = f"{subschema.pointer}/required/{index}"
            what = f"names {shown(name)}, which is not under properties"
            if additional is False:
                what += " and which additionalProperties false forbids"
                yield SchemaFlaw(pointer, "required", what, "required-forbidden-property")
            else:
                yield SchemaFlaw(pointer, "required", what, "required-unknown-property")


def _children(subschema: _Subschema) -> Iterator[_Subschema]:
    """Yield the direct subschemas of ``subschema``."""
    if subschema.dialect is None or subschema.depth == MAX_DEPTH:
        return
    table = keywords(subschema.dialect)
    for keyword, value in subschema.schema.items():
        value_kind = table.get(keyword)
        if value_kind not in WITH_SUBSCHEMAS:
            continue
        place: Place = "own"
        if keyword in SAME_VALUE or subschema.place == "composed":
            place = "composed"
        elif keyword in DEFINITIONS:
            place = "definition"
        children: list[tuple[str, JSON]] = [("", value)]
        if isinstance(value, list):
            children = [(token(index), item) for index, item in enumerate(value)]
        elif value_kind in ("map", "either") and isinstance(value, dict):
            children = [(token(name), item) for name, item in value.items()]
        for child_pointer, schema in children:
            if isinstance(schema, dict):
                pointer = subschema.pointer + token(keyword) + child_pointer
                dialect = _dialect(schema, subschema.dialect)
                has_id = isinstance(schema.get("id" if dialect == "draft-04" else "$id"), str)
                document = schema if has_id else subschema.document
                yield _Subschema(pointer, schema, document, dialect, place, subschema.depth + 1)


_ROOT_KEYWORDS: Final[Mapping[str, ValueKind]] = {"type": "type", "properties": "map", "required": "names"}
"""The keywords that MCP itself describes, for the root."""


def _is_number(value: JSON) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: JSON) -> bool:
    # 2.0 counts as an integer, because JSON has only one type of numbers.
    return _is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def _are_strings(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_names(value: JSON) -> bool:
    return _are_strings(value) and len(_distinct(value)) == len(cast("list[str]", value))


def _distinct(strings: JSON) -> frozenset[str]:
    return frozenset(cast("list[str]", strings))


def _is_type(value: JSON) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _are_names(value) and bool(value) and _distinct(value) <= TYPES


def _is_schema(value: JSON, dialect: Dialect | None) -> bool:
    return isinstance(value, dict) or (isinstance(value, bool) and dialect != "draft-04")


def _matches_pattern(pattern: str, value: JSON) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _shown_value(value: JSON) -> str:
    if not isinstance(value, list):
        return shown(value)
    return "[" + ", ".join(map(shown, value[:3])) + (", …]" if len(value) > 3 else "]")


ValueFaults: TypeAlias = "Iterator[tuple[str, str]]"
"""Faults of a value: JSON Pointers relative to the value, each with a clause. A flaw is a fault with a
kind."""

# ``ValueKind`` explains the kinds: ``name:`` may contain colons, ``name_`` may begin with an underscore.
_SIMPLE_VALUES: Final[Mapping[ValueKind, tuple[str, Callable[[JSON], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "number": ("a number", _is_number),
    "positive": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "count": ("a non-negative integer", _is_count),
    "names": ("an array of distinct strings", _are_names),
    "names+": ("a non-empty array of distinct strings", lambda value: _are_names(value) and bool(value)),
    "array": ("an array", lambda value: isinstance(value, list)),
    "choices": ("a non-empty array", lambda value: isinstance(value, list) and bool(value)),
    "id": (
        "a URI without a fragment",
        lambda value: isinstance(value, str) and "#" not in value.removesuffix("#"),
    ),
    "name:": ("a plain name", lambda value: _matches_pattern(r"[A-Za-z][-A-Za-z0-9._:]*", value)),
    "name_": ("a plain name", lambda value: _matches_pattern(r"[A-Za-z_][-A-Za-z0-9._]*", value)),
}


def _value_faults(value: JSON, value_kind: ValueKind, dialect: Dialect) -> ValueFaults:
    """Yield the places where ``value`` is not of the kind ``value_kind``, without looking into subschemas."""
    match value_kind:
        case "schema" | "schema?":  # "schema?" accepts a boolean in every dialect
            if not _is_schema(value, dialect) and not (value_kind == "schema?" and isinstance(value, bool)):
                yield "", f"should be a schema, is {_shown_value(value)}"
        case "schemas" | "items":
            if value_kind == "items" and _is_schema(value, dialect):
                return
            if not isinstance(value, list) or not value:
                either = "a schema or " if value_kind == "items" else ""
                yield "", f"should be {either}a non-empty array of schemas, is {_shown_value(value)}"
                return
            for index, item in enumerate(value):
                yield from _prefixed(token(index), _value_faults(item, "schema", dialect))
        case "map" | "needs" | "either" | "flags":
            if not isinstance(value, dict):
                yield "", f"should be an object, is {_shown_value(value)}"
                return
            inner = _INNER_KINDS[value_kind]
            for name, item in value.items():
                # "either" takes arrays of names as well; in draft-04 they must not be empty.
                if value_kind != "either" or not _are_names(item) or (dialect == "draft-04" and not item):
                    yield from _prefixed(token(name), _value_faults(item, inner, dialect))
        case _:
            expected, is_right = _SIMPLE_VALUES[value_kind]
            if not is_right(value):
                yield "", f"should be {expected}, is {_shown_value(value)}"


_INNER_KINDS: Final[Mapping[str, ValueKind]] = {
    "map": "schema",
    "needs": "names",
    "either": "schema",
    "flags": "boolean",
}
"""The kind of an object -> the kind of its values."""


def _prefixed(pointer: str, faults: ValueFaults) -> ValueFaults:
    """Yield ``faults`` with ``pointer`` put in front of their pointers."""
    for fault_pointer, what in faults:
        yield pointer + fault_pointer, what
