"""The note about files that were shipped to an object store and deleted before their recording ended.

A recording that lasts for weeks would fill the disk. So its files are deleted one after the other, from
the second on, as soon as they are in an object store. The first file stays until the recording has ended,
because it says who the peers are. The note ``NAME.jsonl.shipped`` beside it stands for the deleted files. It
has two lines: a JSON object that says where they are, and the last record of the last of them, which has the
counts so far and names the file that follows.
"""

import os
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from mcpproxy.base import files
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.encode import encode_continued
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import Continued

SUFFIX: Final = ".shipped"
VERSION: Final = 1
"""The version of the note's format."""
_LIMIT_BYTES: Final = 1 << 20
"""The longest note that is read."""


@dataclass(frozen=True, slots=True)
class ShippedFiles:
    """Files of a recording that were shipped and deleted.

    ``url`` is their folder in the object store, ``count`` their number, ``last`` the name of the last of
    them, and ``continued`` its last record.
    """

    url: str
    count: int
    last: str
    continued: Continued

    @property
    def text(self) -> str:
        """A sentence fragment that says where the files are."""
        what = "1 file" if self.count == 1 else f"{self.count} files"
        return f"{what} after the first, up to {self.last}, shipped and deleted here: {self.url}"


def note_path(first_file: str) -> str:
    """Return the path of the note beside ``first_file``, the first file of a recording."""
    return first_file + SUFFIX


def read_shipped(first_file: str) -> ShippedFiles | None:
    """Return the content of the note beside ``first_file``; ``None`` if no note can be read."""
    try:
        first, _, second = files.read(note_path(first_file), _LIMIT_BYTES).partition(b"\n")
        members = cast("dict[str, Any]", orjson.loads(first))
        url, count, last = members["url"], members["files"], members["last"]
        record = decode(second)
    except (OSError, ValueError, LookupError, TypeError, NotARecordError):
        return None
    if not isinstance(record, Continued) or members.get("version") != VERSION:
        return None
    if type(url) is not str or type(count) is not int or type(last) is not str:
        return None
    return ShippedFiles(url, count, last, record)


def shipped_before(path: str, first_file: str) -> ShippedFiles | None:
    """Return the note about the files between ``first_file`` and ``path``.

    ``None`` means that not all of them were shipped, or that there is no note.
    """
    shipped = read_shipped(first_file)
    return shipped if shipped is not None and shipped.continued.file == os.path.basename(path) else None


def write_shipped(first_file: str, shipped: ShippedFiles) -> None:
    """Replace the note beside ``first_file``.

    Raises:
        OSError: the note cannot be written. The former note stays.
    """
    members = {"version": VERSION, "url": shipped.url, "files": shipped.count, "last": shipped.last}
    parts = (orjson.dumps(members), b"\n", encode_continued(shipped.continued))
    files.replace(note_path(first_file), parts, 0o600)


def remove_shipped(first_file: str) -> None:
    """Delete the note beside ``first_file``, if there is one."""
    try:
        os.unlink(note_path(first_file))
    except OSError:
        pass
