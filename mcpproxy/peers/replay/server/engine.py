"""Play a recorded server for a live client: take client messages and return server messages.

The engine does no I/O and has no clock; a transport (``stdio_server``, ``http_server``) reads and sends. For
each client message the engine returns the server messages that are now due, in recorded order, each with the
delay after which to send it. A recorded server message is sent when the client has sent the messages on which
it depends (``mcpproxy.peers.replay.dependencies``), and only once, unless ``ReplayOptions.repeats`` is set.

A *miss* is a request that was not recorded, not as often as the client sends it, or without an answer; so is
a line that is not a message. A miss is counted and answered with an error, which names the most similar
recorded request if there is one. With ``ReplayOptions.passes``, a request is passed on to a real server
instead.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.peers.replay.dependencies import Dependency, dependencies
from mcpproxy.peers.replay.diff.values import Difference, equal
from mcpproxy.peers.replay.id_map import IdMap
from mcpproxy.peers.replay.message_paths import ID, OWN_TOKEN
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage
from mcpproxy.peers.replay.server.live_messages import (
    EngineResult,
    LiveMessage,
    OutgoingMessage,
    ReplayOptions,
    described,
    error,
    miss_data,
    result,
)
from mcpproxy.peers.replay.server.matching import Matcher
from mcpproxy.peers.replay.server.schedule import Schedule
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER, METHOD_NOT_FOUND, PARSE_ERROR
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Absent,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    parse,
)
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.protocol.raw_json import messages_with_bytes

_MAX_SHOWN_DIFFERENCES: Final = 3
"""How many differences from the most similar recorded request the text about a miss shows."""


class ReplayEngine:
    """Replaces the server of one recorded session.

    ``session_id`` replaces the recorded session id in server messages. ``answered`` counts the requests that
    got a recorded response, and ``misses`` the misses that got an error.
    """

    def __init__(
        self, session: RecordedSession, options: ReplayOptions | None = None, session_id: str = ""
    ) -> None:
        self._options: Final = options or ReplayOptions()
        self._session: Final = session
        client_messages = [entry for entry in session.messages if entry.sender == CLIENT]
        self._last_client_index: Final = client_messages[-1].index if client_messages else None
        self._is_stateful: Final = self._options.stateful or any(
            entry.method == "initialize" for entry in client_messages
        )
        self._matcher: Final = Matcher(client_messages, self._options.level, self._options.ignore)
        self._unmatched: Final = [
            entry for entry in client_messages if isinstance(entry.message, Notification | Malformed)
        ]
        self._answer_to: Final = session.first_answers()
        dependencies_by_index = dependencies(session)
        if not self._options.over_http:
            self._add_refusals(dependencies_by_index)
        self._schedule: Final = Schedule(session.messages, dependencies_by_index)
        # Server message -> the client message to which it belongs.
        self._owner: Final = {index: dependency.owner for index, dependency in dependencies_by_index.items()}
        self._batch_size: Final = Counter(entry.batch for entry in session.messages if entry.sender == SERVER)
        self._live: Final[dict[int, LiveMessage]] = {}  # index of a recorded message -> its live message
        # No request is removed, because a request that has been answered can still be cancelled.
        self._live_requests: Final[UnansweredRequests[LiveMessage]] = UnansweredRequests()
        self._id_map: Final = IdMap(session, self._answer_to, session_id)
        self.answered = 0
        self.misses = 0

    @property
    def session_key(self) -> int:
        """A number that is equal for two engines if they replay the same recorded session."""
        return id(self._session)

    @property
    def waiting(self) -> int:
        """How many recorded requests the live client has not sent."""
        return self._matcher.count - self._matcher.taken

    @property
    def unsent(self) -> list[SessionMessage]:
        """The recorded server messages that have not been sent."""
        return self._schedule.unsent

    @property
    def is_over(self) -> bool:
        """Whether the recorded server ended the session after the messages received so far."""
        return self._session.server_left and (
            self._last_client_index is None or self._last_client_index in self._live
        )

    def has_answer(self, live: LiveMessage) -> bool:
        """Whether the recording contains a response to this request, due now or later."""
        return live.recorded is not None and live.recorded.index in self._answer_to

    def begin(self) -> list[OutgoingMessage]:
        """Return the server messages that depend on no client message."""
        return self._joined(self._outgoing(self._schedule.begin()))

    def receive(self, raw: bytes) -> EngineResult:
        """Process a frame from the client. Never raises, for any frame."""
        outcome = EngineResult()
        message = parse(raw)
        outcome.messages = [LiveMessage(text, single) for single, text in messages_with_bytes(message, raw)]
        for live in outcome.messages:
            self._receive_message(live, outcome)
        outcome.outgoing = self._joined(outcome.outgoing)
        return outcome

    def _receive_message(self, live: LiveMessage, outcome: EngineResult) -> None:
        match live.message:
            case Request():
                self._on_request(live, live.message, outcome)
            case Notification(method="notifications/cancelled", params=params):
                self._on_cancellation(live, params, outcome)
            case Notification(method=method):
                candidates = [entry for entry in self._unmatched if entry.method == method]
                self._match_candidate(candidates, live, outcome)
            case Response(id=id) | ErrorResponse(id=id):
                server_request = self._id_map.take_answered(id)
                if server_request is not None and (entry := self._answer_to.get(server_request.index)):
                    self._mark_received(entry, live, outcome)
            case Malformed():
                candidates = [
                    entry for entry in self._unmatched if entry.raw == live.raw and entry.method is None
                ]
                if not self._match_candidate(candidates, live, outcome) and live.raw.strip():
                    self._add_miss(live, "it is not a JSON-RPC message", None, outcome, code=PARSE_ERROR)

    def _on_request(self, live: LiveMessage, request: Request, outcome: EngineResult) -> None:
        """Answer a request from the recording, with a generated response, or as a miss."""
        live.id = raw_json.value_bytes(live.raw, ID) or b"null"
        live.token = raw_json.value_bytes(live.raw, OWN_TOKEN)
        self._live_requests.add(CLIENT, request.id, live)
        if entry := self._matcher.take(request):
            self._mark_received(entry, live, outcome)
            if entry.index in self._answer_to:
                self.answered += 1
            elif self._gets_error(entry):
                self._add_miss(
                    live, f"the recording holds no answer to it (frame {entry.seq})", entry, outcome
                )
        elif self._options.repeats and (answer := self._last_answer(request)):
            self.answered += 1
            outcome.outgoing.append(
                OutgoingMessage(self._id_map.answer(answer, live), recorded=answer, live=live, answers=True)
            )
        elif request.method == "ping" and self._options.level != "strict":
            outcome.outgoing.append(result(live, {}))
        elif request.method == "server/discover" and self._is_stateful:
            # A client that supports servers with and without sessions sends this first; a server with
            # sessions does not know the method.
            outcome.outgoing.append(error(live, METHOD_NOT_FOUND, "Method not found"))
            outcome.notes.append("server/discover was not recorded; answered with Method not found")
        else:
            self._answer_miss(live, request, outcome)

    def _last_answer(self, request: Request) -> SessionMessage | None:
        """Return the recorded response to the last recorded request that is equal to ``request``."""
        entry = self._matcher.last(request)
        return None if entry is None else self._answer_to.get(entry.index)

    def _gets_error(self, entry: SessionMessage) -> bool:
        """Whether a recorded request without a recorded response gets an error.

        It does if its response was an HTTP status, which stdio lacks, or, except of a subscription, may be
        missing in the recording.
        """
        exchange = self._session.exchanges.get(entry.exchange)
        if exchange is not None and exchange.status >= 300:
            return not self._options.over_http  # over HTTP the status is the answer
        return not self._options.complete and entry.method != LISTEN

    def _answer_miss(self, live: LiveMessage, request: Request, outcome: EngineResult) -> None:
        """Answer a request for which the recording has no unused equal request."""
        if entry := self._matcher.last(request):
            reason = f"all equal recorded requests were used, the last is frame {entry.seq}"
            self._add_miss(live, reason, entry, outcome)
        elif nearest := self._matcher.nearest(request):
            frame = f"frame {nearest.recorded.seq}"
            shown = [str(difference) for difference in nearest.differences[:_MAX_SHOWN_DIFFERENCES]]
            if more := len(nearest.differences) - len(shown):
                shown.append(f"{more} more differences")
            reason = f"no recorded request is equal; nearest is {frame}, where {', '.join(shown)}"
            if nearest.recorded.method != request.method:
                reason = (
                    f"its method was never recorded; the next request is {frame} ({nearest.recorded.method})"
                )
            self._add_miss(live, reason, nearest.recorded, outcome, nearest.differences)
        else:
            self._add_miss(live, "the recording holds no request", None, outcome)

    def _add_miss(
        self,
        live: LiveMessage,
        reason: str,
        nearest: SessionMessage | None,
        outcome: EngineResult,
        differences: Sequence[Difference] = (),
        code: int = IN_PLACE_OF_PEER,
    ) -> None:
        """Count a miss and answer it with an error; with passthrough, have it passed on instead."""
        what = described(live)
        if self._options.passes and isinstance(live.message, Request):
            outcome.passed.append(live)
            outcome.notes.append(f"passed on: {what}: {reason}")
            return
        self.misses += 1
        outcome.notes.append(f"miss {self.misses}: {what}: {reason}")
        data = miss_data(reason, nearest, differences)
        outcome.outgoing.append(error(live, code, f"not in the recording: {what}", data))

    def _on_cancellation(self, live: LiveMessage, params: "JSON | Absent", outcome: EngineResult) -> None:
        """Process a cancellation. If it was not recorded, no more messages are sent for its request."""
        target = self._live_requests.find(CLIENT, member(params, "requestId"))
        if target is None:
            return
        if target.recorded is not None:
            candidates = [entry for entry in self._unmatched if entry.names == target.recorded.index]
            if self._match_candidate(candidates, live, outcome):
                return  # the recorded client cancelled the request, too, so the recorded reaction is sent
            self._schedule.drop(target.recorded)
        target.is_cancelled = True

    def _match_candidate(
        self, candidates: Sequence[SessionMessage], live: LiveMessage, outcome: EngineResult
    ) -> bool:
        """Match ``live`` with an equal candidate, or else with the first; false if there is no candidate."""
        if not candidates:
            return False
        entry = next((entry for entry in candidates if _is_equal(entry, live)), candidates[0])
        self._unmatched.remove(entry)
        self._mark_received(entry, live, outcome)
        return True

    def _mark_received(self, entry: SessionMessage, live: LiveMessage, outcome: EngineResult) -> None:
        """Record that the live client has sent ``entry``, and add the messages that are now due."""
        live.recorded = entry
        self._live[entry.index] = live
        outcome.outgoing += self._outgoing(self._schedule.mark_received(entry))

    def _outgoing(self, due: Iterable[SessionMessage]) -> list[OutgoingMessage]:
        """Return the messages to send for recorded messages that are due."""
        outgoing: list[OutgoingMessage] = []
        for entry in due:
            if entry.exchange and not self._options.over_http and isinstance(entry.message, Malformed):
                continue  # an HTML page or an empty event, which cannot be sent as a line on stdio
            owner = self._owner[entry.index]
            live = None if owner is None else self._live.get(owner)
            raw = self._id_map.translated(entry, live)
            if raw is not None and not (live and live.is_cancelled):
                factor = self._options.factor
                delay_ns = int(self._schedule.waited_ns(entry) * factor) if factor else 0
                outgoing.append(
                    OutgoingMessage(raw, delay_ns, entry, live, self._id_map.answers(entry, live))
                )
        return outgoing

    def _joined(self, outgoing: list[OutgoingMessage]) -> list[OutgoingMessage]:
        """Join the messages of a recorded batch into a batch, if all of them are due together."""
        by_batch: defaultdict[int, list[OutgoingMessage]] = defaultdict(list)
        for out in outgoing:
            if out.recorded is not None and out.recorded.batch:
                by_batch[out.recorded.batch].append(out)
        joined: list[OutgoingMessage] = []
        for out in outgoing:
            batch = out.recorded.batch if out.recorded else 0
            parts = by_batch[batch] if batch else []
            if not batch or len(parts) != self._batch_size[batch]:
                joined.append(out)
            elif out is parts[0]:
                out.others = tuple(parts[1:])
                out.raw = b"[" + b",".join(part.raw for part in parts) + b"]"
                out.delay_ns = max(part.delay_ns for part in parts)
                joined.append(out)
        return joined

    def _add_refusals(self, dependencies_by_index: dict[int, Dependency]) -> None:
        """Add errors of refused exchanges to ``_answer_to``, even without an id; stdio has no HTTP status."""
        for index, dependency in dependencies_by_index.items():
            entry = self._session.messages[index]
            if not isinstance(entry.message, ErrorResponse) or entry.answers is not None:
                continue
            exchange = self._session.exchanges.get(entry.exchange)
            is_refusal = entry.message.id is None or (exchange is not None and exchange.status >= 400)
            if is_refusal and dependency.owner is not None:
                self._answer_to.setdefault(dependency.owner, entry)


def summary(engines: Sequence[ReplayEngine], passed: int = 0) -> str:
    """Return the result of a replay as one line; ``passed`` is how many requests were passed on."""
    misses = sum(engine.misses for engine in engines)
    waiting = _never_asked(engines)
    answered = sum(engine.answered for engine in engines)
    parts = [f"{count(answered, 'request')} answered from the recording"]
    parts.append(f"{misses} {'miss' if misses == 1 else 'misses'}")
    if passed:
        parts.append(f"{passed} passed on")
    if waiting:
        parts.append(f"{count(waiting, 'recorded request')} never came")
    return ", ".join(parts)


def _never_asked(engines: Sequence[ReplayEngine]) -> int:
    """Return how many recorded requests the clients did not send.

    If one session was replayed several times, only the replay with the most requests counts: a client may
    have started another replay only to find out which protocol revisions the server supports.
    """
    fewest: dict[int, int] = {}
    for engine in engines:
        fewest[engine.session_key] = min(fewest.get(engine.session_key, engine.waiting), engine.waiting)
    return sum(fewest.values())


def _is_equal(entry: SessionMessage, live: LiveMessage) -> bool:
    recorded_value, live_value = entry.message.value, live.message.value
    if isinstance(recorded_value, Absent) or isinstance(live_value, Absent):
        return recorded_value is live_value
    return equal(recorded_value, live_value)
