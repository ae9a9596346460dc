"""Read a file of JSON texts, each on a line of its own or laid out over several.

People paste messages as they were printed: indented, several one after another, or with the commas of the
array from which they were copied.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpproxy.protocol.jsonrpc import JSON, Flaw, read
from mcpproxy.protocol.raw_json import value_end, without_spaces
from mcpproxy.read.importers.import_source import BOM, LINE_LIMIT_BYTES, opened_file

CUT_LINE: Final = "the last line is cut"
UNFINISHED: Final = "the JSON that begins here does not end"

_BRACKET: Final = re.compile(rb'([{\[])|([}\]])|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+(?:"|(\\?\n))?+')
"""A bracket, or a string. The third group is a line end inside a string, which no valid string contains."""
_SEPARATORS: Final = re.compile(rb"[ \t\r\n,]*+")
"""White space and commas between two texts."""


class JsonText(NamedTuple):
    """A JSON text of a file. ``line`` is the line in which it begins, from 1.

    ``raw`` are its bytes in the file, but the spaces between the tokens of a text over several lines are
    removed. ``fault`` says why the text cannot be read, and is empty if it can. With a fault, ``raw`` is
    empty and ``value`` is ``None``.
    """

    line: int
    raw: bytes
    value: JSON
    fault: str = ""


def json_texts(path: str, limit_bytes: int = LINE_LIMIT_BYTES) -> Iterator[JsonText]:
    """Yield the JSON texts of a file, up to and including the first that has a fault.

    A text of ``limit_bytes`` or more has a fault.

    Raises:
        TraceError: the file cannot be read.
    """
    number, first, depth = 0, 0, 0
    held = bytearray()
    with opened_file(path) as file:
        while line := file.readline(limit_bytes):
            number += 1
            line = line.removeprefix(BOM) if number == 1 else line
            if not held and _skip_separators(line, 0) == len(line):
                continue
            first = first if held else number
            held += line
            if len(held) >= limit_bytes:
                fault = f"JSON of {limit_bytes >> 20} MiB or more, too long to read"
                yield JsonText(first, b"", None, fault)
                return
            is_broken = False
            for token in _BRACKET.finditer(line):
                depth += 1 if token[1] else -1 if token[2] else 0
                is_broken = is_broken or token[3] is not None
            # A line end inside a string makes a text invalid, except at the end of the file: there it is cut.
            if depth > 0 and not (is_broken and file.peek(1)):
                continue
            for text in _texts_in(bytes(held), first):
                yield text
                if text.fault:
                    return
            held, depth = bytearray(), 0
    if held:
        yield JsonText(first, b"", None, CUT_LINE if first == number else UNFINISHED)


def _texts_in(lines: bytes, number: int) -> Iterator[JsonText]:
    """Yield the texts in ``lines``; ``number`` is that of the first line."""
    end = 0
    while (start := _skip_separators(lines, end)) < len(lines):
        number += lines.count(b"\n", end, start)
        value_stop = value_end(lines, start)
        raw = lines[start:value_stop]
        if value_stop is None or isinstance(value := read(raw), Flaw):
            yield JsonText(number, b"", None, "not JSON")
            return
        yield JsonText(number, without_spaces(raw) if b"\n" in raw else raw, value)
        number += raw.count(b"\n")
        end = value_stop


def _skip_separators(lines: bytes, position: int) -> int:
    between = _SEPARATORS.match(lines, position)
    return between.end() if between else position
