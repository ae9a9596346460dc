"""The judge in the proxy's own process over HTTP, for breakpoints on findings; see ``live_judge``.

There are two ``HttpAssembly``s. That of the proxy gets what a peer sends when it is read, before anything is
decided; the one here gets what is recorded, when it is recorded, which says what became of each message. Both
make the same events of what a peer sent, in the same order for each connection, and number exchanges
differently. So a peer is judged by the events of the first, and the other peer is given them when the second
says so.
"""

import json
from collections import deque
from dataclasses import replace
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.gate.intercept.live.live_judge import Findings, LiveJudge
from mcpproxy.gate.intercept.policies import Passing, Policy
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Event,
    ExchangeEnd,
    Frame,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.record.recorder.http.assembly import HttpAssembly
from mcpproxy.record.relay import journal as journals

_Sent: TypeAlias = Frame | RequestHead | ResponseHead
_MOST_UNASKED: Final = 1000
"""How many messages are remembered until somebody asks what was found; the oldest is forgotten first."""
_SENDERS: Final[dict[type[_Sent], Sender]] = {RequestHead: CLIENT, ResponseHead: SERVER}
_ENDS: Final[dict[int, Sender]] = {journals.CLIENT_EOF: CLIENT, journals.SERVER_EOF: SERVER}


@slotted()
class _Direction:
    """What one peer has sent on a connection."""

    ungiven: deque[_Sent] = field(default_factory=lambda: deque[_Sent]())
    """What was judged, and of which it is not known yet what became of it."""
    head: int = 0
    """The number of the last head."""
    of_head: Findings = ()
    """What is wrong with it, which is told with the message after it."""
    found: deque[tuple[int, Findings]] = field(
        default_factory=lambda: deque[tuple[int, Findings]](maxlen=_MOST_UNASKED)
    )
    """The messages of the server, each as a hash, of which nobody has asked yet what was found."""


class LiveExchanges(Policy):
    """Judges what peers send over HTTP, and remembers what the other peer is given. This never raises."""

    def __init__(self, judge: LiveJudge, endpoint: str) -> None:
        self._judge: Final = judge
        options = {"endpoint": endpoint, "mode": "reverse", "keep_credentials": True}
        self._recorded = HttpAssembly(json.dumps(options).encode())
        self._directions: dict[tuple[int, Sender], _Direction] = {}
        self._exchanges: dict[int, int] = {}
        """Number of an exchange in what is recorded -> its number in what is sent."""
        self._ended: dict[int, Sender] = {}
        """Connection -> the peer that has ended first."""

    def enter(self, passing: Passing) -> None:
        frame = passing.frame
        if frame.sender == SERVER:  # it was judged when it was read
            passing.findings = self.take_found(frame.connection, frame.raw)
        else:
            passing.findings = self.judge_sent(frame)

    def enter_head(self, head: RequestHead) -> None:
        self.judge_sent(head)

    def observe(self, event: Event, *, leaves: bool) -> None:
        if not leaves:
            self.judge_sent(event)

    def judge_sent(self, event: Event) -> Findings:
        """Judge an event of what is sent; return what was found in a message and in the head before it."""
        if not self._judge.is_judging:
            return ()
        if isinstance(event, ExchangeEnd):
            self._judge.note_event(event, SERVER)
        if not isinstance(event, _Sent):
            return ()
        event = _numbered(event, self._judge.next_number(), event.exchange)
        if event.by_proxy:  # our own answer; nothing else becomes of it
            self._judge.note_event(event)
            return ()
        sender: Sender = event.sender if isinstance(event, Frame) else _SENDERS[type(event)]
        direction = self._directions.setdefault((event.connection, sender), _Direction())
        direction.ungiven.append(event)
        if not isinstance(event, Frame):
            direction.head, direction.of_head = event.seq, self._judge.judge_sent(event)
            return ()
        findings = self._judge.judge_sent(event, direction.head)
        findings, direction.of_head = (*direction.of_head, *findings), ()
        if sender == SERVER and not event.continues:
            direction.found.append((hash(event.raw), findings))
        return findings

    def take_found(self, connection: int, content: bytes) -> Findings:
        """Return what was found in the next message ``content`` of the server of a connection."""
        direction = self._directions.get((connection, SERVER))
        while direction is not None and direction.found:
            of, findings = direction.found.popleft()
            if of == hash(content):
                return findings
        return ()

    def take_record(self, kind: int, at_ns: int, payload: bytes, connection: int) -> None:
        """Take a record of the journal, which says what became of what was sent."""
        if not self._judge.is_judging:
            return
        try:
            for event in self._recorded.take(kind, payload, at_ns, connection):
                if isinstance(event, _Sent):
                    self._on_recorded(event)
                elif isinstance(event, ExchangeEnd):
                    exchange = self._exchanges.pop(event.exchange, event.exchange)
                    self._judge.note_event(replace(event, exchange=exchange), CLIENT)
                elif isinstance(event, Note | Opaque):
                    self._judge.note_event(event)
        except Exception as fault:  # a bug in mcpproxy must not end the session
            self._judge.stop(fault)
        if (ended := _ENDS.get(kind)) and self._ended.setdefault(connection, ended) != ended:
            del self._ended[connection]
            for sender in (CLIENT, SERVER):
                self._directions.pop((connection, sender), None)

    def _on_recorded(self, event: _Sent) -> None:
        if event.by_proxy:
            if event.fault is not None:  # what is given in the place of what was sent
                exchange = self._exchanges.get(event.exchange, event.exchange)
                self._judge.note_event(_numbered(event, self._judge.next_number(), exchange))
            return
        sender: Sender = event.sender if isinstance(event, Frame) else _SENDERS[type(event)]
        sent = self._directions[event.connection, sender].ungiven.popleft()
        if type(sent) is not type(event):
            raise LookupError("what is recorded is not what was sent")
        if isinstance(event, RequestHead):
            self._exchanges[event.exchange] = sent.exchange
        if event.fault is None:
            self._judge.note_given(sent)


def _numbered(event: _Sent, seq: int, exchange: int) -> _Sent:
    if isinstance(event, Frame):
        event.seq, event.exchange = seq, exchange
        return event
    return replace(event, seq=seq, exchange=exchange)
