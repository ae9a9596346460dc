"""Recognize empty recordings, for example of a command that could not be started.

A command that shows the latest recording, because none is named, passes over empty ones unless all are empty.
"""

from typing import Final

from mcpproxy.base.patterns import pattern

HEAD_BYTES: Final = 64 << 10
"""A longer recording counts as not empty."""

_END: Final = pattern(rb'\n\{"type":"(?:eof","t":\d+,"from":"(client|server)|(signal)")')
_MESSAGE: Final = pattern(rb'\n\{"type":"(?:frame"|request"|lines","seq")')  # lines on stderr have no number


def has_no_message(text: bytes) -> bool:
    """Whether ``text``, a complete recording, has ended without any message."""
    return b'\n{"type":"close"' in text and not _MESSAGE.search(text)


def first_end_in(text: bytes) -> str:
    """Return what began the end of a recording: ``client`` or ``server``, whose stream ended first, or
    ``signal``; empty if the text says neither."""
    match = _END.search(text)
    return (match[1] or match[2]).decode() if match else ""
