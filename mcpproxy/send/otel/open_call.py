"""A request that becomes a span, and the HTTP exchange that carried it."""

from dataclasses import dataclass, field
from typing import Final

from opentelemetry.sdk.trace import Event
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, SpanContext

from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import RequestHead, ResponseHead, Sender
from mcpproxy.judge.session.outcomes import Outcome
from mcpproxy.protocol.jsonrpc import ErrorResponse, JSONObject, Request, Response
from mcpproxy.protocol.mcp_in_acp import Innermost, innermost
from mcpproxy.protocol.message_parts import as_object

MAX_EVENTS: Final = 128
"""How many events a span has at most; beyond that, the earliest are dropped and counted."""


def events() -> "BoundedList[Event]":
    """Return a list for the events of a span."""
    return BoundedList(MAX_EVENTS)


@dataclass(slots=True)
class CarryingExchange:
    """An HTTP exchange: the head of its request, and the head of its response once there is one."""

    request: RequestHead
    response: ResponseHead | None = None
    calls: "list[OpenCall]" = field(default_factory=list["OpenCall"])
    """The requests in it."""

    @property
    def status(self) -> int:
        """The status of the response; 0 while there is none."""
        return self.response.status if self.response else 0

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream, which another exchange may resume."""
        response = self.response
        return response is not None and Fields(response.headers).is_event_stream

    @property
    def fields(self) -> Fields:
        """The header fields of the request."""
        return Fields(self.request.headers)


@dataclass(slots=True)
class OpenCall:
    """A request. Times are nanoseconds since the start of the recording.

    ``row`` is its row in the index of the view. ``element`` is its place in a batch, 0 if it is alone.
    ``caller`` is the trace context that a peer sent with it. ``outer`` is the call during which the server
    sent it. ``ended_ns`` is the time of the first piece of its answer, if the answer comes in pieces.
    ``findings`` counts the findings about it. ``ending`` is set when the call has ended.
    """

    row: int
    seq: int
    element: int
    sender: Sender
    request: Request
    target: str | None
    started_ns: int
    caller: SpanContext | None = None
    outer: "OpenCall | None" = None
    exchange: CarryingExchange | None = None
    ended_ns: int | None = None
    context: SpanContext | None = None
    """The context of its span, when it is known."""
    links: list[Link] = field(default_factory=list[Link])
    findings: int = 0
    events: "BoundedList[Event]" = field(default_factory=events)
    ending: "Ending | None" = None

    @property
    def params(self) -> JSONObject:
        """The params of the request; empty if they are not an object."""
        return self.request.params if isinstance(self.request.params, dict) else {}

    @property
    def asked(self) -> Innermost:
        """The method that the request asks for: its own, or that of a message in it (MCP in ACP)."""
        return innermost(self.request.method, self.request.params)

    @property
    def meta(self) -> JSONObject:
        """The ``_meta`` of the request."""
        return as_object(self.params.get("_meta")) or {}


@dataclass(slots=True)
class Ending:
    """How a call ended.

    ``at_ns`` is when, since the start of the recording. ``by_proxy`` says whether mcpproxy answered.
    ``error`` is the value of ``error.type``, empty if the span has none; ``why`` says more. ``seq`` is
    the number of the answer's frame, or of the HTTP response if that took the place of an answer. ``message``
    is the answer if it is a response.
    """

    at_ns: int
    outcome: Outcome
    error: str = ""
    why: str = ""
    seq: int | None = None
    message: Response | ErrorResponse | None = None
    by_proxy: bool = False
