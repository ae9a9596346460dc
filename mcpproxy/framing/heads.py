"""Heads of HTTP/1.x messages: start lines and header fields, read the way real peers read them.

The parser is lenient where that cannot change the meaning of a head: a bare line feed ends a line, a folded
value (obs-fold) is joined by one space, the reason phrase may be missing. A head that two parsers could read
in two ways is not read; the functions then return a sentence fragment that says why.

Every pattern runs in linear time on any input, because its repetitions are possessive.

Source: RFC 9112, sections 2 to 5.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

Headers = tuple[tuple[str, str], ...]
"""Name and value of each field, in the order and case they were sent, decoded as Latin-1."""

Framing = Mapping[str, str]
"""The fields that say what follows a head, by lower-case name; repeated ones joined as a list."""

RequestHead = tuple[str, str, str, Headers, Framing]
"""Method, target, version (``1.1`` or ``1.0``), fields, and those of them that frame the body."""

ResponseHead = tuple[int, str, str, Headers, Framing]
"""Status, reason (empty without one), version, fields, and those of them that frame the body."""

LIMIT_BYTES: Final = 256 << 10
"""The longest head that is read, its blank line included; the same holds for trailers."""

# token = 1*tchar (RFC 9110, section 5.6.2)
_TCHAR = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"

TOKEN_BYTE: Final = re.compile(_TCHAR.encode())
"""A byte that a method or a field name may hold."""

# Any target is accepted that cannot be confused with the words beside it.
_REQUEST_LINE = re.compile(rf"({_TCHAR}++) ([^\x00-\x20\x7f]++) HTTP/([0-9]\.[0-9])\r?")
_STATUS_LINE = re.compile(r"HTTP/([0-9]\.[0-9]) ([1-9][0-9][0-9])(?: ([^\x00\r]*+))?\r?")
_FIELD = re.compile(rf"({_TCHAR}++):[ \t]*+([^\x00\r]*+)\r?")
_FOLD = re.compile(r"\r?\n[ \t]++")

_FRAMING_FIELDS = frozenset({"content-length", "transfer-encoding", "upgrade"})

# Peers send the same lines with every message: a lookup costs a sixth of parsing them again.
# Only lines of small heads are remembered, so that this stays within a few megabytes.
_SMALL_HEAD_BYTES: Final = 4 << 10
_remember = lru_cache(maxsize=512)

# On one connection whole heads are repeated, as long as the bodies have the same length.
USUAL_HEAD_BYTES: Final = 1 << 10
"""Heads longer than this are not cached as a whole, here or elsewhere."""
_remember_whole = lru_cache(maxsize=256)


def request_head(raw: bytes) -> RequestHead | str:
    """Read a whole head, blank line included, or say why it cannot be read."""
    return (_request_head if len(raw) <= USUAL_HEAD_BYTES else _request_head.__wrapped__)(raw)


def response_head(raw: bytes) -> ResponseHead | str:
    """Read a whole head, blank line included, or say why it cannot be read."""
    return (_response_head if len(raw) <= USUAL_HEAD_BYTES else _response_head.__wrapped__)(raw)


@_remember_whole
def _request_head(raw: bytes) -> RequestHead | str:
    lines = _lines(raw)
    small = len(raw) <= _SMALL_HEAD_BYTES
    line = (_request_line if small else _request_line.__wrapped__)(lines[0])
    if isinstance(line, str):
        return line
    fields = _fields(lines, 1, small)
    return fields if isinstance(fields, str) else (*line, *fields)


@_remember_whole
def _response_head(raw: bytes) -> ResponseHead | str:
    lines = _lines(raw)
    small = len(raw) <= _SMALL_HEAD_BYTES
    line = (_status_line if small else _status_line.__wrapped__)(lines[0])
    if isinstance(line, str):
        return line
    fields = _fields(lines, 1, small)
    return fields if isinstance(fields, str) else (*line, *fields)


def trailers(raw: bytes) -> Headers | str:
    """Read the fields after a chunked body, blank line included, or say why they cannot be read."""
    fields = _fields(_lines(raw), 0, small=False)
    return fields if isinstance(fields, str) else fields[0]


def _lines(raw: bytes) -> list[str]:
    """The lines of a head, continuation lines joined to those they continue; the last two are empty."""
    text = raw.decode("latin-1")
    if "\n " in text or "\n\t" in text:
        # Nothing continues a start line; a field that seems to cannot be read.
        first, end, rest = text.partition("\n")
        text = first + end + _FOLD.sub(" ", rest)
    return text.split("\n")


def _fields(lines: list[str], start: int, small: bool) -> tuple[Headers, Framing] | str:
    read = _field if small else _field.__wrapped__
    headers: list[tuple[str, str]] = []
    framing: dict[str, str] = {}
    for line in lines[start:-2]:
        found = read(line)
        if found is None:
            return "a header field cannot be read"
        field, key = found
        headers.append(field)
        if key:
            framing[key] = f"{framing[key]},{field[1]}" if key in framing else field[1]
    return tuple(headers), framing


@_remember
def _request_line(line: str) -> tuple[str, str, str] | str:
    read = _REQUEST_LINE.fullmatch(line)
    if read is None:
        return "the request line cannot be read"
    return (read[1], read[2], read[3]) if read[3][0] == "1" else f"this is HTTP/{read[3]}, not HTTP/1.1"


@_remember
def _status_line(line: str) -> tuple[int, str, str] | str:
    read = _STATUS_LINE.fullmatch(line)
    if read is None:
        return "the status line cannot be read"
    return (
        (int(read[2]), read[3] or "", read[1])
        if read[1][0] == "1"
        else f"this is HTTP/{read[1]}, not HTTP/1.1"
    )


@_remember
def _field(line: str) -> tuple[tuple[str, str], str] | None:
    """Name and value, and the name in lower case if the field frames the body, else an empty text."""
    read = _FIELD.fullmatch(line)
    if read is None:
        return None
    key = read[1].lower()
    return (read[1], read[2].rstrip(" \t")), key if key in _FRAMING_FIELDS else ""
