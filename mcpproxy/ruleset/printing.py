"""What custom rules print goes to stderr, because stdout may belong to the protocol, and never fails."""

import io
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TextIO


class UnfailingStream(io.TextIOBase):
    """Writes to ``stream``, and loses what cannot be written.

    The recorder's stderr has no reader any more once the relay has exited. A rule that prints must not fail
    by that: it would be left out of the rest of the recording.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


@contextmanager
def printing_to_stderr() -> Generator[None]:
    """Let what the body prints go to stderr, if that can be written."""
    stream = UnfailingStream(sys.stderr)
    with redirect_stdout(stream), redirect_stderr(stream):
        yield
