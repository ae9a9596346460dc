"""Find the files of a recording that consists of several files.

With ``--rotate`` a recording continues in ``NAME.2.jsonl``, ``NAME.3.jsonl`` and so on, in one folder. The
last record of a file names the next file, whose header names the previous one. Files after the first may
have been shipped and deleted: then the note of ``trace.shipped_files`` beside the first file names
the file that follows them.
"""

import os
from collections.abc import Sequence

from mcpproxy.base.files import open_regular
from mcpproxy.record.trace.records import Continued, Header, Record

_SHIPPED = ".shipped"
_HEADER_BYTES = 1 << 20
_TAIL_BYTES = 16 << 10
"""How many bytes of a file are read to find its header, and to find its last record."""


def files_of(path: str, first_file: str = "") -> list[str]:
    """Return, in order, all existing files of the recording to which ``path`` belongs.

    ``first_file`` is the result of ``first_of`` for ``path``, if that is known.
    """
    files = [first_file or first_of(path)]
    while (following := _file_after(files[-1])) is not None and following not in files:
        files.append(following)
    return files if path in files else [path]  # an earlier file may be continued by another file


def first_of(path: str) -> str:
    """Return the first existing file of the recording to which ``path`` belongs."""
    visited = {path}
    while (previous := file_before(path)) is not None and previous not in visited:
        visited.add(previous)
        path = previous
    return path


def next_name(first_file: str, last_file: str) -> str:
    """Return the name of the file after ``last_file`` in the chain of ``first_file``; never an existing
    file."""
    stem, suffix = os.path.splitext(first_file)
    number = 2 if last_file == first_file else int(os.path.splitext(last_file)[0].rpartition(".")[2]) + 1
    while os.path.lexists(name := f"{stem}.{number}{suffix}"):
        number += 1
    return name


def number_of(path: str) -> int:
    """Return the place of a file in its recording, as its name says; 1 for a name without a number."""
    number = os.path.splitext(os.path.basename(path))[0].rpartition(".")[2]
    return int(number) if number.isdecimal() and number.isascii() and len(number) < 10 else 1


def name_before(path: str, earlier_files: Sequence[str]) -> str:
    """Return the name of the file that ``path`` continues, which may have been shipped and deleted.

    ``earlier_files`` are the files of the recording that are before it and still here. The name is empty if
    there are none.
    """
    if not earlier_files:
        return ""
    if len(earlier_files) == 1 and os.path.lexists(earlier_files[0] + _SHIPPED):
        from mcpproxy.record.trace.shipped_files import shipped_before  # few recordings have a note

        if (shipped := shipped_before(path, earlier_files[0])) is not None:
            return shipped.last
    return os.path.basename(earlier_files[-1])


def file_before(path: str) -> str | None:
    """Return the file that ``path`` continues, which the header of ``path`` names.

    If it was shipped and deleted, return the first file of the recording; ``None`` if there is none to
    return.
    """
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            line = file.readline(_HEADER_BYTES)
        if b"continues" not in line and b"\\u" not in line:
            return None  # so the header need not be decoded
        header = _decode_line(line)
    except (OSError, ValueError):
        return None
    if not isinstance(header, Header) or not header.continues:
        return None
    return _beside(path, header.continues) or _file_before_shipped(path, header)


def _file_before_shipped(path: str, header: Header) -> str | None:
    """Return the first file of the recording of ``path``, if files between the two were shipped and deleted;
    else ``None``."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    first = _beside(path, stem.rpartition(".")[0] + suffix)
    if first is None or number_of(path) < 2 or not os.path.lexists(first + _SHIPPED):
        return None
    try:
        with open(open_regular(first, follows=True), "rb") as file:
            first_header = _decode_line(file.readline(_HEADER_BYTES))
    except (OSError, ValueError):
        return None
    is_same = isinstance(first_header, Header) and first_header.started_ns == header.started_ns
    return first if is_same else None


def _file_after(path: str) -> str | None:
    """Return the file that continues ``path``, which the last record of ``path`` names, or the next file that
    was not shipped and deleted; ``None`` if there is none."""
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            file.seek(-min(os.fstat(file.fileno()).st_size, _TAIL_BYTES), os.SEEK_END)
            line = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        if not line.startswith(b'{"type":"continued"'):
            return None
        record = _decode_line(line)
    except (OSError, ValueError):
        return None
    if not isinstance(record, Continued):
        return None
    return _beside(path, record.file) or _file_after_shipped(path)


def _file_after_shipped(path: str) -> str | None:
    """Return the file after those that were shipped and deleted, if ``path`` is the first file; else
    ``None``."""
    if not os.path.lexists(path + _SHIPPED):
        return None
    from mcpproxy.record.trace.shipped_files import read_shipped  # few recordings have a note

    shipped = read_shipped(path)
    return _beside(path, shipped.continued.file) if shipped is not None else None


def _decode_line(line: bytes) -> Record:
    from mcpproxy.record.trace.decode import decode  # Imported late: recorders start without it.

    return decode(line)


def _beside(path: str, name: str) -> str | None:
    """Return the file ``name`` in the folder of ``path``, never one outside that folder; ``None`` if there is
    none."""
    if not is_name(name):
        return None
    sibling = os.path.join(os.path.dirname(path), name)
    return sibling if os.path.isfile(sibling) else None


def is_name(name: str) -> bool:
    """Whether ``name`` can be the name of a file in the same folder."""
    return os.path.basename(name) == name and name not in ("", os.curdir, os.pardir) and "\0" not in name
