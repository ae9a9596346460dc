"""A shard is the part of a fleet's recordings that one run of a command handles; other runs handle the rest.

A digest of its name decides to which shard a recording belongs. So shards need not know of each other, nobody
assigns recordings to them, and a new recording moves no other.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcpproxy.base.patterns import pattern

if TYPE_CHECKING:
    from mcpproxy.send.fleet.judge.corpus import FleetRecording

ENGINES: Final = ("local", "ray", "dask")
"""The engines that can judge a shard; see ``engine.py``."""

_SHARD: Final = pattern(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Number ``index`` of ``count`` shards; the first has the number 0."""

    index: int = 0
    count: int = 1

    def holds(self, name: str) -> bool:
        """Whether the recording with this name belongs to the shard."""
        from hashlib import sha256  # imported here: it takes as long as the rest of this module

        return int.from_bytes(sha256(name.encode()).digest()[:8], "big") % self.count == self.index

    def of(self, recordings: "Iterable[FleetRecording]") -> "Iterator[FleetRecording]":
        """Yield the recordings that belong to the shard."""
        return (recording for recording in recordings if self.count == 1 or self.holds(recording.name))


def shard(text: str) -> Shard:
    """An argparse type: ``3/64`` is the fourth of 64 shards.

    Raises:
        ArgumentTypeError: the text names no shard.
    """
    if match := _SHARD.fullmatch(text):
        index, count = int(match[1]), int(match[2])
        if index < count:
            return Shard(index, count)
    raise argparse.ArgumentTypeError(f"{text!r} is not a shard such as 3/64, counted from 0/64 to 63/64")
