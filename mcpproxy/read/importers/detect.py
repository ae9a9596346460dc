"""Recognise and open recordings of other tools.

Values that a format does not record are not invented. In the trace header, ``imported`` names the tool and
what its format lacks. If so much is missing that the absence of a message proves nothing, the header also has
``partial``. A single loss becomes a gap record. Imported traces have no close record, because no format
records how the session ended.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from mcpproxy.errors import TraceError
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.read.importers import har, mcp_cassette, mcp_rec, mcp_recorder, mcpsnoop, text_logs
from mcpproxy.read.importers.import_source import BOM, ForeignTrace, ImportedSource, opened_file
from mcpproxy.read.importers.json_texts import JsonText, json_texts
from mcpproxy.record.trace.trace_file import NOT_OURS

_HEAD_BYTES: Final = 1 << 20
"""How many bytes at the beginning of a file are searched for the marks of a format."""
_TEXT_BYTES: Final = 16 << 20
"""If a file is recognised by its first record, that record has fewer bytes."""
_HAR: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')
_HOST_LOG: Final = re.compile(
    rb"^\d{4}-\d\d-\d\d[T ][\d:.Z]+ (?:\[[^\]\n]*\] )?\[(?:info|debug|warning|error|trace)\]", re.M
)
"""The beginning of a line in the log of Claude Desktop, VS Code or Cursor."""
_CASSETTE: Final = re.compile(rb'\s*\{\s*"version"\s*:[^{}]*"metadata"\s*:\s*\{')
"""The beginning of a cassette of mcp-recorder."""


class _Beginning:
    """The beginning of a file."""

    def __init__(self, path: str) -> None:
        with opened_file(path) as file:
            self.head: Final = file.read(_HEAD_BYTES)
        self._path: Final = path

    @cached_property
    def first(self) -> JsonText | None:
        """The JSON text with which the file begins, perhaps with a fault; ``None`` if it begins otherwise."""
        is_json = self.head.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
        return next(json_texts(self._path, _TEXT_BYTES), None) if is_json else None


def _begins_with(begins: re.Pattern[bytes], example: str) -> Callable[[_Beginning], str]:
    """Return a ``misfit`` function (see ``_Format``): a file must begin with a match of ``begins``."""
    return lambda file: "" if begins.match(file.head) else f"the file does not begin with {example}"


def _has_members(*names: str) -> Callable[[_Beginning], str]:
    """Return a ``misfit`` function (see ``_Format``): the first record must have these members."""

    def why_not(file: _Beginning) -> str:
        if fault := _why_no_json(file.first):
            return fault
        assert file.first is not None
        members = as_object(file.first.value) or {}
        missing = [f'"{name}"' for name in names if name not in members]
        return f"line {file.first.line} has no {', '.join(missing)}" if missing else ""

    return why_not


def _why_no_json(first: JsonText | None) -> str:
    if first is None:
        return "the file does not begin with a JSON object"
    return f"line {first.line}: {first.fault}" if first.fault else ""


def _why_no_log(file: _Beginning) -> str:
    if text_logs.MARK.search(file.head) and _why_no_json(file.first):
        return ""
    if _HOST_LOG.search(file.head):
        return "the log has no messages; VS Code writes them at the level Debug, Cursor never does"
    return "no line has a message behind 'Message from client:' or '[editor -> server]'"


def _why_no_message(file: _Beginning) -> str:
    if fault := _why_no_json(file.first):
        return fault
    assert file.first is not None
    if text_logs.is_message(file.first.value):
        return ""
    return f'line {file.first.line} is no object with "jsonrpc", and "method", "result" or "error"'


class _Format(NamedTuple):
    """A format of recordings.

    ``read`` opens a file of this format. It takes the path, and the number of a session in the file, from 1,
    or 0 for the only session. ``misfit`` returns why a file does not have this format, or an empty string.
    """

    read: Callable[[str, int], ImportedSource]
    misfit: Callable[[_Beginning], str]


FORMATS: Final[Mapping[str, _Format]] = {
    "har": _Format(har.read, _begins_with(_HAR, '{"log": {')),
    "mcp-recorder": _Format(mcp_recorder.read, _begins_with(_CASSETTE, '{"version": …, "metadata": {')),
    "mcp-cassette": _Format(
        mcp_cassette.read_document,
        _begins_with(mcp_cassette.DOCUMENT, '{"format_version": …, "recorded_at":'),
    ),
    "mcp-cassette-lines": _Format(mcp_cassette.read_lines, _has_members("cassetteVersion")),
    "mcpsnoop": _Format(mcpsnoop.read, _has_members("session_id", "direction", "seq")),
    "mcp-rec": _Format(mcp_rec.read, _has_members("dir", "msg")),
    "json-rpc": _Format(text_logs.read_lines, _why_no_message),
    "host-log": _Format(text_logs.read_log, _why_no_log),
}
"""The formats by their names. Those that are recognised by their first bytes come first."""


def detect_format(path: str) -> str:
    """Return the format of a file, a key of ``FORMATS``, by its beginning.

    Raises:
        TraceError: the file cannot be read, is empty, or has no known format; the error says why for each.
    """
    beginning = _Beginning(path)
    if not beginning.head.strip():
        raise TraceError(path, None, "the file is empty", "name a recording")
    names_by_reason: dict[str, list[str]] = {}
    for name, format in FORMATS.items():
        why = format.misfit(beginning)
        if not why:
            return name
        names_by_reason.setdefault(why, []).append(name)
    reasons = tuple(f"{', '.join(names)}: {why}" for why, names in names_by_reason.items())
    step = f"none of the {len(FORMATS)} other formats fits"
    raise TraceError(path, 1, NOT_OURS[0], step, reasons)


def open_foreign(path: str, format: str, session: int = 0) -> ForeignTrace:
    """Open a recording of another tool. ``format`` is a key of ``FORMATS``.

    ``session`` is the number of a session in the file, from 1, or 0 for the only session.

    Raises:
        TraceError: the file is not in that format, is damaged, has no such session, or has several sessions
            and ``session`` is 0.
    """
    return ForeignTrace(path, FORMATS[format].read(path, session))
