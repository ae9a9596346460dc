"""What custom rules print goes to stderr, because stdout may belong to the protocol, and never fails."""

import io
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Final, TextIO

_LONGEST_LINE: Final = 1 << 16
"""How many characters of a line are held until its end comes."""


class LineStream(io.TextIOBase):
    """Writes whole lines to ``stream``, each in one piece, and loses what cannot be written.

    Others write to the same stderr, the server among them, and ``print`` writes a line and its end apart: a
    line of theirs would come in between. The recorder's stderr has no reader any more once the relay has
    exited. A rule that prints must not fail by that: it would be left out of the rest of the recording.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._held = ""
        """The beginning of a line whose end was not written yet."""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._held += text
        whole, end, last = self._held.rpartition("\n")
        if len(last) > _LONGEST_LINE:
            whole, end, last = self._held, "", ""
        self._held = last
        self._pass_on(whole + end)
        return len(text)

    def flush(self) -> None:
        """Write the beginning of a line, too."""
        held, self._held = self._held, ""
        self._pass_on(held)

    def _pass_on(self, text: str) -> None:
        if text:
            with suppress(OSError, ValueError):
                self._stream.write(text)
                self._stream.flush()


@contextmanager
def printing_to_stderr() -> Generator[None]:
    """Let what the body prints go to stderr, if that can be written."""
    stream = LineStream(sys.stderr)
    with redirect_stdout(stream), redirect_stderr(stream):
        try:
            yield
        finally:
            stream.flush()
