"""Values of the body that a stateless request repeats in its headers, and how they are written there.

A tool may ask for arguments in headers with ``x-mcp-header`` in its input schema. What a header cannot
carry as it stands travels as ``=?base64?...?=``.

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

ANNOTATION: Final = "x-mcp-header"

_TOKEN: Final = pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, section 5.6.2
_UNSAFE: Final = pattern(r"[^\x20-\x7E\t]")
_SENTINEL: Final = pattern(r"=\?base64\?(.*)\?=", re.DOTALL)
_ALMOST_SENTINEL: Final = pattern(r"=\?base64\?(.*)\?=", re.DOTALL | re.IGNORECASE)
_TYPES: Final = ("integer", "string", "boolean")

Path = tuple[str, ...]

_SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DEPTH: Final = 64
"""Schemas are followed so deep."""


@slotted(frozen=True)
class Mirrors:
    """What one tool wants in headers: the argument's path and the header's name after ``Mcp-Param-``.

    ``faults`` are what is wrong with its annotations, each with the JSON Pointer into the schema.
    """

    headers: tuple[tuple[Path, str], ...]
    faults: tuple[tuple[str, str], ...]


def mirrors(schema: JSON) -> Mirrors:
    """Read the annotations of a tool's input schema."""
    if not isinstance(schema, dict):
        return Mirrors((), ())
    headers: list[tuple[Path, str]] = []
    faults: list[tuple[str, str]] = []
    taken: set[str] = set()
    for path, pointer, property, reached in _annotated(schema):
        name, type_ = property[ANNOTATION], property.get("type")
        if not reached:
            faults.append((pointer, "stands where an argument's place is not fixed"))
        elif not isinstance(name, str) or not _TOKEN.fullmatch(name):
            faults.append((pointer, "is no header name"))
        elif name.lower() in taken:
            faults.append((pointer, f"repeats the name {name}"))
        elif type_ not in _TYPES and not isinstance(type_, list):  # A list of types is not addressed.
            faults.append((pointer, "is on a property that is no integer, string or boolean"))
        else:
            taken.add(name.lower())
            headers.append((path, name))
    return Mirrors(tuple(headers), tuple(faults))


def _annotated(schema: JSONObject) -> Iterator[tuple[Path, str, JSONObject, bool]]:
    """Every annotated subschema: path, pointer, itself, and whether only ``properties`` lead there."""
    stack: list[tuple[JSON, Path, str, bool]] = [(schema, (), "", True)]
    while stack:
        value, path, pointer, reached = stack.pop()
        if isinstance(value, list):
            stack += [(item, path, f"{pointer}/{n}", False) for n, item in enumerate(value)]
        if not isinstance(value, dict) or pointer.count("/") > _DEPTH:
            continue
        if ANNOTATION in value:
            yield path, f"{pointer}/{ANNOTATION}", value, reached and bool(path)
        for keyword, inner in reversed(value.items()):
            at = f"{pointer}/{_token(keyword)}"
            if keyword in _SCHEMA_MAPS and isinstance(inner, dict):
                leads = reached and keyword == "properties"
                stack += [
                    (sub, (*path, name), f"{at}/{_token(name)}", leads)
                    for name, sub in reversed(inner.items())
                ]
            elif keyword not in ("default", "const", "enum", "examples", ANNOTATION):
                stack.append((inner, path, at, False))


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def argument(arguments: JSON, path: Path) -> JSON:
    """The argument at ``path``, ``None`` if it is null or not there: both go without a header."""
    for name in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(name)
    return arguments


def decoded(header: str) -> str | None:
    """The text that a header value stands for; ``None`` if it says base64 and is none."""
    found = _SENTINEL.fullmatch(header)
    if found is None:
        return header
    try:
        return b64decode(found[1], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def encoding_fault(header: str) -> str:
    """What is wrong with the way a header value is written; empty if nothing is."""
    if _UNSAFE.search(header):
        return "holds characters that only base64 may carry"
    if decoded(header) is None:
        return "says that it is base64, but cannot be decoded"
    if _ALMOST_SENTINEL.fullmatch(header) and not _SENTINEL.fullmatch(header):
        return "spells the base64 marker in capitals"
    return ""


def same(header: str, value: JSON) -> bool:
    """Whether a decoded header says what the body says; numbers are compared as numbers."""
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
