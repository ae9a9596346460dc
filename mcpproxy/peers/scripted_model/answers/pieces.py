"""What all dialects write alike: numbers of tokens, pieces of a text, events of a stream."""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.protocol.jsonrpc import JSONObject

ASKED_TOKENS: Final = 100
ANSWERED_TOKENS: Final = 10
"""Every request and every answer count the same, so no host compresses a conversation by its own count."""

CREATED: Final = 1_700_000_000
"""When every answer was made, in seconds since 1970: the same script gives the same answers."""

_PIECE: Final = 20


def pieces(text: str) -> Iterator[str]:
    """Yield a text in the pieces in which a stream brings it."""
    yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def json_text(value: object) -> str:
    """Return arguments as models write them."""
    return dumps(value, compact=True)


def named_events(events: Iterable[JSONObject]) -> Iterator[bytes]:
    """Yield the events of a stream, each named by its type."""
    yield from (
        f"event: {event['type']}\ndata: {dumps(event, compact=True)}\n\n".encode() for event in events
    )


def nameless_events(events: Iterable[JSONObject]) -> Iterator[bytes]:
    """Yield the events of a stream without names."""
    for event in events:
        yield f"data: {dumps(event, compact=True)}\n\n".encode()
