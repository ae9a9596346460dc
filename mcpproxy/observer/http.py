"""The judge of HTTP: which session an exchange belongs to, and when each check gets to look.

A session is told by its id; an initialize opens a new one; a stateless request stands alone; what has
none of these marks is attributed to its connection. The messages of each session go to a
``MessageJudge`` of their own, the HTTP around them to the checks of ``checks/http.py`` and siblings.
"""

from collections.abc import Iterable

from mcpproxy.checks import HTTP_CHECKS, Moment
from mcpproxy.checks.breach import Breach, member
from mcpproxy.observer.messages import MessageJudge
from mcpproxy.observer.weigh import Weigher
from mcpproxy.protocol.jsonrpc import ErrorResponse, Response
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS, VERSION_KEY
from mcpproxy.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.session.http import (
    SESSION,
    VERSION,
    Fields,
    HttpExchange,
    HttpHistory,
    HttpSession,
    looks_stateless,
    singles,
)

MAX_CONNECTIONS = 10_000
"""So many connections are remembered as belonging to a session without id."""


class HttpJudge:
    """Judges the exchanges of one recording."""

    def __init__(self, weigh: Weigher) -> None:
        self._weigh = weigh
        self._history = HttpHistory()
        self._latest: HttpSession | None = None

    @property
    def revision(self) -> str | None:
        """The revision of the session that spoke last."""
        return self._latest.revision if self._latest else None

    def observe(self, event: Event) -> list[Finding]:
        history = self._history
        match event:
            case RequestHead():
                exchange = HttpExchange(event, Fields(event.headers))
                history.exchanges[event.exchange] = exchange
                return [] if _has_body(exchange.fields) else self._settle(exchange, None)
            case Frame() if exchange := history.exchanges.get(event.exchange):
                if event.sender == CLIENT:
                    return self._settle(exchange, event)
                return self._received(exchange, event)
            case ResponseHead(status=status) if exchange := history.exchanges.get(event.exchange):
                if status < 200:
                    return []
                return self._settle(exchange, None) + self._responded(exchange, event)
            case ExchangeEnd() if exchange := history.exchanges.pop(event.exchange, None):
                return self._ended(exchange, event)
            case Gap():
                history.blind = True
                for session in self._sessions():
                    session.judge.observe(event)
                return []
            case Close():
                return self._closed(event)
            case _:
                return []

    # The moments of an exchange

    def _settle(self, exchange: HttpExchange, body: Frame | None) -> list[Finding]:
        """The request is all there: find its session, judge its head and its messages."""
        if exchange.settled:
            return []
        exchange.settled = True
        exchange.body = body
        if body is not None and exchange.request.endpoint:
            exchange.messages, exchange.batched = singles(body)
        if not exchange.request.endpoint:
            return self._look("request", exchange, SERVER)
        session = exchange.session = self._session_of(exchange)
        session.exchanges += 1
        self._latest = session
        if session.stateless and self._history.modern_seq is None:
            self._history.modern_seq = exchange.request.seq
        self._note_resumption(exchange)
        found = self._look("request", exchange, CLIENT)
        if body is not None and (exchange.request.method == "POST"):
            found += session.judge.observe(body)
        if "authorization" in exchange.fields:
            self._history.authorized.add(exchange.request.connection)
        return found

    def _responded(self, exchange: HttpExchange, head: ResponseHead) -> list[Finding]:
        history, session = self._history, exchange.session
        exchange.response = head
        exchange.response_fields = Fields(head.headers)
        found = self._look("response", exchange, SERVER)
        if head.by_proxy:
            return found
        history.challenged = history.challenged or head.status == 401
        if not exchange.request.endpoint:
            return found
        issued = exchange.response_fields.get(SESSION)
        if session is not None and not session.stateless:
            if exchange.initialize and exchange.succeeded:
                history.by_connection[exchange.request.connection] = session
                while len(history.by_connection) > MAX_CONNECTIONS:
                    del history.by_connection[next(iter(history.by_connection))]
                if issued and session.id is None:
                    session.id, session.issued_seq = issued, head.seq
                    history.sessions[issued] = session
            self._note_termination(exchange, session)
        return found

    def _received(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """A body or an SSE event from the server (or from us in its place)."""
        session = exchange.session
        if frame.event is not None:
            exchange.events += 1
            if exchange.first_event is None:
                exchange.first_event = frame
            self._note_event(exchange, frame)
        if session is None or frame.by_proxy or not exchange.request.endpoint:
            return [] if frame.by_proxy else self._look("frame", exchange, SERVER, frame)
        found = self._look("frame", exchange, SERVER, frame)
        if frame.event is not None and not frame.raw:
            return found  # An event without data carries no message.
        if not self._carries_messages(exchange, frame) or exchange.replayed:
            return found
        found += session.judge.observe(frame)
        for message in singles(frame)[0]:
            if isinstance(message, Response | ErrorResponse):
                exchange.answered.add(message.id)
        return found

    def _ended(self, exchange: HttpExchange, end: ExchangeEnd) -> list[Finding]:
        exchange.cut, exchange.by, exchange.ended_ns = end.cut, end.by, end.observed_at_ns
        found = self._settle(exchange, None) + self._look("end", exchange, SERVER)
        session = exchange.session
        if session and exchange.initialize and exchange.succeeded and session.initialized_ns is None:
            session.initialized_ns = end.observed_at_ns
        return found

    def _closed(self, close: Close) -> list[Finding]:
        found: list[Finding] = []
        for exchange in list(self._history.exchanges.values()):
            exchange.cut = True
            found += self._look("close", exchange, SERVER)
        for session in self._sessions():
            if not session.stateless:
                found += session.judge.observe(close)
        return found

    # Whose exchange it is

    def _session_of(self, exchange: HttpExchange) -> HttpSession:
        history, fields = self._history, exchange.fields
        named = fields.get(SESSION)
        version = fields.get(VERSION)
        known = history.sessions.get(named) if named else None
        if exchange.initialize is not None:
            live = known is not None and known.ended_seq is None
            return known if known is not None and live else HttpSession(MessageJudge(self._weigh))
        if _is_stateless(exchange):
            return HttpSession(MessageJudge(self._weigh), stateless=True)
        if known is not None:
            return known
        if named is None and (session := history.by_connection.get(exchange.request.connection)):
            return session
        revision = version if version in STATEFUL else None
        session = HttpSession(MessageJudge(self._weigh, revision=revision, joined_late=True), late=True)
        if named:
            session.id = named
            history.sessions[named] = session
        else:
            history.by_connection[exchange.request.connection] = session
        return session

    def _sessions(self) -> list[HttpSession]:
        """Every session that is still remembered, each once, oldest first."""
        history = self._history
        under_way = [e.session for e in history.exchanges.values() if e.session]
        return list(dict.fromkeys([*history.by_connection.values(), *history.sessions.values(), *under_way]))

    # What is remembered

    def _note_resumption(self, exchange: HttpExchange) -> None:
        last = exchange.fields.get("last-event-id")
        if last is not None and exchange.session is not None:
            exchange.resumes = exchange.session.event_ids.get(last, (0, b""))[0]

    def _note_event(self, exchange: HttpExchange, frame: Frame) -> None:
        event, session = frame.event, exchange.session
        exchange.replayed = False
        if event is None or session is None:
            return
        if event.retry is not None:
            exchange.last_retry_ms = event.retry
        if not event.id:
            return
        exchange.named_events += 1
        seen = session.event_ids.get(event.id)
        exchange.replayed = seen is not None and seen[0] != exchange.number and seen[1] == frame.raw

    def _note_termination(self, exchange: HttpExchange, session: HttpSession) -> None:
        if session.id is None or session.ended_seq is not None or exchange.response is None:
            return
        if exchange.request.method == "DELETE" and exchange.succeeded:
            session.ended_seq, session.ended_by = exchange.response.seq, "DELETE"
        elif exchange.status == 404 and exchange.fields.get(SESSION) == session.id:
            session.ended_seq, session.ended_by = exchange.response.seq, "404"

    def _carries_messages(self, exchange: HttpExchange, frame: Frame) -> bool:
        """Whether a frame from the server is held to be a message at all.

        HTTP errors come first: below 200 and from 300 on a body is judged only where it is a
        JSON-RPC answer.
        """
        if exchange.succeeded:
            media_type = exchange.response_fields.media_type
            return frame.event is not None or media_type == "application/json" or not media_type
        messages, _ = singles(frame)
        return any(isinstance(m, ErrorResponse) and "jsonrpc" in m.value for m in messages)

    # Checks

    def _look(
        self, moment: Moment, exchange: HttpExchange, sender: Sender, frame: Frame | None = None
    ) -> list[Finding]:
        """Let the checks of this moment look; a server's event ids are remembered after them."""
        found: list[Finding] = []
        candidates = self._candidates(exchange)
        seq = frame.seq if frame else exchange.request.seq
        if moment == "response" and exchange.response is not None:
            seq = exchange.response.seq
        for decider in HTTP_CHECKS:
            if decider.moment == moment:
                breaches: Iterable[Breach] = decider.check(exchange, self._history, frame)
                found += self._weigh(breaches, seq, sender, candidates)
        if frame is not None and frame.event is not None and frame.event.id and exchange.session is not None:
            exchange.session.event_ids.setdefault(frame.event.id, (exchange.number, frame.raw))
        return found

    def _candidates(self, exchange: HttpExchange) -> tuple[str, ...]:
        """The revisions by which the HTTP of an exchange may be judged."""
        session = exchange.session
        if session is None:
            return REVISIONS
        if session.stateless:
            named = [member(request.params, "_meta", VERSION_KEY) for request in exchange.requests]
            return (str(named[0]),) if named and named[0] in STATELESS else STATELESS
        if session.revision is not None:
            return (session.revision,)
        return STATEFUL if exchange.initialize is not None else REVISIONS


def _has_body(fields: Fields) -> bool:
    length = fields.get("content-length")
    return "transfer-encoding" in fields or (length is not None and length.strip() not in ("", "0"))


def _is_stateless(exchange: HttpExchange) -> bool:
    if looks_stateless(exchange.fields):
        return True
    return any(
        request.method == "server/discover" or member(request.params, "_meta", VERSION_KEY) is not None
        for request in exchange.requests
    )
