"""Find recordings on disk: by path, in a folder, or the latest in the state directory."""

import os
from collections.abc import Iterator

from mcpproxy.cli.arguments import UsageError
from mcpproxy.trace import chain

SUFFIX = ".jsonl"
JOURNAL_SUFFIX = ".jsonl.journal"


def expand(path: str) -> list[str]:
    """Return the traces that ``path`` names: itself, or all below a folder, sorted.

    For the path of a journal folder, the trace of that journal is returned.

    Raises:
        UsageError: the folder holds no traces.
    """
    if path.rstrip(os.sep).endswith(JOURNAL_SUFFIX):
        return [path.rstrip(os.sep).removesuffix(".journal")]
    if not os.path.isdir(path):
        return [path]
    if found := sorted(set(_below(path))):
        return found
    raise UsageError(path, "no traces in this folder", "a trace is a .jsonl file that mcpproxy recorded")


def one_path_per_recording(paths: list[str]) -> list[str]:
    """Return ``paths`` with one path for each rotated recording: the first that names a file of it."""
    named: dict[str, str] = {}
    for path in paths:
        named.setdefault(os.path.abspath(chain.first_of(path)), path)
    return list(named.values())


def _below(folder: str) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        for name in folders:
            if name.endswith(JOURNAL_SUFFIX):
                yield os.path.join(where, name.removesuffix(".journal"))
        folders[:] = [name for name in folders if not name.endswith(JOURNAL_SUFFIX)]
        yield from (os.path.join(where, name) for name in files if name.endswith(SUFFIX))


def recent(folder: str) -> list[str]:
    """Return the traces directly in ``folder``, the latest first; their names sort by time.

    Raises:
        UsageError: ``folder`` cannot be read.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            folder, (error.strerror or "unreadable").lower(), "name a folder of traces"
        ) from None
    traces = {n.removesuffix(".journal") for n in names if n.endswith((SUFFIX, JOURNAL_SUFFIX))}
    return [os.path.join(folder, name) for name in sorted(traces, reverse=True)]
