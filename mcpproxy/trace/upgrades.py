"""Upgrades from old trace formats to the current one.

A rung is a function that converts the line of a record from format n to format n + 1. The reader applies
all rungs to a line before decoding it, so only this file knows the old formats. Format 1 is the first, so
there are no rungs yet.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

FORMAT: Final = 1
"""The format that this mcpproxy writes."""

Rung: TypeAlias = Callable[[bytes], bytes]

LADDER: Final[Mapping[int, Rung]] = MappingProxyType({})
"""Maps format n to the rung that leads to format n + 1."""


def rungs(version: int, *, to: int = FORMAT, ladder: Mapping[int, Rung] = LADDER) -> tuple[Rung, ...]:
    """Return the rungs that convert a record of format ``version`` to format ``to``.

    Raises:
        LookupError: there is no conversion; the text names both formats.
    """
    missing = [step for step in range(version, to) if step not in ladder]
    if version > to or missing:
        raise LookupError(f"written by format {version}, this mcpproxy reads up to {to}")
    return tuple(ladder[step] for step in range(version, to))


def climb(line: bytes, through: tuple[Rung, ...]) -> bytes:
    """Return ``line`` after applying every rung."""
    for rung in through:
        line = rung(line)
    return line
