"""Plays a recorded client against a live server: takes server messages and returns client messages.

The player does no I/O and has no clock. A step of the script is due when everything that the recorded client
had received before it has been received again. If there is no progress for ``patience_ns``, the driver calls
``give_up``, and the step no longer waits. The messages of both sides are the session ``live``, which
``mcpproxy.replay.diff.session_diff`` compares with the recorded one.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final

from mcpproxy.protocol import raw_json
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
from mcpproxy.protocol.raw_json import put, spliced
from mcpproxy.replay.client.live_transcript import LiveTranscript, OpenRequest
from mcpproxy.replay.client.script import ScriptStep, awaited, is_masked_anywhere, steps
from mcpproxy.replay.client.server_names import ServerNames, WithheldError
from mcpproxy.replay.dependencies import dependencies
from mcpproxy.replay.diff.listing_diff import LISTS
from mcpproxy.replay.diff.session_diff import Pairing, described
from mcpproxy.replay.diff.values import equal
from mcpproxy.replay.message_paths import CURSOR, ID, REQUEST_ID
from mcpproxy.replay.recording import RecordedSession, SessionMessage, singles
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.session.frame import CLIENT, SERVER, Headers, SseEvent

_MS: Final = 1_000_000
_QUIET_NS: Final = 1000 * _MS
"""How long to wait for messages other than responses; halved each time they do not come."""
_LEAST_QUIET_NS: Final = 50 * _MS
_HUNG_NS: Final = 2000 * _MS
"""How long to wait for a response after an earlier one has not come in time."""
_MORE_PAGES: Final = 100
_MAX_UNEXPECTED: Final = 1000
_CANDIDATES: Final = 50
_NOT_ASKED: Final = b'{"code":-32601,"message":"the recorded client was not asked this"}'


@dataclass(frozen=True, slots=True)
class Send:
    """A message for the server, or with empty ``raw`` an HTTP exchange without one.

    ``step`` is the step that it belongs to, or one whose headers it shares; ``None`` if there is none.
    ``exchange`` is the number of its HTTP exchange, 0 on stdio. ``asks``: it contains a request.
    """

    raw: bytes
    step: ScriptStep | None = None
    exchange: int = 0
    asks: bool = False


class Player:
    """Plays the client of one recorded session.

    ``notes`` says what did not go as recorded. ``progress`` grows whenever a message is sent or an awaited
    one arrives; ``received_count`` is the number of messages from the server.
    """

    def __init__(self, session: RecordedSession) -> None:
        self._session: Final = session
        self._steps: Final = deque(steps(session))
        # Recorded server messages that have not been received again, by place.
        self._unseen: Final = {entry.index: entry for entry in awaited(session)}
        self._answer_to: Final[dict[int, SessionMessage]] = {}
        for entry in session.messages:
            if entry.answers is not None:
                self._answer_to.setdefault(entry.answers, entry)
        self._owner: Final = {place: dependency.owner for place, dependency in dependencies(session).items()}
        self._server_requests: Final = Matcher(
            (entry for entry in session.messages if entry.sender == SERVER), "loose"
        )
        self._live_request_ids: Final[dict[int, bytes]] = {}
        self._server_names: Final = ServerNames()
        self._transcript: Final = LiveTranscript(session)
        self._step_of: Final[dict[int, ScriptStep]] = {}
        self._requests: Final[dict[int, int]] = {}  # recorded request -> live request, by place
        self._unsent: Final[dict[int, str]] = {}  # recorded request -> why it is not sent
        self._pages = 0
        self._unexpected = 0
        self._quiet_ns = _QUIET_NS
        self._is_hung = False  # a response has not come in time
        self._is_stopped = False
        self.notes: Final[list[str]] = []
        self.progress = 0
        self.received_count = 0

    @property
    def live(self) -> RecordedSession:
        """The messages of both sides so far."""
        return self._transcript.session

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to send or to wait for."""
        return self._is_stopped or not (self._steps or self._unseen or self._is_paging)

    @property
    def is_stopped(self) -> bool:
        """Whether it ended before the end of the script."""
        return self._is_stopped

    @property
    def pairing(self) -> Pairing:
        """Which requests and exchanges of the recorded and the live session correspond."""
        same = {number: number for number in self.live.exchanges if number in self._session.exchanges}
        return Pairing(self._requests, same, self._unsent)

    @property
    def waits_for(self) -> list[SessionMessage]:
        """The recorded messages that the next step waits for."""
        place = self._steps[0].place if self._steps else len(self._session.messages)
        return list(takewhile(lambda entry: entry.index < place, self._unseen.values()))

    def patience_ns(self, timeout_ns: int) -> int:
        """Return how long to wait without progress: ``timeout_ns`` for a response, less for others."""
        waited = self.waits_for
        answers = [entry for entry in waited if entry.answers is not None]
        if not answers and not self._is_paging:
            gaps = (
                entry.at_ns - self._session.messages[entry.index - 1].at_ns for entry in waited if entry.index
            )
            return min(timeout_ns, self._quiet_ns + 2 * max(gaps, default=0))
        if self._is_hung:
            slowest = max((self._session.latency_ns(entry) or 0 for entry in answers), default=0)
            return min(timeout_ns, _HUNG_NS + 2 * slowest)
        return timeout_ns

    def begin(self, now_ns: int = 0) -> list[Send]:
        """Return the messages to send before the server has sent any."""
        return self._advance(now_ns)

    def receive(
        self, raw: bytes, now_ns: int = 0, exchange: int = 0, event: SseEvent | None = None
    ) -> list[Send]:
        """Take one frame from the server; never raises, whatever it contains."""
        if self._is_stopped or self._unexpected > _MAX_UNEXPECTED:
            return []
        message = parse(raw)
        sends: list[Send] = []
        for single, text in singles(message, raw):
            asked = self._take_open_request(single)
            live = self._transcript.add(SERVER, single, text, now_ns, exchange, event=event, answers=asked)
            self._receive(live, asked, sends, now_ns)
        if self._unexpected > _MAX_UNEXPECTED:
            self.stop(f"the server said more than {_MAX_UNEXPECTED} things that were not recorded")
            return []
        return sends + self._advance(now_ns)

    def give_up(self, now_ns: int = 0) -> list[Send]:
        """Continue without the awaited messages, which have not come in time."""
        waited = self.waits_for
        answers = [entry for entry in waited if entry.answers is not None]
        if answers or self._is_paging:
            if self._is_hung or not self.received_count:
                self.stop(
                    "the server does not answer any more"
                    if self.received_count
                    else "the server says nothing"
                )
                return []
            self._is_hung = True
            self.notes.extend(f"no answer in time to {self._described_request(entry)}" for entry in answers)
            for key in [key for key, asked in self._transcript.open.items() if asked.is_page]:
                del self._transcript.open[key]
        else:
            self._quiet_ns = max(_LEAST_QUIET_NS, self._quiet_ns // 2)
        for entry in waited:
            self._unseen.pop(entry.index, None)
        self.progress += 1
        return self._advance(now_ns)

    def head(self, exchange: int, status: int, headers: Headers) -> None:
        """Take the head of a response to an HTTP request."""
        self._transcript.head(exchange, status, headers)

    def ended(self, exchange: int, now_ns: int = 0) -> list[Send]:
        """Take the end of an HTTP exchange: its open requests will not be answered."""
        for asked in self._transcript.take_unanswered(exchange):
            if not asked.is_page:
                self._drop_awaited(asked.recorded)
            self.progress += 1
        return self._advance(now_ns)

    def stop(self, why: str) -> None:
        """Leave the rest of the script unplayed, and note why."""
        if self.is_done:
            return
        missing = [entry for entry in self._unseen.values() if entry.answers in self._requests]
        self.notes.append(f"{why}; no answer to {self._described_request(missing[0])}" if missing else why)
        for step in self._steps:
            for entry in step.messages:
                self._unsent[entry.index] = f"not asked: {why}"
        self._steps.clear()
        self._unseen.clear()
        self._is_stopped = True

    # Receiving

    def _take_open_request(self, message: Single) -> OpenRequest | None:
        """Remove and return the open request that a message answers."""
        match message:
            case Response(id=id) | ErrorResponse(id=id) if isinstance(id, int | str):
                return self._transcript.open.pop((type(id), id), None)
            case _:
                return None

    def _receive(
        self, live: SessionMessage, asked: OpenRequest | None, sends: list[Send], now_ns: int
    ) -> None:
        self.received_count += 1
        match live.message:
            case _ if asked is not None:
                self._answer(live, asked, sends, now_ns)
            case Request():
                self._request(live, live.message, sends, now_ns)
            case Malformed() if not live.raw.strip():
                pass
            case _:
                self._match_notification(live)

    def _answer(self, live: SessionMessage, asked: OpenRequest, sends: list[Send], now_ns: int) -> None:
        self._is_hung = False
        self.progress += 1
        was = None if asked.is_page else self._answer_to.get(asked.recorded.index)
        result = live.message.result if isinstance(live.message, Response) else None
        expected = was.message.result if was and isinstance(was.message, Response) else None
        if was is not None:
            self._unseen.pop(was.index, None)
            self._server_names.learn(expected, result)
        has_next = isinstance(expected, dict) and isinstance(expected.get("nextCursor"), str)
        if isinstance(result, dict) and isinstance(cursor := result.get("nextCursor"), str) and not has_next:
            self._request_page(asked.recorded, cursor, sends, now_ns)

    def _request_page(self, entry: SessionMessage, cursor: str, sends: list[Send], now_ns: int) -> None:
        """Request a page that the recorded server did not have."""
        message = entry.message
        if not isinstance(message, Request) or message.method not in LISTS or self._pages >= _MORE_PAGES:
            return
        self._pages += 1
        id = self._transcript.unused_id()
        raw = put(put(entry.raw, ID, raw_json.written(id)), CURSOR, raw_json.written(cursor))
        [(page, raw)] = singles(parse(raw), raw)
        step = self._step_of.get(entry.index)
        number = self._transcript.new_exchange(step.exchange if step else None)
        live = self._transcript.add(CLIENT, page, raw, now_ns, number)
        self._transcript.open[str, id] = OpenRequest(entry, live, is_page=True)
        sends.append(Send(live.raw, step, number, asks=True))

    def _request(self, live: SessionMessage, request: Request, sends: list[Send], now_ns: int) -> None:
        id = raw_json.value_bytes(live.raw, ID) or b"null"
        if request.method == "ping":
            self._send_now(b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}', sends, now_ns)
            return
        entry = self._server_requests.take(request)
        if entry is None or entry.index not in self._unseen:
            entry = next((each for each in self._unseen.values() if each.method == request.method), None)
        if entry is not None:
            del self._unseen[entry.index]
            self._live_request_ids[entry.index] = id
            self.progress += 1
            return
        self._unexpected += 1
        last = self._server_requests.last(request)
        answer = self._answer_to.get(last.index) if last else None
        if answer is not None and not is_masked_anywhere(_value(answer)):
            self._send_now(spliced(answer.raw, {ID: id}), sends, now_ns)
            return
        self._send_now(b'{"jsonrpc":"2.0","id":' + id + b',"error":' + _NOT_ASKED + b"}", sends, now_ns)

    def _match_notification(self, live: SessionMessage) -> None:
        """Match a notification, or a line that is not a message, with an awaited one like it."""
        every = (
            entry
            for entry in self._unseen.values()
            if entry.method == live.method
            and entry.answers is None
            and not isinstance(entry.message, Request)
        )
        alike = list(islice(every, _CANDIDATES))
        if not alike:
            self._unexpected += 1
            return
        value = _value(live)
        entry = next((each for each in alike if equal(_value(each), value)), alike[0])
        del self._unseen[entry.index]
        self.progress += 1

    # Sending

    @property
    def _is_paging(self) -> bool:
        return any(asked.is_page for asked in self._transcript.open.values())

    def _advance(self, now_ns: int) -> list[Send]:
        sends: list[Send] = []
        while self._steps and not self._is_paging:
            if next(iter(self._unseen), self._steps[0].place) < self._steps[0].place:
                break
            self._take(self._steps.popleft(), sends, now_ns)
        return sends

    def _take(self, step: ScriptStep, sends: list[Send], now_ns: int) -> None:
        number = 0
        if step.exchange:
            number = step.exchange.number
            self._transcript.open_exchange(number, step.exchange.request)
        raws = [
            raw for entry in step.messages if (raw := self._write(entry, step, number, now_ns)) is not None
        ]
        if step.messages and not raws:
            self._transcript.drop_exchange(number)
            return
        is_batch = bool(step.messages and step.messages[0].batch)
        self.progress += 1
        raw = b"[" + b",".join(raws) + b"]" if is_batch else b"".join(raws)
        sends.append(Send(raw, step, number, step.asks))

    def _write(self, entry: SessionMessage, step: ScriptStep, number: int, now_ns: int) -> bytes | None:
        """Return the bytes to send for one recorded message; ``None`` if it cannot be sent."""
        raw = self._translated(entry)
        if raw is None:
            self._drop_awaited(entry)
            return None
        parsed = parse(raw)
        message = entry.message if isinstance(parsed, Batch) else parsed
        live = self._transcript.add(CLIENT, message, raw, now_ns, number)
        if isinstance(message, Request):
            self._requests[entry.index] = live.index
            self._step_of[entry.index] = step
            if message.id is not None:
                self._transcript.open[type(message.id), message.id] = OpenRequest(entry, live)
        return raw

    def _translated(self, entry: SessionMessage) -> bytes | None:
        """Return the recorded bytes with live names; ``None``, with a note, if they cannot be sent."""
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
            case Request(id=id) if id is not None and (type(id), id) in self._transcript.open:
                return spliced(raw, {ID: raw_json.written(self._transcript.unused_id())})
            case Notification(method="notifications/cancelled", params=dict(params)):
                id = params.get("requestId")
                for (_, now), asked in self._transcript.open.items():
                    if isinstance(asked.recorded.message, Request) and asked.recorded.message.id == id != now:
                        return spliced(raw, {REQUEST_ID: raw_json.written(now)})
            case Response() | ErrorResponse() if entry.answers is not None:
                asked_as = self._live_request_ids.get(entry.answers)
                return spliced(raw, {ID: asked_as}) if asked_as else None
            case _:
                pass
        return raw

    def _leave_out(self, entry: SessionMessage, why: str) -> None:
        self._unsent[entry.index] = f"not asked: {why}"
        if entry.method not in LISTS:
            self.notes.append(f"frame {entry.seq}, {described(entry)}, is not sent: {why}")

    def _send_now(self, raw: bytes, sends: list[Send], now_ns: int) -> None:
        like = next(iter(self._step_of.values()), None)
        number = self._transcript.new_exchange(like.exchange if like else None)
        parsed = parse(raw)
        if not isinstance(parsed, Batch):
            self._transcript.add(CLIENT, parsed, raw, now_ns, number)
        sends.append(Send(raw, like, number))

    def _drop_awaited(self, request: SessionMessage) -> None:
        """Stop waiting for the messages that belong to a request."""
        for place in [place for place in self._unseen if self._owner.get(place) == request.index]:
            del self._unseen[place]

    def _described_request(self, answer: SessionMessage) -> str:
        asked = self._session.messages[answer.answers or 0]
        return f"{described(asked)} (frame {asked.seq})"


def _value(entry: SessionMessage) -> JSON:
    value = entry.message.value
    return value if isinstance(value, dict | list | str | int | float) else None
