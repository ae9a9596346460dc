"""Histograms of calls and sessions: values, boundaries, labels, and a limited number of series."""

from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from mcpproxy.read.view.view import open_view
from mcpproxy.send.otel.durations import Durations
from mcpproxy.send.otel.span_reader import SpanReader
from mcpproxy.send.otel.span_source import resource
from tests.otel.sessions import SESSIONS
from tests.otel.table import CONVENTIONS, NAMES, trace_of
from tests.view.situations import SITUATIONS, begun, text, write

LIMIT = 2000
"""How many series of a histogram the SDK keeps."""


def measured(trace: str) -> dict[str, Any]:
    """Return the histograms of a recording by their names."""
    in_memory = InMemoryMetricReader()
    with open_view(trace) as view:
        durations = Durations(in_memory, resource(view.header, view.path))
        reader = SpanReader(view, measure=durations.measure)
        for part in (reader.read, reader.finish):
            for _ in part():
                pass
    data = in_memory.get_metrics_data()
    if data is None:
        return {}
    ((of_scope,),) = (of_resource.scope_metrics for of_resource in data.resource_metrics)
    assert of_scope.schema_url == CONVENTIONS["schema_url"]
    return {metric.name: metric for metric in of_scope.metrics}


def test_calls_and_sessions_are_measured(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "s.jsonl", SITUATIONS["failed tool"]))
    points = found["mcp.client.operation.duration"].data.data_points
    (call,) = (point for point in points if "error.type" in point.attributes)
    assert call.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "forecast",
        "network.transport": "pipe",
        "mcp.protocol.version": "2025-11-25",
        "error.type": "tool_error",
    }
    assert (call.count, round(call.sum, 3)) == (1, 0.012)
    (session,) = found["mcp.client.session.duration"].data.data_points
    assert (session.count, round(session.sum, 3)) == (1, 0.199)


def test_names_units_labels_and_boundaries_are_those_of_the_conventions(tmp_path: Path) -> None:
    for name in NAMES:
        for metric in measured(trace_of(name, tmp_path)).values():
            row = CONVENTIONS["metric"][metric.name]
            assert metric.unit == row["unit"]
            for point in metric.data.data_points:
                assert set(row["required"]) <= set(point.attributes) <= {*row["required"], *row["allowed"]}
                assert list(point.explicit_bounds) == CONVENTIONS["histogram"]["boundaries"]


def test_a_call_that_its_caller_does_not_sample_is_measured(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "s.jsonl", SESSIONS["traced"]))
    points = found["mcp.client.operation.duration"].data.data_points
    assert sum(point.count for point in points if "gen_ai.tool.name" in point.attributes) == 3


def test_another_protocol_is_not_measured(tmp_path: Path) -> None:
    assert measured(write(tmp_path / "s.jsonl", SESSIONS["agent"])) == {}


def test_made_up_names_do_not_make_ever_more_series(tmp_path: Path) -> None:
    session = begun()
    for id in range(10, LIMIT + 510):
        session.asks(id, "tools/call", {"name": f"tool-{id}", "arguments": {}}, ms=100 + id)
        session.answers(id, text("done"), ms=100.5 + id)
    found = measured(write(tmp_path / "s.jsonl", session.closes(ms=5000)))
    points = found["mcp.client.operation.duration"].data.data_points
    assert len(points) == LIMIT + 1
    (rest,) = (point for point in points if point.attributes == {"otel.metric.overflow": True})
    assert sum(point.count for point in points) == LIMIT + 502
    assert rest.count == 502
