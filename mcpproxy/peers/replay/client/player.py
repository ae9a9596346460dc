"""Play a recorded client against a live server: take server messages and return client messages.

The player does no I/O and has no clock; ``driver`` connects it to the server. The script of the client is a
list of steps: the messages that the recorded client sent. A step is due when all messages that the recorded
client had received before this step have been received again. If there is no progress for ``patience_ns``,
the driver calls ``give_up``, and the step no longer waits. The messages of both sides form the session
``live``, which ``replay.diff.session_diff`` compares with the recorded session.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, FRAME_BYTES, SERVER, Headers, SseEvent
from mcpproxy.peers.replay.client.live_transcript import LiveTranscript, OpenRequest
from mcpproxy.peers.replay.client.script import ScriptStep, awaited_messages, is_masked_anywhere, steps
from mcpproxy.peers.replay.client.server_names import ServerNames, WithheldError
from mcpproxy.peers.replay.dependencies import dependencies
from mcpproxy.peers.replay.diff.listing_diff import LISTS
from mcpproxy.peers.replay.diff.session_diff import Pairing, described
from mcpproxy.peers.replay.diff.values import equal
from mcpproxy.peers.replay.message_paths import CURSOR, ID, REQUEST_ID
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage
from mcpproxy.peers.replay.server.matching import Matcher
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND, error_message
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    Single,
    parse,
)
from mcpproxy.protocol.message_parts import Key, key_of
from mcpproxy.protocol.raw_json import messages_with_bytes, put, spliced

_MS: Final = 1_000_000
_QUIET_NS: Final = 1000 * _MS
"""How long to wait for a message that is not a response, beyond twice the longest recorded pause before one;
halved each time that no message arrives."""
_LEAST_QUIET_NS: Final = 50 * _MS
"""That wait is not halved below this."""
_SHORT_PATIENCE_NS: Final = 2000 * _MS
"""How long to wait for a response, beyond twice its recorded latency, after one has not arrived in time."""
_MAX_EXTRA_PAGES: Final = 100
"""How many pages of lists are requested at most that the recorded server did not have."""
_MAX_UNEXPECTED: Final = 1000
"""If the server sends more messages than this that were not recorded, the replay stops."""
_MAX_CANDIDATES: Final = 50
"""How many awaited messages a notification is compared with at most."""


@dataclass(frozen=True, slots=True)
class Send:
    """A message for the server, or an HTTP exchange without a message if ``raw`` is empty.

    ``step`` is the step of the script that the message belongs to. A message that is not in the script has
    the step whose headers it is sent with, or ``None``. ``exchange`` is the number of the HTTP exchange, 0 if
    the client was recorded on stdio. ``has_request`` says whether the message contains a request.
    """

    raw: bytes
    step: ScriptStep | None = None
    exchange: int = 0
    has_request: bool = False


class Player:
    """Plays the client of one recorded session.

    ``notes`` are sentences about deviations from the recording. ``progress`` grows whenever a step is sent, a
    response or an awaited message arrives, awaited messages are given up, or a request gets no answer.
    ``received_count`` is the number of messages from the server. In the private attributes, messages are
    identified by their index in the session. Private methods append the messages to send to their argument
    ``sends``.
    """

    def __init__(self, session: RecordedSession) -> None:
        self._session: Final = session
        self._steps: Final = deque(steps(session))
        # Recorded server messages that have not been received again.
        self._not_received: Final = {entry.index: entry for entry in awaited_messages(session)}
        self._answer_to: Final = session.first_answers()
        # Recorded server message -> the client message to which it belongs.
        self._owner: Final = {index: dependency.owner for index, dependency in dependencies(session).items()}
        # ``loose``: matched by the method and the name in the params only.
        self._server_requests: Final = Matcher(
            (entry for entry in session.messages if entry.sender == SERVER), "loose"
        )
        self._live_request_ids: Final[dict[int, bytes]] = {}  # recorded server request -> its live id
        self._server_names: Final = ServerNames()
        self._transcript: Final = LiveTranscript(session)
        self._step_of: Final[dict[int, ScriptStep]] = {}  # recorded request -> its step
        self._requests: Final[dict[int, int]] = {}  # recorded request -> live request
        self._unsent: Final[dict[int, str]] = {}  # recorded request -> why it is not sent
        self._extra_pages = 0
        self._unexpected = 0  # how many messages of the server were not recorded
        self._quiet_ns = _QUIET_NS
        self._has_missed_answer = False  # whether the latest awaited response has not arrived in time
        self._is_stopped = False
        self._refusals: Final[set[str]] = (
            set()
        )  # the refusals that are in ``notes``, where each is noted once
        self.notes: Final[list[str]] = []
        self.progress = 0
        self.received_count = 0

    @property
    def live(self) -> RecordedSession:
        """The messages of both sides so far."""
        return self._transcript.session

    @property
    def recorded_bytes(self) -> int:
        """About how many bytes of memory the recorded server's messages take."""
        return sum(len(entry.raw) + FRAME_BYTES for entry in self._session.messages if entry.sender == SERVER)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to send or to wait for."""
        return self._is_stopped or not (self._steps or self._not_received or self._is_paging)

    @property
    def is_stopped(self) -> bool:
        """Whether the player stopped before the end of the script."""
        return self._is_stopped

    @property
    def pairing(self) -> Pairing:
        """Which requests and exchanges of the recorded and the live session correspond."""
        exchanges = {number: number for number in self.live.exchanges if number in self._session.exchanges}
        return Pairing(self._requests, exchanges, self._unsent)

    @property
    def waits_for(self) -> list[SessionMessage]:
        """The recorded messages that the next step waits for; after the last step, all that are missing."""
        index = self._steps[0].message_index if self._steps else len(self._session.messages)
        return list(takewhile(lambda entry: entry.index < index, self._not_received.values()))

    def patience_ns(self, timeout_ns: int) -> int:
        """Return how long to wait without progress: ``timeout_ns`` for a response, less for other messages.

        After a response that did not arrive in time, the wait for the next one is shorter, too.
        """
        awaited = self.waits_for
        answers = [entry for entry in awaited if entry.answers is not None]
        if not answers and not self._is_paging:
            pauses_ns = (
                entry.at_ns - self._session.messages[entry.index - 1].at_ns
                for entry in awaited
                if entry.index
            )
            return min(timeout_ns, self._quiet_ns + 2 * max(pauses_ns, default=0))
        if self._has_missed_answer:
            longest_ns = max((self._session.latency_ns(entry) or 0 for entry in answers), default=0)
            return min(timeout_ns, _SHORT_PATIENCE_NS + 2 * longest_ns)
        return timeout_ns

    def begin(self, now_ns: int = 0) -> list[Send]:
        """Return the messages to send before the server has sent a message."""
        return self._advance(now_ns)

    def receive(
        self, raw: bytes, now_ns: int = 0, exchange: int = 0, event: SseEvent | None = None
    ) -> list[Send]:
        """Process a frame from the server, and return the messages to send. Never raises, for any frame."""
        if self._is_stopped or self._unexpected > _MAX_UNEXPECTED:
            return []
        message = parse(raw)
        sends: list[Send] = []
        for single, text in messages_with_bytes(message, raw):
            open_request = self._take_open_request(single)
            live = self._transcript.add(
                SERVER, single, text, now_ns, exchange, event=event, answers=open_request
            )
            self._receive_message(live, open_request, sends, now_ns)
        if self._unexpected > _MAX_UNEXPECTED:
            self.stop(f"the server said more than {_MAX_UNEXPECTED} things that were not recorded")
            return []
        return sends + self._advance(now_ns)

    def give_up(self, now_ns: int = 0) -> list[Send]:
        """Continue without the awaited messages, which are late; return the messages to send.

        If a response is late, and so was the one before, or the server has sent nothing at all, stop instead.
        """
        awaited = self.waits_for
        answers = [entry for entry in awaited if entry.answers is not None]
        if answers or self._is_paging:
            if self._has_missed_answer or not self.received_count:
                self.stop(
                    "the server does not answer any more"
                    if self.received_count
                    else "the server says nothing"
                )
                return []
            self._has_missed_answer = True
            self.notes.extend(f"no answer in time to {self._described_request(entry)}" for entry in answers)
            self._transcript.open.take_if(lambda open_request: open_request.is_page)
        else:
            self._quiet_ns = max(_LEAST_QUIET_NS, self._quiet_ns // 2)
        for entry in awaited:
            self._not_received.pop(entry.index, None)
        self.progress += 1
        return self._advance(now_ns)

    def receive_head(self, exchange: int, status: int, headers: Headers) -> None:
        """Process the head of an HTTP response."""
        self._transcript.set_head(exchange, status, headers)

    def end_exchange(self, exchange: int, now_ns: int = 0) -> list[Send]:
        """Process the end of an HTTP exchange: its open requests will not be answered."""
        for open_request in self._transcript.take_unanswered(exchange):
            if not open_request.is_page:
                self._drop_awaited(open_request.recorded)
            self.progress += 1
        return self._advance(now_ns)

    def refuse(self, keys: Collection[Key], why: str, now_ns: int = 0) -> list[Send]:
        """Process the refusal of the requests with these ids, which get no answer; ``why`` is the reason.

        The replay stops if the recorded server answered one of these requests and the live server has not
        sent any message yet.
        """
        for open_request in self._transcript.open.take_if(
            lambda request: isinstance(request.live.message, Request) and key_of(request.live.message) in keys
        ):
            self.progress += 1
            if open_request.is_page:
                continue
            request = open_request.recorded
            if request.index in self._answer_to:
                if not self.received_count:
                    self.stop(why)
                    return []
                if why not in self._refusals:
                    self._refusals.add(why)
                    self.notes.append(f"no answer to {described(request)} (frame {request.seq}): {why}")
            self._drop_awaited(request)
        return self._advance(now_ns)

    def stop(self, why: str) -> None:
        """End the replay before the end of the script, and note why; do nothing if ``is_done``."""
        if self.is_done:
            return
        missing = [entry for entry in self._not_received.values() if entry.answers in self._requests]
        self.notes.append(f"{why}; no answer to {self._described_request(missing[0])}" if missing else why)
        for step in self._steps:
            for entry in step.messages:
                self._unsent[entry.index] = f"not asked: {why}"
        self._steps.clear()
        self._not_received.clear()
        self._is_stopped = True

    # Receiving

    def _take_open_request(self, message: Single) -> OpenRequest | None:
        """Remove and return the open request that a message answers."""
        match message:
            case Response(id=id) | ErrorResponse(id=id):
                return self._transcript.open.take(CLIENT, id)
            case _:
                return None

    def _receive_message(
        self, live: SessionMessage, open_request: OpenRequest | None, sends: list[Send], now_ns: int
    ) -> None:
        """Process a message of the server, which answers ``open_request`` if that is not ``None``."""
        self.received_count += 1
        match live.message:
            case _ if open_request is not None:
                self._on_answer(live, open_request, sends, now_ns)
            case Request():
                self._on_request(live, live.message, sends, now_ns)
            case Malformed() if not live.raw.strip():
                pass
            case _:
                self._match_notification(live)

    def _on_answer(
        self, live: SessionMessage, open_request: OpenRequest, sends: list[Send], now_ns: int
    ) -> None:
        """Process the response to a request, and request a further page if the response offers one."""
        self._has_missed_answer = False
        self.progress += 1
        recorded = None if open_request.is_page else self._answer_to.get(open_request.recorded.index)
        result = live.message.result if isinstance(live.message, Response) else None
        expected = recorded.message.result if recorded and isinstance(recorded.message, Response) else None
        if recorded is not None:
            self._not_received.pop(recorded.index, None)
            self._server_names.learn(expected, result)
        has_next = isinstance(expected, dict) and isinstance(expected.get("nextCursor"), str)
        if isinstance(result, dict) and isinstance(cursor := result.get("nextCursor"), str) and not has_next:
            self._request_page(open_request.recorded, cursor, sends, now_ns)

    def _request_page(self, entry: SessionMessage, cursor: str, sends: list[Send], now_ns: int) -> None:
        """Request a page that the recorded server did not have."""
        message = entry.message
        if not isinstance(message, Request) or message.method not in LISTS:
            return
        if self._extra_pages >= _MAX_EXTRA_PAGES:
            return
        self._extra_pages += 1
        id = self._transcript.unused_id()
        raw = put(put(entry.raw, ID, raw_json.written(id)), CURSOR, raw_json.written(cursor))
        [(page_request, raw)] = messages_with_bytes(parse(raw), raw)
        step = self._step_of.get(entry.index)
        number = self._transcript.new_exchange(step.exchange if step else None)
        live = self._transcript.add(CLIENT, page_request, raw, now_ns, number)
        self._transcript.open.add(CLIENT, id, OpenRequest(entry, live, is_page=True))
        sends.append(Send(live.raw, step, number, has_request=True))

    def _on_request(self, live: SessionMessage, request: Request, sends: list[Send], now_ns: int) -> None:
        """Process a request of the server.

        A ping is answered at once. The script answers a request that was recorded. To any other request the
        player sends the recorded answer to a similar request, or an error.
        """
        id = raw_json.value_bytes(live.raw, ID) or b"null"
        if request.method == "ping":
            self._send_now(b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}', sends, now_ns)
            return
        entry = self._server_requests.take(request)
        if entry is None or entry.index not in self._not_received:
            entry = next(
                (awaited for awaited in self._not_received.values() if awaited.method == request.method), None
            )
        if entry is not None:
            del self._not_received[entry.index]
            self._live_request_ids[entry.index] = id
            self.progress += 1
            return
        self._unexpected += 1
        recorded = self._server_requests.last(request)
        answer = self._answer_to.get(recorded.index) if recorded else None
        if answer is not None and not is_masked_anywhere(_value(answer)):
            self._send_now(spliced(answer.raw, {ID: id}), sends, now_ns)
            return
        self._send_now(
            error_message(METHOD_NOT_FOUND, "the recorded client was not asked this", id), sends, now_ns
        )

    def _match_notification(self, live: SessionMessage) -> None:
        """Match a notification, or a line that is not a message, with an awaited entry of the same method."""
        same_method = (
            entry
            for entry in self._not_received.values()
            if entry.method == live.method
            and entry.answers is None
            and not isinstance(entry.message, Request)
        )
        candidates = list(islice(same_method, _MAX_CANDIDATES))
        if not candidates:
            self._unexpected += 1
            return
        value = _value(live)
        entry = next((entry for entry in candidates if equal(_value(entry), value)), candidates[0])
        del self._not_received[entry.index]
        self.progress += 1

    # Sending

    @property
    def _is_paging(self) -> bool:
        return any(open_request.is_page for open_request in self._transcript.open)

    def _advance(self, now_ns: int) -> list[Send]:
        """Return the messages of all steps that are due."""
        sends: list[Send] = []
        while self._steps and not self._is_paging:
            first_awaited = next(iter(self._not_received), None)  # an index, the lowest
            if first_awaited is not None and first_awaited < self._steps[0].message_index:
                break
            self._add_step(self._steps.popleft(), sends, now_ns)
        return sends

    def _add_step(self, step: ScriptStep, sends: list[Send], now_ns: int) -> None:
        """Add the message of a step to ``sends``, unless nothing of it can be sent."""
        number = 0
        if step.exchange:
            number = step.exchange.number
            self._transcript.open_exchange(number, step.exchange.request)
        raws = [
            raw for entry in step.messages if (raw := self._add_live(entry, step, number, now_ns)) is not None
        ]
        if step.messages and not raws:
            self._transcript.drop_exchange(number)
            return
        is_batch = bool(step.messages and step.messages[0].batch)
        self.progress += 1
        raw = b"[" + b",".join(raws) + b"]" if is_batch else b"".join(raws)
        sends.append(Send(raw, step, number, step.has_request))

    def _add_live(self, entry: SessionMessage, step: ScriptStep, number: int, now_ns: int) -> bytes | None:
        """Add a recorded message to the live session; return its bytes, ``None`` if it cannot be sent."""
        raw = self._translated(entry)
        if raw is None:
            self._drop_awaited(entry)
            return None
        parsed = parse(raw)
        # An array inside a batch is not a message, but its bytes by themselves would be read as a batch.
        message = entry.message if isinstance(parsed, Batch) else parsed
        live = self._transcript.add(CLIENT, message, raw, now_ns, number)
        if isinstance(message, Request):
            self._requests[entry.index] = live.index
            self._step_of[entry.index] = step
            self._transcript.open.add(CLIENT, message.id, OpenRequest(entry, live))
        return raw

    def _translated(self, entry: SessionMessage) -> bytes | None:
        """Return the recorded bytes with the live server's cursors and ids; ``None`` if they are not sent."""
        message = entry.message
        if isinstance(message, Malformed):
            return entry.raw
        if is_masked_anywhere(message.value):
            return self._leave_out(entry, "the recording masks a value in it")
        try:
            raw = self._server_names.translated(entry.raw, message.value)
        except WithheldError as why:
            return self._leave_out(entry, str(why))
        match message:
            case Request(id=id) if self._transcript.open.find(CLIENT, id):
                return spliced(raw, {ID: raw_json.written(self._transcript.unused_id())})
            case Notification(method="notifications/cancelled") if entry.names is not None:
                for open_request in self._transcript.open:
                    if open_request.recorded.index == entry.names:
                        live_id = raw_json.value_bytes(open_request.live.raw, ID)
                        return spliced(raw, {REQUEST_ID: live_id}) if live_id else raw
            case Response() | ErrorResponse() if entry.answers is not None:
                live_request_id = self._live_request_ids.get(entry.answers)
                return spliced(raw, {ID: live_request_id}) if live_request_id else None
            case _:
                pass
        return raw

    def _leave_out(self, entry: SessionMessage, why: str) -> None:
        """Note that a recorded message is not sent."""
        self._unsent[entry.index] = f"not asked: {why}"
        if entry.method not in LISTS:
            self.notes.append(f"frame {entry.seq}, {described(entry)}, is not sent: {why}")

    def _send_now(self, raw: bytes, sends: list[Send], now_ns: int) -> None:
        """Send a message that is not in the script, over HTTP with the headers of the first request."""
        step = next(iter(self._step_of.values()), None)
        number = self._transcript.new_exchange(step.exchange if step else None)
        parsed = parse(raw)
        if not isinstance(parsed, Batch):
            self._transcript.add(CLIENT, parsed, raw, now_ns, number)
        sends.append(Send(raw, step, number))

    def _drop_awaited(self, request: SessionMessage) -> None:
        """Stop waiting for the messages that belong to a request."""
        for index in [index for index in self._not_received if self._owner.get(index) == request.index]:
            del self._not_received[index]

    def _described_request(self, answer: SessionMessage) -> str:
        """Describe the recorded request that ``answer`` answers, for the user."""
        request = self._session.messages[answer.answers or 0]
        return f"{described(request)} (frame {request.seq})"


def _value(entry: SessionMessage) -> JSON:
    value = entry.message.value
    return value if isinstance(value, dict | list | str | int | float) else None
