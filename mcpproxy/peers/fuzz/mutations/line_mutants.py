"""Changes of lines on stdio: lines that are not messages, messages in pieces, and several on one line."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from mcpproxy.peers.fuzz.material import Material, Template
from mcpproxy.peers.fuzz.mutations.mutant import (
    Mutant,
    Supply,
    alone,
    batch,
    changed,
    probe_template,
    unlawful,
)
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import RequestId

_LINES: Final[Mapping[str, bytes]] = {
    "word": b"hello",
    "open-brace": b"{",
    "close-brace": b"}",
    "open-text": b'{"jsonrpc":"2.0","id":1,"method":"pi',
    "null-line": b"null",
    "number-line": b"5",
    "text-line": b'"ping"',
    "empty-object-line": b"{}",
    "array-line": b"[1,2]",
    "empty-batch": b"[]",
    "empty-line": b"",
    "blank-line": b" \t ",
    "zero-bytes": b"\0\0\0\0",
    "not-utf-8": b"\xff\xfe{\x00",
    "sse-event": b'data: {"jsonrpc":"2.0","method":"ping"}',
    "content-length": b"Content-Length: 2\r",
    "http-request": b"GET / HTTP/1.1\r",
    "64-thousand-garbage": b"\x80" * 65536,
    "1-mib-line": b"x" * (1 << 20),
}
"""Lines that are not messages, by the name of the change."""

_EDITS: Final[Mapping[str, tuple[bool, Callable[[bytes], bytes]]]] = {
    "crlf": (True, lambda raw: raw + b"\r"),
    "spaces-around": (True, lambda raw: b"  " + raw + b"\t "),
    "byte-order-mark": (False, lambda raw: b"\xef\xbb\xbf" + raw),
    "cut-in-half": (False, lambda raw: raw[: len(raw) // 2]),
    "trailing-comma": (False, lambda raw: raw[:-1] + b",}"),
    "single-quotes": (False, lambda raw: raw.replace(b'"', b"'")),
    "nan-member": (False, lambda raw: raw[:-1] + b',"x":NaN}'),
    "member-twice": (False, lambda raw: raw[:-1] + b',"id":123456}'),
    "utf-16": (False, lambda raw: raw.decode("utf-8", "replace").encode("utf-16-le")),
    "broken-utf-8": (False, lambda raw: raw[:-1] + b',"x":"\xc3\x28"}'),
    "control-in-text": (False, lambda raw: raw[:-1] + b',"x":"a\x01b"}'),
    "text-after-message": (False, lambda raw: raw + b" x"),
    "two-on-a-line": (False, lambda raw: raw + raw),
}
"""Edits of a line, by the name of the change: whether the result is lawful, and the edit."""


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield changes of the lines of a simple request and of a call, other lines, and batches."""
    for name, line in _LINES.items():
        yield alone(name, f"line: {name}", line)
    calls = [template for template in material.templates if template.method == "tools/call"]
    probe = probe_template(material)
    for template in (probe, *calls[:1]):
        for name, (is_lawful, edit) in _EDITS.items():
            yield _edited_line(template, name, edit, is_lawful)
        yield _split_line(template)
        yield _across_lines(template)
    for label in dict.fromkeys(template.label for template in (probe, *calls)):
        template = next(template for template in material.templates if template.label == label)
        if template.is_request:
            yield _three_at_once(template)
    yield batch(probe, material, 2)
    yield batch(probe, material, 20)


def _edited_line(template: Template, name: str, edit: Callable[[bytes], bytes], is_lawful: bool) -> Mutant:
    def change(plain: FuzzStep) -> FuzzStep:
        step = unlawful(plain, edit(plain.raw))
        return replace(step, ids=plain.ids, is_lawful=True) if is_lawful else step

    return changed(template, name, f"line: {name}", change)


def _split_line(template: Template) -> Mutant:
    """Return the change that writes a message in pieces, byte by byte at its beginning and its end."""

    def change(plain: FuzzStep) -> FuzzStep:
        line = plain.raw + b"\n"
        middle = len(line) // 2
        pieces = (line[:1], line[1:2], line[2:middle], line[middle:-2], line[-2:-1], line[-1:])
        return replace(plain, pieces=pieces)

    return changed(template, "split", "line: split", change)


def _across_lines(template: Template) -> Mutant:
    """Return the change that writes a message on several lines, as a JSON printer does: several frames."""

    def change(plain: FuzzStep) -> FuzzStep:
        lines = plain.raw.replace(b",", b",\n").replace(b"{", b"{\n")
        return replace(unlawful(plain, plain.raw), pieces=(lines + b"\n",))

    return changed(template, "across-lines", "line: laid out on several lines", change)


def _three_at_once(template: Template) -> Mutant:
    """Return the change that sends three requests in one write, whose answers a server may confuse."""
    key = f"{template.label} three-at-once"

    def make(supply: Supply) -> list[FuzzStep]:
        plain = [supply.plain_step(template) for _ in range(3)]
        ids: tuple[RequestId, ...] = tuple(id for step in plain for id in step.ids)
        written = b"".join(step.raw + b"\n" for step in plain)
        return [
            FuzzStep(
                plain[0].raw,
                ids,
                "line: three requests in one write",
                template.label,
                key,
                plain[0].raw,
                pieces=(written,),
                is_read_only=template.is_read_only,
            )
        ]

    return Mutant(key, make)
