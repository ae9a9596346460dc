"""The judge of HTTP: whose exchange it is, when each check gets to look, and what is remembered.

A session is told by its id; an initialize opens a new one; a stateless request stands alone; a POST to
the URI that an ``endpoint`` event named belongs to that HTTP+SSE stream. What has none of these marks
belongs to the session without id that was opened on its connection, if there is just one; else to
nobody, and nothing is concluded from what such an exchange does not show.

The messages of each session go to a ``MessageJudge`` of their own, the HTTP around them to the checks of
exchanges. What HTTP refused was never said: it is taken back, so that it may be sent again.
"""

from typing import Final

from mcpproxy.checks.authorization import RESOURCE_METADATA
from mcpproxy.checks.breach import member
from mcpproxy.checks.dispatch import Dispatch
from mcpproxy.checks.era import shows_modern
from mcpproxy.checks.table import DISCOVERED, INTRODUCED, Moment
from mcpproxy.observer.attribution import posting_target, session_of
from mcpproxy.observer.messages import MessageJudge, is_hidden
from mcpproxy.observer.weigh import Weigher
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response
from mcpproxy.protocol.jsontext import several_texts
from mcpproxy.protocol.mirrors import mirrors
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
    Note,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.session.history import ModernAnswer, keep
from mcpproxy.session.http import (
    MAX_REMEMBERED,
    SESSION,
    VERSION,
    Fields,
    HttpExchange,
    HttpHistory,
    HttpSession,
    Mismatch,
    Proper,
    SentEvent,
    Stream,
    is_answer,
    singles,
)

STREAMABLE: Final = REVISIONS[1:]
"""The revisions that have Streamable HTTP."""

MAX_CHALLENGES: Final = 100
"""So many 401s are remembered until it is known whether they told where to go."""


class HttpJudge:
    """Judges the exchanges of one recording.

    ``joined_late``: part of it was not seen; ``redacted``: values were masked anywhere in it. Of any other
    recording, a note says before which content credentials were masked.
    """

    def __init__(
        self, weigh: Weigher, dispatch: Dispatch, *, joined_late: bool = False, redacted: bool = False
    ) -> None:
        self._weigh = weigh
        self._dispatch = dispatch
        self._joined_late = joined_late
        self._redacted = redacted
        self._masking = 0  # the connection whose next frame is masked, if there is one
        self._history = HttpHistory(blind=joined_late)
        self._latest: HttpSession | None = None

    @property
    def revision(self) -> str | None:
        """The revision of the session that spoke last."""
        return self._latest.revision if self._latest else None

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event. Whatever the peers send, this does not raise."""
        history = self._history
        match event:
            case RequestHead():
                exchange = HttpExchange(event, Fields(event.headers), masked=self._redacted)
                history.exchanges[event.exchange] = exchange
                return [] if _has_body(event, exchange.fields) else self._settle(exchange, None)
            case Frame() if exchange := history.exchanges.get(event.exchange):
                if self._masking and event.connection == self._masking:
                    self._masking, exchange.masked = 0, True
                if event.continues or event.sender in exchange.pieced:
                    return self._piece(exchange, event)
                if event.sender == CLIENT:
                    return self._settle(exchange, event)
                return self._settle(exchange, None) + self._received(exchange, event)
            case ResponseHead(status=status) if exchange := history.exchanges.get(event.exchange):
                if status < 200:
                    return []
                return self._settle(exchange, None) + self._responded(exchange, event)
            case ExchangeEnd() if exchange := history.exchanges.pop(event.exchange, None):
                return self._settle(exchange, None) + self._ended(exchange, event)
            case Note(what="masked"):
                self._masking = event.connection
                return []
            case Gap():
                self._lose_sight(event)
                return []
            case Close():
                return self._closed(event)
            case _:
                return []

    def _piece(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """A piece of a body too long to hold: nobody knows what it says."""
        if frame.continues:
            exchange.pieced.add(frame.sender)
        else:
            exchange.pieced.discard(frame.sender)
        found = self._settle(exchange, None)
        if exchange.session is not None:
            exchange.session.judge.history.side(frame.sender).unreadable = True
            exchange.session.forgetful = True  # An event's id went by with it.
        return found

    # The request

    def _settle(self, exchange: HttpExchange, body: Frame | None) -> list[Finding]:
        """The request is all there: find its session, judge its head and its messages."""
        if exchange.settled:
            return []
        exchange.settled = True
        exchange.body = body
        history, request = self._history, exchange.request
        legacy = history.posting.get(posting_target(request.target)) if history.posting else None
        if body is not None and (request.endpoint or history.posting):
            exchange.say(singles(body)[0])
            exchange.several = not exchange.messages and several_texts(body.raw)
        if not request.endpoint and legacy is None:
            return self._look("request", exchange, CLIENT)
        session = exchange.session = legacy or session_of(exchange, history, self._new_judge)
        self._latest = session
        session.last = exchange
        self._note_request(exchange, session)
        self._note_caller(exchange, session)
        found = self._look("request", exchange, CLIENT)
        if "authorization" in exchange.fields:
            if session.authorized_seq is None:
                session.authorized_seq = request.seq
            if session.stateless and request.connection not in history.authorized:
                keep(history.authorized, request.connection, request.seq, MAX_REMEMBERED)
        if body is not None and request.method == "POST":
            if exchange.several:
                session.judge.history.client.unreadable = True
            elif session.stateless and any(is_answer(message) for message in exchange.messages):
                pass  # What it answers came with another exchange; that it answers is told with this one.
            else:
                session.judge.history.masked = exchange.masked
                found += session.judge.observe(body)
        return found

    def _note_caller(self, exchange: HttpExchange, session: HttpSession) -> None:
        """What a stateless request shares with others; whether a session may be spread over several."""
        told = session.judge.history
        if session.stateless:
            told.lasting = self._history.memories
            told.facts |= DISCOVERED | INTRODUCED
            told.caller = f"{exchange.server} {exchange.fields.get('authorization') or ''}"
            told.scattered = self._history.blind
        else:
            told.scattered = session.id is None and self._history.unattributed

    def _note_request(self, exchange: HttpExchange, session: HttpSession) -> None:
        history, connection = self._history, exchange.request.connection
        if exchange.initialize is not None and not session.legacy:
            told = session.judge.history
            told.modern_answer = history.modern.get(connection)
            told.supported = dict(history.supported.get(exchange.server, {}))
        if session.legacy:
            return
        if session.id is not None or session.stateless or VERSION in exchange.fields:
            history.streamable = True
        if exchange.method == "POST":
            exchange.stream = Stream(exchange.number, True, tuple(r.id for r in exchange.requests))
            return
        last = exchange.last_event_id
        if not last:
            exchange.stream = Stream(exchange.number, False)
        elif (cursor := session.events.get(last)) is not None:
            exchange.cursor, exchange.stream = cursor, cursor.stream

    # The response

    def _responded(self, exchange: HttpExchange, head: ResponseHead) -> list[Finding]:
        history, session = self._history, exchange.session
        if head.by_proxy:
            self._take_back(exchange)
            return []
        exchange.response = head
        exchange.response_fields = Fields(head.headers)
        found = self._look("success" if exchange.succeeded else "refusal", exchange, SERVER)
        if session is None:
            self._note_metadata(exchange)
            return found
        if head.status == 401:
            history.challenged = True
            history.challenges[:] = [*history.challenges[:MAX_CHALLENGES], head]
        if session.stateless or session.legacy:
            return found
        if head.status >= 300:
            self._take_back(exchange)  # Redirects too: the request is to be sent elsewhere.
        elif exchange.initialize is not None:
            self._note_opening(exchange, session)
        elif exchange.method == "DELETE" and session.ended_seq is None:
            session.ended_seq, session.ended_by, session.ended_ns = head.seq, "DELETE", head.observed_at_ns
        if exchange.method == "DELETE" and not exchange.succeeded:
            session.refused_deletion = True
        return found

    def _note_opening(self, exchange: HttpExchange, session: HttpSession) -> None:
        """The server takes initialize: from now on its connection, and its id if any, mean this session."""
        history, connection = self._history, exchange.request.connection
        before = history.by_connection.get(connection)
        issued = exchange.response_fields.get(SESSION)
        if issued and session.id is None:
            session.id = issued
            keep(history.sessions, issued, session, MAX_REMEMBERED)
        elif before is not None and before is not session and before.id is None and session.id is None:
            history.shared.add(connection)
        keep(history.by_connection, connection, session, MAX_REMEMBERED)

    def _note_metadata(self, exchange: HttpExchange) -> None:
        path = exchange.request.target.partition("?")[0]
        if exchange.succeeded and path.startswith(RESOURCE_METADATA):
            self._history.metadata = "served"
        elif exchange.status in (404, 405, 410) and path == RESOURCE_METADATA and not self._history.metadata:
            self._history.metadata = "refused"  # There, at the root, a client looks last.

    def _take_back(self, exchange: HttpExchange) -> None:
        session, body = exchange.session, exchange.body
        if session is not None and body is not None and exchange.initialize is None:
            session.judge.take_back(body, exchange.messages)

    # What the server sends

    def _received(self, exchange: HttpExchange, frame: Frame) -> list[Finding]:
        """A body or an SSE event from the server (or from us in its place)."""
        event = frame.event
        if event is not None and event.retry is not None and exchange.stream is not None:
            exchange.stream.retry_ms = event.retry
        if frame.by_proxy or not _says_something(frame):
            return []
        if frame.event is not None:
            self._note_event(exchange, frame)
        else:
            exchange.bodies += 1
        found = self._look("body" if frame.event is None else "event", exchange, SERVER, frame)
        session = exchange.session
        if session is None:
            return found
        for message in singles(frame)[0]:
            code = member(message.value, "error", "code") if isinstance(message, ErrorResponse) else None
            exchange.error_codes.update([code] if type(code) is int else ())
        if self._is_message(exchange, frame):
            session.judge.history.masked = exchange.masked
            found += session.judge.observe(frame)
            self._note_messages(exchange, session, frame)
        if frame.event is not None and frame.event.id and exchange.stream is not None:
            self._note_event_id(exchange, session, frame, frame.event.id)
        return found

    def _note_event(self, exchange: HttpExchange, frame: Frame) -> None:
        event, session = frame.event, exchange.session
        assert event is not None
        exchange.events += 1
        exchange.replayed, exchange.seen, exchange.elsewhere = False, None, 0
        if event.name == "endpoint" and exchange.method == "GET" and (session is None or not session.id):
            session = self._open_legacy(exchange, frame)
        if session is None or session.legacy:
            return
        if event.id:
            exchange.named_events += 1
            seen = exchange.seen = session.events.get(event.id)
            exchange.replayed = seen is not None and seen.data == hash(frame.raw)
        if not exchange.replayed:
            for key in _keys(singles(frame)[0]):
                other = session.delivered.get(key, exchange.number)
                under_way = self._history.exchanges.get(other)
                if other != exchange.number and under_way and under_way.stream is not exchange.stream:
                    exchange.elsewhere = other
        elif exchange.seen and exchange.seen.stream is not exchange.stream:
            open_still = exchange.seen.exchange in self._history.exchanges
            exchange.elsewhere = exchange.seen.exchange if open_still else 0

    def _open_legacy(self, exchange: HttpExchange, frame: Frame) -> HttpSession:
        """The stream turns out to be one of HTTP+SSE; it names where its client is to post."""
        if exchange.session is None or not exchange.session.legacy:
            exchange.session = HttpSession(self._new_judge(None, False), legacy=True)
        uri = frame.raw.decode("utf-8", "replace").strip()
        if uri:
            keep(
                self._history.posting,
                posting_target(uri, exchange.request.target),
                exchange.session,
                MAX_REMEMBERED,
            )
        return exchange.session

    def _is_message(self, exchange: HttpExchange, frame: Frame) -> bool:
        """Whether a frame from the server is to be judged as a message of its session.

        HTTP errors come first: outside 2xx a body is a message only where it answers, by its id, a request
        of this very exchange, and in an open session not even there: the request was taken back. What
        answers a notification is judged with the exchange.
        """
        messages, _ = singles(frame)
        if frame.event is not None:
            if not frame.raw or exchange.replayed or exchange.elsewhere or frame.event.name == "endpoint":
                return False
            return frame.event.name in (None, "", "message") or bool(messages)
        if exchange.traffic == "http+sse" or exchange.only_notifies or exchange.method != "POST":
            return False
        if exchange.succeeded:
            return exchange.response_fields.media_type == "application/json"
        if exchange.traffic == "stateful" and exchange.initialize is None:
            return False
        asked = [request.id for request in exchange.requests]
        return bool(messages) and all(isinstance(m, ErrorResponse) and m.id in asked for m in messages)

    def _note_messages(self, exchange: HttpExchange, session: HttpSession, frame: Frame) -> None:
        history, messages = self._history, singles(frame)[0]
        if exchange.answered_ns is not None:
            exchange.late_messages += 1
        asked = [request.id for request in exchange.requests]
        for message in messages:
            if isinstance(message, Response | ErrorResponse) and isinstance(message.id, int | str):
                exchange.answered.update([message.id] if message.id in asked else ())
        if asked and exchange.answered_ns is None and exchange.answered.issuperset(asked):
            exchange.answered_ns = frame.observed_at_ns
        if frame.event is not None:
            for key in _keys(messages):
                session.delivered.setdefault(key, exchange.number)
                exchange.delivered.append(key)
        if session.stateless:
            self._note_server(exchange, session, frame, messages)
        elif exchange.initialize is not None:
            if any(isinstance(message, Response) for message in messages):
                # What server/discover lists may be the versions without a handshake alone.
                history.dual_servers.add(exchange.server)
                history.modern_only.pop(exchange.server, None)
            for version, seq in session.judge.history.supported.items():
                history.supported.setdefault(exchange.server, {}).setdefault(version, seq)

    def _note_server(
        self, exchange: HttpExchange, session: HttpSession, frame: Frame, messages: tuple[Proper, ...]
    ) -> None:
        """What a stateless answer tells of the server: its versions, its tools, what it refuses."""
        history, connection, told = self._history, exchange.request.connection, session.judge.history
        answer = told.modern_answer
        if answer is None and exchange.status == 404 and -32601 in exchange.error_codes:
            answer = ModernAnswer(frame.seq, ())
        if shows_modern(exchange, frame):
            history.modern_servers.add(exchange.server)
        if answer is not None:
            keep(history.modern, connection, answer, MAX_REMEMBERED)
            is_dual = exchange.server in history.dual_servers
            if answer.versions and not is_dual and not any(v in STATEFUL for v in answer.versions):
                history.modern_only[exchange.server] = frame.seq
        for version, seq in told.supported.items():
            history.supported.setdefault(exchange.server, {}).setdefault(version, seq)
        for request in exchange.requests:
            if request.method == "tools/list":
                key = (exchange.server, exchange.fields.get("authorization") or "")
                listed = {name: mirrors(schema) for m in messages for name, schema in _tools(m)}
                history.mirrors.setdefault(key, {}).update(listed)
                for call in [call for call in history.mismatched if call[0] == connection]:
                    del history.mismatched[call]
            elif request.method == "tools/call" and -32020 in exchange.error_codes:
                self._note_mismatch(exchange, str(member(request.params, "name")), frame)

    def _note_mismatch(self, exchange: HttpExchange, tool: str, frame: Frame) -> None:
        """A call was refused for its headers; if not for the usual ones, then for those of its arguments."""
        if exchange.reported.isdisjoint(("HDR-001", "HDR-002", "HDR-003", "HDR-004", "PROTO-008")):
            mismatch = Mismatch(frame.seq, exchange.fields.starting("mcp-param-"))
            keep(self._history.mismatched, (exchange.request.connection, tool), mismatch, MAX_REMEMBERED)

    def _note_event_id(self, exchange: HttpExchange, session: HttpSession, frame: Frame, id: str) -> None:
        stream = exchange.stream
        if stream is None or id in session.events:
            return
        stream.events += 1
        session.forgetful = session.forgetful or len(session.events) >= MAX_REMEMBERED
        keep(
            session.events,
            id,
            SentEvent(stream, exchange.number, stream.events, hash(frame.raw)),
            MAX_REMEMBERED,
        )

    # The end

    def _ended(self, exchange: HttpExchange, end: ExchangeEnd) -> list[Finding]:
        exchange.cut, exchange.by, exchange.ended_ns = end.cut, end.by, end.observed_at_ns
        found = self._look("end", exchange, SERVER)
        session, head = exchange.session, exchange.response
        if session is None:
            return found
        session.last_ns = end.observed_at_ns
        if session.stateless and end.cut and end.by != CLIENT and exchange.streams:
            self._note_lost(session)
        if head is None:
            self._take_back(exchange)
        elif head.status == 404 and exchange.method == "POST":
            self._note_404(exchange, session, head)
        if exchange.stream is not None and exchange.streams:
            # A GET that was refused, for want of a token perhaps, has not carried the stream.
            exchange.stream.closed_ns, exchange.stream.left = end.observed_at_ns, end.by == "client"
        for key in exchange.delivered:
            session.delivered.pop(key, None)
        return found

    def _note_lost(self, session: HttpSession) -> None:
        """The stream broke, and no other brings what it was to answer."""
        for asked in session.judge.history.client.pending.values():
            keep(self._history.lost, (session.judge.history.caller, asked.id), asked, MAX_REMEMBERED)

    def _note_404(self, exchange: HttpExchange, session: HttpSession, head: ResponseHead) -> None:
        """The session is over. A GET or DELETE may lack a route, and -32601 means a method, so not there."""
        named = session.id is not None and exchange.fields.get(SESSION) == session.id
        if named and session.ended_seq is None and -32601 not in exchange.error_codes:
            ended_ns = exchange.ended_ns or head.observed_at_ns
            session.ended_seq, session.ended_by, session.ended_ns = head.seq, "404", ended_ns

    def _closed(self, close: Close) -> list[Finding]:
        history, found = self._history, list[Finding]()
        sessions = self._sessions()
        for exchange in list(history.exchanges.values()):
            exchange.cut, exchange.ended_ns = True, close.observed_at_ns
            found += self._look("close", exchange, SERVER)
        busy = {id(exchange.session) for exchange in history.exchanges.values()}
        for session in sessions:
            if session.last is not None and id(session) not in busy and not history.blind:
                session.last.ended_ns = close.observed_at_ns
                found += self._look("over", session.last, CLIENT)
            if not session.stateless and (session.id or session.legacy or not history.unattributed):
                found += session.judge.observe(close)
        return found

    def _sessions(self) -> list[HttpSession]:
        """Every session that is still remembered, each once, oldest first."""
        history = self._history
        under_way = [e.session for e in history.exchanges.values() if e.session]
        known = (*history.by_connection.values(), *history.sessions.values(), *history.posting.values())
        return list(dict.fromkeys([*known, *under_way]))

    def _lose_sight(self, gap: Gap) -> None:
        """Something passed unseen. What was under way is not followed any further."""
        self._history.blind = True
        for session in self._sessions():
            session.late = True
            session.judge.observe(gap)
        self._history.exchanges.clear()

    def _new_judge(self, revision: str | None, late: bool) -> MessageJudge:
        late = late or self._joined_late
        return MessageJudge(self._weigh, self._dispatch, revision=revision, joined_late=late)

    # Checks

    def _look(
        self, moment: Moment, exchange: HttpExchange, sender: Sender, frame: Frame | None = None
    ) -> list[Finding]:
        """Let the checks of this moment look."""
        found: list[Finding] = []
        history, message = self._history, exchange.body if frame is None else frame
        for check in self._dispatch.http_checks_for(moment, exchange.traffic, exchange.method):
            for breach in check(exchange, history, frame):
                if exchange.masked and breach.pointer and message and is_hidden(message, breach.pointer):
                    continue
                seq = exchange.request.seq if frame is None else frame.seq
                if moment in ("success", "refusal") and exchange.response is not None:
                    seq = exchange.response.seq
                found += self._weigh((breach,), seq, sender, self._candidates(exchange))
        if found:
            exchange.reported.update([finding.rule for finding in found])
        return found

    def _candidates(self, exchange: HttpExchange) -> tuple[str, ...]:
        """The revisions by which the HTTP of an exchange may be judged."""
        session = exchange.session
        if session is None:
            return STREAMABLE
        if session.legacy:
            return REVISIONS[:1]
        if session.stateless:
            named = [member(request.params, "_meta", VERSION_KEY) for request in exchange.requests]
            return (str(named[0]),) if named and named[0] in STATELESS else STATELESS
        if session.revision is not None:
            return (session.revision,)
        if exchange.method != "POST" or exchange.initialize is not None or session.id is not None:
            return STATEFUL[1:]
        return STREAMABLE


def _says_something(frame: Frame) -> bool:
    """Whether a body or a part of a stream from the server is more than nothing.

    A client takes neither a comment for an event nor what the stream's end has left without its blank line.
    """
    if (event := frame.event) is None:
        return bool(frame.raw)
    return frame.terminated and bool(frame.raw or event.id or event.name)


def _keys(messages: tuple[Proper, ...]) -> list[tuple[str, int | str]]:
    """What tells a message of the server from any other: its kind and its id."""
    return [
        ("response" if is_answer(m) else "request", m.id)
        for m in messages
        if isinstance(m, Request | Response | ErrorResponse) and isinstance(m.id, int | str)
    ]


def _tools(message: Proper) -> list[tuple[str, JSON]]:
    """The tools in a tools/list result: name and input schema."""
    tools = member(message.value, "result", "tools")
    return [
        (str(member(tool, "name")), member(tool, "inputSchema"))
        for tool in (tools if isinstance(tools, list) else [])
    ]


def _has_body(request: RequestHead, fields: Fields) -> bool:
    """Whether the request goes on. Where its version is later or not known, only what comes next tells."""
    if request.version not in ("1.0", "1.1") and request.method == "POST":
        return True
    length = fields.get("content-length")
    return "transfer-encoding" in fields or (length is not None and length.strip() not in ("", "0"))
