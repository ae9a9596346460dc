"""Changes over HTTP: the headers of a request, and bodies that are not a message."""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.fuzz.material import Material, Template
from mcpproxy.fuzz.mutations.mutant import Mutant, Supply, probe_template
from mcpproxy.fuzz.steps import FuzzStep, HeaderChange

_HEADERS: Final[Mapping[str, HeaderChange]] = {
    "text-content-type": ("Content-Type", "text/plain"),
    "no-content-type": ("Content-Type", None),
    "odd-content-type": ("Content-Type", "application/json; charset=utf-16; ="),
    "no-accept": ("Accept", None),
    "accept-json-only": ("Accept", "application/json"),
    "accept-events-only": ("Accept", "text/event-stream"),
    "accept-html": ("Accept", "text/html"),
    "odd-accept": ("Accept", ";q=,,,*"),
    "no-session": ("Mcp-Session-Id", None),
    "unknown-session": ("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000"),
    "odd-session": ("Mcp-Session-Id", "../;x=%00"),
    "long-session": ("Mcp-Session-Id", "s" * 5000),
    "unknown-version": ("MCP-Protocol-Version", "2999-01-01"),
    "odd-version": ("MCP-Protocol-Version", ";,"),
    "no-version": ("MCP-Protocol-Version", None),
    "odd-last-event": ("Last-Event-ID", "no such event"),
    "gzip-named": ("Content-Encoding", "gzip"),
}

_BODIES: Final[Mapping[str, bytes]] = {
    "word": b"hello",
    "open-brace": b"{",
    "null-body": b"null",
    "number-body": b"5",
    "empty-object-body": b"{}",
    "empty-batch": b"[]",
    "not-utf-8": b"\xff\xfe{\x00",
    "zero-bytes": b"\0\0\0\0",
    "form": b"jsonrpc=2.0&method=ping",
}


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield the changes of headers and bodies, on a simple request and on a call."""
    probe = probe_template(material)
    calls = [template for template in material.templates if template.method == "tools/call"][:1]
    for template in (probe, *calls):
        for name, change in _HEADERS.items():
            yield _with_header(template, name, change)
        yield _cut_body(template, "cut-in-half", 2)
        yield _cut_body(template, "last-byte-missing", 1)
        yield _body_with_mark(template)
    for name, body in _BODIES.items():
        yield _other_body(name, body)
    yield _batch(probe, material)


def _with_header(template: Template, name: str, change: HeaderChange) -> Mutant:
    key = f"{template.label} {name}"

    def make(supply: Supply) -> list[FuzzStep]:
        plain = supply.plain_step(template)
        what = f"header {change[0]}: {name}"
        return [FuzzStep(plain.raw, (), what, template.label, key, plain.raw, False, headers=(change,))]

    return Mutant(key, make)


def _cut_body(template: Template, name: str, part: int) -> Mutant:
    key = f"{template.label} {name}"

    def make(supply: Supply) -> list[FuzzStep]:
        plain = supply.plain_step(template)
        raw = plain.raw[: len(plain.raw) // 2] if part == 2 else plain.raw[:-1]
        return [FuzzStep(raw, (), f"body: {name}", template.label, key, plain.raw, is_lawful=False)]

    return Mutant(key, make)


def _body_with_mark(template: Template) -> Mutant:
    key = f"{template.label} byte-order-mark"

    def make(supply: Supply) -> list[FuzzStep]:
        plain = supply.plain_step(template)
        raw = b"\xef\xbb\xbf" + plain.raw
        return [FuzzStep(raw, (), "body: byte-order-mark", template.label, key, plain.raw, is_lawful=False)]

    return Mutant(key, make)


def _other_body(name: str, body: bytes) -> Mutant:
    step = FuzzStep(body, (), f"body: {name}", "", name, is_lawful=False)
    return Mutant(name, lambda _: [step])


def _batch(template: Template, material: Material) -> Mutant:
    is_lawful = material.revision == "2025-03-26"

    def make(supply: Supply) -> list[FuzzStep]:
        plain = [supply.plain_step(template) for _ in range(2)]
        raw = b"[" + b",".join(step.raw for step in plain) + b"]"
        return [FuzzStep(raw, (), "a batch of 2", template.label, "batch-of-2", is_lawful=is_lawful)]

    return Mutant("batch-of-2", make)
