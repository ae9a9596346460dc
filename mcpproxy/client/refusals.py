"""What a server, or a gateway before it, says where it answers with an HTTP status and no message of MCP."""

import re
from html import unescape
from http import HTTPStatus
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import ErrorResponse, Malformed, parse
from mcpproxy.protocol.message_parts import member

_SHOWN_CHARACTERS: Final = 200
_READ_BYTES: Final = 64 << 10
_NAMES: Final = {status.value: status.phrase.lower() for status in HTTPStatus}

_TITLE: Final = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_MEMBERS: Final = ("error_description", "detail", "message", "error", "title")
"""The members of a JSON object that say what is wrong (RFC 6749, section 5.2; RFC 9457; usage)."""


def status_words(status: int, body: bytes) -> str:
    """Return the status and what the body says of it: ``400: No required SSL certificate was sent``.

    That is the message of an error, the title of a page, or the first line of a text. It is left out where it
    is only the name of the status.
    """
    said = _said(body[:_READ_BYTES]).strip().removeprefix(str(status)).strip(" :-")
    said = visible(said[:_SHOWN_CHARACTERS])
    return f"{status}: {said}" if said and said.lower() != _NAMES.get(status) else str(status)


def _said(body: bytes) -> str:
    message = parse(body)
    if isinstance(message, ErrorResponse | Malformed) and isinstance(message.value, dict):
        said = (member(message.value, "error", "message"), *map(message.value.get, _MEMBERS))
        return next((text for text in said if isinstance(text, str)), "")
    text = body.decode("utf-8", "replace").lstrip()
    if not text.startswith("<"):
        return text.partition("\n")[0]
    title = _TITLE.search(text)
    return unescape(title[1]) if title else ""
