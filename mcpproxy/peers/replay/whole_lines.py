"""Split a stream that is read in chunks into complete lines."""

from collections.abc import Iterable
from typing import Final

from mcpproxy.record.framing.lines import Line, LineFramer


class WholeLines:
    """Splits a stream into lines, and leaves out lines that are longer than the limit of ``LineFramer``.

    The framer gives such a line in pieces. No piece is a message, not even the last, whose ``continues`` is
    false.
    """

    def __init__(self) -> None:
        self._framer: Final = LineFramer()
        self._is_in_pieces = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the next chunk, without their line feeds."""
        return self._whole_lines(self._framer.feed(chunk, 0))

    def end(self) -> list[bytes]:
        """Return the last line, if the stream has ended without a line feed."""
        return self._whole_lines(self._framer.end())

    def _whole_lines(self, lines: Iterable[Line]) -> list[bytes]:
        whole_lines: list[bytes] = []
        for raw, _, _, continues in lines:
            if not continues and not self._is_in_pieces:
                whole_lines.append(raw)
            self._is_in_pieces = continues
        return whole_lines
