"""Changes of ids: ids of every type, large and odd ids, an id that was used before, and no id."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from mcpproxy.peers.fuzz.material import Material, Template
from mcpproxy.peers.fuzz.mutations.mutant import Mutant, Supply, changed, probe_template, unlawful
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import RequestId
from mcpproxy.protocol.raw_json import with_value, without_value

_LAWFUL: Final[Mapping[str, tuple[bytes, RequestId]]] = {
    "text-id": (b'"a-1"', "a-1"),
    "digits-as-text-id": (b'"7"', "7"),
    "zero-id": (b"0", 0),
    "negative-id": (b"-5", -5),
    "escaped-id": (b'"\\u0061\\u00e9\\ud83d\\ude00"', "a\u00e9\U0001f600"),
    "53-bit-id": (b"9007199254740991", 9007199254740991),
    "long-id": (b'"' + b"i" * 5000 + b'"', "i" * 5000),
    "empty-id": (b'""', ""),
}
"""Ids that a request may have, by the name of the change: the JSON, and the id that the answer must have."""

_UNLAWFUL: Final[Mapping[str, bytes]] = {
    "null-id": b"null",
    "fraction-id": b"1.5",
    "exponent-id": b"1e2",
    "above-53-bits-id": b"9007199254740993",
    "above-64-bits-id": b"18446744073709551616",
    "400-digit-id": b"1" * 400,
    "true-id": b"true",
    "array-id": b"[1]",
    "object-id": b'{"a":1}',
    "lone-surrogate-id": b'"\\ud800"',
}
"""Ids, by the name of the change, that a request must not have, or that not every JSON reader preserves.

Source: RFC 8259, sections 6 and 8.2."""


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield the changes of ids, on a simple request and on a call."""
    probe = probe_template(material)
    calls = [template for template in material.templates if template.method == "tools/call"][:1]
    for template in (probe, *calls):
        for name, (raw, id) in _LAWFUL.items():
            yield _with_id(template, name, raw, (id,), is_lawful=True)
        for name, raw in _UNLAWFUL.items():
            yield _with_id(template, name, raw, (), is_lawful=False)
        yield _without_id(template)
        yield _reused_id(template)


def _with_id(
    template: Template, name: str, id: bytes, ids: tuple[RequestId, ...], *, is_lawful: bool
) -> Mutant:
    def change(plain: FuzzStep) -> FuzzStep:
        step = unlawful(plain, with_value(plain.raw, ("id",), id) or plain.raw)
        return replace(step, ids=ids, is_lawful=is_lawful)

    return changed(template, name, f"id: {name}", change)


def _without_id(template: Template) -> Mutant:
    return changed(
        template,
        "no-id",
        "no id",
        lambda plain: unlawful(plain, without_value(plain.raw, ("id",)) or plain.raw),
    )


def _reused_id(template: Template) -> Mutant:
    def make(supply: Supply) -> list[FuzzStep]:
        first, second = supply.plain_step(template), supply.plain_step(template)
        raw = with_value(second.raw, ("id",), str(first.ids[0]).encode()) or second.raw
        return [first, FuzzStep(raw, (), "id: of an earlier request", template.label, key, second.raw, False)]

    key = f"{template.label} reused-id"
    return Mutant(key, make)
