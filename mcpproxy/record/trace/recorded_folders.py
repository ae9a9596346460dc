"""The recordings in a folder and below it, found by the names of files; one in several files is one."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.base import paths
from mcpproxy.record.trace import chain

SUFFIX: Final = ".jsonl"
JOURNAL_SUFFIX: Final = ".jsonl.journal"
PACKED: Final = ".jsonl.zst"

_MOST_FOLDERS: Final = 3
"""How many folders below the one that is asked for are named."""


@dataclass(frozen=True, slots=True)
class FolderBelow:
    """A folder with recordings: how many, and the command that does there what was asked for above it."""

    path: str
    recordings: int
    command: str


def folders_below(folder: str, command: Callable[[str], list[str]]) -> tuple[list[FolderBelow], int]:
    """Return the first folders below ``folder`` that hold recordings, and how many more there are.

    ``command`` returns the words of the command for a path.
    """
    found = sorted({path for path in paths_below(folder) if not path.endswith(PACKED)})
    counts = Counter(os.path.normpath(os.path.dirname(path)) for path in one_path_per_recording(found))
    del counts[os.path.normpath(folder)]
    below = [FolderBelow(path, number, shlex.join(command(path))) for path, number in sorted(counts.items())]
    return below[:_MOST_FOLDERS], max(len(below) - _MOST_FOLDERS, 0)


def one_path_per_recording(found: list[str]) -> list[str]:
    """Return the first path of each recording in ``found``. A rotated recording has several files."""
    named: dict[str, str] = {}
    for path in found:
        named.setdefault(os.path.abspath(chain.first_of(path)), path)
    return list(named.values())


def paths_below(folder: str) -> Iterator[str]:
    """Yield the paths of recordings in ``folder`` and below it, also of those that are only a journal."""
    for where, folders, files in os.walk(folder):
        for name in folders:
            if name.endswith(JOURNAL_SUFFIX):
                yield os.path.join(where, name.removesuffix(".journal"))
        recorded = [name for name in folders if not name.endswith(JOURNAL_SUFFIX)]
        folders[:] = paths.without_probes(where, recorded)
        yield from (os.path.join(where, name) for name in files if name.endswith((SUFFIX, PACKED)))
