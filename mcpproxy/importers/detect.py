"""Recognise and open recordings of other tools.

Nothing is invented where a format records nothing. ``imported`` in the header names the tool and what is
missing. If so much is missing that the absence of a message proves nothing, the header says ``partial``;
single losses become gap records. There is no close record, because none of the formats records how the
session ended.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from mcpproxy.base.files import open_regular
from mcpproxy.errors import TraceError
from mcpproxy.importers import har, mcp_rec, mcpsnoop
from mcpproxy.importers.import_source import ForeignTrace, ImportedSource
from mcpproxy.trace.members import NotARecordError, read_object

FORMATS: Final[Mapping[str, Callable[[str, int], ImportedSource]]] = {
    "mcpsnoop": mcpsnoop.read,
    "mcp-rec": mcp_rec.read,
    "har": har.read,
}
"""Name -> reader. It takes a path and the number of a session in the file, from 1 on (0: the only one)."""

_HEAD_BYTES: Final = 64 << 10
_LINE_BYTES: Final = 16 << 20
_HAR: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')


def recognised(path: str) -> str | None:
    """Return the format of a file, a name in ``FORMATS``, by its first line; ``None`` for any other format.

    Raises:
        TraceError: the file cannot be read.
    """
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            head = file.read(_HEAD_BYTES)
            if _HAR.match(head):
                return "har"
            if not head.lstrip().startswith(b"{"):
                return None
            file.seek(0)
            first = file.readline(_LINE_BYTES)
    except OSError as fault:
        raise TraceError(path, None, (fault.strerror or str(fault)).lower(), "check the path") from None
    try:
        members = read_object(first)
    except NotARecordError:
        return None
    if {"session_id", "direction", "seq"} <= members.keys():
        return "mcpsnoop"
    return "mcp-rec" if {"dir", "msg"} <= members.keys() else None


def open_foreign(path: str, format: str, session: int = 0) -> ForeignTrace:
    """Open a recording in one of ``FORMATS``; ``session`` selects one if the file holds several.

    Raises:
        TraceError: the file is not in that format, is damaged, or holds several sessions and none is
        selected.
    """
    return ForeignTrace(path, FORMATS[format](path, session))
