"""JSON Schema dialects: the kind of value that each keyword takes in each dialect.

The table is taken from the dialects' meta-schemas. It leaves out three of their requirements: that a pattern
is a regular expression, that a reference is a URI, and that the values of a draft-04 ``enum`` are distinct. A
keyword that is not in the table, or that the dialect does not define, takes any value.

Source: https://json-schema.org/specification-links (the meta-schema of each dialect)
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from mcpproxy.protocol.jsonrpc import JSON

Dialect: TypeAlias = Literal["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"]

DEFAULT: Final = "2020-12"
"""The dialect of a schema without ``$schema``, from revision 2025-11-25 on."""

URIS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        "json-schema.org/draft-04/schema": "draft-04",
        "json-schema.org/draft-06/schema": "draft-06",
        "json-schema.org/draft-07/schema": "draft-07",
        "json-schema.org/draft/2019-09/schema": "2019-09",
        "json-schema.org/draft/2020-12/schema": "2020-12",
    }
)
"""The dialects by the URIs of their meta-schemas, without scheme and fragment."""

TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
"""The type names, which are the same in all dialects."""

ValueKind: TypeAlias = Literal[
    "string",
    "boolean",
    "number",
    "positive",  # a number above 0
    "count",  # an integer, 0 or more
    "type",  # a type name, or a non-empty array of distinct type names
    "names",  # an array of distinct strings
    "names+",  # a non-empty array of distinct strings
    "array",
    "choices",  # a non-empty array
    "schema",
    "schema?",  # a schema or a boolean (in draft-04 a boolean is not a schema)
    "schemas",  # a non-empty array of schemas
    "items",  # a schema, or a non-empty array of schemas
    "map",  # an object whose values are schemas
    "needs",  # an object whose values are arrays of distinct strings
    "either",  # an object in which each value is a schema or an array of distinct strings
    "flags",  # an object whose values are booleans
    "id",  # a string without a fragment, or with an empty one
    "name:",  # a plain name, colons allowed
    "name_",  # a plain name, a leading underscore allowed
]
WITH_SUBSCHEMAS: Final = ("schema", "schema?", "schemas", "items", "map", "either")
"""The kinds that contain subschemas."""

# "=": the same as in the column to the left. "-": the dialect does not define the keyword.
_KEYWORDS: Final = """
keyword                draft-04  draft-06  draft-07  2019-09  2020-12

$schema                string    =         =         =        =
id                     string    -         -         -        -
$id                    -         string    =         id       =
$ref                   -         string    =         =        =
$anchor                -         -         -         name:    name_
$dynamicRef            -         -         -         -        string
$dynamicAnchor         -         -         -         -        name_
$recursiveRef          -         -         -         string   =
$recursiveAnchor       -         -         -         boolean  name_
$vocabulary            -         -         -         flags    =
$comment               -         -         string    =        =
$defs                  -         -         -         map      =
definitions            map       =         =         =        =

type                   type      =         =         =        =
enum                   choices   array     =         =        =

multipleOf             positive  =         =         =        =
maximum                number    =         =         =        =
exclusiveMaximum       boolean   number    =         =        =
minimum                number    =         =         =        =
exclusiveMinimum       boolean   number    =         =        =

maxLength              count     =         =         =        =
minLength              count     =         =         =        =
pattern                string    =         =         =        =
format                 string    =         =         =        =
contentEncoding        -         -         string    =        =
contentMediaType       -         -         string    =        =
contentSchema          -         -         -         schema   =

prefixItems            -         -         -         -        schemas
items                  items     =         =         =        schema
additionalItems        schema?   schema    =         =        -
unevaluatedItems       -         -         -         schema   =
contains               -         schema    =         =        =
maxItems               count     =         =         =        =
minItems               count     =         =         =        =
uniqueItems            boolean   =         =         =        =
maxContains            -         -         -         count    =
minContains            -         -         -         count    =

properties             map       =         =         =        =
patternProperties      map       =         =         =        =
additionalProperties   schema?   schema    =         =        =
unevaluatedProperties  -         -         -         schema   =
propertyNames          -         schema    =         =        =
required               names+    names     =         =        =
maxProperties          count     =         =         =        =
minProperties          count     =         =         =        =
dependencies           either    =         =         =        =
dependentRequired      -         -         -         needs    =
dependentSchemas       -         -         -         map      =

allOf                  schemas   =         =         =        =
anyOf                  schemas   =         =         =        =
oneOf                  schemas   =         =         =        =
not                    schema    =         =         =        =
if                     -         -         schema    =        =
then                   -         -         schema    =        =
else                   -         -         schema    =        =

title                  string    =         =         =        =
description            string    =         =         =        =
examples               -         array     =         =        =
readOnly               -         -         boolean   =        =
writeOnly              -         -         boolean   =        =
deprecated             -         -         -         boolean  =
"""

PARTNERS: Final[Mapping[str, str]] = MappingProxyType(
    {"exclusiveMaximum": "maximum", "exclusiveMinimum": "minimum"}
)
"""In draft-04, each keyword on the left is allowed only together with the keyword on the right."""

SAME_VALUE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords whose subschemas apply to the same value as the schema that contains them."""

DEFINITIONS: Final = frozenset({"$defs", "definitions"})
"""Keywords whose subschemas apply only where a reference names them."""

PROPERTY_SOURCES: Final = (
    "patternProperties",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "dependencies",
)
"""Keywords through which an object may get properties that ``properties`` does not list."""


def dialect_of(uri: JSON) -> Dialect | None:
    """Return the dialect that a ``$schema`` value names; ``None`` if the value is not in ``URIS``.

    The scheme may be http or https, and the fragment missing or empty, because authors write all of these.
    """
    if not isinstance(uri, str):
        return None
    return URIS.get(uri.removesuffix("#").removeprefix("https://").removeprefix("http://"))


def keywords(dialect: Dialect) -> Mapping[str, ValueKind]:
    """Return the kind of value that each keyword of ``dialect`` takes."""
    return _table()[dialect]


@cache
def _table() -> Mapping[Dialect, Mapping[str, ValueKind]]:
    """Return ``_KEYWORDS`` parsed: by dialect and keyword, the kind of value."""
    (_, *columns), *rows = (line.split() for line in _KEYWORDS.splitlines() if line)
    table: dict[Dialect, dict[str, ValueKind]] = {cast("Dialect", column): {} for column in columns}
    for keyword, *cells in rows:
        value_kind = "-"
        for dialect, cell in zip(table, cells, strict=True):
            value_kind = value_kind if cell == "=" else cell
            if value_kind != "-":
                table[dialect][keyword] = cast("ValueKind", value_kind)
    return table
