"""Which recordings are empty, and so never the latest: those of a command that could not be started."""

from typing import Final

from mcpproxy.base.patterns import pattern

HEAD_BYTES: Final = 64 << 10
"""A longer recording is not empty."""

_END: Final = pattern(rb'\n\{"type":"(?:eof","t":\d+,"from":"(client|server)|(signal)")')
_MESSAGE: Final = pattern(rb'\n\{"type":"(?:frame|lines|request)"')


def has_no_message(text: bytes) -> bool:
    """Whether the text of a whole recording has an end, and no message before it."""
    return b'\n{"type":"close"' in text and not _MESSAGE.search(text)


def first_end_in(text: bytes) -> str:
    """Return what began the end of a recording: ``client`` or ``server``, whose stream ended first, or
    ``signal``; empty if the text does not say it."""
    found = _END.search(text)
    return (found[1] or found[2]).decode() if found else ""
