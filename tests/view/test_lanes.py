"""Bars on a line of time: a second lane only for calls that overlap, and one bar for many narrow ones."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import mcpproxy.show.ui
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.view.diagrams.lanes import MESSAGES, MOST_LANES, TimeLanes, lanes_of
from mcpproxy.read.view.view import open_view
from mcpproxy.show.ui import json_rows, plots
from tests.view.situations import MS, SITUATIONS, Conversation, begun, forecast, text, write

FOREVER = 1 << 62
CALLS = "tool:*"


def lanes(trace: str, *, narrow_ns: int = 1, filter: str = CALLS, limit: int = 1500) -> TimeLanes:
    with open_view(trace) as view:
        return lanes_of(view, 0, FOREVER, narrow_ns, filter, limit=limit)


def talk_of(calls: Sequence[tuple[float, float]]) -> Conversation:
    """Return a session with a call for each pair of times, in milliseconds; ``inf`` is never answered."""
    talk = begun()
    said = [(begin, "asks", id) for id, (begin, _) in enumerate(calls, 10)]
    said += [(end, "answers", id) for id, (_, end) in enumerate(calls, 10) if end < float("inf")]
    for ms, what, id in sorted(said):
        if what == "asks":
            talk.asks(id, "tools/call", forecast("Oslo"), ms=ms)
        else:
            talk.answers(id, text("sunny"), ms=ms)
    return talk


def recorded(folder: Path, calls: Sequence[tuple[float, float]]) -> str:
    last = max(end if end < float("inf") else begin for begin, end in calls)
    return write(folder / "s.jsonl", talk_of(calls).closes(ms=last + 10))


def test_calls_one_after_the_other_are_in_one_lane(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [(100 + 10 * number, 101 + 10 * number) for number in range(2000)])
    for narrow_ns in (1, 100 * MS):
        assert lanes(trace, narrow_ns=narrow_ns).lanes == 1


def test_calls_that_overlap_have_lanes_of_their_own(tmp_path: Path) -> None:
    found = lanes(recorded(tmp_path, [(100, 200), (110, 120), (130, 140), (135, float("inf")), (300, 310)]))
    assert found.lanes == 3
    assert [(bar.lane, bar.began_ns // MS) for bar in found.bars] == [
        *((0, 100), (0, 300), (1, 110), (1, 130)),
        (2, 135),
    ]
    assert found.bars[-1].ended_ns == 320 * MS  # without an answer until the end of the recording


def test_narrow_bars_that_follow_each_other_are_one_with_their_number(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [(100, 101), (102, 103), (104, 105), (150, 190), (191, 192), (230, 231)])
    found = lanes(trace, narrow_ns=5 * MS)
    assert [(bar.began_ns // MS, bar.ended_ns // MS, bar.count) for bar in found.bars] == [
        *((100, 105, 3), (150, 190, 1), (191, 192, 1)),
        (230, 231, 1),
    ]
    assert [bar.count for bar in lanes(trace, narrow_ns=5 * MS, limit=1).bars] == [6]
    assert found.total == 6


def test_failed_calls_are_counted_in_a_bar(tmp_path: Path) -> None:
    talk = begun()
    for id in range(10, 20):
        talk.asks(id, "tools/call", forecast("Oslo"), ms=10 * id)
        talk.answers(id, {**text("no"), "isError": id % 2 == 0}, ms=10 * id + 1)
    (bar,) = lanes(write(tmp_path / "s.jsonl", talk.closes(ms=300)), narrow_ns=50 * MS).bars
    assert (bar.count, bar.errors) == (10, 5)


def test_too_many_calls_at_a_time_are_counted(tmp_path: Path) -> None:
    found = lanes(recorded(tmp_path, [(100 + number, 5000) for number in range(MOST_LANES + 7)]))
    assert (found.lanes, found.left_out, found.total) == (MOST_LANES, 7, MOST_LANES + 7)


def test_what_is_no_call_makes_no_lane(tmp_path: Path) -> None:
    talk = begun()
    talk.asks(10, "tools/call", forecast("Oslo"), ms=100)
    talk.asks(11, "tools/call", forecast("Lima"), ms=101)
    talk.notifies("notifications/tools/list_changed", ms=110)  # of either call, so of none
    talk.answers(11, text("sunny"), ms=119)
    talk.answers(10, text("sunny"), ms=120)
    found = lanes(write(tmp_path / "s.jsonl", talk.closes(ms=130)), filter="call:4..")
    assert found.lanes == 2
    assert [bar.lane for bar in found.bars] == [MESSAGES, 0, 1]


def test_an_exported_page_has_the_same_bars(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("a real peer is not to be had: no Node.js")
    times = [(100 + 7 * number, 103 + 7 * number + (number % 11) ** 2) for number in range(400)]
    traces = {name: write(tmp_path / f"{name}.jsonl", records) for name, records in SITUATIONS.items()}
    traces["many"] = recorded(tmp_path, times)
    ranges = [(0, 10**7, narrow, limit) for narrow in (0.001, 3, 40) for limit in (20, 1500)]
    ranges += [(1000, 1500, 4, 1500)]
    wanted: list[list[JSONObject]] = []
    recordings: list[list[JSONObject]] = []
    for trace in traces.values():
        with open_view(trace) as view:
            recordings.append([json_rows.call(call) for call in view.calls(None, 0, 1000)])
            wanted.append(
                [
                    plots.spans(view, int(a * MS), int(b * MS), int(narrow * MS), None, limit)
                    for a, b, narrow, limit in ranges
                ]
            )
    script = """
        import { readFileSync } from "node:fs";
        const { lanesOf } = await import(process.argv[1]);
        const { recordings, ranges } = JSON.parse(readFileSync(0, "utf8"));
        const found = recordings.map((calls) => ranges.map((range) => lanesOf(calls, ...range)));
        console.log(JSON.stringify(found));
    """
    module = Path(mcpproxy.show.ui.__file__).parent / "static" / "lanes.js"
    ran = subprocess.run(
        [node, "--input-type=module", "-e", script, module.as_uri()],
        input=json.dumps({"recordings": recordings, "ranges": ranges}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for name, here, there in zip(traces, wanted, json.loads(ran.stdout), strict=True):
        for each, python, script_made in zip(ranges, here, there, strict=True):
            assert script_made == json.loads(json.dumps(python)), (name, each)
