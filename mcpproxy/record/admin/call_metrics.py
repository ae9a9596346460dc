"""Metrics of calls: how long it takes until a request is answered, and how calls fail, by method and tool.

Every value of a label makes a time series, and peers choose the names of methods and tools. So only some
names become labels: the methods that the specification defines, and the first ``MAX_TOOLS`` tools that the
server has listed or has answered with a result. All others get the label ``OTHER``.

Only messages in HTTP exchanges are counted, because only recordings over HTTP have metrics. An answer is
matched to its request as everywhere else (``session.unanswered_requests``): first within its exchange, then
within its session.
"""

from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    Event,
    ExchangeEnd,
    Frame,
    Gap,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
    other,
)
from mcpproxy.judge.session.outcomes import Outcome, outcome_of, status_outcome, unread_outcome
from mcpproxy.judge.session.unanswered_requests import Scope, UnansweredRequests
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import (
    JSON,
    ErrorResponse,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.protocol.mcp_in_acp import Innermost, innermost
from mcpproxy.protocol.message_parts import member, singles, target_of
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.record.trace.session_labels import SessionNames

DURATION_BINS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of the bins of histograms of durations, in seconds."""

MAX_TOOLS: Final = 200
"""The largest number of tools with a label of their own."""

OTHER: Final = "_OTHER"
"""The label of all other methods and tools."""

MAX_OPEN: Final = 4096
"""The largest number of unanswered requests; beyond it the oldest is forgotten."""

_LONGEST_TOOL: Final = 128
"""The longest name, in characters, that becomes a label."""

_SUCCEEDED: Final = (Outcome.OK, Outcome.INPUT_REQUIRED, Outcome.DECLINED)
"""The outcomes that are not counted as errors."""

_METHODS: Final = {*methods.method_names(*REVISIONS), *methods.extension_methods()}
"""The methods that become labels."""


@dataclass(slots=True)
class _Exchange:
    """An open HTTP exchange; before the head of its response, ``status`` and ``responded_ns`` are 0."""

    status: int = 0
    by_proxy: bool = False
    responded_ns: int = 0
    is_stream: bool = False
    is_unread: bool = False
    """Whether a part of the answer could not be read, or is not recorded."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A request without an answer so far."""

    sender: Sender
    method: str
    tool: str
    """The name of the tool that the request calls; empty if it calls none."""
    asked_ns: int
    asked: Innermost
    """The method of the request, or of the message that the request carries (MCP inside ACP)."""
    exchange: int
    """The number of the request's exchange."""


class CallMetrics:
    """The metrics of the calls in one recording."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("sender", "method", "tool")
        self._duration: Final = Histogram(
            "mcpproxy_call_duration_seconds",
            "From a request to its answer.",
            labels,
            buckets=DURATION_BINS_S,
            registry=registry,
        )
        self._errors: Final = Counter(
            "mcpproxy_call_errors",
            "Requests that were answered with an error, unreadably, or not at all.",
            (*labels, "kind"),
            registry=registry,
        )
        self._exchanges: Final[dict[int, _Exchange]] = {}
        self._names: Final = SessionNames()
        self._open: Final[UnansweredRequests[_Call]] = UnansweredRequests(2 * MAX_OPEN)  # two scopes each
        self._tools: Final[dict[str, str]] = {}
        """The name of a tool -> its label."""

    def count_event(self, event: Event) -> None:
        """Count an event that was recorded."""
        session = self._names.track(event)
        match event:
            case Frame(exchange=number, message=message) if number in self._exchanges:
                for item in singles(message):
                    self._count_message(event, item, (number, session))
            case RequestHead(exchange=number):
                self._exchanges[number] = _Exchange()
            case ResponseHead(exchange=number) if event.status >= 200 and number in self._exchanges:
                is_stream = Fields(event.headers).is_event_stream
                self._exchanges[number] = _Exchange(
                    event.status, event.by_proxy, event.observed_at_ns, is_stream
                )
            case Note(exchange=number) | Gap(exchange=number) if number in self._exchanges:
                self._exchanges[number].is_unread = True
            case ExchangeEnd(exchange=number) if number in self._exchanges:
                self._end_exchange(self._exchanges.pop(number), event)
            case _:
                pass

    def _count_message(self, frame: Frame, message: Single, scopes: tuple[Scope, ...]) -> None:
        match message:
            case Request(method=method, id=id):
                asked = innermost(method, message.params)
                call = _Call(
                    frame.sender, method, _tool_name(message), frame.observed_at_ns, asked, frame.exchange
                )
                self._open.add(frame.sender, id, call, scopes)
            case Response(id=id) | ErrorResponse(id=id):
                if call := self._open.take(other(frame.sender), id, scopes):
                    self._count_answer(call, frame, message)
            case Notification(method="notifications/cancelled", params=params):
                if call := self._open.take(frame.sender, member(params, "requestId"), scopes):
                    self._end_call(call, Outcome.CANCELLED)
            case _:
                pass

    def _count_answer(self, call: _Call, frame: Frame, answer: Response | ErrorResponse) -> None:
        outcome = Outcome.REFUSED if frame.by_proxy else outcome_of(answer, call.asked)
        if outcome in _SUCCEEDED and isinstance(answer, Response):
            if call.method == "tools/list":
                tools = member(answer.result, "tools")
                for tool in tools if isinstance(tools, list) else ():
                    self._add_tool_label(member(tool, "name"))
            elif call.tool:
                self._add_tool_label(call.tool)
        self._end_call(call, outcome, frame.observed_at_ns)

    def _add_tool_label(self, name: JSON) -> None:
        if isinstance(name, str) and len(self._tools) < MAX_TOOLS and len(name) <= _LONGEST_TOOL:
            self._tools.setdefault(name, visible(name))

    def _end_exchange(self, exchange: _Exchange, end: ExchangeEnd) -> None:
        """End the calls of an exchange that can get no answer any more.

        If the client may resume the exchange's event stream, or if the exchange was complete, its calls stay
        open: another exchange may bring the answers. That does not hold after an HTTP error, or if a part of
        an exchange with a 2xx status other than 202 could not be read.
        """
        status = exchange.status
        outcome = unread_outcome(status) if exchange.is_unread else Outcome.UNANSWERED
        if status < 400 and outcome is Outcome.UNANSWERED and (exchange.is_stream or not end.cut):
            return
        for call in self._open.take_if(lambda call: call.exchange == end.exchange):
            if status < 400:
                self._end_call(call, outcome)
            else:
                by_status = status_outcome(call.asked, status, by_proxy=exchange.by_proxy)
                self._end_call(call, by_status, exchange.responded_ns)

    def _end_call(self, call: _Call, outcome: Outcome, answered_ns: int | None = None) -> None:
        """Count a call, and observe its duration if it was answered at ``answered_ns``."""
        labels = (
            call.sender,
            call.method if call.method in _METHODS else OTHER,
            self._tools.get(call.tool, OTHER) if call.tool else "",
        )
        if answered_ns is not None:
            self._duration.labels(*labels).observe((answered_ns - call.asked_ns) / 1e9)
        if outcome not in _SUCCEEDED:
            self._errors.labels(*labels, outcome.value).inc()


def _tool_name(request: Request) -> str:
    """Return the name of the tool that a request calls; empty if it calls none."""
    return (target_of(request.method, request.params) or "") if request.method == "tools/call" else ""
