"""Heads of HTTP/1.x messages: start lines and header fields, read the way real peers read them.

The parser is lenient where that cannot change the meaning of a head: a bare line feed ends a line, a folded
value (obs-fold) is joined by one space, the reason phrase may be missing. A head that two parsers could read
in two ways is refused: the functions then return a sentence fragment that says why.

Every pattern runs in linear time on any input, because its repetitions are possessive (they never backtrack).

Source: RFC 9112, sections 2 to 5.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

Headers = tuple[tuple[str, str], ...]
"""Name and value of each field, in the order and case in which they were sent, decoded as Latin-1."""

Framing = Mapping[str, str]
"""The fields that say what follows a head, by lower-case name; values of a repeated field joined by
commas."""

RequestHead = tuple[str, str, str, Headers, Framing]
"""Method, target, version (``1.1``, ``1.0`` or another ``1.N``), all fields, and the fields that frame the
body."""

ResponseHead = tuple[int, str, str, Headers, Framing]
"""Status, reason phrase (may be empty), version, all fields, and the fields that frame the body."""

LIMIT_BYTES: Final = 256 << 10
"""The longest head or trailer section that is read, its blank line included."""

# token = 1*tchar (RFC 9110, section 5.6.2)
_TCHAR = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"

TOKEN_BYTE: Final = re.compile(_TCHAR.encode())
"""A byte that a method or a field name may hold."""

# A target may hold any character but spaces and controls: they could end the target or the line.
_REQUEST_LINE = re.compile(rf"({_TCHAR}++) ([^\x00-\x20\x7f]++) HTTP/([0-9]\.[0-9])\r?")
_STATUS_LINE = re.compile(r"HTTP/([0-9]\.[0-9]) ([1-9][0-9][0-9])(?: ([^\x00\r]*+))?\r?")
_FIELD = re.compile(rf"({_TCHAR}++):[ \t]*+([^\x00\r]*+)\r?")
_FOLD = re.compile(r"\r?\n[ \t]++")

_FRAMING_FIELDS = frozenset({"content-length", "transfer-encoding", "upgrade"})

# Peers send the same lines with every message: a lookup takes a sixth of the time of parsing a line again.
# Only lines of small heads are cached, so that the cache has at most a few megabytes. ``__wrapped__`` is the
# function without its cache.
_SMALL_HEAD_BYTES: Final = 4 << 10
_remember = lru_cache(maxsize=512)

# A peer repeats complete heads on one connection, as long as the bodies have the same length.
USUAL_HEAD_BYTES: Final = 1 << 10
"""Heads longer than this are not cached as a whole, neither here nor in other modules."""
_remember_whole = lru_cache(maxsize=256)


def request_head(raw: bytes) -> RequestHead | str:
    """Parse a request's complete head, blank line included. A text says why the head cannot be read."""
    return (_request_head if len(raw) <= USUAL_HEAD_BYTES else _request_head.__wrapped__)(raw)


def response_head(raw: bytes) -> ResponseHead | str:
    """Parse a response's complete head, blank line included. A text says why the head cannot be read."""
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
    """Parse the fields after a chunked body, blank line included. A text says why they cannot be read."""
    fields = _fields(_lines(raw), 0, small=False)
    return fields if isinstance(fields, str) else fields[0]


def _lines(raw: bytes) -> list[str]:
    """Return the lines of a head, with folded lines joined.

    The last two lines are the blank line and the empty text after its line feed.
    """
    text = raw.decode("latin-1")
    if "\n " in text or "\n\t" in text:
        # A start line cannot be folded: a folded line after it stays, and is refused as a field.
        start_line, end, fields = text.partition("\n")
        text = start_line + end + _FOLD.sub(" ", fields)
    return text.split("\n")


def _fields(lines: list[str], start: int, small: bool) -> tuple[Headers, Framing] | str:
    parse = _field if small else _field.__wrapped__
    headers: list[tuple[str, str]] = []
    framing: dict[str, str] = {}
    for line in lines[start:-2]:
        parsed = parse(line)
        if parsed is None:
            return "a header field cannot be read"
        field, key = parsed
        headers.append(field)
        if key:
            framing[key] = f"{framing[key]},{field[1]}" if key in framing else field[1]
    return tuple(headers), framing


@_remember
def _request_line(line: str) -> tuple[str, str, str] | str:
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        return "the request line cannot be read"
    return (match[1], match[2], match[3]) if match[3][0] == "1" else f"this is HTTP/{match[3]}, not HTTP/1.1"


@_remember
def _status_line(line: str) -> tuple[int, str, str] | str:
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        return "the status line cannot be read"
    return (
        (int(match[2]), match[3] or "", match[1])
        if match[1][0] == "1"
        else f"this is HTTP/{match[1]}, not HTTP/1.1"
    )


@_remember
def _field(line: str) -> tuple[tuple[str, str], str] | None:
    """Return name and value of a field, and its name in lower case if it frames the body, else ``""``.

    ``None`` means that the line is no field.
    """
    match = _FIELD.fullmatch(line)
    if match is None:
        return None
    key = match[1].lower()
    return (match[1], match[2].rstrip(" \t")), key if key in _FRAMING_FIELDS else ""
