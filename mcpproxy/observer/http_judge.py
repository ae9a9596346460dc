"""The judge of HTTP: attribute each exchange to a session, run the checks at each moment, update the history.

A session is recognised by its id; an initialize opens a new one; a stateless request is a session of its own;
a POST to the URI that an ``endpoint`` event named belongs to that HTTP+SSE stream. A request with none of
these marks belongs to the session without id that was opened on its connection, if there is exactly one.
Otherwise its session is unknown, and nothing is concluded from what is missing in such an exchange.

The messages of each session go to its own ``MessageJudge``; the HTTP around them goes to the checks of
exchanges. A message that HTTP refused counts as never sent: it is taken back, so that the client may send it
again.
"""

from collections.abc import Sequence
from typing import Final

from mcpproxy.checks.engine.context import member
from mcpproxy.checks.engine.dispatch import Dispatch
from mcpproxy.checks.engine.http_facts import ALL_FACTS, HttpFact
from mcpproxy.checks.engine.rows import Moment
from mcpproxy.observer.attribution import posting_target, session_of
from mcpproxy.observer.classify_http import (
    has_body,
    has_content,
    is_message,
    of_content,
    of_end,
    of_head,
    of_request,
    revisions_for,
)
from mcpproxy.observer.findings import FindingBuilder
from mcpproxy.observer.memory_limit import MemoryUse
from mcpproxy.observer.message_judge import MessageJudge, is_hidden
from mcpproxy.observer.update_http import (
    Key,
    keys_of,
    remember_404,
    remember_caller,
    remember_delivery,
    remember_event_id,
    remember_lost,
    remember_messages,
    remember_metadata,
    remember_opening,
    remember_request,
)
from mcpproxy.protocol.jsonrpc import ErrorResponse
from mcpproxy.protocol.jsontext import several_texts
from mcpproxy.session.exchanges import (
    MAX_REMEMBERED,
    HttpExchange,
    HttpHistory,
    HttpSession,
    fields_of,
    is_answer,
    singles,
)
from mcpproxy.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.session.history import keep_latest

_HEAD_BYTES: Final = 1 << 10
_ID_BYTES: Final = 200
"""About how many bytes it takes to remember an exchange, and an event id."""

_LONGEST_METHOD: Final = 20
"""No method of HTTP is longer."""

MAX_CHALLENGES: Final = 100
"""How many 401 responses are remembered until it is known whether they led to the metadata."""


class HttpJudge:
    """Judges the exchanges of one recording.

    ``joined_late`` says that part of the recording was not seen, ``redacted`` that values anywhere in it may
    be masked. In a recording that is not redacted, a ``Note`` event precedes each frame with masked
    credentials.
    """

    def __init__(
        self,
        build_findings: FindingBuilder,
        dispatch: Dispatch,
        memory_use: MemoryUse | None = None,
        *,
        joined_late: bool = False,
        redacted: bool = False,
    ) -> None:
        self._build_findings = build_findings
        self._memory_use = memory_use or MemoryUse()
        self._dispatch = dispatch
        self._joined_late = joined_late
        self._redacted = redacted
        self._masking = 0  # the connection whose next frame is masked, 0 if there is none
        self._history = HttpHistory(has_gap=joined_late)
        self._latest: HttpSession | None = None

    @property
    def revision(self) -> str | None:
        """The revision of the session that sent the latest request."""
        return self._latest.revision if self._latest else None

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event. This does not raise, whatever the peers send."""
        # Comparing types is faster than ``isinstance`` or ``match`` for the events of every exchange.
        exchanges = self._history.exchanges
        if type(event) is Frame:
            return self.frame(event)
        if type(event) is RequestHead:
            number, fields = event.exchange, fields_of(event.headers)
            self._memory_use.added += _HEAD_BYTES + sum(len(value) for _, value in event.headers)
            exchange = exchanges[number] = HttpExchange(event, fields, number, event.method)
            exchange.masked = self._redacted
            return [] if has_body(event, exchange.fields) else self._judge_request(exchange, None)
        if type(event) is ResponseHead:
            exchange = exchanges.get(event.exchange)
            if exchange is None or event.status < 200:
                return []
            found = [] if exchange.request_judged else self._judge_request(exchange, None)
            return found + self._judge_head(exchange, event)
        if type(event) is ExchangeEnd:
            exchange = exchanges.pop(event.exchange, None)
            if exchange is None:
                return []
            found = [] if exchange.request_judged else self._judge_request(exchange, None)
            return found + self._judge_end(exchange, event)
        match event:
            case Note(what="masked"):
                self._masking = event.connection
            case Gap():
                self._forget_open_exchanges(event)
            case Close():
                return self._judge_close(event)
            case _:
                pass
        return []

    def frame(self, frame: Frame) -> list[Finding]:
        """Judge a body, an event, or a piece of one."""
        exchange = self._history.exchanges.get(frame.exchange)
        if exchange is None:
            return []
        if self._masking and frame.connection == self._masking:
            self._masking, exchange.masked = 0, True
        if frame.continues or frame.sender in exchange.in_pieces:
            return self._skip_piece(exchange, frame)
        if frame.sender == CLIENT:
            return self._judge_request(exchange, frame)
        found = [] if exchange.request_judged else self._judge_request(exchange, None)
        return found + self._judge_content(exchange, frame)

    def _skip_piece(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """Take a piece of a body too long to be held in memory; its content is not judged."""
        if frame.continues:
            exchange.in_pieces |= {frame.sender}
        else:
            exchange.in_pieces -= {frame.sender}
        found = self._judge_request(exchange, None)
        if exchange.session is not None:
            exchange.session.judge.history.side(frame.sender).sent_unreadable = True
            exchange.session.forgot_some = True  # It may have contained event ids.
        return found

    # The request

    def _judge_request(self, exchange: HttpExchange, body: Frame | None) -> list[Finding]:
        """Once the whole request was seen: find its session, judge its head and its messages."""
        if exchange.request_judged:
            return []
        exchange.request_judged = True
        exchange.body = body
        history, request = self._history, exchange.request
        http_sse_session = (
            history.http_sse_sessions.get(posting_target(request.target))
            if history.http_sse_sessions
            else None
        )
        if body is not None and (request.endpoint or history.http_sse_sessions):
            exchange.set_messages(singles(body)[0])
            exchange.has_several_texts = not exchange.messages and several_texts(body.raw)
        if not request.endpoint and http_sse_session is None:
            exchange.facts = of_request(exchange, history)
            return self._run_checks("request", exchange, CLIENT, exchange.facts)
        session = http_sse_session or session_of(exchange, history, self._new_judge)
        exchange.join(session)
        self._latest = session
        session.last_exchange = exchange
        remember_request(exchange, session, history)
        remember_caller(exchange, session, history)
        exchange.facts = of_request(exchange, history)
        found = self._run_checks("request", exchange, CLIENT, exchange.facts)
        if "authorization" in exchange.fields:
            if session.authorized_seq is None:
                session.authorized_seq = request.seq
            if session.stateless and request.connection not in history.authorized:
                keep_latest(history.authorized, request.connection, request.seq, MAX_REMEMBERED)
        if body is not None and request.method == "POST":
            if exchange.has_several_texts:
                session.judge.history.client.sent_unreadable = True
            elif session.stateless and any(is_answer(message) for message in exchange.messages):
                pass  # A stateless client must not answer at all: a check of the exchange reports it.
            else:
                session.judge.history.masked = exchange.masked
                found += session.judge.observe(body)
        return found

    # The response

    def _judge_head(self, exchange: HttpExchange, head: ResponseHead) -> list[Finding]:
        history, session = self._history, exchange.session
        if head.by_proxy:
            self._take_back(exchange)
            return []
        exchange.response = head
        exchange.response_fields = fields_of(head.headers)
        exchange.facts |= of_head(exchange)
        found = self._run_checks(
            "success" if 200 <= head.status < 300 else "refusal", exchange, SERVER, exchange.facts
        )
        if session is None:
            remember_metadata(exchange, history)
            return found
        if head.status == 401:
            history.challenged = True
            history.challenges[:] = [*history.challenges[:MAX_CHALLENGES], head]
        if session.stateless or session.is_http_sse:
            return found
        if head.status >= 300:
            self._take_back(exchange)  # Redirects too: the client will send the request elsewhere.
        elif exchange.initialize is not None:
            remember_opening(exchange, session, history)
        elif exchange.method == "DELETE" and session.ended_seq is None:
            session.ended_seq, session.ended_by, session.ended_ns = head.seq, "DELETE", head.observed_at_ns
        if exchange.method == "DELETE" and not exchange.succeeded:
            session.refused_deletion = True
        return found

    def _take_back(self, exchange: HttpExchange) -> None:
        session, body = exchange.session, exchange.body
        if session is not None and body is not None and exchange.initialize is None:
            session.judge.undo_refused_frame(body, exchange.messages)

    # What the server sends

    def _judge_content(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """Judge a body or an SSE event of the server, or of mcpproxy in its place."""
        event = frame.event
        if event is not None and event.retry is not None and exchange.stream is not None:
            exchange.stream.retry_ms = event.retry
        if frame.by_proxy or not has_content(frame):
            return []
        messages = singles(frame)[0]
        keys = () if event is None else keys_of(messages)
        if event is not None:
            self._remember_event(exchange, frame, keys)
        else:
            exchange.body_count += 1
        known = exchange.facts | of_content(exchange, frame, messages)
        found = self._run_checks("body" if event is None else "event", exchange, SERVER, known, frame)
        session = exchange.session
        if session is None:
            return found
        for message in messages:
            code = member(message.value, "error", "code") if type(message) is ErrorResponse else None
            if type(code) is int:
                exchange.error_codes |= {code}
        if is_message(exchange, frame, messages):
            session.judge.history.masked = exchange.masked
            found += session.judge.observe(frame)
            remember_messages(exchange, session, frame, messages, self._history)
            if keys:
                remember_delivery(exchange, session, keys)
        if event is not None and event.id and exchange.stream is not None:
            remember_event_id(exchange, session, frame, event.id)
        return found

    def _remember_event(self, exchange: HttpExchange, frame: Frame, keys: Sequence[Key]) -> None:
        event, session = frame.event, exchange.session
        assert event is not None
        exchange.event_count += 1
        exchange.repeats_earlier_event, exchange.earlier_event, exchange.also_carried_by = False, None, 0
        if event.name == "endpoint" and exchange.method == "GET" and (session is None or not session.id):
            session = self._open_http_sse(exchange, frame)
        if session is None or session.is_http_sse:
            return
        if event.id:
            self._memory_use.added += _ID_BYTES + len(event.id)
            exchange.named_event_count += 1
            seen = exchange.earlier_event = session.events.get(event.id)
            exchange.repeats_earlier_event = seen is not None and seen.data == hash(frame.raw)
        if not exchange.repeats_earlier_event:
            for key in keys:
                other = session.delivered.get(key, exchange.number)
                under_way = self._history.exchanges.get(other)
                if other != exchange.number and under_way and under_way.stream is not exchange.stream:
                    exchange.also_carried_by = other
        elif exchange.earlier_event and exchange.earlier_event.stream is not exchange.stream:
            open_still = exchange.earlier_event.exchange in self._history.exchanges
            exchange.also_carried_by = exchange.earlier_event.exchange if open_still else 0

    def _open_http_sse(self, exchange: HttpExchange, frame: Frame) -> HttpSession:
        """Take the stream for one of HTTP+SSE, and remember the URI to which its client will post."""
        session = exchange.session
        if session is None or not session.is_http_sse:
            session = HttpSession(self._new_judge(None, False), is_http_sse=True)
            exchange.join(session)
        uri = frame.raw.decode("utf-8", "replace").strip()
        if uri:
            keep_latest(
                self._history.http_sse_sessions,
                posting_target(uri, exchange.request.target),
                session,
                MAX_REMEMBERED,
            )
        return session

    # The end

    def _judge_end(self, exchange: HttpExchange, end: ExchangeEnd) -> list[Finding]:
        exchange.cut, exchange.ended_by, exchange.ended_ns = end.cut, end.by, end.observed_at_ns
        found = self._run_checks("end", exchange, SERVER, exchange.facts | of_end(exchange))
        session, head = exchange.session, exchange.response
        if session is None:
            return found
        session.last_ended_ns = end.observed_at_ns
        if session.stateless and exchange.response_is_sse and not (end.cut and end.by == CLIENT):
            remember_lost(exchange, session, self._history)
        if head is None:
            self._take_back(exchange)
        elif head.status == 404 and exchange.method == "POST":
            remember_404(exchange, session, head)
        if exchange.stream is not None and exchange.response_is_sse:
            # A GET that was refused, for example without a token, has not carried the stream.
            exchange.stream.closed_ns, exchange.stream.left_by_client = end.observed_at_ns, end.by == "client"
        for key in exchange.delivered or ():
            session.delivered.pop(key, None)
        return found

    @property
    def history(self) -> HttpHistory:
        """What has happened so far. Only the judge changes it."""
        return self._history

    def forget_finished(self) -> None:
        """Forget answered requests in all sessions."""
        for session in self._sessions():
            session.judge.history.forget_finished()

    def forget(self) -> None:
        """Continue as if the recording had begun now, in the middle of every session."""
        self._joined_late = True
        self._history = HttpHistory(has_gap=True)
        self._latest = None

    def _judge_close(self, close: Close) -> list[Finding]:
        history, found = self._history, list[Finding]()
        sessions = self._sessions()
        for exchange in list(history.exchanges.values()):
            exchange.cut, exchange.ended_ns = True, close.observed_at_ns
            found += self._run_checks("close", exchange, SERVER, ALL_FACTS)
        busy = {id(exchange.session) for exchange in history.exchanges.values()}
        for session in sessions:
            if session.last_exchange is not None and id(session) not in busy and not history.has_gap:
                session.last_exchange.ended_ns = close.observed_at_ns
                found += self._run_checks("over", session.last_exchange, CLIENT, ALL_FACTS)
            if not session.stateless and (session.id or session.is_http_sse or not history.has_unattributed):
                found += session.judge.observe(close)
        return found

    def _sessions(self) -> list[HttpSession]:
        """Return every session that is remembered, each once, oldest first."""
        history = self._history
        under_way = [e.session for e in history.exchanges.values() if e.session]
        known = (
            *history.by_connection.values(),
            *history.sessions.values(),
            *history.http_sse_sessions.values(),
        )
        return list(dict.fromkeys([*known, *under_way]))

    def _forget_open_exchanges(self, gap: Gap) -> None:
        """After a gap: stop following the exchanges that were open."""
        self._history.has_gap = True
        for session in self._sessions():
            session.joined_late = True
            session.judge.observe(gap)
        self._history.exchanges.clear()

    def _new_judge(self, revision: str | None, late: bool) -> MessageJudge:
        late = late or self._joined_late
        return MessageJudge(
            self._build_findings, self._dispatch, self._memory_use, revision=revision, joined_late=late
        )

    # Checks

    def _run_checks(
        self,
        moment: Moment,
        exchange: HttpExchange,
        sender: Sender,
        known: HttpFact,
        frame: Frame | None = None,
    ) -> list[Finding]:
        """Run the checks of this moment that can find something, given the facts ``known``."""
        found: list[Finding] = []
        build_findings = self._build_findings
        # The lookup is cached by method. No row names a method of that length, so they share an entry.
        method = exchange.method if len(exchange.method) <= _LONGEST_METHOD else ""
        checks = self._dispatch.http_checks_for(moment, exchange.traffic, method, known)
        if not checks:
            return found
        history, message = self._history, exchange.body if frame is None else frame
        for check in checks:
            for violation in check(exchange, history, frame):
                if (
                    exchange.masked
                    and violation.pointer
                    and message
                    and is_hidden(message, violation.pointer)
                ):
                    continue
                seq = exchange.request.seq if frame is None else frame.seq
                if moment in ("success", "refusal") and exchange.response is not None:
                    seq = exchange.response.seq
                before = build_findings.total
                found += build_findings((violation,), seq, sender, revisions_for(exchange))
                if build_findings.total > before:
                    exchange.broken_rules |= {violation.rule}
        return found
