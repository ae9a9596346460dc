"""The judge of HTTP: it attributes each exchange to a session, runs the checks and updates the history.

A session is recognised by its id. An initialize without the id of an open session opens a new one, and each
stateless request is a session of its own. A POST to the URI that an ``endpoint`` event named belongs to the
session of that HTTP+SSE stream. A request without any of these marks belongs to the session that was opened
last on its connection. If there is none, or if the connection carries several sessions without an id, the
session of the request is unknown, and nothing is concluded from missing messages.

The messages of each session go to the session's own ``MessageJudge``. The head and the body around them go to
the checks of exchanges, which run at several moments: request, head, body, event, end of the exchange, end of
the recording. In a stateful session, a message other than initialize that the server refused with an HTTP
status counts as never sent, so that the client may send it again.
"""

from typing import Final

from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.http_facts import ALL_FACTS
from mcpproxy.judge.checks.transports.issuers import remember_issuer
from mcpproxy.judge.checks.utilities.cancelled_requests import remember_cancelled_initialize
from mcpproxy.judge.observer.attribution import session_of
from mcpproxy.judge.observer.classify_http import (
    facts_of_content,
    facts_of_end,
    facts_of_head,
    facts_of_request,
    has_body,
    has_content,
    is_message,
)
from mcpproxy.judge.observer.exchange_checks import ExchangeChecks
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.observer.memory_limit import MemoryUse
from mcpproxy.judge.observer.message_judge import MessageJudge
from mcpproxy.judge.observer.update_http import (
    keys_of,
    remember_404,
    remember_caller,
    remember_delivery,
    remember_event,
    remember_event_id,
    remember_lost,
    remember_messages,
    remember_metadata,
    remember_opening,
    remember_page_access,
    remember_request,
)
from mcpproxy.judge.session.exchanges import (
    MAX_REMEMBERED,
    HttpExchange,
    HttpHistory,
    HttpSession,
    fields_of,
    is_answer,
)
from mcpproxy.judge.session.frame import (
    CLIENT,
    SENT_LATE,
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
)
from mcpproxy.judge.session.history import History, keep_latest
from mcpproxy.judge.session.redirects import request_target
from mcpproxy.protocol.jsonrpc import ErrorResponse
from mcpproxy.protocol.jsontext import several_texts
from mcpproxy.protocol.message_parts import member, well_formed
from mcpproxy.protocol.revisions import STATELESS

_EXCHANGE_BYTES: Final = 1 << 10
"""The approximate size, in bytes, of the memory for an exchange, without the values of its header fields."""

MAX_PROOFS: Final = 4_096
"""The number of DPoP proofs that are remembered."""

MAX_CHALLENGES: Final = 100
"""The number of first 401 responses that are remembered, besides the latest one."""


class HttpJudge:
    """Judges the exchanges of one recording.

    ``joined_late`` says that the start of the session was not recorded, ``redacted`` that values anywhere in
    the recording may be masked. In a recording that is not redacted, a ``Note`` event comes before each frame
    with masked credentials. ``memory_use`` estimates the memory that the history takes.
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
        self._checks = ExchangeChecks(build_findings, dispatch)
        self._joined_late = joined_late
        self._redacted = redacted
        self._masked_connection = 0  # the connection whose next frame contains masks, 0 if there is none
        self._history = HttpHistory(has_gap=joined_late)
        self._latest: HttpSession | None = None

    @property
    def revision(self) -> str | None:
        """The revision of the session to which the latest request belongs; ``None`` if it is unknown."""
        return self._latest.revision if self._latest else None

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event other than a frame. This does not raise, whatever the peers send."""
        # Comparing types is faster than ``isinstance`` or ``match`` for the events of every exchange.
        exchanges = self._history.exchanges
        if type(event) is RequestHead:
            number, fields = event.exchange, fields_of(event.headers)
            self._memory_use.added += _EXCHANGE_BYTES + sum(len(value) for _, value in event.headers)
            exchange = exchanges[number] = HttpExchange(event, fields, number, event.method)
            exchange.masked = self._redacted
            return [] if has_body(event, exchange.fields) else self._judge_request(exchange, None)
        if type(event) is ResponseHead:
            exchange = exchanges.get(event.exchange)
            if exchange is None or event.status < 200:
                return []
            findings = [] if exchange.request_judged else self._judge_request(exchange, None)
            return findings + self._judge_head(exchange, event)
        if type(event) is ExchangeEnd:
            exchange = exchanges.pop(event.exchange, None)
            if exchange is None:
                return []
            findings = [] if exchange.request_judged else self._judge_request(exchange, None)
            return findings + self._judge_end(exchange, event)
        match event:
            case Note(what="masked"):
                self._masked_connection = event.connection
            case Note() if event.what == SENT_LATE:
                for exchange in exchanges.values():
                    if exchange.request.connection == event.connection:
                        exchange.forwarded_ns = event.observed_at_ns
            case Gap():
                self._forget_open_exchanges(event)
            case Close():
                return self._judge_close(event)
            case _:
                pass
        return []

    def judge_frame(self, frame: Frame) -> list[Finding]:
        """Judge a body, an event, or a piece of one."""
        exchange = self._history.exchanges.get(frame.exchange)
        if exchange is None:
            return []
        if self._masked_connection and frame.connection == self._masked_connection:
            self._masked_connection, exchange.masked = 0, True
        if frame.continues or frame.sender in exchange.in_pieces:
            return self._skip_piece(exchange, frame)
        if frame.sender == CLIENT:
            return self._judge_request(exchange, frame)
        findings = [] if exchange.request_judged else self._judge_request(exchange, None)
        return findings + self._judge_content(exchange, frame)

    def _skip_piece(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """Skip ``frame``, a piece of a body that is too long to be judged.

        A request whose body is skipped is judged by its head. The session records that a message is unknown.
        """
        if frame.continues:
            exchange.in_pieces |= {frame.sender}
        else:
            exchange.in_pieces -= {frame.sender}
            exchange.body_count += frame.sender != CLIENT
        findings = self._judge_request(exchange, None)
        if exchange.session is not None:
            exchange.session.judge.history.side(frame.sender).sent_unreadable = True
            exchange.session.forgot_some = True  # The piece may contain event ids.
        return findings

    # The request

    def _judge_request(self, exchange: HttpExchange, body: Frame | None) -> list[Finding]:
        """Find the session of a complete request, and judge its head and messages, unless that was done."""
        if exchange.request_judged:
            return []
        exchange.request_judged = True
        exchange.body = body
        history, request = self._history, exchange.request
        http_sse_session = (
            history.http_sse_sessions.get(request_target(request.target))
            if history.http_sse_sessions
            else None
        )
        if body is not None and (request.endpoint or history.http_sse_sessions):
            exchange.set_messages(well_formed(body.message))
            exchange.has_several_texts = not exchange.messages and several_texts(body.raw)
        if not request.endpoint and http_sse_session is None:
            if exchange.messages:
                # No stream named the URI of this POST, but the answer may come on one of them.
                history.has_unattributed = True
                for other_session in history.http_sse_sessions.values():
                    other_session.judge.history.may_lack_messages = True
            exchange.facts = facts_of_request(exchange, history)
            return self._checks.run("request", exchange, history, CLIENT, exchange.facts)
        session = http_sse_session or session_of(exchange, history, self._new_judge)
        exchange.join(session)
        self._latest = session
        session.last_exchange = exchange
        remember_request(exchange, session, history)
        remember_caller(exchange, session, history)
        exchange.facts = facts_of_request(exchange, history)
        findings = self._checks.run("request", exchange, history, CLIENT, exchange.facts)
        if "authorization" in exchange.fields:
            if session.authorized_seq is None:
                session.authorized_seq = request.seq
            if session.stateless and request.connection not in history.authorized:
                keep_latest(history.authorized, request.connection, request.seq, MAX_REMEMBERED)
        if body is not None and request.method == "POST":
            if exchange.has_several_texts:
                session.judge.history.client.sent_unreadable = True
            elif session.stateless and any(is_answer(message) for message in exchange.messages):
                pass  # A stateless client must not send answers. A check of the exchange reports them.
            else:
                remember_cancelled_initialize(exchange, history)
                session.judge.history.masked = exchange.masked
                findings += session.judge.observe(body)
        return findings

    # The response

    def _judge_head(self, exchange: HttpExchange, head: ResponseHead) -> list[Finding]:
        """Judge the response's head, unless mcpproxy sent it; update the session that it opens or ends."""
        history, session = self._history, exchange.session
        history.initializing.pop(exchange.number, None)
        if head.by_proxy:
            self._undo_request(exchange)
            return []
        exchange.response = head
        exchange.response_fields = fields_of(head.headers)
        exchange.facts |= facts_of_head(exchange)
        findings = self._checks.run(
            "success" if 200 <= head.status < 300 else "refusal", exchange, history, SERVER, exchange.facts
        )
        if (proof := exchange.fields.get("dpop")) is not None:
            keep_latest(history.proofs, proof, exchange.request.seq, MAX_PROOFS)
        history.gave_nonce = history.gave_nonce or "dpop-nonce" in exchange.response_fields
        if session is None:
            remember_metadata(exchange, history)
            return findings
        if "origin" in exchange.fields:
            remember_page_access(exchange, history)
        if head.status == 401:
            history.challenged = True
            # Keep the first challenges and the latest one.
            history.challenges[:] = [*history.challenges[:MAX_CHALLENGES], head]
        if session.stateless or session.is_http_sse:
            return findings
        if head.status >= 300:
            self._undo_request(exchange)  # Redirects too: the client will send the request elsewhere.
        elif exchange.initialize is not None:
            remember_opening(exchange, session, history)
        elif exchange.method == "DELETE" and session.ended_seq is None:
            session.ended_seq, session.ended_by, session.ended_ns = head.seq, "DELETE", head.observed_at_ns
        if exchange.method == "DELETE" and not exchange.succeeded:
            session.refused_deletion = True
        return findings

    def _undo_request(self, exchange: HttpExchange) -> None:
        """Treat the messages of the request as never sent. A body with an initialize stays recorded."""
        session, body = exchange.session, exchange.body
        if session is not None and body is not None and exchange.initialize is None:
            session.judge.undo_refused_frame(body, exchange.messages)

    # The content of the response

    def _judge_content(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """Judge a body or an SSE event from the server; skip one without content, or that mcpproxy sent."""
        event = frame.event
        if event is not None and event.retry is not None and exchange.stream is not None:
            exchange.stream.retry_ms = event.retry
        if frame.is_unfinished_event and any(map(is_answer, well_formed(frame.message))):
            exchange.unfinished_seq = frame.seq
        if frame.by_proxy or not has_content(frame):
            return []
        messages = well_formed(frame.message)
        keys = () if event is None else keys_of(messages)
        if event is None:
            exchange.body_count += 1
        else:
            has_session_id = exchange.session is not None and exchange.session.id
            if event.name == "endpoint" and exchange.method == "GET" and not has_session_id:
                self._open_http_sse(exchange, frame)
            remember_event(exchange, frame, event, keys, self._history, self._memory_use)
        facts = exchange.facts | facts_of_content(exchange, frame, messages)
        findings = self._checks.run(
            "body" if event is None else "event", exchange, self._history, SERVER, facts, frame
        )
        session = exchange.session
        if session is None:
            remember_issuer(exchange, frame, self._history)
            return findings
        for message in messages:
            code = member(message.value, "error", "code") if type(message) is ErrorResponse else None
            if type(code) is int:
                exchange.error_codes |= {code}
        if is_message(exchange, frame, messages):
            session.judge.history.masked = exchange.masked
            findings += session.judge.observe(frame)
            remember_messages(exchange, session, frame, messages, self._history)
            if keys:
                remember_delivery(exchange, session, keys)
        if event is not None and event.id and exchange.stream is not None:
            remember_event_id(exchange, session, frame, event.id)
        return findings

    def _open_http_sse(self, exchange: HttpExchange, frame: Frame) -> None:
        """Give the stream an HTTP+SSE session, and remember the URI to which the client will post."""
        session = exchange.session
        if session is None or not session.is_http_sse:
            session = HttpSession(self._new_judge(None, False), is_http_sse=True)
            exchange.join(session)
        uri = frame.raw.decode("utf-8", "replace").strip()
        if uri:
            keep_latest(
                self._history.http_sse_sessions,
                request_target(uri, exchange.request.target),
                session,
                MAX_REMEMBERED,
            )

    # The end

    def _judge_end(self, exchange: HttpExchange, end: ExchangeEnd) -> list[Finding]:
        """Judge an exchange that has ended, and update its session and its stream."""
        exchange.cut, exchange.ended_by, exchange.ended_ns = end.cut, end.by, end.observed_at_ns
        exchange.left_ns = end.left_ns
        findings = self._checks.run(
            "end", exchange, self._history, SERVER, exchange.facts | facts_of_end(exchange)
        )
        session, head = exchange.session, exchange.response
        if session is None:
            return findings
        session.last_ended_ns = end.observed_at_ns
        if session.stateless and exchange.response_is_sse and not (end.cut and end.by == CLIENT):
            remember_lost(exchange, session, self._history)
        if head is None:
            self._undo_request(exchange)
        elif head.status == 404 and exchange.method == "POST":
            remember_404(exchange, session, head)
        if exchange.stream is not None and exchange.response_is_sse:
            # A response that is not SSE, such as a refusal, does not change the stream.
            exchange.stream.closed_ns, exchange.stream.left_by_client = end.observed_at_ns, end.by == "client"
        for key in exchange.delivered or ():
            session.delivered.pop(key, None)
        return findings

    @property
    def history(self) -> HttpHistory:
        """The state of all sessions and exchanges so far. Only the judge changes it."""
        return self._history

    def forget_finished(self) -> None:
        """Forget answered requests in all sessions."""
        for session in self._sessions():
            session.judge.history.forget_finished()

    def forget(self) -> None:
        """Forget everything, and continue as if the recording began now, in the middle of every session."""
        self._joined_late = True
        self._history = HttpHistory(has_gap=True)
        self._latest = None

    def _judge_close(self, close: Close) -> list[Finding]:
        """Judge the open exchanges and all sessions at the end of the recording."""
        history, findings = self._history, list[Finding]()
        sessions = self._sessions()
        for exchange in list(history.exchanges.values()):
            exchange.cut, exchange.ended_ns = True, close.observed_at_ns
            findings += self._checks.run("close", exchange, history, SERVER, ALL_FACTS)
        sessions_with_open_exchange = {id(exchange.session) for exchange in history.exchanges.values()}
        for session in sessions:
            if (
                session.last_exchange is not None
                and id(session) not in sessions_with_open_exchange
                and not history.has_gap
            ):
                # The checks of this moment judge the session as a whole, by way of its last exchange.
                session.last_exchange.ended_ns = close.observed_at_ns
                findings += self._checks.run("over", session.last_exchange, history, CLIENT, ALL_FACTS)
            # Requests of unknown sessions may belong to any session without an id.
            is_complete = bool(session.id) or session.is_http_sse or not history.has_unattributed
            if not session.stateless and is_complete:
                findings += session.judge.observe(close)
        rows = [row for row in self._dispatch.event_checks if row.across_requests]
        if rows and history.memories:
            together = History(
                candidates=STATELESS,
                has_gap=history.has_gap,
                over_http=True,
                stateless_memories=history.memories,
            )
            for row in rows:
                violations = row.check(close, together)
                findings += self._build_findings(violations, 0, CLIENT, together.candidates)
        return findings

    def _sessions(self) -> list[HttpSession]:
        """Return, each once, the sessions known by connection, id or URL, and those of open exchanges."""
        history = self._history
        open_sessions = [exchange.session for exchange in history.exchanges.values() if exchange.session]
        sessions = (
            *history.by_connection.values(),
            *history.sessions.values(),
            *history.http_sse_sessions.values(),
        )
        return list(dict.fromkeys([*sessions, *open_sessions]))

    def _forget_open_exchanges(self, gap: Gap) -> None:
        """Forget the open exchanges, of which a gap may hide parts, and let all sessions note the gap."""
        self._history.has_gap = True
        for session in self._sessions():
            session.joined_late = True
            session.judge.observe(gap)
        self._history.exchanges.clear()

    def _new_judge(self, revision: str | None, joined_late: bool) -> MessageJudge:
        return MessageJudge(
            self._build_findings,
            self._dispatch,
            self._memory_use,
            revision=revision,
            asked=self._checks.asked,
            joined_late=joined_late or self._joined_late,
        )
