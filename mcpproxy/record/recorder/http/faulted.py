"""Turn the journal's records about faults into events.

A fault is a change of the traffic that the user asked for, for example with ``--fault``. The journal
(the relay's copy of the traffic) then has both the bytes that a peer sent and the bytes that mcpproxy gave
the other peer in their place."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, cast

from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Blame,
    ExchangeEnd,
    FaultMark,
    Frame,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.record.framing.heads import request_head, response_head
from mcpproxy.record.framing.http1 import RequestStart, ResponseStart
from mcpproxy.record.framing.sse import SseFramer
from mcpproxy.record.recorder.http.body_frames import BODY_BYTES, event_frame
from mcpproxy.record.recorder.http.connections import Connection
from mcpproxy.record.recorder.http.head_reader import HeadReader
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.records import Recorded

SENT_KIND: Final = {journal.CLIENT_ALTERED: journal.CLIENT, journal.SERVER_ALTERED: journal.SERVER}
"""The kind of a record with bytes that met a fault -> the kind that it would have without the fault."""

GIVEN: Final[dict[int, Sender]] = {journal.CLIENT_GIVEN: CLIENT, journal.SERVER_GIVEN: SERVER}
"""The kind of a record with bytes given in place of a message -> the sender of that message."""


def sent_events(
    events: Iterable[Recorded], connection: Connection, fault: FaultMark, *, has_more: bool
) -> Iterator[Recorded]:
    """Yield ``events``, those of bytes that met ``fault``, marked with the fault.

    With ``has_more``, bytes are still to be given in their place; the end of the exchange is held back.
    """
    for event in events:
        if isinstance(event, Frame):
            event.fault = fault
            connection.faulted_exchange = event.exchange
        elif isinstance(event, RequestHead | ResponseHead):
            event = replace(event, fault=fault)
            connection.faulted_exchange = event.exchange
        elif isinstance(event, ExchangeEnd) and has_more:
            connection.held_end = event.exchange, event.by or "", event.observed_at_ns
            continue
        yield event


def given_events(
    sender: Sender,
    part: str,
    content: bytes,
    at_ns: int,
    connection: Connection,
    fault: FaultMark,
    heads: HeadReader,
    next_seq: Callable[[], int],
) -> Iterator[Recorded]:
    """Yield the events of ``content``, given by ``fault`` in place of a message of ``sender``.

    ``part`` says what ``content`` is: a ``head``, a ``body`` or an ``event``. A head that cannot be read
    gives no event. ``heads`` masks a head; ``next_seq`` returns the number of the next head or frame.
    """
    exchange, number = connection.faulted_exchange, connection.number
    if part == "head":
        if sender == CLIENT:
            parsed = request_head(content)
            if not isinstance(parsed, str):
                start = RequestStart(0, *parsed[:4], content, at_ns)
                head = heads.read(start, connection.ids).of_request(start, next_seq(), exchange, number)
                yield replace(head, by_proxy=True, fault=fault)
            return
        answered = response_head(content)
        if not isinstance(answered, str):
            response = ResponseStart(0, *answered[:4], content, at_ns, by="proxy")
            answer = heads.read(response, connection.ids).of_response(response, next_seq(), exchange, number)
            yield replace(answer, fault=fault)
        return
    frames = [Frame(0, sender, content, at_ns)] if content else []
    if part == "event":
        framer = SseFramer(BODY_BYTES)
        blocks = [*framer.feed(content, at_ns), *framer.end(at_ns)]
        frames = [event_frame(sender, block) for block in blocks]
    for frame in frames:
        frame.seq, frame.exchange, frame.connection = next_seq(), exchange, number
        frame.by_proxy, frame.fault = True, fault
        yield frame


def held_end(connection: Connection) -> Iterator[ExchangeEnd]:
    """Yield the end of an exchange that ``sent_events`` has held back, if there is one."""
    if connection.held_end is not None:
        (exchange, by, at_ns), connection.held_end = connection.held_end, None
        yield ExchangeEnd(exchange, connection.number, bool(by), cast("Blame", by) or None, at_ns)
