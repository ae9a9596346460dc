"""Recognises that a server refuses a request because there were too many.

No revision forbids that, and a validation sends more requests than other clients. So such a refusal says
nothing about the request itself.
"""

import re
from typing import Final

from mcpproxy.judge.session.frame import SERVER, Frame, ResponseHead
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse
from mcpproxy.protocol.message_parts import singles, text_member

TOO_MANY: Final = 429
"""The HTTP status of such a refusal (RFC 6585, section 4)."""

_LIMITED: Final = re.compile(r"rate[ -]?limit|too many requests|throttled", re.IGNORECASE)
_CHARACTERS: Final = 300
"""How much of an error message is searched and returned."""


def find_limit(event: Frame | ResponseHead) -> str:
    """Return the text of a refusal in ``event`` because of too many requests; empty if it is none."""
    if isinstance(event, ResponseHead):
        return f"HTTP status {TOO_MANY}" if event.status == TOO_MANY else ""
    # The bytes are searched first, because parsing is slow and few frames contain an error.
    if event.sender != SERVER or b'"error"' not in event.raw:
        return ""
    for item in singles(event.message):
        if isinstance(item, ErrorResponse) and (text := limit_in_error(item.error)):
            return text
    return ""


def limit_in_error(error: "JSON | Absent") -> str:
    """Return the message of an error if it says that there were too many requests, else an empty text."""
    text = text_member(error, "message") or ""
    return text[:_CHARACTERS] if _LIMITED.search(text[:_CHARACTERS]) else ""
