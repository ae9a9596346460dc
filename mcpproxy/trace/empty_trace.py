"""Which recordings are empty, and so never the latest: those of a command that could not be started."""

from typing import Final

from mcpproxy.base.patterns import pattern

HEAD_BYTES: Final = 64 << 10
"""A longer recording is not empty."""

_MESSAGE: Final = pattern(rb'\n\{"type":"(?:frame|lines|request)"')


def has_no_message(text: bytes) -> bool:
    """Whether the text of a whole recording has an end, and no message before it."""
    return b'\n{"type":"close"' in text and not _MESSAGE.search(text)
