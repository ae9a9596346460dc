"""Find a text in the bytes of a recording, without parsing its records.

A record has the bytes of its message unchanged, so they can be searched in the file. JSON can escape the same
text in several ways, so the search looks for the plain text and for its two usual escaped forms. Odd lines,
whose record has the message in another form (short lines, base64), are decoded one by one; there are few. Of
a body that was recorded without the bytes it repeats (``Shortened``) only the new bytes are searched: a text
of a conversation is found in the request that first had it.
"""

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import Frame, Stderr
from mcpproxy.read.view.calls import Progress
from mcpproxy.read.view.index.columns import Columns
from mcpproxy.read.view.index.source import Source
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.members import NotARecordError
from mcpproxy.record.trace.records import Record
from mcpproxy.record.trace.short_lines import Lines

CHUNK_BYTES: Final = 4 << 20
"""How many bytes are searched between two reports of progress."""

_FRAME: Final = b'{"type":"frame",'
_MESSAGE: Final = b'"message":'
_STDERR: Final = b'{"type":"stderr",'
_TEXT: Final = b'"text":'
_STDERR_HEAD_BYTES: Final = 64
"""How many bytes of a record of stderr are searched for the beginning of its text."""
_AROUND_BYTES: Final = 80
"""How many bytes of a record are shown before and after the text that was found in it."""


@slotted()
class TextSearch:
    """A search for ``texts``; the case of ASCII letters does not matter.

    ``lines`` are the lines found so far that have one of the texts. ``end`` is the offset up to which
    the recording was searched, ``odd`` the number of odd lines that were searched.
    """

    texts: tuple[str, ...]
    lines: "array[int]" = field(default_factory=lambda: array("I"))
    end: int = 0
    odd: int = 0

    def search_until(
        self, columns: Columns, odd_lines: list[int], source: Source, until: int
    ) -> Generator[Progress, None, None]:
        """Continue the search up to ``until``, the offset of a line's end.

        Yield progress after each chunk. ``odd_lines`` are the numbers of all odd lines read so far.
        """
        needles = {needle for text in self.texts for needle in spellings(text) if b"\n" not in needle}
        while self.end < until:
            chunk = source.read(self.end, min(CHUNK_BYTES, until - self.end))
            if self.end + len(chunk) < until:
                lines_end = chunk.rfind(b"\n") + 1
                if not lines_end:  # a line that is longer than a chunk
                    chunk = source.line_at(self.end)
                    lines_end = len(chunk)
                chunk = chunk[:lines_end]
            if not chunk:
                break
            self._search_chunk(chunk.lower(), needles, columns)
            self.end += len(chunk)
            yield Progress(self.end, until, len(self.lines))
        for line in odd_lines[self.odd :]:
            if _line_has_text(source.line_at(columns.line_offset[line]), self.texts):
                self.lines.append(line)
        self.odd = len(odd_lines)

    def rows(self, columns: Columns, masked: Callable[[int], Record] | None = None) -> set[int]:
        """Return the rows to which ``lines`` belong.

        ``masked`` returns the record of a line with its secret values masked. If it is given, a line counts
        only if the text is outside of masked values. So nobody can learn a value by searching for it.
        """
        lines = self.lines if masked is None else [n for n in self.lines if _has_text(masked(n), self.texts)]
        return set(map(columns.line_row.__getitem__, lines)) - {0}

    def _search_chunk(self, chunk: bytes, needles: set[bytes], columns: Columns) -> None:
        """Add the lines that have one of ``needles``. ``chunk`` is in lower case."""
        find, rfind, offsets = chunk.find, chunk.rfind, columns.line_offset
        for needle in needles:
            match = find(needle)
            while match >= 0:
                start = rfind(b"\n", 0, match) + 1
                end = _line_end(chunk, match)
                content, last = _content(chunk, start, end)
                if match < content:
                    match = find(needle, content)
                elif match + len(needle) > last:  # after the content, or in a record of another kind
                    match = find(needle, end + 1)
                else:
                    self.lines.append(bisect_right(offsets, self.end + start) - 1)
                    match = find(needle, end + 1)


def _line_end(chunk: bytes, position: int) -> int:
    end = chunk.find(b"\n", position)
    return len(chunk) if end < 0 else end


def _content(chunk: bytes, start: int, end: int) -> tuple[int, int]:
    """Return where the content of the record from ``start`` to ``end`` begins and ends; (0, 0) if none.

    The content is the message of a frame, or the text of a record of stderr; it is the last member of the
    record. Odd lines are searched elsewhere.
    """
    if chunk.startswith(_FRAME, start):
        member = chunk.find(_MESSAGE, start, end)
        if member >= 0:
            return member + len(_MESSAGE), chunk.rfind(b"}", start, end)
    elif chunk.startswith(_STDERR, start):
        member = chunk.find(_TEXT, start, min(start + _STDERR_HEAD_BYTES, end))
        if member >= 0:  # without the quotes
            return member + len(_TEXT) + 1, chunk.rfind(b'"', start, end)
    return 0, 0


def spellings(text: str) -> set[bytes]:
    """Return the plain text and its two usual escaped forms in JSON, in lower case."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(text)[1:-1]
    return {spelling.encode("utf-8", "replace").lower() for spelling in (text, plain, ascii_only)}


def _line_has_text(line: bytes, texts: tuple[str, ...]) -> bool:
    try:
        return _has_text(decode(line), texts)
    except NotARecordError:
        return False


def _has_text(record: Record, texts: tuple[str, ...]) -> bool:
    return passage(record, texts) is not None


class Passage(NamedTuple):
    """A text that was found in a message or in stderr, with the text around it."""

    before: str
    found: str
    after: str


def passage(record: Record, texts: tuple[str, ...]) -> Passage | None:
    """Return the first place of a record with one of ``texts``; ``None`` if there is none."""
    raws = record.raws if isinstance(record, Lines) else ()
    if isinstance(record, Frame | Stderr):
        raws = (record.raw,)
    needles = {needle for text in texts for needle in spellings(text)}
    for raw in raws:
        lower = raw.lower()
        places = [(at, len(needle)) for needle in needles if (at := lower.find(needle)) >= 0]
        if places:
            begin, length = min(places)
            first, end, last = max(0, begin - _AROUND_BYTES), begin + length, begin + length + _AROUND_BYTES
            pieces = raw[first:begin], raw[begin:end], raw[end:last]
            before, found, after = (piece.decode("utf-8", "ignore") for piece in pieces)
            return Passage("…" * (first > 0) + before, found, after + "…" * (last < len(raw)))
    return None
