"""Find a text in a recording: a scan of its bytes, without parsing them.

A message stands in its record as it was sent, so its bytes are searched where they are. In JSON the same text
can be written in several ways, so it is looked for as it is and as the two usual ways of writing JSON escape
it. Lines that hold no message as it was sent (short lines, base64) are decoded one by one; there are few.
"""

import json
from array import array
from bisect import bisect_right
from collections.abc import Generator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.session.frame import Frame, Stderr
from mcpproxy.trace.decode import decode
from mcpproxy.trace.members import NotARecordError
from mcpproxy.trace.short_lines import Lines
from mcpproxy.view.calls import Progress
from mcpproxy.view.columns import Columns
from mcpproxy.view.source import Source

CHUNK_BYTES: Final = 4 << 20

_FRAME: Final = b'{"type":"frame",'
_MESSAGE: Final = b'"message":'
_STDERR: Final = b'{"type":"stderr",'
_TEXT: Final = b'"text":'
_STDERR_HEAD_BYTES: Final = 64


@slotted()
class TextSearch:
    """The lines with one of ``texts``, whatever the case of ASCII letters, as far as was searched.

    ``end`` is the offset up to which it was; ``odd`` counts the odd lines that were looked at.
    """

    texts: tuple[str, ...]
    lines: "array[int]" = field(default_factory=lambda: array("I"))
    end: int = 0
    odd: int = 0

    def go_on(
        self, columns: Columns, odd_lines: list[int], source: Source, until: int
    ) -> Generator[Progress, None, None]:
        """Search up to the offset ``until``, the end of a line; say after each chunk how far that is."""
        needles = {needle for text in self.texts for needle in spellings(text) if b"\n" not in needle}
        while self.end < until:
            chunk = source.read(self.end, min(CHUNK_BYTES, until - self.end))
            if self.end + len(chunk) < until:
                whole = chunk.rfind(b"\n") + 1
                if not whole:  # a line that is longer than a chunk
                    chunk = source.line_at(self.end)
                    whole = len(chunk)
                chunk = chunk[:whole]
            if not chunk:
                break
            self._search(chunk.lower(), needles, columns)
            self.end += len(chunk)
            yield Progress(self.end, until, len(self.lines))
        for line in odd_lines[self.odd :]:
            if _has(source.line_at(columns.line_offset[line]), self.texts):
                self.lines.append(line)
        self.odd = len(odd_lines)

    def rows(self, columns: Columns) -> set[int]:
        """Return the rows to which the lines belong."""
        return set(map(columns.line_row.__getitem__, self.lines)) - {0}

    def _search(self, chunk: bytes, needles: set[bytes], columns: Columns) -> None:
        """Add the lines of a chunk, which is in lower case, that have one of ``needles``."""
        find, rfind, offsets = chunk.find, chunk.rfind, columns.line_offset
        for needle in needles:
            at = find(needle)
            while at >= 0:
                start = rfind(b"\n", 0, at) + 1
                end = _end(chunk, at)
                content = _content(chunk, start, end)
                if content < 0:  # a record of another kind
                    at = find(needle, end + 1)
                elif at < content:
                    at = find(needle, content)
                else:
                    self.lines.append(bisect_right(offsets, self.end + start) - 1)
                    at = find(needle, end + 1)


def _end(chunk: bytes, at: int) -> int:
    """Return where the line ends that has the byte ``at``."""
    end = chunk.find(b"\n", at)
    return len(chunk) if end < 0 else end


def _content(chunk: bytes, start: int, end: int) -> int:
    """Return where the content of the record begins that is between ``start`` and ``end``; -1 if it has none.

    A frame that is recorded as text or base64 has none here: it is an odd line.
    """
    if chunk.startswith(_FRAME, start):
        found = chunk.find(_MESSAGE, start, end)
        return found + len(_MESSAGE) if found >= 0 else -1
    if chunk.startswith(_STDERR, start):
        found = chunk.find(_TEXT, start, min(start + _STDERR_HEAD_BYTES, end))
        return found + len(_TEXT) if found >= 0 else -1
    return -1


def spellings(text: str) -> set[bytes]:
    """Return the ways in which JSON may write a text, in lower case."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(text)[1:-1]
    return {each.encode("utf-8", "replace").lower() for each in (text, plain, ascii_only)}


def _has(line: bytes, texts: tuple[str, ...]) -> bool:
    try:
        record = decode(line)
    except NotARecordError:
        return False
    raws = record.raws if isinstance(record, Lines) else ()
    if isinstance(record, Frame | Stderr):
        raws = (record.raw,)
    wanted = {needle for text in texts for needle in spellings(text)}
    return any(needle in raw.lower() for raw in raws for needle in wanted)
