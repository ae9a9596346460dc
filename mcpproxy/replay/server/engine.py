"""A recorded server for a live client: a message in, what the server said to that out.

The engine knows no transport and no clock. It is given the client's messages as they come; it gives what is
due, each with the delay after which it is to be sent, in the order in which it was recorded. Every
recorded message of the server is sent once at most; ``mcpproxy.replay.dependencies`` tells what it waits
for.

A request that was not recorded, or not so often, is a miss: it is answered with an error that says what
comes nearest, and counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.protocol import raw_json
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
from mcpproxy.replay.dependencies import Cause, causes
from mcpproxy.replay.diff.values import Difference, equal
from mcpproxy.replay.id_map import Key, Names, request_id
from mcpproxy.replay.message_paths import ID, OWN_TOKEN
from mcpproxy.replay.recording import Said, Session, singles
from mcpproxy.replay.server.live_messages import (
    MISS_CODE,
    Heard,
    Live,
    Options,
    Out,
    error,
    miss_data,
    named,
    result,
)
from mcpproxy.replay.server.matching import Matcher
from mcpproxy.replay.server.schedule import Schedule
from mcpproxy.session.frame import CLIENT, SERVER

_METHOD_NOT_FOUND: Final = -32601
_PARSE_ERROR: Final = -32700
_DIFFERENCES_TOLD: Final = 3


class Engine:
    """Stands in for the server of one recorded session.

    ``session_id`` stands where the recorded server spoke of the id of the session. ``misses`` counts requests
    without a recorded answer, ``answered`` those that had one.
    """

    def __init__(self, session: Session, options: Options | None = None, session_id: str = "") -> None:
        self._options: Final = options or Options()
        self._session: Final = session
        mine = [said for said in session.messages if said.sender == CLIENT]
        self._last: Final = mine[-1].index if mine else None
        self._is_stateful: Final = self._options.stateful or any(said.method == "initialize" for said in mine)
        self._matcher: Final = Matcher(mine, self._options.level, self._options.ignore)
        self._untaken: Final = [said for said in mine if isinstance(said.message, Notification | Malformed)]
        self._answer_to: Final[dict[int, Said]] = {}
        for said in session.messages:
            if said.answers is not None:
                self._answer_to.setdefault(said.answers, said)
        found = causes(session)
        if not self._options.over_http:
            self._answer_by_refusal(found)
        self._schedule: Final = Schedule(session.messages, found)
        self._owner: Final = {place: cause.owner for place, cause in found.items()}
        self._batch_size: Final = Counter(said.batch for said in session.messages if said.sender == SERVER)
        self._live: Final[dict[int, Live]] = {}
        self._by_id: Final[dict[Key, Live]] = {}
        self._names: Final = Names(session, self._answer_to, session_id)
        self.answered = 0
        self.misses = 0

    @property
    def session(self) -> int:
        """Which session it replays: the same number for two engines that replay the same."""
        return id(self._session)

    @property
    def waiting(self) -> int:
        """How many requests of the recorded client no live one has sent."""
        return self._matcher.count - self._matcher.taken

    @property
    def unsent(self) -> list[Said]:
        """What the server said in the recording and has not said now."""
        return self._schedule.unsent

    @property
    def is_over(self) -> bool:
        """Whether the recorded server had left by now, of its own accord."""
        return self._session.server_left and (self._last is None or self._last in self._live)

    def has_answer(self, live: Live) -> bool:
        """Whether the recording answers this request, now or later."""
        return live.said is not None and live.said.index in self._answer_to

    def begin(self) -> list[Out]:
        """What the server said before the client said anything."""
        return self._joined(self._outs(self._schedule.begin()))

    def hear(self, raw: bytes) -> Heard:
        """Take one frame of the client's; never raises, whatever it is."""
        heard = Heard()
        message = parse(raw)
        heard.lives = [Live(text, single) for single, text in singles(message, raw)]
        for live in heard.lives:
            self._hear(live, heard)
        heard.outs = self._joined(heard.outs)
        return heard

    def _hear(self, live: Live, heard: Heard) -> None:
        match live.message:
            case Request():
                self._request(live, live.message, heard)
            case Notification(method="notifications/cancelled", params=params):
                self._cancelled(live, params, heard)
            case Notification(method=method):
                known = [said for said in self._untaken if said.method == method]
                self._take_one(known, live, heard)
            case Response(id=id) | ErrorResponse(id=id):
                asked = self._names.asked(id)
                if asked is not None and (said := self._answer_to.get(asked.index)):
                    self._saw(said, live, heard)
            case Malformed():
                known = [said for said in self._untaken if said.raw == live.raw and said.method is None]
                if not self._take_one(known, live, heard) and live.raw.strip():
                    self._miss(live, "it is no JSON-RPC message", None, heard, code=_PARSE_ERROR)

    def _request(self, live: Live, request: Request, heard: Heard) -> None:
        live.id = raw_json.taken(live.raw, ID) or b"null"
        live.token = raw_json.taken(live.raw, OWN_TOKEN)
        if request.id is not None:
            self._by_id[type(request.id), request.id] = live
        if said := self._matcher.take(request):
            self._saw(said, live, heard)
            if said.index in self._answer_to:
                self.answered += 1
            elif self._is_left_open(said):
                self._miss(live, f"the recording holds no answer to it (frame {said.seq})", said, heard)
        elif self._options.repeats and (answer := self._last_answer(request)):
            self.answered += 1
            heard.outs.append(Out(self._names.answer(answer, live), said=answer, live=live, answers=True))
        elif request.method == "ping" and self._options.level != "strict":
            heard.outs.append(result(live, {}))
        elif request.method == "server/discover" and self._is_stateful:
            # A client that knows both eras asks first; a server of the older one does not know the method.
            heard.outs.append(error(live, _METHOD_NOT_FOUND, "Method not found"))
            heard.notes.append("server/discover was not recorded; answered as by a server that lacks it")
        else:
            self._unknown(live, request, heard)

    def _last_answer(self, request: Request) -> Said | None:
        said = self._matcher.last(request)
        return None if said is None else self._answer_to.get(said.index)

    def _is_left_open(self, said: Said) -> bool:
        """Whether nobody knows what the server would have answered."""
        exchange = self._session.exchanges.get(said.exchange)
        if exchange is not None and exchange.status >= 300:
            return not self._options.over_http  # over HTTP the status is the answer
        return not self._options.complete and said.method != "subscriptions/listen"

    def _unknown(self, live: Live, request: Request, heard: Heard) -> None:
        if said := self._matcher.last(request):
            reason = f"every recorded one was answered already, the last is frame {said.seq}"
            self._miss(live, reason, said, heard)
        elif nearest := self._matcher.nearest(request):
            frame = f"frame {nearest.said.seq}"
            told = [str(one) for one in nearest.differences[:_DIFFERENCES_TOLD]]
            if more := len(nearest.differences) - len(told):
                told.append(f"{more} more differences")
            reason = f"nothing like it is left; nearest is {frame}, where {', '.join(told)}"
            if nearest.said.method != request.method:
                reason = f"its method was never recorded; next would be {frame} ({nearest.said.method})"
            self._miss(live, reason, nearest.said, heard, nearest.differences)
        else:
            self._miss(live, "the recording holds no request", None, heard)

    def _miss(
        self,
        live: Live,
        reason: str,
        nearest: Said | None,
        heard: Heard,
        differences: Sequence[Difference] = (),
        code: int = MISS_CODE,
    ) -> None:
        what = named(live)
        if self._options.passes and isinstance(live.message, Request):
            heard.passed.append(live)
            heard.notes.append(f"passed on: {what}: {reason}")
            return
        self.misses += 1
        heard.notes.append(f"miss {self.misses}: {what}: {reason}")
        data = miss_data(reason, nearest, differences)
        heard.outs.append(error(live, code, f"not in the recording: {what}", data))

    def _cancelled(self, live: Live, params: "JSON | Absent", heard: Heard) -> None:
        target = self._by_id.get(key) if (key := request_id(params)) else None
        if target is None:
            return
        if target.said is not None and isinstance(target.said.message, Request):
            id = target.said.message.id
            known = [
                said
                for said in self._untaken
                if isinstance(said.message, Notification)
                and said.method == "notifications/cancelled"
                and said.index > target.said.index
                and request_id(said.message.params) == (type(id), id)
            ]
            if self._take_one(known, live, heard):
                return  # then the server knows what to say to that
            self._schedule.drop(target.said)
        target.is_cancelled = True

    def _take_one(self, known: Sequence[Said], live: Live, heard: Heard) -> bool:
        """Take ``live`` for the one of ``known`` that is just the same, or else for the first."""
        if not known:
            return False
        said = next((said for said in known if _is_alike(said, live)), known[0])
        self._untaken.remove(said)
        self._saw(said, live, heard)
        return True

    def _saw(self, said: Said, live: Live, heard: Heard) -> None:
        live.said = said
        self._live[said.index] = live
        heard.outs += self._outs(self._schedule.saw(said))

    def _outs(self, due: Iterable[Said]) -> list[Out]:
        outs: list[Out] = []
        for said in due:
            if said.exchange and not self._options.over_http and isinstance(said.message, Malformed):
                continue  # a page for people, or an event without data: nothing that a line could be
            owner = self._owner[said.index]
            live = None if owner is None else self._live.get(owner)
            raw = self._names.translated(said, live)
            if raw is not None and not (live and live.is_cancelled):
                factor = self._options.factor
                delay_ns = int(self._schedule.waited_ns(said) * factor) if factor else 0
                outs.append(Out(raw, delay_ns, said, live, self._names.answers(said, live)))
        return outs

    def _joined(self, outs: list[Out]) -> list[Out]:
        """What stood in one batch, and is due in one go, in one batch again."""
        of: defaultdict[int, list[Out]] = defaultdict(list)
        for out in outs:
            if out.said is not None and out.said.batch:
                of[out.said.batch].append(out)
        found: list[Out] = []
        for out in outs:
            batch = out.said.batch if out.said else 0
            if not batch or len(of[batch]) != self._batch_size[batch]:
                found.append(out)
            elif out is of[batch][0]:
                out.others = tuple(of[batch][1:])
                out.raw = b"[" + b",".join(each.raw for each in of[batch]) + b"]"
                out.delay_ns = max(each.delay_ns for each in of[batch])
                found.append(out)
        return found

    def _answer_by_refusal(self, found: dict[int, Cause]) -> None:
        """Where HTTP refused a request in a body that does not bear its id, that is the answer to it."""
        for place, cause in found.items():
            said = self._session.messages[place]
            if not isinstance(said.message, ErrorResponse) or said.answers is not None:
                continue
            exchange = self._session.exchanges.get(said.exchange)
            is_refusal = said.message.id is None or (exchange is not None and exchange.status >= 400)
            if is_refusal and cause.owner is not None:
                self._answer_to.setdefault(cause.owner, said)


def summary(engines: Sequence[Engine], passed: int = 0) -> str:
    """How a replay went, in one line."""
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


def _never_asked(engines: Sequence[Engine]) -> int:
    """How many recorded requests nobody sent; of one session replayed several times, the best of its replays.

    A client that asks for the era first does so without a session: that replay goes no further.
    """
    least: dict[int, int] = {}
    for engine in engines:
        least[engine.session] = min(least.get(engine.session, engine.waiting), engine.waiting)
    return sum(least.values())


def _is_alike(said: Said, live: Live) -> bool:
    was, now = said.message.value, live.message.value
    if isinstance(was, Absent) or isinstance(now, Absent):
        return was is now
    return equal(was, now)
