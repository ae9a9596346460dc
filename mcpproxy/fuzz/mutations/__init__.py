"""The changes of the fuzzer: each module has those of one kind, and ``all_mutants`` collects them."""

from collections.abc import Iterator

from mcpproxy.fuzz.material import Material
from mcpproxy.fuzz.mutations import framing, http, ids, opening, order, values
from mcpproxy.fuzz.mutations.mutant import Mutant


def all_mutants(material: Material, transport: str) -> Iterator[Mutant]:
    """Yield every change of what ``material`` holds. ``transport`` is ``stdio`` or ``http``."""
    yield from values.mutants(material)
    yield from ids.mutants(material)
    yield from order.mutants(material)
    yield from opening.mutants(material)
    if transport == "stdio":
        yield from framing.mutants(material)
    else:
        yield from http.mutants(material)
