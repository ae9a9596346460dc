"""Mirrors: arguments of a tool call that a stateless request over HTTP repeats in headers.

Requests are stateless from revision 2026-07-28 on: each names its revision. The annotation ``x-mcp-header``
in a tool's input schema names the header in which an argument is repeated. A value that is not a valid header
value is encoded as ``=?base64?...?=``.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Response, parse
from mcpproxy.protocol.message_parts import member, singles
from mcpproxy.protocol.wording import token

ANNOTATION: Final = "x-mcp-header"

_HEADER_NAME: Final = pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # a token in RFC 9110, section 5.6.2
_NEEDS_ENCODING: Final = pattern(r"[^\x20-\x7E\t]")
_ENCODED: Final = pattern(r"=\?base64\?(.*)\?=", re.DOTALL)
_ENCODED_ANY_CASE: Final = pattern(r"=\?base64\?(.*)\?=", re.DOTALL | re.IGNORECASE)
_TYPES: Final = ("integer", "string", "boolean")
"""The types of arguments that may be repeated in a header."""

Path = tuple[str, ...]
"""The names of the properties from the arguments' root down to an argument, its own name last."""

_SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value maps names to schemas."""

_MAX_DEPTH: Final = 64
"""The depth in a schema, in levels, down to which annotations are looked for."""


@slotted(frozen=True)
class Mirrors:
    """The arguments of one tool that a call repeats in headers.

    ``headers`` has the path of each argument and its header name without ``Mcp-Param-``. ``faults`` has, for
    each faulty annotation, its JSON Pointer in the schema and a description of the fault.
    """

    headers: tuple[tuple[Path, str], ...]
    faults: tuple[tuple[str, str], ...]


def read_mirrors(schema: JSON) -> Mirrors:
    """Return the mirrors that the annotations in a tool's input schema define."""
    if not isinstance(schema, dict):
        return Mirrors((), ())
    headers: list[tuple[Path, str]] = []
    faults: list[tuple[str, str]] = []
    taken_names: set[str] = set()
    for path, pointer, property, is_reachable in _annotated(schema):
        name, property_type = property[ANNOTATION], property.get("type")
        if not is_reachable:
            faults.append((pointer, "is in a place that is not reached through properties only"))
        elif not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            faults.append((pointer, "is not a header name"))
        elif name.lower() in taken_names:
            faults.append((pointer, f"repeats the name {name}"))
        # A list of types is accepted: the specification does not say what it means here.
        elif property_type not in _TYPES and not isinstance(property_type, list):
            faults.append((pointer, "is on a property whose type is not integer, string or boolean"))
        else:
            taken_names.add(name.lower())
            headers.append((path, name))
    return Mirrors(tuple(headers), tuple(faults))


def _annotated(schema: JSONObject) -> Iterator[tuple[Path, str, JSONObject, bool]]:
    """Yield each annotated subschema: path, JSON Pointer of the annotation, subschema, and whether it is
    below ``properties`` only."""
    stack: list[tuple[JSON, Path, str, bool]] = [(schema, (), "", True)]
    while stack:
        value, path, pointer, is_reachable = stack.pop()
        if isinstance(value, list):
            stack += [(item, path, f"{pointer}/{index}", False) for index, item in enumerate(value)]
        if not isinstance(value, dict) or pointer.count("/") > _MAX_DEPTH:
            continue
        if ANNOTATION in value:
            yield path, f"{pointer}/{ANNOTATION}", value, is_reachable and bool(path)
        for keyword, child in reversed(value.items()):
            keyword_pointer = pointer + token(keyword)
            if keyword in _SCHEMA_MAPS and isinstance(child, dict):
                is_property = is_reachable and keyword == "properties"
                stack += [
                    (subschema, (*path, name), keyword_pointer + token(name), is_property)
                    for name, subschema in reversed(child.items())
                ]
            elif keyword not in ("default", "const", "enum", "examples", ANNOTATION):
                stack.append((child, path, keyword_pointer, False))


def listed_mirrors(raw: bytes) -> dict[str, Mirrors]:
    """Return the mirrors of the tools that a server lists in a frame (a line, body or event), by tool name.

    The result is empty if the frame does not contain the name of the annotation. Otherwise tools without an
    annotation are in it, too.
    """
    if ANNOTATION.encode() not in raw:
        return {}
    mirrors_by_tool: dict[str, Mirrors] = {}
    for single in singles(parse(raw)):
        tools = member(single.result, "tools") if isinstance(single, Response) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(name := member(tool, "name"), str):
                mirrors_by_tool[name] = read_mirrors(member(tool, "inputSchema"))
    return mirrors_by_tool


def mirrored_arguments(mirrors: Mirrors, arguments: JSON) -> Iterator[tuple[Path, str, JSON]]:
    """Yield the arguments of a call that headers repeat: path, header name without ``Mcp-Param-``, value.

    The value is ``None`` if the header must be absent, because the argument is null or absent.
    """
    for path, header in mirrors.headers:
        yield path, header, member(arguments, *path)


def encoded(text: str) -> str:
    """Return ``text`` as a header value: unchanged, or in base64 if a header cannot contain it.

    It is in base64, too, if it begins or ends with white space, or looks like an encoded value itself.
    """
    is_plain = not encoding_fault(text) and text == text.strip() and decoded(text) == text
    return text if is_plain else f"=?base64?{b64encode(text.encode('utf-8', 'replace')).decode()}?="


def decoded(header: str) -> str | None:
    """Return the decoded text of a header value; ``None`` if its base64 or the UTF-8 in it is not valid."""
    match = _ENCODED.fullmatch(header)
    if match is None:
        return header
    try:
        return b64decode(match[1], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def encoding_fault(header: str) -> str:
    """Describe the fault in the encoding of a header value; empty if there is none."""
    if _NEEDS_ENCODING.search(header):
        return "contains characters that must be encoded as base64"
    if decoded(header) is None:
        return "says that it is base64, but cannot be decoded"
    if _ENCODED_ANY_CASE.fullmatch(header) and not _ENCODED.fullmatch(header):
        return "spells the base64 marker in capitals"
    return ""


def means_same(header: str, value: JSON) -> bool:
    """Whether the decoded header means the same as ``value`` in the body.

    Numbers are compared as floating-point numbers. Many clients have no other numbers, so the last digits of
    a large integer may differ between their header and their body.
    """
    match value:
        case bool():
            return header == ("true" if value else "false")
        case int() | float():
            try:
                return float(header) == float(value)
            except ValueError:
                return False
            except OverflowError:  # an integer of more than 308 digits
                return header == str(value)
        case _:
            return header == value
