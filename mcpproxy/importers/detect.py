"""Recordings that others made, read as if they were ours.

What a format does not keep is not made up. The header of what was read says whose it was and what is missing
(``imported``); where that is so much that nothing may be concluded from what is not there, it is ``partial``;
single losses are gaps. None has a close record: how the session ended is not known.
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
"""Name -> its reader: of a path and which of the sessions in it, counted from 1 (0: the only one)."""

_HEAD_BYTES: Final = 64 << 10
_LINE_BYTES: Final = 16 << 20
_HAR: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')


def recognised(path: str) -> str | None:
    """Which of ``FORMATS`` the file is in, by its first line; ``None`` for none of them.

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
    """Open a recording in one of ``FORMATS``; ``session`` is which one, where the file holds several.

    Raises:
        TraceError: it is not in that format, damaged, or holds several sessions and none was chosen.
    """
    return ForeignTrace(path, FORMATS[format](path, session))
