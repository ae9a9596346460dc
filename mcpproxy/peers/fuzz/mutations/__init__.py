"""The changes that the fuzzer makes: each module has one kind; ``all_mutants`` yields all."""

from collections.abc import Iterator

from mcpproxy.peers.fuzz.material import Material
from mcpproxy.peers.fuzz.mutations import (
    header_mutants,
    id_mutants,
    line_mutants,
    opening_mutants,
    order_mutants,
    value_mutants,
)
from mcpproxy.peers.fuzz.mutations.mutant import Mutant


def all_mutants(material: Material, transport: str) -> Iterator[Mutant]:
    """Yield every change of the messages in ``material``. ``transport`` is ``stdio`` or ``http``."""
    yield from value_mutants.mutants(material)
    yield from id_mutants.mutants(material)
    yield from order_mutants.mutants(material)
    yield from opening_mutants.mutants(material)
    if transport == "stdio":
        yield from line_mutants.mutants(material)
    else:
        yield from header_mutants.mutants(material)
