"""The beginning of a value as compact JSON."""

import json

import pytest

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.read.reports.transcripts.preview import preview

VALUES: list[JSON] = [
    None,
    True,
    7,
    -1.5,
    "text",
    'quote " and \\',
    [],
    {},
    [1, [2, {"a": None}], "x"],
    {"name": "echo", "arguments": {"deep": [{"er": "ü"}]}},
]


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
def test_a_small_value_is_shown_whole(value: JSON) -> None:
    whole = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert preview(value, 1000) == preview(value, 10, is_short=True) == whole


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
@pytest.mark.parametrize("limit", [0, 1, 5, 20])
def test_a_preview_is_a_beginning(value: JSON, limit: int) -> None:
    whole = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert preview(value, limit)[:limit] == whole[:limit]


def test_what_is_not_shown_is_not_written_out() -> None:
    deep: JSON = []
    for _ in range(100_000):
        deep = [deep]
    assert preview(deep, 80)[:80] == preview(deep, 80, is_short=True)[:80] == "[" * 80
    assert len(preview("x" * 10_000_000, 80)) < 100
    assert len(preview({"x" * 10_000_000: 1}, 80)) < 100
