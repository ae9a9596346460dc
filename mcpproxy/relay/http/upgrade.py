"""Find out whether a server has agreed to an upgrade.

The bytes of an answer are forwarded unchanged. This module reads a copy of them, up to the end of the head.

Source: RFC 9110, sections 7.8 and 15.2.2.
"""

from __future__ import annotations

import re

from mcpproxy.base.patterns import pattern
from mcpproxy.relay.http.request_head import LIMIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_STATUS_LINE: Final = pattern(rb"HTTP/1\.[01] ([0-9]{3})")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")


class UpgradeResponse:
    """Reads the answer to a request with ``Upgrade``: interim heads (1xx), and the final head after them."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = b""

    def feed(self, data: bytes) -> int | None:
        """Take the next bytes of the server. Return the final status, 0 if the answer is not HTTP, ``None``
        if the head is not complete yet."""
        self._seen += data
        while end := _HEAD_END.search(self._seen):
            line = _STATUS_LINE.match(self._seen)
            status = int(line[1]) if line else 0
            if status == 101 or not 100 <= status < 200:
                return status
            self._seen = self._seen[end.end() :]  # 100 Continue, 103 Early Hints
        return 0 if len(self._seen) > LIMIT_BYTES else None
