"""Changes of the opening of a session: messages before the handshake, a changed one, and half of one."""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.peers.fuzz.material import Material, Pointer
from mcpproxy.peers.fuzz.mutations.mutant import Mutant, Supply, probe_template
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.protocol.jsonrpc import Request, RequestId, parse
from mcpproxy.protocol.raw_json import with_value, without_value
from mcpproxy.protocol.wording import token

_VALUES: Final[Mapping[str, bytes]] = {
    "null": b"null",
    "number": b"5",
    "empty-text": b'""',
    "text": b'"x"',
    "empty-object": b"{}",
    "empty-array": b"[]",
    "10-thousand-letters": b'"' + b"x" * 10_000 + b'"',
}
"""Values for the places in ``initialize``, by the name of the change, as JSON."""

_FEW: Final = ("null", "text", "10-thousand-letters")
"""The values for less important places, because each change of the opening costs a session."""

_PLACES: Final[tuple[Pointer, ...]] = (
    ("params",),
    ("params", "protocolVersion"),
    ("params", "capabilities"),
    ("params", "clientInfo"),
    ("params", "clientInfo", "name"),
    ("params", "capabilities", "roots"),
    ("params", "capabilities", "sampling"),
)
"""The places in ``initialize`` whose values are changed."""

_VERSIONS: Final[Mapping[str, bytes]] = {
    "future-version": b'"2999-01-01"',
    "oldest-version": b'"2024-11-05"',
    "no-date": b'"1.0"',
}
"""Values for the revision in ``initialize``, by the name of the change, as JSON."""


def mutants(material: Material) -> Iterator[Mutant]:
    """Yield the changes of the opening; none if the revision has no handshake."""
    if not material.initialize:
        return
    yield Mutant("request-before-initialize", lambda supply: [_early_request(supply, material)], "before")
    for place in _PLACES:
        for name, value in _VALUES.items():
            if place == ("params", "protocolVersion") or name in _FEW:
                yield _changed_initialize(material, place, name, value)
        if len(place) > 1:
            yield _changed_initialize(material, place, "removed", None)
    for name, value in _VERSIONS.items():
        yield _changed_initialize(material, ("params", "protocolVersion"), name, value)
    if material.initialized:
        yield Mutant("initialized-first", lambda _: [_early_initialized(material)], "before")
    yield Mutant("no-initialized", lambda _: [_lone_initialize(material)], "opening")


def _early_request(supply: Supply, material: Material) -> FuzzStep:
    template = probe_template(material)
    plain = supply.plain_step(template)
    what = "request before initialize"
    return FuzzStep(plain.raw, plain.ids, what, template.label, "request-before-initialize", is_lawful=False)


def _early_initialized(material: Material) -> FuzzStep:
    what, method = "initialized before initialize", "notifications/initialized"
    return FuzzStep(material.initialized, (), what, method, "initialized-first", is_lawful=False)


def _lone_initialize(material: Material) -> FuzzStep:
    return FuzzStep(
        material.initialize,
        ids_of(material.initialize),
        "initialize without initialized",
        "initialize",
        "no-initialized",
        material.initialize,
    )


def _changed_initialize(material: Material, place: Pointer, name: str, value: bytes | None) -> Mutant:
    at = "".join(map(token, place))
    key = f"initialize {at} {name}"
    raw = (
        without_value(material.initialize, place)
        if value is None
        else with_value(material.initialize, place, value)
    )
    changed = raw or material.initialize
    what = f"{at}: {name}"
    steps = [
        FuzzStep(changed, ids_of(changed), what, "initialize", key, material.initialize, is_lawful=False)
    ]
    return Mutant(key, lambda _: steps, "opening")


def ids_of(raw: bytes) -> tuple[RequestId, ...]:
    """Return the id of the request in ``raw`` in a tuple; empty if it is no request, or has no valid id."""
    message = parse(raw)
    return (message.id,) if isinstance(message, Request) and message.id is not None else ()
