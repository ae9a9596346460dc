"""Body values that a stateless request repeats in its headers, and how they are written there.

The input schema of a tool may request with ``x-mcp-header`` that an argument is repeated in a header. A value
that a header cannot carry unchanged is sent as ``=?base64?...?=``.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.wording import token

ANNOTATION: Final = "x-mcp-header"

_TOKEN: Final = pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.6.2
_UNSAFE: Final = pattern(r"[^\x20-\x7E\t]")
_SENTINEL: Final = pattern(r"=\?base64\?(.*)\?=", re.DOTALL)
_ALMOST_SENTINEL: Final = pattern(r"=\?base64\?(.*)\?=", re.DOTALL | re.IGNORECASE)
_TYPES: Final = ("integer", "string", "boolean")

Path = tuple[str, ...]

_SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DEPTH: Final = 64
"""The maximum depth to which schemas are followed."""


@slotted(frozen=True)
class Mirrors:
    """The arguments that one tool wants in headers.

    ``headers`` has the path of each argument and its header name without ``Mcp-Param-``. ``faults`` has a
    JSON Pointer into the schema for each faulty annotation, and what is wrong with it.
    """

    headers: tuple[tuple[Path, str], ...]
    faults: tuple[tuple[str, str], ...]


def read_mirrors(schema: JSON) -> Mirrors:
    """Return what the annotations in a tool's input schema ask for."""
    if not isinstance(schema, dict):
        return Mirrors((), ())
    headers: list[tuple[Path, str]] = []
    faults: list[tuple[str, str]] = []
    taken: set[str] = set()
    for path, pointer, property, is_reachable in _annotated(schema):
        name, type_ = property[ANNOTATION], property.get("type")
        if not is_reachable:
            faults.append((pointer, "is in a place that is not reached through properties only"))
        elif not isinstance(name, str) or not _TOKEN.fullmatch(name):
            faults.append((pointer, "is not a header name"))
        elif name.lower() in taken:
            faults.append((pointer, f"repeats the name {name}"))
        # A list of types is accepted: the specification does not say what it means here.
        elif type_ not in _TYPES and not isinstance(type_, list):
            faults.append((pointer, "is on a property whose type is not integer, string or boolean"))
        else:
            taken.add(name.lower())
            headers.append((path, name))
    return Mirrors(tuple(headers), tuple(faults))


def _annotated(schema: JSONObject) -> Iterator[tuple[Path, str, JSONObject, bool]]:
    """Yield every annotated subschema: path, pointer, schema, and whether only ``properties`` lead to it."""
    stack: list[tuple[JSON, Path, str, bool]] = [(schema, (), "", True)]
    while stack:
        value, path, pointer, is_reachable = stack.pop()
        if isinstance(value, list):
            stack += [(item, path, f"{pointer}/{n}", False) for n, item in enumerate(value)]
        if not isinstance(value, dict) or pointer.count("/") > _DEPTH:
            continue
        if ANNOTATION in value:
            yield path, f"{pointer}/{ANNOTATION}", value, is_reachable and bool(path)
        for keyword, inner in reversed(value.items()):
            at = pointer + token(keyword)
            if keyword in _SCHEMA_MAPS and isinstance(inner, dict):
                is_property = is_reachable and keyword == "properties"
                stack += [
                    (sub, (*path, name), at + token(name), is_property)
                    for name, sub in reversed(inner.items())
                ]
            elif keyword not in ("default", "const", "enum", "examples", ANNOTATION):
                stack.append((inner, path, at, False))


def argument(arguments: JSON, path: Path) -> JSON:
    """Return the argument at ``path``, ``None`` if it is null or absent: neither has a header."""
    for name in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(name)
    return arguments


def decoded(header: str) -> str | None:
    """Return the decoded text of a header value; ``None`` if it is marked as base64 but is not."""
    found = _SENTINEL.fullmatch(header)
    if found is None:
        return header
    try:
        return b64decode(found[1], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def encoding_fault(header: str) -> str:
    """Describe the fault in the encoding of a header value; empty if there is none."""
    if _UNSAFE.search(header):
        return "contains characters that must be encoded as base64"
    if decoded(header) is None:
        return "says that it is base64, but cannot be decoded"
    if _ALMOST_SENTINEL.fullmatch(header) and not _SENTINEL.fullmatch(header):
        return "spells the base64 marker in capitals"
    return ""


def same(header: str, value: JSON) -> bool:
    """Whether a decoded header has the body value; numbers are compared as numbers."""
    match value:
        case bool():
            return header == ("true" if value else "false")
        case int() | float():
            try:
                return float(header) == value
            except ValueError:
                return False
        case _:
            return header == value
