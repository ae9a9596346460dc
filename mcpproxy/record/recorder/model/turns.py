"""The turns of a conversation with a model, read from a recording of what stood before its interface."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.frame import CLIENT, ExchangeEnd, Frame, Headers, RequestHead, ResponseHead
from mcpproxy.model.dialect import Dialect, dialect_of
from mcpproxy.model.refusals import read_refusal
from mcpproxy.model.turns import ModelAnswer, ModelRequest, ServiceRefusal
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, read
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.record.recorder.model.long_strings import LongStrings

if TYPE_CHECKING:
    from mcpproxy.record.trace.reader import Trace

MOST_OPEN: Final = 1024
MOST_BYTES: Final = 64 << 20
"""How many exchanges are followed at once, and how many bytes of bodies they may have together. Those that
began first are given up first."""

_SHORT_BYTES: Final = 64 << 10
"""A part of a body up to this length is kept as it is, also if turns are only counted."""

_EACH_BYTES: Final = 64
"""How much memory an event takes besides its text. Parsed, it would take many times as much."""


@slotted(frozen=True)
class ModelTurn:
    """A request to a model and what came back.

    ``seq`` is the number of the frame with the body, ``at_ns`` its time since the recording began. ``status``
    is 0 if there was no answer. ``answer`` is ``None`` if the service refused the request (``refusal``), or
    if nothing that can be read came back. ``user_agent`` is what the host calls itself in that header field.
    """

    seq: int
    at_ns: int
    request: ModelRequest
    status: int
    answer: ModelAnswer | None
    refusal: ServiceRefusal | None
    user_agent: str = ""


@slotted()
class _Exchange:
    target: str
    user_agent: str = ""
    passed: int = 0
    held: int = 0
    seq: int = 0
    at_ns: int = 0
    asked: list[bytes] = field(default_factory=list[bytes])
    status: int = 0
    body: list[bytes] = field(default_factory=list[bytes])
    events: list[bytes] = field(default_factory=list[bytes])
    strings: LongStrings = field(default_factory=LongStrings)
    """What leaves out the long strings of the request, if turns are only counted."""


class TurnReader:
    """Makes turns of the events of a recording. ``dialect`` is that which the recording names, if it does.
    What is parsed takes a few times as much memory as the bodies, so ``counts_in`` says how many bytes of
    them may be held if turns are only counted: then they have no long texts, such as pictures.

    ``unread`` is how many requests to a model had a body that cannot be read, so that they are no turns: one
    that is too long or not whole, no JSON, or masked as a whole.
    """

    def __init__(self, dialect: str = "", counts_in: int | None = None) -> None:
        self._dialect = dialect
        self._counts = counts_in is not None
        self._most_held = MOST_BYTES if counts_in is None else counts_in
        self.unread = 0
        self._opened: dict[int, _Exchange] = {}
        self._passed = self._held = 0  # bytes in the bodies of these

    def take(self, event: object) -> Iterator[ModelTurn]:
        """Take the next event, and yield the turns that it ends. The caller must exhaust the result."""
        opened = self._opened
        match event:
            case RequestHead(method="POST"):
                opened[event.exchange] = _Exchange(event.target, _user_agent(event.headers))
                if len(opened) > MOST_OPEN:
                    yield from self._ended(next(iter(opened)))
            case Frame() if exchange := opened.get(event.exchange):
                passed, held = len(event.raw), _take(exchange, event, counts=self._counts)
                exchange.passed, exchange.held = exchange.passed + passed, exchange.held + held
                self._passed, self._held = self._passed + passed, self._held + held
                while self._passed > MOST_BYTES or self._held > self._most_held:
                    yield from self._ended(next(iter(opened)))
            case ResponseHead() if event.status >= 200 and (exchange := opened.get(event.exchange)):
                exchange.status = event.status
            case ExchangeEnd() if event.exchange in opened:
                yield from self._ended(event.exchange)
            case _:
                pass

    def end(self) -> Iterator[ModelTurn]:
        """Yield the turns that have not ended."""
        for number in list(self._opened):
            yield from self._ended(number)

    def _ended(self, number: int) -> Iterator[ModelTurn]:
        exchange = self._opened.pop(number)
        self._passed -= exchange.passed
        self._held -= exchange.held
        return self._turn(exchange)

    def _turn(self, exchange: _Exchange) -> Iterator[ModelTurn]:
        """Yield the turn that an exchange is, if it is one."""
        asked = as_object(_value(b"".join(exchange.asked)))
        dialect = dialect_of(exchange.target, asked or {}, self._dialect)
        if asked is None or dialect is None:
            self.unread += asked is None and dialect is not None and any(exchange.asked)
            return
        value = _value(b"".join(exchange.body))
        refusals = list(filter(None, [read_refusal(value)]))
        answer = None if refusals else _answer(dialect, value, exchange.events, refusals)
        refusal = refusals[0] if refusals else None
        if refusal:
            answer = None
        request = dialect.read_request(asked)
        yield ModelTurn(
            exchange.seq, exchange.at_ns, request, exchange.status, answer, refusal, exchange.user_agent
        )


def model_turns(trace: "Trace", reader: TurnReader | None = None) -> Iterator[ModelTurn]:
    """Yield the turns of a recording in the order in which they ended. Other exchanges are left out.

    ``reader``, if it is given, knows afterwards which of them could not be read.

    Raises:
        TraceError: the recording cannot be read.
    """
    reader = reader or TurnReader(trace.header.model)
    for record in trace.records():
        yield from reader.take(record)
    yield from reader.end()


def _user_agent(headers: Headers) -> str:
    return next((value for name, value in headers if name.lower() == "user-agent"), "")


def _take(exchange: _Exchange, frame: Frame, *, counts: bool) -> int:
    """Keep what a frame says, and return how many bytes of memory that takes. If turns are only counted
    (``counts``), a long request loses its long strings."""
    if frame.sender == CLIENT:
        exchange.seq = exchange.seq or frame.seq
        exchange.at_ns = exchange.at_ns or frame.observed_at_ns
        is_long = frame.continues or len(frame.raw) > _SHORT_BYTES or exchange.asked
        exchange.asked.append(exchange.strings.without(frame.raw) if counts and is_long else frame.raw)
        return len(exchange.asked[-1])
    if frame.event is None:
        exchange.body.append(frame.raw)
    elif frame.raw and not frame.is_unfinished_event:
        exchange.events.append(frame.raw)
        return len(frame.raw) + _EACH_BYTES
    return len(frame.raw)


def _answer(
    dialect: Dialect, value: JSON, events: list[bytes], refusals: list[ServiceRefusal]
) -> ModelAnswer | None:
    """Return the answer in a body or in events. An event that refuses the request goes to ``refusals``."""
    objects = _until_refused(events, refusals)
    if (first := next(objects, None)) is not None:
        folded, is_whole = dialect.folded(chain((first,), objects))
        return dialect.read_answer(folded, is_whole)
    body = as_object(value)
    return dialect.read_answer(body, True) if body is not None else None


def _until_refused(events: list[bytes], refusals: list[ServiceRefusal]) -> Iterator[JSONObject]:
    for raw in events:
        if (event := as_object(_value(raw))) is None:
            continue
        if refusal := read_refusal(event):
            refusals.append(refusal)
            return
        yield event


def _value(raw: bytes) -> JSON:
    value = read(raw)
    return value if isinstance(value, dict | list) else None
