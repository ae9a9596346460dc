"""Read the HTTP exchanges of a recording, one after the other, each with the beginning of its bodies."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.judge.session.exchanges import NO_FIELDS, Fields
from mcpproxy.judge.session.frame import CLIENT, ExchangeEnd, Frame, RequestHead, ResponseHead
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import frame_bytes
from mcpproxy.record.trace.request_urls import request_url

LONGEST_BODY: Final = 256 << 10
"""How many bytes of a body are kept. Documents and answers of a login are far smaller."""
MOST_OPEN: Final = 1024
"""How many open exchanges are kept. Beyond that, the oldest is yielded as it is."""


@dataclass(slots=True)
class WebExchange:
    """A request and its answer. ``status`` is 0 if there was no answer.

    ``seq`` and ``answer_seq`` are the numbers of their heads in the recording; ``answer_seq`` is 0 if there
    was no answer. ``at_ns`` is the time of the request in nanoseconds since the start. ``body`` and
    ``answer`` are the beginnings of the two bodies. ``by_proxy`` says whether mcpproxy answered itself.
    ``is_mcp`` is true for a message to the MCP endpoint, and false for other requests, such as a login's.
    """

    seq: int
    method: str
    url: str
    fields: Fields
    at_ns: int
    is_mcp: bool
    body: bytearray = field(default_factory=bytearray)
    status: int = 0
    reason: str = ""
    answer_seq: int = 0
    answer_fields: Fields = NO_FIELDS
    answer: bytearray = field(default_factory=bytearray)
    by_proxy: bool = False

    def add(self, frame: Frame) -> None:
        """Add a piece of a body, up to ``LONGEST_BODY``."""
        body = self.body if frame.sender == CLIENT else self.answer
        if len(body) < LONGEST_BODY:
            body += frame_bytes(frame)[: LONGEST_BODY - len(body)]


def web_exchanges(trace: Trace) -> Iterator[WebExchange]:
    """Yield each exchange when it ends, and at last those without an end.

    A message to the MCP endpoint is yielded as soon as it has a status, because its stream may never end. Its
    ``answer`` is empty.

    Raises:
        TraceError: the recording cannot be read.
    """
    opened: dict[int, WebExchange] = {}
    for record in trace.records():
        match record:
            case RequestHead():
                opened[record.exchange] = _new_exchange(trace, record)
                if len(opened) > MOST_OPEN:
                    yield opened.pop(next(iter(opened)))
            case Frame() if exchange := opened.get(record.exchange):
                exchange.add(record)
            case ResponseHead() if record.status >= 200 and (exchange := opened.get(record.exchange)):
                exchange.status, exchange.reason = record.status, record.reason
                exchange.answer_seq, exchange.by_proxy = record.seq, record.by_proxy
                exchange.answer_fields = Fields(record.headers)
                exchange.is_mcp = exchange.is_mcp or _is_message(exchange)
                if exchange.is_mcp:
                    yield opened.pop(record.exchange)
            case ExchangeEnd():
                if exchange := opened.pop(record.exchange, None):
                    yield exchange
            case _:
                pass
    yield from opened.values()


def _new_exchange(trace: Trace, head: RequestHead) -> WebExchange:
    url = request_url(trace.header, head)
    is_mcp = head.endpoint and "/.well-known/" not in url
    return WebExchange(head.seq, head.method, url, Fields(head.headers), head.observed_at_ns, is_mcp)


def _is_message(exchange: WebExchange) -> bool:
    """Whether a request goes to an MCP server, judged by its header fields or its body."""
    if SESSION_ID in exchange.fields or PROTOCOL_VERSION in exchange.fields:
        return "/.well-known/" not in exchange.url
    return exchange.method == "POST" and b'"jsonrpc"' in exchange.body[:4096]
