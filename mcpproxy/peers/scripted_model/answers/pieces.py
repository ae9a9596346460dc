"""What the writers of answers share: token counts, pieces of a text, events of a stream."""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.protocol.jsonrpc import JSONObject

ASKED_TOKENS: Final = 100
ANSWERED_TOKENS: Final = 10
"""The token counts of every request and every answer, so small that no host compresses a conversation."""

CREATED: Final = 1_700_000_000
"""When every answer was made, in seconds since 1970: the same script gives the same answers."""

_PIECE: Final = 20
"""How many characters of a text are sent at once."""


def pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text that a stream sends one by one."""
    yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def json_text(value: object) -> str:
    """Return the arguments of a call as compact JSON, as models write them."""
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
