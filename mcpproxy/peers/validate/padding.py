"""The padding of messages that are large on purpose. Recordings contain a mask instead.

No rule depends on the padding, which would make the recordings of one run of ``validate`` megabytes larger.
"""

import re
from dataclasses import replace
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.masked_values import mask

PADDING_MEMBER: Final = "mcpproxy.dev/padding"
"""A member of ``_meta`` that means nothing to any server."""

_SHORTEST: Final = 32 << 10
"""Padding that is shorter than this, in bytes, is recorded as it is."""
_LETTER: Final = "x"
_RUN: Final = pattern(rb"%b{%d,}" % (_LETTER.encode(), _SHORTEST))


def padding(size: int) -> str:
    """Return a text of ``size`` ASCII letters."""
    return _LETTER * size


def without_padding(frame: Frame) -> Frame:
    """Return a frame as it is recorded: with a mask for long padding, also where a server repeats it."""
    if len(frame.raw) < _SHORTEST:
        return frame
    raw = _RUN.sub(_masked, frame.raw)
    return frame if len(raw) == len(frame.raw) else replace(frame, raw=raw)


def _masked(run: re.Match[bytes]) -> bytes:
    return str(mask(run[0].decode("ascii"))).encode()
