"""The dashboard for Grafana: it shows what the admin port serves, and everything of it."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.judge.session.frame import ExchangeEnd, Finding, Frame, RequestHead, ResponseHead
from mcpproxy.record.admin import metrics as admin_metrics
from mcpproxy.record.admin.metrics import Metrics

ADMIN: Final = Path(admin_metrics.__file__).parent
DASHBOARD: Final[dict[str, Any]] = json.loads((ADMIN / "dashboard.json").read_text(encoding="utf-8"))
TARGETS: Final = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
OF_PROMETHEUS: Final = {"job", "le"}


@pytest.fixture(scope="module")
def served() -> dict[str, set[str]]:
    """The names of series -> their labels, after one failed call of which everything is known."""
    metrics = Metrics()
    metrics.count_event(RequestHead(1, 1, 1, "POST", "/mcp", ()))
    metrics.count_event(Frame(2, "client", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', exchange=1))
    metrics.count_event(ResponseHead(3, 1, 1, 200, ()))
    error = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}'
    metrics.count_event(Frame(4, "server", error, exchange=1))
    metrics.count_event(ExchangeEnd(1, 1, True, "server"))
    metrics.count_finding(Finding("A-1", "error", "server", "wrong", 1))
    return {
        sample.name: set(sample.labels)
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def base(name: str) -> str:
    """The name of a metric without what its series add."""
    return re.sub(r"_(total|bucket|count|sum)$", "", name)


@pytest.mark.parametrize(("title", "expression", "legend"), TARGETS)
def test_each_query_is_about_what_is_served(
    title: str, expression: str, legend: str, served: dict[str, set[str]]
) -> None:
    (name,) = re.findall(r"mcpproxy_\w+", expression)
    assert name in served, title
    grouped = re.findall(r"by \(([^)]*)\)", expression)
    by = {label.strip() for group in grouped for label in group.split(",")}
    selected = set(re.findall(r"(\w+)=", expression))
    assert by | selected <= served[name] | OF_PROMETHEUS
    assert set(re.findall(r"{{(\w+)}}", legend)) <= by
    assert expression.count("(") == expression.count(")")


def test_everything_that_is_served_is_shown(served: dict[str, set[str]]) -> None:
    shown = {base(name) for _, expression, _ in TARGETS for name in re.findall(r"mcpproxy_\w+", expression)}
    assert {base(name) for name in served} == shown


def test_the_document_lists_every_metric_with_its_labels(served: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| `(mcpproxy_\w+)` \|([^|]*)\|", (ADMIN / "README.md").read_text("utf-8"), re.M)
    listed = {base(name): set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert listed == {base(name): labels - OF_PROMETHEUS for name, labels in served.items()}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert taken.isdisjoint(cells)
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
