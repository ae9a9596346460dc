"""What a relay and its addon host tell each other: frames of a number, some words, and bytes.

The words of a question are the hook, the sender and the session; its bytes are the message. The answer
has its number, and says how the message goes on, because of which addon, and with which bytes. A message
costs two of these frames, so they are not JSON.
"""

import struct
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct(">III")
"""The number, and how many bytes the words and the content have."""
_MOST_BYTES: Final = 32 << 20
"""More than the longest message, and than any words."""


class AddonFrame(NamedTuple):
    """A frame. ``number`` is that of a question; 0 for what needs no answer."""

    number: int
    words: list[str]
    content: bytes


def encode_frame(number: int, *words: str, content: bytes = b"") -> bytes:
    """Return a frame as bytes. The words have no line feeds."""
    text = "\n".join(words).encode()
    return _HEAD.pack(number, len(text), len(content)) + text + content


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[AddonFrame]:
        """Take the next bytes; return the frames that they complete.

        Raises:
            ValueError: they are no frames.
        """
        self._held += data
        held, position = self._held, 0
        frames: list[AddonFrame] = []
        while len(held) - position >= _HEAD.size:
            number, text_bytes, content_bytes = _HEAD.unpack_from(held, position)
            if text_bytes > _MOST_BYTES or content_bytes > _MOST_BYTES:
                raise ValueError("no frame is so long")
            middle = position + _HEAD.size + text_bytes
            end = middle + content_bytes
            if len(held) < end:
                break
            words = held[position + _HEAD.size : middle].decode().split("\n")
            frames.append(AddonFrame(number, words, bytes(held[middle:end])))
            position = end
        del held[:position]
        return frames
