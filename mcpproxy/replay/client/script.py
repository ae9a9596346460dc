"""What a recorded client did, step by step, and after what: the script that is played to a live server.

A step is one message, or a batch of them, or over HTTP an exchange without a message: a GET that opens a
stream, a DELETE that ends the session.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response
from mcpproxy.replay.recording import Exchange, Said, Session
from mcpproxy.session.frame import CLIENT, SERVER
from mcpproxy.session.masked_values import ANY as MASK

_BARE: Final = ("GET", "DELETE")


@dataclass(frozen=True, slots=True)
class Step:
    """Something to send when everything of the server's before ``place`` has been seen again.

    ``exchange`` is the recorded HTTP exchange, ``None`` on stdio. ``saids`` is empty for an exchange without
    a message.
    """

    seq: int
    place: int
    saids: tuple[Said, ...]
    exchange: Exchange | None = None

    @property
    def asks(self) -> bool:
        """Whether it holds a request, so that an answer comes."""
        return any(isinstance(said.message, Request) for said in self.saids)


def steps(session: Session) -> list[Step]:
    """The script of one session, in order."""
    found: list[Step] = []
    batch: list[Said] = []
    for said in session.messages:
        if said.sender != CLIENT or not said.raw.strip() or _answers_a_ping(session, said):
            continue
        if batch and batch[0].seq != said.seq:
            found.append(_step(session, batch))
            batch = []
        if said.batch:
            batch.append(said)
        else:
            found.append(_step(session, [said]))
    if batch:
        found.append(_step(session, batch))
    spoken = {step.exchange.number for step in found if step.exchange}
    for exchange in session.exchanges.values():
        head = exchange.request
        resumes = any(name.lower() == "last-event-id" for name, _ in head.headers)
        if exchange.number not in spoken and head.method in _BARE and head.endpoint and not resumes:
            place = bisect_left(session.messages, head.seq, key=lambda said: said.seq)
            found.append(Step(head.seq, place, (), exchange))
    return sorted(found, key=lambda step: step.seq)


def awaited(session: Session) -> list[Said]:
    """What the server said that a client may have waited for: all but pings and empty events."""
    return [
        said
        for said in session.messages
        if said.sender == SERVER
        and said.raw.strip()
        and said.method != "ping"
        and (said.event is None or said.event.name in (None, "message"))
    ]


def is_masked_anywhere(value: JSON) -> bool:
    """Whether a message holds a value that the recording does not know."""
    return any(isinstance(one, str) and MASK.search(one) is not None for one in _scalars(value))


def _step(session: Session, saids: list[Said]) -> Step:
    first = saids[0]
    return Step(first.seq, first.index, tuple(saids), session.exchanges.get(first.exchange))


def _answers_a_ping(session: Session, said: Said) -> bool:
    answers = isinstance(said.message, Response | ErrorResponse) and said.answers is not None
    return answers and session.messages[said.answers or 0].method == "ping"


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
