"""Read the turns of conversations with a language model from a recording made by ``mcpproxy model``.

A turn is a request to the model with the answer to it."""

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
"""How many exchanges are followed at once, and how many bytes their bodies may have together. Beyond that,
the oldest exchange is ended with the parts that came so far."""

_SHORT_BYTES: Final = 64 << 10
"""A body up to this length keeps its long strings, even if turns are only counted."""

_EACH_BYTES: Final = 64
"""How many bytes of memory an event takes besides its text. Parsed, it would take many times as much."""


@slotted(frozen=True)
class ModelTurn:
    """A request to a model and the answer to it.

    ``seq`` is the number of the first frame of the request's body, ``at_ns`` its time since the recording
    began. ``status`` is the HTTP status, 0 without a response. ``answer`` is ``None`` if the service refused
    the request (``refusal``), or if no readable answer came. ``user_agent`` is the User-Agent of the host.
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
    """An open exchange with the model: the frames of the request (``asked``) and of the response so far."""

    target: str
    user_agent: str = ""
    passed: int = 0
    """How many bytes of its bodies have passed."""
    held: int = 0
    """How many bytes of memory its bodies take."""
    seq: int = 0
    at_ns: int = 0
    asked: list[bytes] = field(default_factory=list[bytes])
    status: int = 0
    body: list[bytes] = field(default_factory=list[bytes])
    """The response, if it is no event stream."""
    events: list[bytes] = field(default_factory=list[bytes])
    """The data of the response's events."""
    strings: LongStrings = field(default_factory=LongStrings)
    """Removes the long strings of the request, if turns are only counted."""


class TurnReader:
    """Makes turns from the events of a recording. ``dialect`` is the dialect (the JSON format of
    the model's interface) that the recording names, or empty.

    ``counts_in`` is for a caller that only counts turns: the limit, in bytes, of the memory for bodies. Their
    long strings, such as pictures, are then left out, because parsing takes several times the memory of a
    body.

    ``unread`` is how many requests to a model are no turns because their bodies cannot be read: they are too
    long, incomplete, not JSON, or masked as a whole.
    """

    def __init__(self, dialect: str = "", counts_in: int | None = None) -> None:
        self._dialect = dialect
        self._counts = counts_in is not None
        self._most_held = MOST_BYTES if counts_in is None else counts_in
        self.unread = 0
        self._opened: dict[int, _Exchange] = {}
        self._passed = self._held = 0  # the sums over ``_opened``

    def take(self, event: object) -> Iterator[ModelTurn]:
        """Read the next event, and yield the turns that it ends. The caller must exhaust the result."""
        opened = self._opened
        match event:
            case RequestHead(method="POST"):
                opened[event.exchange] = _Exchange(event.target, _user_agent(event.headers))
                if len(opened) > MOST_OPEN:
                    yield from self._end_exchange(next(iter(opened)))
            case Frame() if exchange := opened.get(event.exchange):
                passed, held = len(event.raw), _add_content(exchange, event, counts=self._counts)
                exchange.passed, exchange.held = exchange.passed + passed, exchange.held + held
                self._passed, self._held = self._passed + passed, self._held + held
                while self._passed > MOST_BYTES or self._held > self._most_held:
                    yield from self._end_exchange(next(iter(opened)))
            case ResponseHead() if event.status >= 200 and (exchange := opened.get(event.exchange)):
                exchange.status = event.status
            case ExchangeEnd() if event.exchange in opened:
                yield from self._end_exchange(event.exchange)
            case _:
                pass

    def end(self) -> Iterator[ModelTurn]:
        """Yield the turns that have not ended, with the parts that came so far."""
        for number in list(self._opened):
            yield from self._end_exchange(number)

    def _end_exchange(self, number: int) -> Iterator[ModelTurn]:
        exchange = self._opened.pop(number)
        self._passed -= exchange.passed
        self._held -= exchange.held
        return self._turn_of(exchange)

    def _turn_of(self, exchange: _Exchange) -> Iterator[ModelTurn]:
        """Yield the turn of an exchange, if the exchange is a request to a model that can be read."""
        asked = as_object(_parse_json(b"".join(exchange.asked)))
        dialect = dialect_of(exchange.target, asked or {}, self._dialect)
        if asked is None or dialect is None:
            self.unread += asked is None and dialect is not None and any(exchange.asked)
            return
        value = _parse_json(b"".join(exchange.body))
        refusals = list(filter(None, [read_refusal(value)]))
        answer = None if refusals else _read_answer(dialect, value, exchange.events, refusals)
        refusal = refusals[0] if refusals else None
        if refusal:
            answer = None
        request = dialect.read_request(asked)
        yield ModelTurn(
            exchange.seq, exchange.at_ns, request, exchange.status, answer, refusal, exchange.user_agent
        )


def model_turns(trace: "Trace", reader: TurnReader | None = None) -> Iterator[ModelTurn]:
    """Yield the turns of a recording in the order in which they ended. Other exchanges are left out.

    If ``reader`` is given, its ``unread`` afterwards says how many requests could not be read.

    Raises:
        TraceError: the recording cannot be read.
    """
    reader = reader or TurnReader(trace.header.model)
    for record in trace.records():
        yield from reader.take(record)
    yield from reader.end()


def _user_agent(headers: Headers) -> str:
    return next((value for name, value in headers if name.lower() == "user-agent"), "")


def _add_content(exchange: _Exchange, frame: Frame, *, counts: bool) -> int:
    """Add the content of a frame to its exchange; return how many bytes of memory that takes.

    With ``counts``, turns are only counted, and a long request loses its long strings.
    """
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


def _read_answer(
    dialect: Dialect, value: JSON, events: list[bytes], refusals: list[ServiceRefusal]
) -> ModelAnswer | None:
    """Return the answer in a body or in events; ``None`` if neither can be read.

    If an event refuses the request, add its refusal to ``refusals``.
    """
    objects = _objects_until_refusal(events, refusals)
    if (first := next(objects, None)) is not None:
        folded, is_whole = dialect.fold_stream(chain((first,), objects))
        return dialect.read_answer(folded, is_whole)
    body = as_object(value)
    return dialect.read_answer(body, True) if body is not None else None


def _objects_until_refusal(events: list[bytes], refusals: list[ServiceRefusal]) -> Iterator[JSONObject]:
    for raw in events:
        if (event := as_object(_parse_json(raw))) is None:
            continue
        if refusal := read_refusal(event):
            refusals.append(refusal)
            return
        yield event


def _parse_json(raw: bytes) -> JSON:
    value = read(raw)
    return value if isinstance(value, dict | list) else None
