"""The script of a recorded client: the messages that it sent, and which messages it had received before each.

The script is a list of steps. A step is one message, one batch, or over HTTP an exchange without a message: a
GET that opens a stream or a DELETE that ends the session.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.masked_values import ANY_MASK as MASK
from mcpproxy.peers.replay.recording import Exchange, RecordedSession, SessionMessage
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response

_WITHOUT_MESSAGE: Final = ("GET", "DELETE")
"""The HTTP methods of exchanges without a message."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step of the script.

    ``message_index`` is the position of the step in the messages of the session: the step is due when every
    server message before that position has been received again. ``seq`` is the number of its frame.
    ``exchange`` is the recorded HTTP exchange, ``None`` on stdio. ``messages`` is empty for an exchange
    without a message.
    """

    seq: int
    message_index: int
    messages: tuple[SessionMessage, ...]
    exchange: Exchange | None = None

    @property
    def has_request(self) -> bool:
        """Whether the step contains a request, which the server has to answer."""
        return any(isinstance(entry.message, Request) for entry in self.messages)


def steps(session: RecordedSession) -> list[ScriptStep]:
    """Return the script of one session, in order.

    Answers to pings, empty messages, GETs that resume a stream, and exchanges without a message at another
    path than the endpoint's are left out.
    """
    script: list[ScriptStep] = []
    batch: list[SessionMessage] = []
    for entry in session.messages:
        if entry.sender != CLIENT or not entry.raw.strip() or _answers_a_ping(session, entry):
            continue
        if batch and batch[0].seq != entry.seq:
            script.append(_step(session, batch))
            batch = []
        if entry.batch:
            batch.append(entry)
        else:
            script.append(_step(session, [entry]))
    if batch:
        script.append(_step(session, batch))
    exchanges_with_messages = {step.exchange.number for step in script if step.exchange}
    for exchange in session.exchanges.values():
        head = exchange.request
        if (
            exchange.number not in exchanges_with_messages
            and head.method in _WITHOUT_MESSAGE
            and head.endpoint
            and not exchange.is_resumption
        ):
            message_index = bisect_left(session.messages, head.seq, key=lambda entry: entry.seq)
            script.append(ScriptStep(head.seq, message_index, (), exchange))
    return sorted(script, key=lambda step: step.seq)


def awaited_messages(session: RecordedSession) -> list[SessionMessage]:
    """Return the server messages that a client may have waited for.

    These are all except pings, empty lines and events, and events of a type other than ``message``
    (``endpoint``).
    """
    return [
        entry
        for entry in session.messages
        if entry.sender == SERVER
        and entry.raw.strip()
        and entry.method != "ping"
        and (entry.event is None or entry.event.name in (None, "message"))
    ]


def is_masked_anywhere(value: JSON) -> bool:
    """Whether a string in ``value``, other than a member name, contains the mask of a credential."""
    return any(isinstance(scalar, str) and MASK.search(scalar) is not None for scalar in _scalars(value))


def _step(session: RecordedSession, entries: list[SessionMessage]) -> ScriptStep:
    entry = entries[0]
    return ScriptStep(entry.seq, entry.index, tuple(entries), session.exchanges.get(entry.exchange))


def _answers_a_ping(session: RecordedSession, entry: SessionMessage) -> bool:
    is_answer = isinstance(entry.message, Response | ErrorResponse) and entry.answers is not None
    return is_answer and session.messages[entry.answers or 0].method == "ping"


def _scalars(value: JSON) -> Iterator[JSON]:
    """Yield every string, number and literal in a value."""
    stack: list[JSON] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        else:
            yield item
