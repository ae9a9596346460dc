"""Save and load indexes. With one, a recording of a million calls opens at once instead of in some seconds.

An index is saved in the cache folder of the user and never beside the recording, so nothing is written to
another user's folder. Only large finished recordings have a saved index. It is used if the files of the
recording have the same place, size, time of change, beginning and end as when it was saved. Otherwise, or if
the index is faulty, the recording is read again.
"""

import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

import orjson

from mcpproxy import __version__
from mcpproxy.base import paths
from mcpproxy.base.files import Folder, is_mine, is_writable_by_others
from mcpproxy.read.view.index.columns import COLUMNS, Columns
from mcpproxy.read.view.index.peers import SessionFacts
from mcpproxy.read.view.index.scan import Scan
from mcpproxy.read.view.index.seen import FirstEnd
from mcpproxy.read.view.index.source import Source
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import CloseRecord

KEPT_BYTES: Final = 1 << 30
"""How many bytes all indexes may take; the oldest are deleted first."""

_SUFFIX: Final = ".index"
_VERSION: Final = 13
"""Increase it when the columns change, or when ``Scan`` stores other values in them."""
_SAMPLE_BYTES: Final = 64 << 10
"""How many bytes of the beginning and of the end of a recording must be as they were."""
_DRAFT_S: Final = 3600
"""A draft, which is an index that is being written, is deleted at this age: its process was killed."""
_MAX_HEAD_BYTES: Final = 64 << 20
"""How long the JSON before the columns in the file of an index may be."""


def cache_dir() -> str:
    """Return the path of the folder of indexes, which may not exist."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return os.path.join(paths.state_dir(), "Cache", "index")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "mcpproxy", "index")
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the base directory specification says to ignore a relative one
        base = os.path.join(home, ".cache")
    return os.path.join(base, "mcpproxy", "index")


def load(source: Source) -> Scan | None:
    """Return the ``Scan`` of the saved index; ``None`` if there is no usable index."""
    try:
        folder = Folder(cache_dir())
        if not _is_private(folder):
            return None
        with open(folder.open(_file_name(source)), "rb") as file:
            head = orjson.loads(file.read(_head_size(file.read(8))))
            if head["identity"] != _identity(source):
                return None
            columns = Columns()
            for name, kind in COLUMNS:
                column: array[int] = array(kind)
                column.fromfile(file, head["lengths"][name])
                setattr(columns, name, column)
            return _restore_scan(columns, head)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, NotARecordError):
        return None


def prepare_save(source: Source, scan: Scan) -> Callable[[], None] | None:
    """Return a function that saves the index of a finished recording; ``None`` if it should not be saved.

    The function does not read the recording, so it may run in another thread. If saving fails, it is ignored:
    the recording will be read again.
    """
    if not isinstance(scan.last, CloseRecord) or source.trace.is_copy:
        return None
    try:
        head = orjson.dumps(_head_object(source, scan), option=orjson.OPT_NON_STR_KEYS)
    except (OSError, TypeError):  # TypeError: a lone surrogate in a name
        return None
    return partial(_save, _file_name(source), head, scan.columns)


def _save(name: str, head: bytes, columns: Columns) -> None:
    try:
        paths.make_private(cache_dir())
        folder = Folder(cache_dir())
        if not _is_private(folder):
            return
        draft = f"{name}.{os.getpid()}.partial"
        with open(folder.create(draft), "wb") as file:
            file.write(len(head).to_bytes(8, "little") + head)
            for column, _ in COLUMNS:
                getattr(columns, column).tofile(file)
        folder.replace(draft, name)
        _prune(folder)
    except OSError:
        return


def _is_private(folder: Folder) -> bool:
    return is_mine(folder.status) and not is_writable_by_others(folder.status)


def _head_size(data: bytes) -> int:
    size = int.from_bytes(data, "little")
    if not 0 < size <= _MAX_HEAD_BYTES:
        raise ValueError(size)
    return size


def _file_name(source: Source) -> str:
    return _digest(os.fsencode(os.path.realpath(source.trace.files[0]))) + _SUFFIX


def _identity(source: Source) -> list[Any]:
    """Return the values that must be equal for an index to be used: versions, and facts about the files."""
    identity: list[Any] = [_VERSION, __version__, sys.byteorder]
    for path in source.trace.readable_files:
        status = os.stat(path)
        identity.append(
            [os.path.realpath(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
        )
    ends = (0, max(source.size - _SAMPLE_BYTES, 0))
    return [*identity, _digest(b"".join(source.read(offset, _SAMPLE_BYTES) for offset in ends))]


def _digest(data: bytes) -> str:
    from hashlib import blake2b  # Imported here: it loads OpenSSL, and small recordings have no saved index.

    return blake2b(data, digest_size=16).hexdigest()


def _head_object(source: Source, scan: Scan) -> dict[str, Any]:
    columns = scan.columns
    return {
        "identity": _identity(source),
        "lengths": {name: len(getattr(columns, name)) for name, _ in COLUMNS},
        "names": columns.names,
        "unnamed": columns.unnamed,
        "elements": list(columns.elements.items()),
        "answer_elements": list(columns.answer_elements.items()),
        "faults": list(columns.faults.items()),
        "far_seqs": list(columns.far_seqs.items()),
        "sessions": [
            [getattr(facts, name) for name in SessionFacts.__match_args__] for facts in scan.sessions
        ],
        "tool_lists": scan.tool_lists,
        "finding_lines": scan.finding_lines,
        "odd_lines": scan.odd_lines,
        "missing_lines": scan.missing_lines,
        "frames": scan.frames,
        "first_end": scan.first_end and [scan.first_end.by, scan.first_end.at_ns],
        "last_ns": scan.last_ns,
        "end_offset": scan.end_offset,
        "close_line": source.line_at(columns.line_offset[-1]).decode("utf-8"),
    }


def _restore_scan(columns: Columns, head: dict[str, Any]) -> Scan | None:
    """Return a scan with the loaded columns and the other values in ``head``; ``None`` if they do not fit."""
    if len(columns.line_offset) != len(columns.line_row) or len({len(c) for c in _row_columns(columns)}) != 1:
        return None
    # The view counts the findings of every row again.
    columns.findings = array("H", bytes(2 * len(columns.kind)))
    columns.severity = array("B", bytes(len(columns.kind)))
    columns.names = [(method, target) for method, target in head["names"]]
    columns.unnamed = head["unnamed"]
    columns.elements = dict(head["elements"])
    columns.answer_elements = dict(head["answer_elements"])
    columns.faults = dict(head["faults"])
    columns.far_seqs = dict(head["far_seqs"])
    scan = Scan(columns)
    scan.sessions.extend(SessionFacts(*facts) for facts in head["sessions"])
    for name in ("tool_lists", "finding_lines", "odd_lines", "missing_lines"):
        cast("list[int]", getattr(scan, name)).extend(head[name])
    scan.frames.update(head["frames"])
    scan.first_end = FirstEnd(*head["first_end"]) if head["first_end"] else None
    scan.last_ns, scan.end_offset = head["last_ns"], head["end_offset"]
    last = decode(head["close_line"].encode())
    scan.last = last if isinstance(last, CloseRecord) else None
    return scan


def _row_columns(columns: Columns) -> Iterable["array[int]"]:
    names = [name for name, _ in COLUMNS]
    return (getattr(columns, name) for name in names[names.index("first_line") :])


def _prune(folder: Folder) -> None:
    """Delete the oldest indexes until at most ``KEPT_BYTES`` remain, and drafts of killed processes."""
    indexes = [(folder.stat(name), name) for name in folder.names() if name.endswith((_SUFFIX, ".partial"))]
    total = 0
    for status, name in sorted(indexes, key=lambda index: -index[0].st_mtime_ns):
        total += status.st_size
        is_left_behind = name.endswith(".partial") and time.time() - status.st_mtime > _DRAFT_S
        if total > KEPT_BYTES or is_left_behind:
            folder.unlink(name)
