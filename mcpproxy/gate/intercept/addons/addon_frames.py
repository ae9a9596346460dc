"""The frames that a relay and its addon host exchange: each has a number, some words, and bytes.

The words of a question are the hook, the sender and the id of the session, which is empty on stdio; its bytes
are the message. Its answer has the same number; the words are an outcome and the name of the addon that
caused it, and the bytes are the new message or our answer, if any. Each message takes two frames, so for
speed they are not JSON.
"""

import struct
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct(">III")
"""The number of the frame, and the lengths in bytes of its words and of its content."""
_MOST_BYTES: Final = 32 << 20
"""A length limit that no message and no words of ours reach."""


class AddonFrame(NamedTuple):
    """A frame. ``number`` is the number of a question and of its answer; 0 if the frame needs no answer."""

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
            ValueError: the bytes are not frames.
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
