"""A collector on loopback, which may be slow or refuse. opentelemetry-proto decodes what it gets."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics

from tests.otel.decoding import Span, decoded
from tests.peers.web_server import WebServer


class Receiver:
    """Takes spans, metrics and log records.

    ``answers`` are the statuses of the first requests with spans; all others are answered with 200.
    """

    def __init__(self, port: int = 0, answers: Sequence[int] = ()) -> None:
        self.spans: Final[list[Span]] = []
        self.metrics: Final[list[ResourceMetrics]] = []
        self.logs: Final[list[ResourceLogs]] = []
        self.requests: Final[list[tuple[str, dict[str, str]]]] = []
        self.arrived = 0
        """The number of requests with spans, those without an answer included."""
        self.may_answer: Final = threading.Event()
        """Requests are answered once it is set."""
        self.may_answer.set()
        self._answers: Final = list(answers)
        self._changed: Final = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.arrives(self.path)
                receiver.may_answer.wait(60)
                status = receiver.take(self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server: Final = WebServer(("127.0.0.1", port), Handler)
        self.url: Final = f"http://127.0.0.1:{self._server.server_port}"
        self._thread: Final = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def arrives(self, path: str) -> None:
        """Count a request that has arrived."""
        with self._changed:
            self.arrived += path == "/v1/traces"
            self._changed.notify_all()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Note a request, and return the status of its answer."""
        with self._changed:
            self.requests.append((path, headers))
            status = 200
            match path:
                case "/v1/traces":
                    status = self._answers.pop(0) if self._answers else 200
                    if status == 200:
                        self.spans.extend(decoded(body))
                case "/v1/metrics":
                    self.metrics.extend(ExportMetricsServiceRequest.FromString(body).resource_metrics)
                case "/v1/logs":
                    self.logs.extend(ExportLogsServiceRequest.FromString(body).resource_logs)
                case _:
                    status = 404
            self._changed.notify_all()
        return status

    def await_signals(self) -> None:
        """Wait until there are metrics and log records."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.metrics and self.logs, 120)

    def await_span(self, name: str) -> Span:
        """Wait until there is a span with this name, and return it."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(span.name == name for span in self.spans), 120), name
            return next(span for span in self.spans if span.name == name)

    def await_requests(self, number: int) -> None:
        """Wait until this number of requests has arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.arrived >= number, 120), self.arrived

    def close(self) -> None:
        """Stop; requests that wait are answered."""
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving(port: int = 0, answers: Sequence[int] = ()) -> Generator[Receiver]:
    """Run a receiver."""
    receiver = Receiver(port, answers)
    try:
        yield receiver
    finally:
        receiver.close()
