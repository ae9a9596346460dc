"""Statistics: counts, latencies and sizes per tool and method, and the cost of definitions."""

from pathlib import Path

from mcpproxy.read.view.stats import percentile, statistics, tokens
from mcpproxy.read.view.view import open_view
from tests.view.situations import begun, forecast, text, write

MS = 1_000_000


def session() -> tuple[str, ...]:
    """Ten calls of ``forecast``, of which one fails and one is never answered; ``archive`` is not used."""
    said = begun()
    for number in range(10):
        said.asks(number + 2, "tools/call", forecast("Oslo"), ms=100 + 100 * number)
        if number < 9:
            result = text("Oslo: sunny", isError=True) if number == 4 else text("Oslo: sunny")
            said.answers(number + 2, result, ms=110 + 101 * number)
    return said.closes(ms=2000)


def test_calls_are_counted_per_tool(tmp_path: Path) -> None:
    with open_view(write(tmp_path / "s.jsonl", session())) as view:
        found = statistics([view])
    calls = {(each.method, each.name): each for each in found.calls}
    tool = calls["tools/call", "forecast"]
    assert (tool.counts.total, tool.counts.failed, tool.counts.unanswered) == (10, 1, 1)
    assert (tool.p50_ns, tool.p95_ns, tool.max_ns) == (14 * MS, 1000 * MS, 1000 * MS)
    assert tool.at_least == ("p95", "max")
    assert tool.bytes_in > 10 * 100
    assert tool.result_tokens == tokens(tool.bytes_out)
    assert set(calls) == {("initialize", None), ("tools/list", None), ("tools/call", "forecast")}
    assert [(cost.name, cost.server, cost.calls) for cost in found.tools] == [
        ("forecast", "weather", 10),
        ("archive", "weather", 0),
    ]
    assert [cost.name for cost in found.never_used] == ["archive"]


def test_a_call_without_an_answer_counts_with_its_wait(tmp_path: Path) -> None:
    said = begun()
    for id, asked_ms, answered_ms in ((7, 100, 110), (8, 200, None), (9, 300, 5300), (10, 5500, None)):
        said.asks(id, "tools/call", forecast("Oslo"), ms=asked_ms)
        if answered_ms:
            said.answers(id, text("Oslo: sunny"), ms=answered_ms)
    said.notifies("notifications/cancelled", {"requestId": 8}, ms=700, by="client")
    with open_view(write(tmp_path / "s.jsonl", said.closes(ms=6000))) as view:
        (tool,) = [each for each in statistics([view]).calls if each.name == "forecast"]
    assert (tool.p50_ns, tool.p95_ns, tool.max_ns) == (500 * MS, 5000 * MS, 5000 * MS)
    assert tool.at_least == ("p50",)
    assert tool.counts.unanswered == 1


def test_a_call_within_one_tick_of_the_clock_counts(tmp_path: Path) -> None:
    """On Windows a clock stands still for up to 16 ms. Without such calls the others would seem slower."""
    said = begun()
    for id, asked_ms, answered_ms in ((7, 100, 100), (8, 200, 200), (9, 300, 316)):
        said.asks(id, "tools/call", forecast("Oslo"), ms=asked_ms)
        said.answers(id, text("Oslo: sunny"), ms=answered_ms)
    with open_view(write(tmp_path / "s.jsonl", said.closes(ms=6000))) as view:
        (tool,) = [each for each in statistics([view]).calls if each.name == "forecast"]
    assert (tool.p50_ns, tool.max_ns) == (0, 16 * MS)


def test_recordings_add_up(tmp_path: Path) -> None:
    views = [open_view(write(tmp_path / f"{name}.jsonl", session())) for name in "ab"]
    found = statistics(views)
    assert (found.recordings, found.frames) == (2, 48)
    assert next(each.counts.total for each in found.calls if each.name == "forecast") == 20
    assert [(cost.name, cost.calls) for cost in found.tools] == [("forecast", 20), ("archive", 0)]
    answered = next(each.bytes_out for each in found.calls if each.name == "forecast")
    assert [cost.result_bytes for cost in found.tools] == [answered, 0]


def test_a_percentile_is_a_value_that_occurred() -> None:
    assert percentile([], 50) is None
    assert [percentile([7], percent) for percent in (1, 50, 100)] == [7, 7, 7]
    assert [percentile(list(range(1, 101)), percent) for percent in (50, 95, 100)] == [50, 95, 100]
    assert percentile([1, 2, 3], 50) == 2
