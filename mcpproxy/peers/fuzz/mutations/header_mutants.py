"""Changes over HTTP: the headers of a request, and bodies that are not a message."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from mcpproxy.peers.fuzz.material import Material, Template
from mcpproxy.peers.fuzz.mutations.mutant import Mutant, alone, batch, changed, probe_template, unlawful
from mcpproxy.peers.fuzz.steps import HeaderChange

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
"""Changes of one header, by the name of the change."""

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
"""Bodies that are not a message, by the name of the change."""

_EDITS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "cut-in-half": lambda raw: raw[: len(raw) // 2],
    "last-byte-missing": lambda raw: raw[:-1],
    "byte-order-mark": lambda raw: b"\xef\xbb\xbf" + raw,
}
"""Edits of a body, by the name of the change."""


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield changes of headers and bodies of a simple request and of a call, other bodies, and a batch."""
    probe = probe_template(material)
    calls = [template for template in material.templates if template.method == "tools/call"][:1]
    for template in (probe, *calls):
        for name, header in _HEADERS.items():
            yield _with_header(template, name, header)
        for name, edit in _EDITS.items():
            yield changed(
                template, name, f"body: {name}", lambda plain, edit=edit: unlawful(plain, edit(plain.raw))
            )
    for name, body in _BODIES.items():
        yield alone(name, f"body: {name}", body)
    yield batch(probe, material, 2)


def _with_header(template: Template, name: str, header: HeaderChange) -> Mutant:
    return changed(
        template,
        name,
        f"header {header[0]}: {name}",
        lambda plain: replace(unlawful(plain, plain.raw), headers=(header,)),
    )
