"""Changes of values in params: hostile values of every type, and values at and beyond the schema's bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from mcpproxy.peers.fuzz.material import ARGUMENTS, Material, Pointer, Template, leaves
from mcpproxy.peers.fuzz.mutations.mutant import Mutant, changed, json_bytes
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.raw_json import with_value, without_value
from mcpproxy.protocol.wording import token

_HOSTILE: Final[Mapping[str, bytes]] = {
    "null": b"null",
    "true": b"true",
    "zero": b"0",
    "minus-one": b"-1",
    "fraction": b"1.5",
    "above-32-bits": b"4294967296",
    "above-53-bits": b"9007199254740993",
    "above-64-bits": b"18446744073709551616",
    "400-digits": b"9" * 400,
    "5000-digits": b"9" * 5000,
    "beyond-doubles": b"1e400",
    "empty-text": b'""',
    "space": b'" "',
    "nul-in-text": b'"a\\u0000b"',
    "lone-surrogate": b'"\\ud800"',
    "beyond-the-bmp": '"\U0001f600\u202e\u0301"'.encode(),
    "line-ends-in-text": b'"a\\r\\nb\\u2028c"',
    "format-directives": b'"%s%n{0}${x}`x`"',
    "parent-folders": b'"../../../../../../x"',
    "10-thousand-letters": b'"' + b"x" * 10_000 + b'"',
    "1-mib-of-letters": b'"' + b"x" * (1 << 20) + b'"',
    "empty-array": b"[]",
    "empty-object": b"{}",
    "100-deep": b"[" * 100 + b"]" * 100,
    "600-deep": b"[" * 600 + b"]" * 600,
    "2000-deep": b"[" * 2000 + b"]" * 2000,
    "100-thousand-deep": b"[" * 100_000 + b"]" * 100_000,
    "array-of-10-thousand": b"[" + b",".join([b"0"] * 10_000) + b"]",
    "prototype-member": b'{"__proto__":{"x":1},"constructor":{"prototype":{"y":1}}}',
}
"""Values for any place, by the name of the change, as JSON."""

_UNPORTABLE: Final = frozenset(
    {
        "400-digits", "5000-digits", "beyond-doubles", "lone-surrogate", "600-deep", "2000-deep",
        "100-thousand-deep",
    }
)  # fmt: skip
"""Values that not every JSON reader accepts."""

_FOR_PARAMS: Final = ("null", "true", "zero", "empty-text", "empty-array", "empty-object", "600-deep")
"""Values that replace ``params`` itself. They are few: many servers do not answer them, which takes time."""


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield the changes of the values of all requests and notifications."""
    seen: set[str] = set()
    for template in material.templates:
        for mutant in _template_mutants(template):
            if mutant.key not in seen:
                seen.add(mutant.key)
                yield mutant


def _template_mutants(template: Template) -> Iterator[Mutant]:
    """Yield the changes of the values of a message.

    These are first the values in its params, except those in ``_meta``; then the arguments that it lacks;
    then the progress token of a request, and the cursor of a listing.
    """
    for place, value in leaves(template.value.get("params"), ("params",)):
        if "_meta" in place or (place == ("params",) and not isinstance(value, dict)):
            continue
        for name, raw in {**_HOSTILE, **_values_at_bounds(_schema_of(template, place))}.items():
            if place == ("params",) and name not in _FOR_PARAMS:
                continue
            yield _with_value(template, place, name, raw)
        if len(place) > 1:
            yield _without_value(template, place)
        if isinstance(value, dict) and place != ("params",):
            yield _with_value(template, (*place, "unknownMember"), "unknown-member", b'"x"')
    for place in _absent_arguments(template):
        for name, raw in {**_HOSTILE, **_values_at_bounds(_schema_of(template, place))}.items():
            yield _with_value(template, place, name, raw)
    if template.is_request:
        for name in ("null", "fraction", "empty-text", "empty-array", "empty-object", "above-53-bits"):
            yield _with_value(template, ("params", "_meta", "progressToken"), name, _HOSTILE[name])
    if template.method.endswith("/list"):
        yield _with_value(template, ("params", "cursor"), "unknown-cursor", b'"no such cursor"')
        yield _with_value(template, ("params", "cursor"), "empty-text", b'""')


def _with_value(template: Template, place: Pointer, name: str, value: bytes) -> Mutant:
    def change(plain: FuzzStep) -> FuzzStep:
        raw = plain.raw
        for depth in range(1, len(place)):  # add the objects around the place that the request lacks
            if with_value(raw, place[: depth + 1], b"0") is None:
                raw = with_value(raw, place[:depth], b"{}") or raw
        return replace(plain, raw=with_value(raw, place, value) or raw, is_portable=name not in _UNPORTABLE)

    at = "".join(map(token, place))
    return changed(template, f"{at} {name}", f"{at}: {name}", change)


def _without_value(template: Template, place: Pointer) -> Mutant:
    at = "".join(map(token, place))
    return changed(
        template,
        f"{at} removed",
        f"{at}: removed",
        lambda plain: replace(plain, raw=without_value(plain.raw, place) or plain.raw),
    )


def _absent_arguments(template: Template) -> Iterator[Pointer]:
    """Yield the places of arguments that the schema names and the request lacks."""
    properties = template.schema.get("properties")
    params = template.value.get("params")
    arguments = member(params, "arguments")
    for name in properties if isinstance(properties, dict) else ():
        if not isinstance(arguments, dict) or name not in arguments:
            yield (*ARGUMENTS, name)


def _schema_of(template: Template, place: Pointer) -> JSON:
    """Return the part of the input schema for the value at ``place``; ``None`` if there is none."""
    if place[:2] != ARGUMENTS:
        return None
    schema: JSON = template.schema
    for name in place[2:]:
        inner = member(schema, "properties")
        if isinstance(inner, dict):
            schema = inner.get(name)
        else:
            schema = schema.get("items") if isinstance(schema, dict) and name.isdecimal() else None
    return schema


def _values_at_bounds(schema: JSON) -> dict[str, bytes]:
    """Return values at the bounds of ``schema`` and just beyond, and its first choices, by the name.

    The values are JSON.
    """
    if not isinstance(schema, dict):
        return {}
    values: dict[str, bytes] = {}
    for bound_name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bound = schema.get(bound_name)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            values[f"at-{bound_name}"] = json_bytes(bound)
            values[f"beyond-{bound_name}"] = json_bytes(bound - 1 if "inimum" in bound_name else bound + 1)
    for bound_name in ("minLength", "maxLength"):
        bound = schema.get(bound_name)
        if isinstance(bound, int) and 0 <= bound <= 1 << 20:
            values[f"at-{bound_name}"] = json_bytes("x" * bound)
            beyond = max(0, bound - 1) if bound_name == "minLength" else bound + 1
            values[f"beyond-{bound_name}"] = json_bytes("x" * beyond)
    choices = schema.get("enum")
    for index, choice in enumerate(choices[:8] if isinstance(choices, list) else ()):
        values[f"choice-{index}"] = json_bytes(choice)
    if isinstance(choices, list):
        values["no-choice"] = b'"no such choice"'
    return values
