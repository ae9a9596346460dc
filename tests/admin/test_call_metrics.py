"""Calls as they are counted: which answer belongs to which request, and which names are labels."""

import gc
import json
import tracemalloc
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mcpproxy.judge.session.frame import (
    NOT_DECODED,
    Event,
    ExchangeEnd,
    Frame,
    Note,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.record.admin.call_metrics import MAX_OPEN, MAX_TOOLS, CallMetrics
from tests.admin.test_metrics import figures

MS = 1_000_000
SESSION = (("Mcp-Session-Id", "s"),)
STREAM = ("Content-Type", "text/event-stream")


class Traffic:
    """Counts HTTP traffic. Each step comes a millisecond after the one before."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics = CallMetrics(self.registry)
        self._now_ns = 0

    def happens(self, event: Event) -> None:
        self._metrics.count_event(event)
        self._now_ns += MS

    def opens(self, exchange: int, method: str = "POST", headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.happens(RequestHead(1, exchange, 1, method, "/mcp", headers, observed_at_ns=self._now_ns))

    def responds(self, exchange: int, status: int = 200, *headers: tuple[str, str]) -> None:
        self.happens(ResponseHead(1, exchange, 1, status, headers, observed_at_ns=self._now_ns))

    def says(self, sender: Sender, exchange: int, message: Any, *, by_proxy: bool = False) -> None:
        raw = json.dumps(message).encode()
        self.happens(Frame(1, sender, raw, self._now_ns, exchange=exchange, by_proxy=by_proxy))

    def asks(self, exchange: int, method: str, id: int = 1, *, by: Sender = "client", **params: Any) -> None:
        self.says(by, exchange, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answers(
        self, exchange: int, id: int = 1, *, by: Sender = "server", by_proxy: bool = False, **result: Any
    ) -> None:
        self.says(by, exchange, {"jsonrpc": "2.0", "id": id, "result": result}, by_proxy=by_proxy)

    def fails(self, exchange: int, id: int = 1) -> None:
        error = {"code": -32000, "message": "no"}
        self.says("server", exchange, {"jsonrpc": "2.0", "id": id, "error": error})

    def ends(self, exchange: int, *, cut: bool = False) -> None:
        self.happens(ExchangeEnd(exchange, 1, cut, "client" if cut else None, self._now_ns))

    def calls(self, exchange: int, tool: str) -> None:
        """A whole call, with success, of 2 ms."""
        self.opens(exchange)
        self.asks(exchange, "tools/call", name=tool)
        self.responds(exchange)
        self.answers(exchange, content=[])
        self.ends(exchange)

    def counted(self) -> dict[str, float]:
        """Return what is not 0, without buckets and times of creation, and the labels of peers only."""
        return {
            name.replace("call_", "").replace("_seconds", ""): round(value, 6)
            for name, value in figures(self.registry).items()
            if value and "_bucket" not in name and "_created" not in name
        }


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


def test_a_call_lasts_until_its_answer(traffic: Traffic) -> None:
    traffic.opens(1)
    traffic.asks(1, "tools/list")
    traffic.responds(1, 200, STREAM)
    traffic.says("server", 1, {"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
    traffic.answers(1, tools=[{"name": "forecast"}])
    traffic.ends(1)
    assert traffic.counted() == {
        "duration_count{method=tools/list,sender=client,tool=}": 1,
        "duration_sum{method=tools/list,sender=client,tool=}": 0.003,
    }


def test_errors_are_counted_by_kind(traffic: Traffic) -> None:
    for exchange in range(1, 7):
        traffic.opens(exchange)
        traffic.asks(exchange, "ping", id=exchange)
    traffic.fails(1, 1)
    traffic.answers(2, 2, isError=True)
    traffic.answers(3, 3, by_proxy=True)
    traffic.responds(4, 503)
    traffic.ends(4)
    traffic.ends(5, cut=True)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}}
    traffic.opens(7)
    traffic.says("client", 7, cancelled)
    traffic.answers(6, 6)
    counted = traffic.counted()
    assert {name: value for name, value in counted.items() if "errors" in name} == {
        f"errors_total{{kind={kind},method=ping,sender=client,tool=}}": 1
        for kind in ("rpc-error", "tool-error", "refused", "http-error", "unanswered", "cancelled")
    }
    assert counted["duration_count{method=ping,sender=client,tool=}"] == 4


def test_an_answer_that_could_not_be_read_is_no_missing_one(traffic: Traffic) -> None:
    traffic.opens(1)
    traffic.asks(1, "tools/list")
    traffic.responds(1, 200)
    traffic.happens(Note(1, NOT_DECODED, "the content coding br cannot be undone here", exchange=1))
    traffic.ends(1)
    assert traffic.counted() == {"errors_total{kind=unreadable,method=tools/list,sender=client,tool=}": 1}


def test_an_answer_in_another_stream(traffic: Traffic) -> None:
    """In HTTP+SSE, and after a stream was resumed, the answer comes in the response to a GET."""
    traffic.opens(1, "GET", SESSION)
    traffic.opens(2, headers=SESSION)
    traffic.asks(2, "ping")
    traffic.responds(2, 202)
    traffic.ends(2)
    traffic.answers(1)
    assert traffic.counted()["duration_sum{method=ping,sender=client,tool=}"] == 0.003


def test_a_client_answers_in_an_exchange_of_its_own(traffic: Traffic) -> None:
    traffic.opens(1, headers=SESSION)
    traffic.asks(1, "tools/call", name="book")
    traffic.asks(1, "roots/list", by="server")
    traffic.opens(2, headers=SESSION)
    traffic.answers(2, by="client", roots=[])
    assert traffic.counted() == {
        "duration_count{method=roots/list,sender=server,tool=}": 1,
        "duration_sum{method=roots/list,sender=server,tool=}": 0.002,
    }


def test_of_two_requests_with_an_id_in_a_session_the_later_is_answered(traffic: Traffic) -> None:
    """That is what the viewer says, too. An answer to nothing is not counted."""
    for exchange in (1, 2):  # two sessions without a name, in which the server uses the same id
        traffic.opens(exchange)
        traffic.asks(exchange, "ping")
        traffic.asks(exchange, "roots/list", by="server")
    traffic.opens(3)
    traffic.answers(3, by="client", roots=[])
    traffic.answers(2, 7)
    assert traffic.counted() == {
        "duration_count{method=roots/list,sender=server,tool=}": 1,
        "duration_sum{method=roots/list,sender=server,tool=}": 0.002,
    }


def test_sessions_have_ids_of_their_own(traffic: Traffic) -> None:
    for exchange, name in ((1, "a"), (2, "b")):
        traffic.opens(exchange)
        traffic.asks(exchange, "ping", id=exchange)
        traffic.responds(exchange, 200, STREAM, ("Mcp-Session-Id", name))
        traffic.asks(exchange, "roots/list", id=9, by="server")
    traffic.opens(3, headers=(("Mcp-Session-Id", "b"),))
    traffic.answers(3, 9, by="client")
    assert traffic.counted()["duration_sum{method=roots/list,sender=server,tool=}"] == 0.002


def test_the_members_of_a_batch_are_calls(traffic: Traffic) -> None:
    traffic.opens(1)
    traffic.says("client", 1, [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (1, 2)])
    traffic.says("server", 1, [{"jsonrpc": "2.0", "id": id, "result": {}} for id in (2, 1)])
    assert traffic.counted()["duration_count{method=ping,sender=client,tool=}"] == 2


def test_a_tool_is_a_label_when_it_is_listed_or_has_answered(traffic: Traffic) -> None:
    traffic.opens(1)
    traffic.asks(1, "tools/list")
    traffic.answers(1, tools=[{"name": "listed"}, {"name": 7}, "x", {"name": "l" * 200}])
    for exchange, tool in ((2, "listed"), (3, "unlisted"), (5, "l" * 200)):
        traffic.calls(exchange, tool)
    traffic.opens(4)
    traffic.asks(4, "tools/call", name="unknown")
    traffic.fails(4)
    traffic.opens(6)
    traffic.asks(6, "made/up")
    traffic.answers(6)
    assert {name for name in traffic.counted() if "duration_count" in name} == {
        "duration_count{method=tools/list,sender=client,tool=}",
        "duration_count{method=tools/call,sender=client,tool=listed}",
        "duration_count{method=tools/call,sender=client,tool=unlisted}",
        "duration_count{method=tools/call,sender=client,tool=_OTHER}",
        "duration_count{method=_OTHER,sender=client,tool=}",
    }


def test_made_up_names_need_no_more_memory(traffic: Traffic) -> None:
    for number in range(45_000):
        traffic.calls(1, f"tool-{number}")
    tracemalloc.start()
    try:
        for number in range(45_000, 50_000):
            traffic.calls(1, f"tool-{number}")
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 50_000
    for number in range(2 * MAX_OPEN):
        traffic.opens(2)
        traffic.asks(2, f"method-{number}", id=number)
        traffic.responds(2, 200, STREAM)
        traffic.ends(2)  # without an answer: the stream may be resumed
    counted = {name: value for name, value in traffic.counted().items() if "duration_count" in name}
    assert len(counted) == MAX_TOOLS + 1
    assert counted["duration_count{method=tools/call,sender=client,tool=_OTHER}"] == 50_000 - MAX_TOOLS
    assert len(generate_latest(traffic.registry)) < 500_000


def test_a_request_that_waits_too_long_is_forgotten(traffic: Traffic) -> None:
    traffic.opens(1)
    for id in range(MAX_OPEN + 1):
        traffic.asks(1, "ping", id=id)
    traffic.answers(1, 0)
    assert traffic.counted() == {}
    traffic.answers(1, MAX_OPEN)
    assert traffic.counted()["duration_count{method=ping,sender=client,tool=}"] == 1
