"""A recorded client for a live server: the server's messages in, what the client says to them out.

The player knows no transport and no clock. A step of the script is due when everything that the recorded
client had seen before it has been seen again, or given up: the driver waits for ``patience_ns`` after the
last progress and then calls ``give_up``. What was said on both sides is kept as a session of its own
(``live``), to be compared with the recorded one by ``mcpproxy.replay.diff.session_diff``.
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
from mcpproxy.replay.client.live_transcript import Asked, Played
from mcpproxy.replay.client.script import Step, awaited, is_masked_anywhere, steps
from mcpproxy.replay.client.server_names import Handed, WithheldError
from mcpproxy.replay.dependencies import causes
from mcpproxy.replay.diff.listing_diff import LISTS
from mcpproxy.replay.diff.session_diff import Pairing, named
from mcpproxy.replay.diff.values import equal
from mcpproxy.replay.message_paths import CURSOR, ID, REQUEST_ID
from mcpproxy.replay.recording import Said, Session, singles
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.session.frame import CLIENT, SERVER, Headers, SseEvent

_MS: Final = 1_000_000
_QUIET_NS: Final = 1000 * _MS
_LEAST_QUIET_NS: Final = 50 * _MS
_HUNG_NS: Final = 2000 * _MS
_MORE_PAGES: Final = 100
_STRANGERS: Final = 1000
_CANDIDATES: Final = 50
_NOT_ASKED: Final = b'{"code":-32601,"message":"the recorded client was not asked this"}'


@dataclass(frozen=True, slots=True)
class Send:
    """A message for the server, or with empty ``raw`` an HTTP exchange without one.

    ``step`` is what it is of, or what it is like; ``None`` if nothing is. ``exchange`` is the number of its
    HTTP exchange, 0 on stdio. ``asks``: an answer comes in that exchange.
    """

    raw: bytes
    step: Step | None = None
    exchange: int = 0
    asks: bool = False


class Player:
    """Plays the client of one recorded session.

    ``notes`` say what went otherwise than it should. ``progress`` grows whenever something is sent, or
    something has come that was waited for; ``heard`` counts what the server has said.
    """

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._steps: Final = deque(steps(session))
        self._unseen: Final = {said.index: said for said in awaited(session)}
        self._answer_to: Final[dict[int, Said]] = {}
        for said in session.messages:
            if said.answers is not None:
                self._answer_to.setdefault(said.answers, said)
        self._owner: Final = {place: cause.owner for place, cause in causes(session).items()}
        self._asks: Final = Matcher((said for said in session.messages if said.sender == SERVER), "loose")
        self._asked_as: Final[dict[int, bytes]] = {}
        self._handed: Final = Handed()
        self._played: Final = Played(session)
        self._step_of: Final[dict[int, Step]] = {}
        self._requests: Final[dict[int, int]] = {}
        self._unasked: Final[dict[int, str]] = {}
        self._pages = 0
        self._strangers = 0
        self._quiet_ns = _QUIET_NS
        self._is_hung = False
        self._is_stopped = False
        self.notes: Final[list[str]] = []
        self.progress = 0
        self.heard = 0

    @property
    def live(self) -> Session:
        """What has been said so far."""
        return self._played.session

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be sent or waited for."""
        return self._is_stopped or not (self._steps or self._unseen or self._is_turning_pages)

    @property
    def is_stopped(self) -> bool:
        """Whether it ended before the end of the script."""
        return self._is_stopped

    @property
    def pairing(self) -> Pairing:
        """What of the recorded and the live session belongs together."""
        same = {number: number for number in self.live.exchanges if number in self._session.exchanges}
        return Pairing(self._requests, same, self._unasked)

    @property
    def waits_for(self) -> list[Said]:
        """The recorded messages that hold up the next step."""
        place = self._steps[0].place if self._steps else len(self._session.messages)
        return list(takewhile(lambda said: said.index < place, self._unseen.values()))

    def patience_ns(self, timeout_ns: int) -> int:
        """How long to wait without progress: for an answer ``timeout_ns``, for anything else much less."""
        waited = self.waits_for
        answers = [said for said in waited if said.answers is not None]
        if not answers and not self._is_turning_pages:
            gaps = (
                said.at_ns - self._session.messages[said.index - 1].at_ns for said in waited if said.index
            )
            return min(timeout_ns, self._quiet_ns + 2 * max(gaps, default=0))
        if self._is_hung:
            slowest = max((self._session.latency_ns(said) or 0 for said in answers), default=0)
            return min(timeout_ns, _HUNG_NS + 2 * slowest)
        return timeout_ns

    def begin(self, now_ns: int = 0) -> list[Send]:
        """What is sent before the server has said anything."""
        return self._advance(now_ns)

    def hear(
        self, raw: bytes, now_ns: int = 0, exchange: int = 0, event: SseEvent | None = None
    ) -> list[Send]:
        """Take one frame of the server's; never raises, whatever it is."""
        if self._is_stopped or self._strangers > _STRANGERS:
            return []
        message = parse(raw)
        sends: list[Send] = []
        for single, text in singles(message, raw):
            asked = self._asked(single)
            live = self._played.keep(SERVER, single, text, now_ns, exchange, event, asked)
            self._hear(live, asked, sends, now_ns)
        if self._strangers > _STRANGERS:
            self.stop(f"the server said more than {_STRANGERS} things that were not recorded")
            return []
        return sends + self._advance(now_ns)

    def give_up(self, now_ns: int = 0) -> list[Send]:
        """The patience is over: go on without what has not come."""
        waited = self.waits_for
        answers = [said for said in waited if said.answers is not None]
        if answers or self._is_turning_pages:
            if self._is_hung or not self.heard:
                self.stop("the server says nothing any more" if self.heard else "the server says nothing")
                return []
            self._is_hung = True
            self.notes.extend(f"no answer in time to {self._question(said)}" for said in answers)
            for key in [key for key, asked in self._played.open.items() if asked.is_page]:
                del self._played.open[key]
        else:
            self._quiet_ns = max(_LEAST_QUIET_NS, self._quiet_ns // 2)
        for said in waited:
            self._unseen.pop(said.index, None)
        self.progress += 1
        return self._advance(now_ns)

    def head(self, exchange: int, status: int, headers: Headers) -> None:
        """The head of the answer to an HTTP request."""
        self._played.head(exchange, status, headers)

    def ended(self, exchange: int, now_ns: int = 0) -> list[Send]:
        """An HTTP exchange is over, for good: what was asked in it and not answered will not be."""
        for asked in self._played.closed(exchange):
            if not asked.is_page:
                self._forget(asked.said)
            self.progress += 1
        return self._advance(now_ns)

    def stop(self, why: str) -> None:
        """Nothing more will be said: the rest of the script is not played."""
        if self.is_done:
            return
        owed = [said for said in self._unseen.values() if said.answers in self._requests]
        self.notes.append(f"{why}; no answer to {self._question(owed[0])}" if owed else why)
        for step in self._steps:
            for said in step.saids:
                self._unasked[said.index] = f"not asked: {why}"
        self._steps.clear()
        self._unseen.clear()
        self._is_stopped = True

    # What comes

    def _asked(self, message: Single) -> Asked | None:
        """The open request that this is the answer to."""
        match message:
            case Response(id=id) | ErrorResponse(id=id) if isinstance(id, int | str):
                return self._played.open.pop((type(id), id), None)
            case _:
                return None

    def _hear(self, live: Said, asked: Asked | None, sends: list[Send], now_ns: int) -> None:
        self.heard += 1
        match live.message:
            case _ if asked is not None:
                self._answer(live, asked, sends, now_ns)
            case Request():
                self._request(live, live.message, sends, now_ns)
            case Malformed() if not live.raw.strip():
                pass
            case _:
                self._saw_one(live)

    def _answer(self, live: Said, asked: Asked, sends: list[Send], now_ns: int) -> None:
        self._is_hung = False
        self.progress += 1
        was = None if asked.is_page else self._answer_to.get(asked.said.index)
        result = live.message.result if isinstance(live.message, Response) else None
        expected = was.message.result if was and isinstance(was.message, Response) else None
        if was is not None:
            self._unseen.pop(was.index, None)
            self._handed.learn(expected, result)
        has_next = isinstance(expected, dict) and isinstance(expected.get("nextCursor"), str)
        if isinstance(result, dict) and isinstance(cursor := result.get("nextCursor"), str) and not has_next:
            self._turn_page(asked.said, cursor, sends, now_ns)

    def _turn_page(self, said: Said, cursor: str, sends: list[Send], now_ns: int) -> None:
        """Ask for a page that the recorded server did not have."""
        message = said.message
        if not isinstance(message, Request) or message.method not in LISTS or self._pages >= _MORE_PAGES:
            return
        self._pages += 1
        id = self._played.unused_id()
        raw = put(put(said.raw, ID, raw_json.written(id)), CURSOR, raw_json.written(cursor))
        [(page, raw)] = singles(parse(raw), raw)
        step = self._step_of.get(said.index)
        number = self._played.another_exchange(step.exchange if step else None)
        live = self._played.keep(CLIENT, page, raw, now_ns, number)
        self._played.open[str, id] = Asked(said, live, is_page=True)
        sends.append(Send(live.raw, step, number, asks=True))

    def _request(self, live: Said, request: Request, sends: list[Send], now_ns: int) -> None:
        id = raw_json.taken(live.raw, ID) or b"null"
        if request.method == "ping":
            self._say_at_once(b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}', sends, now_ns)
            return
        said = self._asks.take(request)
        if said is None or said.index not in self._unseen:
            said = next((each for each in self._unseen.values() if each.method == request.method), None)
        if said is not None:
            del self._unseen[said.index]
            self._asked_as[said.index] = id
            self.progress += 1
            return
        self._strangers += 1
        last = self._asks.last(request)
        answer = self._answer_to.get(last.index) if last else None
        if answer is not None and not is_masked_anywhere(_value(answer)):
            self._say_at_once(spliced(answer.raw, {ID: id}), sends, now_ns)
            return
        self._say_at_once(b'{"jsonrpc":"2.0","id":' + id + b',"error":' + _NOT_ASKED + b"}", sends, now_ns)

    def _saw_one(self, live: Said) -> None:
        """A notification, a line that is no message, an answer to nothing: one like it has come again."""
        every = (
            said
            for said in self._unseen.values()
            if said.method == live.method and said.answers is None and not isinstance(said.message, Request)
        )
        alike = list(islice(every, _CANDIDATES))
        if not alike:
            self._strangers += 1
            return
        value = _value(live)
        said = next((each for each in alike if equal(_value(each), value)), alike[0])
        del self._unseen[said.index]
        self.progress += 1

    # What goes

    @property
    def _is_turning_pages(self) -> bool:
        return any(asked.is_page for asked in self._played.open.values())

    def _advance(self, now_ns: int) -> list[Send]:
        sends: list[Send] = []
        while self._steps and not self._is_turning_pages:
            if next(iter(self._unseen), self._steps[0].place) < self._steps[0].place:
                break
            self._take(self._steps.popleft(), sends, now_ns)
        return sends

    def _take(self, step: Step, sends: list[Send], now_ns: int) -> None:
        number = 0
        if step.exchange:
            number = step.exchange.number
            self._played.open_exchange(number, step.exchange.request)
        raws = [raw for said in step.saids if (raw := self._said(said, step, number, now_ns)) is not None]
        if step.saids and not raws:
            self._played.drop_exchange(number)
            return
        is_batch = bool(step.saids and step.saids[0].batch)
        self.progress += 1
        raw = b"[" + b",".join(raws) + b"]" if is_batch else b"".join(raws)
        sends.append(Send(raw, step, number, step.asks))

    def _said(self, said: Said, step: Step, number: int, now_ns: int) -> bytes | None:
        """Say one recorded message; its bytes, ``None`` if it cannot be said."""
        raw = self._translated(said)
        if raw is None:
            self._forget(said)
            return None
        parsed = parse(raw)
        message = said.message if isinstance(parsed, Batch) else parsed
        live = self._played.keep(CLIENT, message, raw, now_ns, number)
        if isinstance(message, Request):
            self._requests[said.index] = live.index
            self._step_of[said.index] = step
            if message.id is not None:
                self._played.open[type(message.id), message.id] = Asked(said, live)
        return raw

    def _translated(self, said: Said) -> bytes | None:
        """The recorded bytes in the live server's names; ``None``, and why is noted, if they cannot go."""
        message = said.message
        if isinstance(message, Malformed):
            return said.raw
        if is_masked_anywhere(message.value):
            return self._leave_out(said, "the recording masks a value in it")
        try:
            raw = self._handed.translated(said.raw, message.value)
        except WithheldError as why:
            return self._leave_out(said, str(why))
        match message:
            case Request(id=id) if id is not None and (type(id), id) in self._played.open:
                return spliced(raw, {ID: raw_json.written(self._played.unused_id())})
            case Notification(method="notifications/cancelled", params=dict(params)):
                id = params.get("requestId")
                for (_, now), asked in self._played.open.items():
                    if isinstance(asked.said.message, Request) and asked.said.message.id == id != now:
                        return spliced(raw, {REQUEST_ID: raw_json.written(now)})
            case Response() | ErrorResponse() if said.answers is not None:
                asked_as = self._asked_as.get(said.answers)
                return spliced(raw, {ID: asked_as}) if asked_as else None
            case _:
                pass
        return raw

    def _leave_out(self, said: Said, why: str) -> None:
        self._unasked[said.index] = f"not asked: {why}"
        if said.method not in LISTS:
            self.notes.append(f"frame {said.seq}, {named(said)}, is not sent: {why}")

    def _say_at_once(self, raw: bytes, sends: list[Send], now_ns: int) -> None:
        like = next(iter(self._step_of.values()), None)
        number = self._played.another_exchange(like.exchange if like else None)
        parsed = parse(raw)
        if not isinstance(parsed, Batch):
            self._played.keep(CLIENT, parsed, raw, now_ns, number)
        sends.append(Send(raw, like, number))

    def _forget(self, request: Said) -> None:
        """What belongs to a request will not come."""
        for place in [place for place in self._unseen if self._owner.get(place) == request.index]:
            del self._unseen[place]

    def _question(self, answer: Said) -> str:
        asked = self._session.messages[answer.answers or 0]
        return f"{named(asked)} (frame {asked.seq})"


def _value(said: Said) -> JSON:
    value = said.message.value
    return value if isinstance(value, dict | list | str | int | float) else None
