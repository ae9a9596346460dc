"""Findings as log records: severity, time, text, and the span to which they belong."""

from pathlib import Path

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from mcpproxy.read.view.view import open_view
from mcpproxy.send.otel.finding_logs import FindingLogs
from mcpproxy.send.otel.span_reader import SpanReader
from mcpproxy.send.otel.span_source import resource
from tests.otel.decoding import exported
from tests.otel.sessions import late_finding
from tests.view.situations import write


def logged(trace: str, *, restarts_after: int | None = None) -> list[ReadableLogRecord]:
    exporter = InMemoryLogRecordExporter()
    with open_view(trace) as view:
        logs = FindingLogs(SimpleLogRecordProcessor(exporter), resource(view.header, view.path))
        reader = SpanReader(view, log=logs.log)
        if restarts_after is not None:
            list(reader.read(restarts_after))
            reader.restart()
        list(reader.read())
        list(reader.finish())
        logs.close()
    return list(exporter.get_finished_logs())


def test_a_finding_is_a_log_record_of_its_span(tmp_path: Path) -> None:
    trace = write(tmp_path / "s.jsonl", late_finding())
    spans = {span.name: span for span in exported(trace, tmp_path / "s.otlp")}
    call, session = spans["tools/call forecast"], spans["mcp.session"]
    of_call, of_session = sorted(logged(trace), key=lambda log: str(log.log_record.body))[::-1]
    for log, span, rule in ((of_call, session, "RPC-005"), (of_session, call, "RES-004")):
        record, (event,) = log.log_record, (e for e in span.events if e.name == "mcpproxy.finding")
        assert (f"{record.trace_id:032x}", f"{record.span_id:016x}") == (span.trace_id, span.id)
        assert (record.timestamp, record.observed_timestamp) == (event.at_ns, event.at_ns)
        assert record.event_name == "mcpproxy.finding"
        said = dict(record.attributes or {})
        assert said | {"mcpproxy.message": record.body} == event.said
        assert said["mcpproxy.rule"] == rule
        assert record.severity_number is not None
        assert record.severity_number.name.startswith(str(record.severity_text)[:4])


def test_a_finding_is_logged_once(tmp_path: Path) -> None:
    trace = write(tmp_path / "s.jsonl", late_finding())
    once = sorted(str(log.log_record.body) for log in logged(trace))
    for lines in range(1, 14):
        again = logged(trace, restarts_after=lines)
        assert sorted(str(log.log_record.body) for log in again) == once
