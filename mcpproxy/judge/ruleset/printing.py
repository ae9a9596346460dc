"""Send text that custom rules print to stderr, because stdout may belong to the protocol.

Printing never raises an exception.
"""

import io
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Final, TextIO

_LONGEST_LINE: Final = 1 << 16
"""The number of characters of an incomplete line that are held back."""


class LineStream(io.TextIOBase):
    """Writes complete lines to ``stream``, each in one piece, and drops lines that cannot be written.

    Only a line that is flushed, or has more than ``_LONGEST_LINE`` characters, may be in several pieces.

    Other processes, such as the server, write to the same stderr, and ``print`` writes a line and its end
    separately, so another line could come in between. The recorder, which runs the rules, may outlive the
    relay, which forwards the traffic; its stderr then has no reader any more. A rule that prints must not
    fail because of that, or it would be left out of the rest of the recording.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held = ""
        """The beginning of a line whose end has not been written yet."""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._held += text
        lines, end, incomplete = self._held.rpartition("\n")
        if len(incomplete) > _LONGEST_LINE:
            lines, end, incomplete = self._held, "", ""
        self._held = incomplete
        self._write_through(lines + end)
        return len(text)

    def flush(self) -> None:
        """Write the held beginning of a line, too."""
        held, self._held = self._held, ""
        self._write_through(held)

    def _write_through(self, text: str) -> None:
        if text:
            with suppress(OSError, ValueError):
                self._stream.write(text)
                self._stream.flush()


@contextmanager
def printing_to_stderr() -> Generator[None]:
    """Redirect the output of the ``with`` block, stdout and stderr, to stderr through a ``LineStream``."""
    stream = LineStream(sys.stderr)
    with redirect_stdout(stream), redirect_stderr(stream):
        try:
            yield
        finally:
            stream.flush()
