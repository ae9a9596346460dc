"""The script of a recorded client: what it sent, step by step, and what it had received before each step.

A step is one message, one batch, or over HTTP an exchange without a message: a GET that opens a stream or a
DELETE that ends the session.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response
from mcpproxy.replay.recording import Exchange, RecordedSession, SessionMessage
from mcpproxy.session.frame import CLIENT, SERVER
from mcpproxy.session.masked_values import ANY as MASK

_WITHOUT_MESSAGE: Final = ("GET", "DELETE")
"""The HTTP methods of exchanges without a message."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step, due when every server message before ``place`` has been received again.

    ``exchange`` is the recorded HTTP exchange, ``None`` on stdio. ``messages`` is empty for an exchange
    without a message.
    """

    seq: int
    place: int
    messages: tuple[SessionMessage, ...]
    exchange: Exchange | None = None

    @property
    def asks(self) -> bool:
        """Whether it contains a request, which the server has to answer."""
        return any(isinstance(entry.message, Request) for entry in self.messages)


def steps(session: RecordedSession) -> list[ScriptStep]:
    """Return the script of one session, in order."""
    found: list[ScriptStep] = []
    batch: list[SessionMessage] = []
    for entry in session.messages:
        if entry.sender != CLIENT or not entry.raw.strip() or _answers_a_ping(session, entry):
            continue
        if batch and batch[0].seq != entry.seq:
            found.append(_step(session, batch))
            batch = []
        if entry.batch:
            batch.append(entry)
        else:
            found.append(_step(session, [entry]))
    if batch:
        found.append(_step(session, batch))
    spoken = {step.exchange.number for step in found if step.exchange}
    for exchange in session.exchanges.values():
        head = exchange.request
        is_resumption = any(name.lower() == "last-event-id" for name, _ in head.headers)
        if (
            exchange.number not in spoken
            and head.method in _WITHOUT_MESSAGE
            and head.endpoint
            and not is_resumption
        ):
            place = bisect_left(session.messages, head.seq, key=lambda entry: entry.seq)
            found.append(ScriptStep(head.seq, place, (), exchange))
    return sorted(found, key=lambda step: step.seq)


def awaited(session: RecordedSession) -> list[SessionMessage]:
    """Return the server messages that a client may have waited for: all but pings and empty events."""
    return [
        entry
        for entry in session.messages
        if entry.sender == SERVER
        and entry.raw.strip()
        and entry.method != "ping"
        and (entry.event is None or entry.event.name in (None, "message"))
    ]


def is_masked_anywhere(value: JSON) -> bool:
    """Whether the recording masks a value anywhere in a message."""
    return any(isinstance(one, str) and MASK.search(one) is not None for one in _scalars(value))


def _step(session: RecordedSession, entries: list[SessionMessage]) -> ScriptStep:
    first = entries[0]
    return ScriptStep(first.seq, first.index, tuple(entries), session.exchanges.get(first.exchange))


def _answers_a_ping(session: RecordedSession, entry: SessionMessage) -> bool:
    answers = isinstance(entry.message, Response | ErrorResponse) and entry.answers is not None
    return answers and session.messages[entry.answers or 0].method == "ping"


def _scalars(value: JSON) -> Iterator[JSON]:
    stack: list[JSON] = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, list):
            stack += one
        else:
            yield one
