"""What a recording is counted by."""

import pytest
from prometheus_client import CollectorRegistry

from mcpproxy.judge.session.frame import (
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Note,
    RequestHead,
    ResponseHead,
    SseEvent,
)
from mcpproxy.record.admin.metrics import Metrics

MS = 1_000_000
STREAM = (("Content-Type", "text/event-stream"),)


RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'


def ask(exchange: int, at_ns: int = 0, method: str = "POST") -> RequestHead:
    return RequestHead(exchange, exchange, 1, method, "/mcp", (), observed_at_ns=at_ns)


def said(raw: bytes, at_ns: int) -> Frame:
    """An event in the stream of exchange 1."""
    return Frame(9, "server", raw, at_ns, exchange=1, connection=1, event=SseEvent(b"data: ", b"\n\n"))


def end(exchange: int, at_ns: int) -> ExchangeEnd:
    return ExchangeEnd(exchange, 1, observed_at_ns=at_ns)


def answer(exchange: int, status: int = 200, at_ns: int = 0, *, by_proxy: bool = False) -> ResponseHead:
    return ResponseHead(9, exchange, 1, status, STREAM, by_proxy=by_proxy, observed_at_ns=at_ns)


COUNTED: dict[str, tuple[list[Event], dict[str, float]]] = {
    "frames by their sender": (
        [Frame(1, "client", b"{}"), Frame(2, "server", b"{}"), Frame(3, "server", b"{}")],
        {"frames_total{sender=client}": 1, "frames_total{sender=server}": 2},
    ),
    "an exchange while it is under way": (
        [ask(1), ask(2), answer(1)],
        {"requests_total": 2, "open_exchanges": 2, "open_streams": 1},
    ),
    "and afterwards": (
        [ask(1), answer(1), ExchangeEnd(1, 1)],
        {"responses_total{by=server,code=2xx}": 1, "open_exchanges": 0, "open_streams": 0},
    ),
    "how long the answer took": (
        [
            ask(1, 2 * MS),
            answer(1, 100, 3 * MS),
            answer(1, 200, 4 * MS),
            said(PROGRESS, 5 * MS),
            said(RESULT, 9 * MS),
        ],
        {"response_latency_seconds_count": 1, "response_latency_seconds_sum": 0.007},
    ),
    "and nothing of what comes after it": (
        [ask(1), answer(1, 200, MS), said(RESULT, 2 * MS), said(RESULT, 3 * MS), end(1, 60_000 * MS)],
        {"response_latency_seconds_count": 1, "response_latency_seconds_sum": 0.002},
    ),
    "how long the head took, where no message answers": (
        [ask(1), answer(1, 202, 4 * MS), end(1, 9 * MS)],
        {"response_latency_seconds_count": 1, "response_latency_seconds_sum": 0.004},
    ),
    "how long a stream took to open": (
        [ask(1, method="GET"), answer(1, 200, 5 * MS), said(PROGRESS, 60_000 * MS)],
        {"response_latency_seconds_count": 1, "response_latency_seconds_sum": 0.005},
    ),
    "no latency without an answer": (
        [ask(1), end(1, 9 * MS)],
        {"response_latency_seconds_count": 0},
    ),
    "an answer of our own": ([answer(1, 502, by_proxy=True)], {"responses_total{by=proxy,code=5xx}": 1}),
    "an answer to nothing seen": ([answer(1)], {"response_latency_seconds_count": 0}),
    "who cut an exchange": (
        [ExchangeEnd(1, 1, True, "client"), ExchangeEnd(2, 1)],
        {"exchanges_cut_total{by=client}": 1},
    ),
    "nothing for what concerns nobody": ([Note(1, "a", "b")], {"requests_total": 0}),
}


@pytest.mark.parametrize(("events", "expected"), COUNTED.values(), ids=COUNTED)
def test_events_are_counted(events: list[Event], expected: dict[str, float]) -> None:
    metrics = Metrics()
    for event in events:
        metrics.count_event(event)
    found = figures(metrics.registry)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def figures(registry: CollectorRegistry) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in registry.collect():
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name.removeprefix("mcpproxy_") + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def test_findings_are_counted_by_rule() -> None:
    metrics = Metrics()
    for rule in ("A-1", "A-1", "A-2"):
        metrics.count_finding(Finding(rule, "error", "server", "wrong", 1))
    found = figures(metrics.registry)
    assert found["findings_total{blame=server,rule=A-1,severity=error}"] == 2
    assert found["findings_total{blame=server,rule=A-2,severity=error}"] == 1


def test_how_far_behind_the_recorder_is() -> None:
    metrics = Metrics()
    metrics.set_lag(2 * MS, "")
    metrics.set_lag(None, "the disk is full")
    found = figures(metrics.registry)
    assert (found["recorder_lag_seconds"], found["recorder_stuck"]) == (0.002, 1)
    assert metrics.trouble == "the disk is full"
