"""The Prometheus metrics of a recording.

The recorder's thread counts and the web server's thread reads; the Prometheus library is thread-safe.
Dashboards depend on the names of metrics and labels: add new names, never change one. No label has a value
that a peer can choose freely, because every value makes a separate time series; `call_metrics.py` says how
those of calls are limited.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import SERVER, Event, ExchangeEnd, Finding, Frame, RequestHead, ResponseHead
from mcpproxy.protocol.message_parts import answers_in
from mcpproxy.record.admin.call_metrics import DURATION_BINS_S, CallMetrics


class Metrics:
    """The metrics of one recording, in their own registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # otherwise each counter also exports the time when it was made
        self.registry: Final = CollectorRegistry()
        self._frames = self._add_counter("frames", "Bodies and SSE events recorded.", "sender")
        self._requests = self._add_counter("requests", "HTTP requests recorded.")
        self._responses = self._add_counter("responses", "HTTP responses recorded.", "code", "by")
        self._findings = self._add_counter("findings", "Findings recorded.", "rule", "severity", "blame")
        self._cut_exchanges = self._add_counter(
            "exchanges_cut", "Exchanges that ended before they were complete.", "by"
        )
        self._latency = Histogram(
            "mcpproxy_response_latency_seconds",
            "From the request's head to the message that answers it, or else to the response's head.",
            buckets=DURATION_BINS_S,
            registry=self.registry,
        )
        self._open = self._add_gauge("open_exchanges", "Exchanges under way.")
        self._streams = self._add_gauge("open_streams", "SSE streams under way.")
        self._lag = self._add_gauge(
            "recorder_lag_seconds", "How old the latest record was when it was written to the trace."
        )
        self._stuck = self._add_gauge("recorder_stuck", "1 while the trace cannot be written.")
        self._calls: Final = CallMetrics(self.registry)
        self._request_ns: dict[int, int] = {}
        """For each open exchange, the time of the request's head, in nanoseconds."""
        self._head_latency_s: dict[int, float | None] = {}
        """For each open exchange of a POST to the endpoint that no message has answered yet, the seconds from
        the request's head to the response's head; ``None`` before the response. If the exchange ends without
        an answer, this latency is observed."""
        self._streaming: set[int] = set()
        """The open exchanges whose response is an SSE stream."""
        self.trouble = ""
        """Why the trace cannot be written; empty while it can."""

    def count_event(self, event: Event) -> None:
        """Count an event that was recorded."""
        self._calls.count_event(event)
        match event:
            case Frame(sender=sender):
                self._frames.labels(sender).inc()
                if (
                    sender == SERVER
                    and event.exchange in self._head_latency_s
                    and answers_in(event.message)  # a stream may have other messages before it
                ):
                    del self._head_latency_s[event.exchange]
                    self._latency.observe((event.observed_at_ns - self._request_ns[event.exchange]) / 1e9)
            case RequestHead(exchange=exchange, observed_at_ns=at_ns):
                self._requests.inc()
                self._request_ns[exchange] = at_ns
                self._open.set(len(self._request_ns))
                if event.endpoint and event.method == "POST":
                    self._head_latency_s[exchange] = None
            case ResponseHead(status=status, exchange=exchange, observed_at_ns=at_ns) if status >= 200:
                # Label by the class of the status only: a server may send any of 900 statuses.
                self._responses.labels(f"{status // 100}xx", "proxy" if event.by_proxy else "server").inc()
                if (request_ns := self._request_ns.get(exchange)) is not None:
                    latency_s = (at_ns - request_ns) / 1e9
                    if exchange in self._head_latency_s:
                        self._head_latency_s[exchange] = latency_s
                    else:
                        self._latency.observe(latency_s)
                if Fields(event.headers).is_event_stream:
                    self._streaming.add(exchange)
                    self._streams.set(len(self._streaming))
            case ExchangeEnd(exchange=exchange):
                self._request_ns.pop(exchange, None)
                if (head_s := self._head_latency_s.pop(exchange, None)) is not None:
                    self._latency.observe(head_s)
                self._streaming.discard(exchange)
                self._open.set(len(self._request_ns))
                self._streams.set(len(self._streaming))
                if event.cut:
                    self._cut_exchanges.labels(event.by or "unknown").inc()
            case _:
                pass

    def count_finding(self, finding: Finding) -> None:
        """Count a finding."""
        self._findings.labels(finding.rule, finding.severity, finding.blame).inc()

    def set_lag(self, lag_ns: int | None, trouble: str) -> None:
        """Set the recorder's lag (``None``: nothing new was recorded) and ``trouble``."""
        if lag_ns is not None:
            self._lag.set(lag_ns / 1e9)
        self.trouble = trouble
        self._stuck.set(bool(trouble))

    def _add_counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"mcpproxy_{name}", help, labels, registry=self.registry)

    def _add_gauge(self, name: str, help: str) -> Gauge:
        return Gauge(f"mcpproxy_{name}", help, registry=self.registry)
