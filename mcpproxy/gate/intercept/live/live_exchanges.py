"""Judge HTTP exchanges in the proxy's own process, for breakpoints on findings; see ``live_judge``.

There are two ``HttpAssembly`` objects. The proxy's assembly gets the bytes of a peer when they are read,
before anything is decided. The assembly here gets the records of the journal, which show what became of each
message. Both make the same events of what a peer sent, in the same order for each connection, but number
exchanges differently. So the events of the first are judged against their sender, and count as received by
the other peer only when the second shows that they passed.
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
_MOST_UNTAKEN: Final = 1000
"""For how many messages of the server on a connection findings are kept; the oldest are dropped first."""
_SENDERS: Final[dict[type[_Sent], Sender]] = {RequestHead: CLIENT, ResponseHead: SERVER}
_ENDS: Final[dict[int, Sender]] = {journals.CLIENT_EOF: CLIENT, journals.SERVER_EOF: SERVER}
"""Kind of a journal record -> the peer that has closed its side of the connection."""


@slotted()
class _Direction:
    """The events that one peer has sent on a connection."""

    undecided: deque[_Sent] = field(default_factory=lambda: deque[_Sent]())
    """Judged events for which no record shows yet whether they passed."""
    head: int = 0
    """The number of the last head."""
    head_findings: Findings = ()
    """The findings about that head; they are returned with the message after it."""
    untaken: deque[tuple[int, Findings]] = field(
        default_factory=lambda: deque[tuple[int, Findings]](maxlen=_MOST_UNTAKEN)
    )
    """The hashes of a server's messages, and their findings, until ``take_found`` takes them."""


class LiveExchanges(Policy):
    """Judges what each peer sends over HTTP, and notes what the other peer is given.

    ``endpoint`` is the path of the MCP endpoint.
    """

    def __init__(self, judge: LiveJudge, endpoint: str) -> None:
        self._judge: Final = judge
        options = {"endpoint": endpoint, "mode": "reverse", "keep_credentials": True}
        self._recorded = HttpAssembly(json.dumps(options).encode())
        self._directions: dict[tuple[int, Sender], _Direction] = {}
        self._exchanges: dict[int, int] = {}
        """Number of an exchange in the records -> its number in the events that were judged."""
        self._ended: dict[int, Sender] = {}
        """Connection -> the peer that closed its side first."""

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
        """Judge an event that a peer sent.

        Return the findings about a message and about the head before it; nothing for any other event.
        """
        if not self._judge.is_judging:
            return ()
        if isinstance(event, ExchangeEnd):
            self._judge.note_event(event, SERVER)
        if not isinstance(event, _Sent):
            return ()
        event = _numbered(event, self._judge.next_number(), event.exchange)
        if event.by_proxy:  # our own answer always reaches its receiver
            self._judge.note_event(event)
            return ()
        sender: Sender = event.sender if isinstance(event, Frame) else _SENDERS[type(event)]
        direction = self._directions.setdefault((event.connection, sender), _Direction())
        direction.undecided.append(event)
        if not isinstance(event, Frame):
            direction.head, direction.head_findings = event.seq, self._judge.judge_sent(event)
            return ()
        findings = self._judge.judge_sent(event, direction.head)
        findings, direction.head_findings = (*direction.head_findings, *findings), ()
        if sender == SERVER and not event.continues:
            direction.untaken.append((hash(event.raw), findings))
        return findings

    def take_found(self, connection: int, content: bytes) -> Findings:
        """Return the findings about the server's next message with these bytes on a connection.

        The findings about messages before it are dropped. If there is no such message, all are dropped, and
        the result is empty.
        """
        direction = self._directions.get((connection, SERVER))
        while direction is not None and direction.untaken:
            message_hash, findings = direction.untaken.popleft()
            if message_hash == hash(content):
                return findings
        return ()

    def take_record(self, kind: int, at_ns: int, payload: bytes, connection: int) -> None:
        """Take a record of the journal, which shows what became of something that was sent."""
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
            if event.fault is not None:  # a replacement of what was sent
                exchange = self._exchanges.get(event.exchange, event.exchange)
                self._judge.note_event(_numbered(event, self._judge.next_number(), exchange))
            return
        sender: Sender = event.sender if isinstance(event, Frame) else _SENDERS[type(event)]
        sent = self._directions[event.connection, sender].undecided.popleft()
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
