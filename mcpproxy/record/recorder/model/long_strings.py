"""JSON without its long strings, such as pictures: what is left of a body that is only counted."""

from typing import Final

_LONGEST: Final = 4096
"""How long a string, or the part of one in a part of the text, may be to be kept, in bytes."""


class LongStrings:
    """Leaves out the long strings of a JSON text that comes in parts, and escaped quotes and backslashes."""

    def __init__(self) -> None:
        self._is_inside = False  # of a string
        self._escape = b""  # a backslash that the next part continues

    def without(self, part: bytes) -> bytes:
        """Return what is kept of the next part."""
        text = self._escape + part
        is_escaped = (len(text) - len(text.rstrip(b"\\"))) % 2
        text, self._escape = (text[:-1], b"\\") if is_escaped else (text, b"")
        pieces = text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        for at in range(not self._is_inside, len(pieces), 2):
            if len(pieces[at]) > _LONGEST:
                pieces[at] = b""
        self._is_inside ^= not len(pieces) % 2
        return b'"'.join(pieces)
