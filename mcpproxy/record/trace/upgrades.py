"""Upgrades from old trace formats to the current one.

A step is a function that converts the line of a record from format n to format n + 1. The reader applies the
steps to a line before decoding it, so only this module knows old formats. The current format is the first, so
there are no steps yet.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

FORMAT: Final = 1
"""The format that this mcpproxy writes."""

UpgradeStep: TypeAlias = Callable[[bytes], bytes]

UPGRADE_STEPS: Final[Mapping[int, UpgradeStep]] = MappingProxyType({})
"""Format n -> the step that converts a line to format n + 1."""


def upgrade_steps(
    version: int, *, to: int = FORMAT, known_steps: Mapping[int, UpgradeStep] = UPGRADE_STEPS
) -> tuple[UpgradeStep, ...]:
    """Return the steps that convert a record of format ``version`` to format ``to``.

    Raises:
        LookupError: there is no conversion; the text names both formats.
    """
    missing = [step for step in range(version, to) if step not in known_steps]
    if version > to or missing:
        raise LookupError(f"written by format {version}, this mcpproxy reads up to {to}")
    return tuple(known_steps[step] for step in range(version, to))


def upgrade_line(line: bytes, steps: tuple[UpgradeStep, ...]) -> bytes:
    """Return ``line`` after all ``steps``."""
    for step in steps:
        line = step(line)
    return line
