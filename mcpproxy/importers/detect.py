"""Recognise and open recordings of other tools.

Values that a format does not record are not made up. In the trace header, ``imported`` names the tool and
what its format lacks. If so much is missing that the absence of a message proves nothing, the header also has
``partial``. A single loss becomes a gap record. Imported traces have no close record, because no format
records how the session ended.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from mcpproxy.base.files import open_regular
from mcpproxy.errors import TraceError
from mcpproxy.importers import har, mcp_cassette, mcp_rec, mcp_recorder, mcpsnoop, text_logs
from mcpproxy.importers.import_source import ForeignTrace, ImportedSource
from mcpproxy.trace.members import NotARecordError, read_object

FORMATS: Final[Mapping[str, Callable[[str, int], ImportedSource]]] = {
    "mcpsnoop": mcpsnoop.read,
    "mcp-rec": mcp_rec.read,
    "mcp-recorder": mcp_recorder.read,
    "mcp-cassette": mcp_cassette.read_document,
    "mcp-cassette-lines": mcp_cassette.read_lines,
    "har": har.read,
    "host-log": text_logs.read_log,
    "json-rpc": text_logs.read_lines,
}
"""Name of a format -> the function that opens a file of that format.

Its arguments are the path, and the number of a session in the file, from 1, or 0 for the only session.
"""

FORMATS_READ: Final = f"formats that can be read ({', '.join(FORMATS)})"

_HEAD_BYTES: Final = 1 << 20
"""How many bytes of a file are searched for the beginning of a HAR, or the first message in a log."""
_LINE_BYTES: Final = 16 << 20
"""How many bytes of the first line are read."""
_HAR: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')
_HOST_LOG: Final = re.compile(
    rb"^\d{4}-\d\d-\d\d[T ][\d:.Z]+ (?:\[[^\]]*\] )?\[(?:info|debug|warning|error|trace)\]", re.M
)
"""A line of Claude Desktop, VS Code or Cursor."""
_CASSETTE: Final = re.compile(rb'\s*\{\s*"version"\s*:[^{}]*"metadata"\s*:\s*\{')


def detect_format(path: str) -> str | None:
    """Return the format of a file, a key of ``FORMATS``, by its beginning; ``None`` for any other format.

    Raises:
        TraceError: the file cannot be read.
    """
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            head = file.read(_HEAD_BYTES)
            if _HAR.match(head):
                return "har"
            if _CASSETTE.match(head):
                return "mcp-recorder"
            if mcp_cassette.DOCUMENT.match(head):
                return "mcp-cassette"
            if not head.lstrip().startswith(b"{"):
                return "host-log" if text_logs.MARK.search(head) else None
            file.seek(0)
            first_line = file.readline(_LINE_BYTES)
    except OSError as fault:
        raise TraceError(path, None, (fault.strerror or str(fault)).lower(), "check the path") from None
    try:
        members = read_object(first_line)
    except NotARecordError:
        return None
    if {"session_id", "direction", "seq"} <= members.keys():
        return "mcpsnoop"
    if "cassetteVersion" in members:
        return "mcp-cassette-lines"
    if {"dir", "msg"} <= members.keys():
        return "mcp-rec"
    return "json-rpc" if text_logs.is_message(members) else None


def why_none(path: str) -> str:
    """Return what a user can do about a file in which no format was recognised."""
    with open(open_regular(path, follows=True), "rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip():
        return "the file is empty"
    if _HOST_LOG.search(head):
        return "it is a host's log without messages; VS Code logs them at the level Debug, Cursor never does"
    return (
        "a line must be a JSON object or have a message after 'Message from client:' or '[editor -> server]'"
    )


def open_foreign(path: str, format: str, session: int = 0) -> ForeignTrace:
    """Open a recording of another tool. ``format`` is a key of ``FORMATS``.

    ``session`` is the number of a session in the file, from 1, or 0 for the only session.

    Raises:
        TraceError: the file is not in that format, is damaged, or has several sessions and ``session`` is 0.
    """
    return ForeignTrace(path, FORMATS[format](path, session))
