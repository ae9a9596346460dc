"""Messages as bytes: the changes that a bridge may make, and its own errors in the place of a server."""

from typing import Final

from mcpproxy.protocol import raw_json
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER, error_message
from mcpproxy.protocol.jsonrpc import Message, Request
from mcpproxy.protocol.message_parts import Key, key_of

_ID: Final = ("id",)
_TO_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")
"""Makes each byte of a line break a space."""


def as_line(raw: bytes) -> bytes:
    """Return a message as a line of stdio, without its line feed.

    Line breaks around the message are removed, and those between its tokens become spaces. A JSON string
    cannot contain a line break.
    """
    raw = raw.strip(b"\r\n")
    return raw.translate(_TO_SPACES) if b"\n" in raw or b"\r" in raw else raw


def requests_in(raw: bytes, message: Message) -> dict[Key, bytes]:
    """Return the ids of the requests in a message, each with its original bytes."""
    ids: dict[Key, bytes] = {}
    for single, text in raw_json.messages_with_bytes(message, raw):
        if isinstance(single, Request) and (key := key_of(single)) is not None:
            ids[key] = raw_json.value_bytes(text, _ID) or raw_json.written(key[1])
    return ids


def own_error(id: bytes, why: str) -> bytes:
    """Return the bridge's own error for the request whose id is ``id`` in JSON."""
    return error_message(IN_PLACE_OF_PEER, f"mcpproxy: {why}", id)
