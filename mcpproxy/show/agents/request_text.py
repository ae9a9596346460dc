"""Correct the text of requests before the SDK reads it.

A JSON text can hold half of a surrogate pair as an escape. That is no character: the SDK drops the message,
so the call would get no answer. So it becomes U+FFFD, and so do bytes of stdin that are not UTF-8.
"""

import io
import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape of JSON. The group is half of a surrogate pair without its other half."""


def whole_characters(text: str) -> str:
    """Return a JSON text in which U+FFFD replaces every half of a surrogate pair without its other half."""
    if r"\ud" not in text and r"\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], text)


class RequestLines(io.TextIOWrapper):
    """The lines of stdin, corrected."""

    def readline(self, size: int = -1, /) -> str:
        """Return the next line; empty at the end."""
        return whole_characters(super().readline(size))
