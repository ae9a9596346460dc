"""What a benchmark is asked for, and the sizes that follow from it."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["pipe", "socketpair"]


@dataclass(frozen=True)
class Options:
    """What to measure, and how much.

    ``kinds`` are the channels of the stdio benchmark, and ``long`` adds a session of a million frames to it.
    ``part`` divides the full sizes. ``ours`` leaves out all variants that are not mcpproxy. ``only`` names
    the benchmarks that ``compare`` runs, all if it is empty.
    """

    rounds: int = 5
    short: bool = False
    kinds: tuple[Kind, ...] = ("pipe", "socketpair")
    long: bool = False
    part: int = 1
    ours: bool = False
    only: tuple[str, ...] = ()

    def size(self, full: int, short: int) -> int:
        """Return how many of something are measured: at least ``short``."""
        return short if self.short else max(short, full // self.part)
