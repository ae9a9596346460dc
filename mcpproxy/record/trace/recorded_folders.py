"""Find the recordings in a folder and below it by the names of their files.

A recording in several files (``--rotate``) counts once.
"""

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
"""How the names of traces, of the folders of journals, and of traces compressed with zstd end."""

_MOST_FOLDERS: Final = 3
"""How many folders ``folders_below`` returns."""


@dataclass(frozen=True, slots=True)
class FolderBelow:
    """A folder with recordings, how many there are, and the user's command line with this folder."""

    path: str
    recordings: int
    command: str


def folders_below(folder: str, command: Callable[[str], list[str]]) -> tuple[list[FolderBelow], int]:
    """Return the first folders below ``folder``, by path, that hold recordings, and how many more there are.

    Compressed recordings do not count.

    ``command`` returns the words of the command for a path.
    """
    recorded = sorted({path for path in paths_below(folder) if not path.endswith(PACKED)})
    counts = Counter(os.path.normpath(os.path.dirname(path)) for path in one_path_per_recording(recorded))
    del counts[os.path.normpath(folder)]
    below = [FolderBelow(path, number, shlex.join(command(path))) for path, number in sorted(counts.items())]
    return below[:_MOST_FOLDERS], max(len(below) - _MOST_FOLDERS, 0)


def one_path_per_recording(recorded: list[str]) -> list[str]:
    """Return, of the paths in ``recorded``, the first of each recording. A rotated recording has several."""
    path_of: dict[str, str] = {}  # first file of a recording -> path
    for path in recorded:
        path_of.setdefault(os.path.abspath(chain.first_of(path)), path)
    return list(path_of.values())


def paths_below(folder: str) -> Iterator[str]:
    """Yield the paths of the recordings in ``folder`` and below it, even if only the relay's journal exists
    so far.

    Every file of a rotated recording comes, and the path of a trace with a journal comes twice. Sessions of
    mcpproxy's own client are left out (see ``paths.without_probes``).
    """
    for where, folders, files in os.walk(folder):
        for name in folders:
            if name.endswith(JOURNAL_SUFFIX):
                yield os.path.join(where, name.removesuffix(".journal"))
        recorded = [name for name in folders if not name.endswith(JOURNAL_SUFFIX)]
        folders[:] = paths.without_probes(where, recorded)
        yield from (os.path.join(where, name) for name in files if name.endswith((SUFFIX, PACKED)))
