"""Remove the long strings, such as pictures, from the JSON of a body that is only counted."""

from typing import Final

_LONGEST: Final = 4096
"""The longest string, or piece of a string in one part of the text, that is kept, in bytes."""


class LongStrings:
    """Removes long strings, and escaped quotes and backslashes, from a JSON text that comes in parts."""

    def __init__(self) -> None:
        self._is_inside = False  # the next part begins inside a string
        self._escape = b""  # a backslash that the next part continues

    def without(self, part: bytes) -> bytes:
        """Return the next part of the text without its long strings."""
        text = self._escape + part
        is_escaped = (len(text) - len(text.rstrip(b"\\"))) % 2
        text, self._escape = (text[:-1], b"\\") if is_escaped else (text, b"")
        pieces = text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        for at in range(not self._is_inside, len(pieces), 2):
            if len(pieces[at]) > _LONGEST:
                pieces[at] = b""
        self._is_inside ^= not len(pieces) % 2
        return b'"'.join(pieces)
