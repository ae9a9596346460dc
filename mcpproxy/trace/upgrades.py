"""The ladder from old formats of the trace to today's.

A rung is a function that turns one record of format n, as the line it was written in, into the same
record of format n + 1. The reader takes a line up all rungs before it decodes it, so that only this
file knows what traces used to look like. Format 1 is the first: there is nothing to climb yet.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

FORMAT: Final = 1
"""The format that this mcpproxy writes."""

Rung: TypeAlias = Callable[[bytes], bytes]

LADDER: Final[Mapping[int, Rung]] = MappingProxyType({})
"""Format n -> the rung to format n + 1."""


def rungs(version: int, *, to: int = FORMAT, ladder: Mapping[int, Rung] = LADDER) -> tuple[Rung, ...]:
    """What a record of format ``version`` goes through to become one of format ``to``.

    Raises:
        LookupError: no way leads there; its text names both formats.
    """
    missing = [step for step in range(version, to) if step not in ladder]
    if version > to or missing:
        raise LookupError(f"written by format {version}, this mcpproxy reads up to {to}")
    return tuple(ladder[step] for step in range(version, to))


def climb(line: bytes, through: tuple[Rung, ...]) -> bytes:
    """``line`` after every rung."""
    for rung in through:
        line = rung(line)
    return line
