"""Metrics of calls: how long it takes until a request is answered, and how calls fail, by method and tool.

Every value of a label makes a time series, and peers choose the names of methods and tools. So a method is
one that the specification defines, and a tool is one that the server has listed or has answered with a
result: at most ``MAX_TOOLS``. All others are ``OTHER``.

An answer belongs to the request with its id in the same HTTP exchange. In a stream that a GET has opened, and
in a POST of the client, it belongs to the only open request with its id in the session. If there is more than
one, nothing is counted.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Histogram

from mcpproxy.base.visible import visible
from mcpproxy.protocol import methods
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import (
    JSON,
    ErrorResponse,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
)
from mcpproxy.protocol.message_parts import member, singles, target_of
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.session.exchanges import Fields
from mcpproxy.session.frame import CLIENT, Event, ExchangeEnd, Frame, RequestHead, ResponseHead, Sender, other
from mcpproxy.session.outcomes import Outcome, outcome_of

DURATION_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of histograms of durations, in seconds."""
MAX_TOOLS: Final = 200
OTHER: Final = "_OTHER"
MAX_OPEN: Final = 4096
"""How many requests may wait for their answers; beyond that the oldest is forgotten."""
_LONGEST_TOOL: Final = 128

_SUCCEEDED: Final = (Outcome.OK, Outcome.INPUT_REQUIRED)
_METHODS: Final = {*methods.names(*REVISIONS)}.union(*methods.EXTENSIONS.values())

_Key: TypeAlias = tuple[Sender, RequestId]


@dataclass(slots=True, eq=False)
class _Exchange:
    method: str
    session: str
    status: int = 0
    responded_ns: int = 0
    is_stream: bool = False
    calls: "list[_Call]" = field(default_factory=list["_Call"])


@dataclass(slots=True, eq=False)
class _Call:
    key: _Key
    method: str
    tool: str
    exchange: _Exchange
    asked_ns: int


class CallMetrics:
    """The metrics of the calls in one recording."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("sender", "method", "tool")
        self._duration: Final = Histogram(
            "mcpproxy_call_duration_seconds",
            "From a request to its answer.",
            labels,
            buckets=DURATION_S,
            registry=registry,
        )
        self._errors: Final = Counter(
            "mcpproxy_call_errors",
            "Requests that were answered with an error, or not at all.",
            (*labels, "kind"),
            registry=registry,
        )
        self._exchanges: Final[dict[int, _Exchange]] = {}
        self._open: Final[OrderedDict[_Call, None]] = OrderedDict()
        self._by_key: Final[dict[_Key, list[_Call]]] = {}
        self._tools: Final[dict[str, str]] = {}
        """The names of the tools that are labels -> their labels."""

    def count_event(self, event: Event) -> None:
        """Count an event that was recorded."""
        match event:
            case Frame(exchange=number, message=message) if exchange := self._exchanges.get(number):
                for item in singles(message):
                    self._count_message(event, exchange, item)
            case RequestHead(exchange=number):
                session = Fields(event.headers).get(SESSION_ID) or ""
                self._exchanges[number] = _Exchange(event.method, session)
            case ResponseHead(exchange=number) if event.status >= 200 and number in self._exchanges:
                fields, exchange = Fields(event.headers), self._exchanges[number]
                exchange.status, exchange.responded_ns = event.status, event.observed_at_ns
                exchange.session = fields.get(SESSION_ID) or exchange.session
                exchange.is_stream = fields.media_type == "text/event-stream"
            case ExchangeEnd(exchange=number) if number in self._exchanges:
                self._end_exchange(self._exchanges.pop(number), event)
            case _:
                pass

    def _count_message(self, frame: Frame, exchange: _Exchange, message: Single) -> None:
        match message:
            case Request(id=int() | str() as id):
                call = _Call(
                    (frame.sender, id), message.method, _tool_name(message), exchange, frame.observed_at_ns
                )
                self._begin_call(call)
            case Response(id=int() | str() as id) | ErrorResponse(id=int() | str() as id):
                if call := self._answered_call(frame.sender, id, exchange):
                    self._count_answer(call, frame, message)
            case Notification(method="notifications/cancelled"):
                id = member(message.params, "requestId")
                if isinstance(id, int | str) and not isinstance(id, bool):
                    self._cancel_call((frame.sender, id), exchange)
            case _:
                pass

    def _begin_call(self, call: _Call) -> None:
        if len(self._open) >= MAX_OPEN:
            self._forget_call(next(iter(self._open)))
        self._open[call] = None
        self._by_key.setdefault(call.key, []).append(call)
        call.exchange.calls.append(call)

    def _forget_call(self, call: _Call) -> None:
        del self._open[call]
        call.exchange.calls.remove(call)
        same_key = self._by_key[call.key]
        same_key.remove(call)
        if not same_key:
            del self._by_key[call.key]

    def _answered_call(self, sender: Sender, id: RequestId, exchange: _Exchange) -> _Call | None:
        """Return the open call that an answer of ``sender`` with ``id`` belongs to."""
        key = other(sender), id
        in_exchange = (call for call in self._by_key.get(key, ()) if call.exchange is exchange)
        if sender == CLIENT or exchange.method == "GET":
            return next(in_exchange, None) or self._only_open_call(key, exchange)
        return next(in_exchange, None)

    def _only_open_call(self, key: _Key, exchange: _Exchange) -> _Call | None:
        """Return the call with this key in the session of ``exchange``, if there is only one."""
        named = exchange.session
        calls = [
            call for call in self._by_key.get(key, ()) if call.exchange.session in (named, "") or not named
        ]
        return calls[0] if len(calls) == 1 else None

    def _count_answer(self, call: _Call, frame: Frame, answer: Response | ErrorResponse) -> None:
        outcome = Outcome.REFUSED if frame.by_proxy else outcome_of(answer)
        if outcome in _SUCCEEDED and isinstance(answer, Response):
            if call.method == "tools/list":
                tools = member(answer.result, "tools")
                for tool in tools if isinstance(tools, list) else ():
                    self._name_tool(member(tool, "name"))
            elif call.tool:
                self._name_tool(call.tool)
        self._end_call(call, outcome, frame.observed_at_ns)

    def _cancel_call(self, key: _Key, exchange: _Exchange) -> None:
        if call := self._only_open_call(key, exchange):
            self._end_call(call, Outcome.CANCELLED)

    def _name_tool(self, name: JSON) -> None:
        if isinstance(name, str) and len(self._tools) < MAX_TOOLS and len(name) <= _LONGEST_TOOL:
            self._tools.setdefault(name, visible(name))

    def _end_exchange(self, exchange: _Exchange, end: ExchangeEnd) -> None:
        """End the calls that can get no answer any more. A stream may be resumed in another exchange."""
        for call in list(exchange.calls):
            if exchange.status >= 400:
                self._end_call(call, Outcome.HTTP_ERROR, exchange.responded_ns)
            elif end.cut and not exchange.is_stream:
                self._end_call(call, Outcome.NO_ANSWER)

    def _end_call(self, call: _Call, outcome: Outcome, answered_ns: int | None = None) -> None:
        """Count a call."""
        self._forget_call(call)
        labels = (
            call.key[0],
            call.method if call.method in _METHODS else OTHER,
            self._tools.get(call.tool, OTHER) if call.tool else "",
        )
        if answered_ns is not None:
            self._duration.labels(*labels).observe((answered_ns - call.asked_ns) / 1e9)
        if outcome not in _SUCCEEDED:
            self._errors.labels(*labels, outcome.value).inc()


def _tool_name(request: Request) -> str:
    """Return the name of the tool that is called; empty for another request."""
    return (target_of(request.method, request.params) or "") if request.method == "tools/call" else ""
