"""Whoever shows a recording says the same of a call: its method, its target, how it ended, how long it took.

The rows of the viewer are what all others are compared with, for each call of each recording that ships.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
import pytest
from prometheus_client import CollectorRegistry

from mcpproxy import api
from mcpproxy.base.style import Style, duration
from mcpproxy.cli.calls.lines_of_calls import CallLines
from mcpproxy.gate.intercept.message_facts import OpenRequests
from mcpproxy.judge.session.frame import Finding, Frame
from mcpproxy.judge.session.outcomes import ERRORS, Outcome
from mcpproxy.read.reports.fingerprint import Subject, fingerprint
from mcpproxy.read.reports.located import locate
from mcpproxy.read.reports.transcripts import transcript_json
from mcpproxy.read.view.call_members import call_members, milliseconds
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.view import open_view
from mcpproxy.record.admin.call_metrics import OTHER, CallMetrics
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.session_labels import SessionNames
from mcpproxy.send.fleet.columns import recording_rows
from mcpproxy.send.fleet.columns.frame_batch import FrameBatch
from mcpproxy.send.otel.span_reader import SpanReader
from mcpproxy.show.agents.recording_tools import call_row
from mcpproxy.show.ui import json_rows

RECORDINGS: Final = sorted((Path(__file__).parents[1] / "recordings").glob("*.jsonl"))
SUCCEEDED: Final = (Outcome.OK, Outcome.INPUT_REQUIRED)


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of the call whose request is in ``frame``. ``...`` is what is not said."""

    frame: int
    method: Any = ...
    target: Any = ...
    outcome: Any = ...
    took_ns: Any = ...
    answer: Any = ...


Reader: TypeAlias = Callable[[Path], Iterator[Said]]


def rows(path: Path) -> list[Call]:
    """Return the calls of a recording, as the viewer has them."""
    with open_view(str(path)) as view:
        return view.calls("kind:request", limit=100_000)


def page(path: Path) -> Iterator[Said]:
    for row in rows(path):
        said: Any = json_rows.call(row)
        took_ns = None if said["latency_ms"] is None else round(said["latency_ms"] * 1e6)
        yield Said(said["frame"], said["method"], said["target"], said["outcome"], took_ns, said["answer"])


def agents(path: Path) -> Iterator[Said]:
    for row in rows(path):
        said = call_row(row)
        took_ns = None if said.latency_ms is None else round(said.latency_ms * 1e6)
        yield Said(said.frame, said.method, said.target, said.outcome, took_ns, said.answer)


def python(path: Path) -> Iterator[Said]:
    for call in api.open_trace(path).calls():
        yield Said(call.frame, call.method, call.name, ..., call.latency_ns, call.answer_frame)


def frames_as_json(path: Path) -> Iterator[Said]:
    """``show --json`` says with each answer which request it is for."""
    for line in transcript_json.lines(read_trace(str(path)).events()):
        frame = orjson.loads(line)
        for message in frame.get("messages", [frame]):
            if frame.get("from") and message.get("answers"):
                yield Said(
                    message["answers"], message["method"], ..., ..., message["latency_ns"], frame["seq"]
                )


def spans(path: Path) -> Iterator[Said]:
    with open_view(str(path)) as view:
        reader = SpanReader(view)
        for span in [*reader.read(), *reader.finish()]:
            said: Any = span.attributes
            if span.start_time is None or span.end_time is None or "mcp.method.name" not in said:
                continue  # the span of a session, or of a stream that a GET opened
            targets = ("gen_ai.tool.name", "gen_ai.prompt.name", "mcp.resource.uri")
            answer = said.get("mcpproxy.answer.frame")
            yield Said(
                said["mcpproxy.request.frame"],
                said["mcp.method.name"],
                next((said[name] for name in targets if name in said), None),
                said["mcpproxy.outcome"],
                None if answer is None else span.end_time - span.start_time,
                answer,
            )


def columns(path: Path) -> Iterator[Said]:
    """The tables that ``export parquet`` writes have the target of a call only if that is a tool."""
    read = recording_rows.read(str(path), path.name)
    batch = FrameBatch()
    batch.add(path.name, read.started_us, read.scan)
    for row in batch.table().to_pylist():
        if row["kind"] == "request":
            target = row["tool"] if row["method"] == "tools/call" else ...
            yield Said(row["frame"], row["method"], target, row["outcome"], row["latency_ns"])


def faults(path: Path) -> Iterator[Said]:
    """Conditions of faults are about single messages: a request, and later its answer."""
    names, sessions = SessionNames(), dict[str, OpenRequests]()
    asked: dict[object, int] = {}
    for event in read_trace(str(path)).events():
        session = names.track(event)
        if not isinstance(event, Frame) or event.by_proxy or event.continues:
            continue
        # Before its session has a name, a message is matched within its exchange.
        place = session or f"exchange {event.exchange}"
        for facts in sessions.setdefault(place, OpenRequests()).facts(event.sender, event.raw, event.message):
            if facts.kind == "request":
                asked[place, event.sender, facts.id] = event.seq
                yield Said(event.seq, facts.method, facts.target)
            elif facts.kind == "answer":
                requestor = "server" if event.sender == "client" else "client"
                if (request := asked.pop((place, requestor, facts.id), None)) is not None:
                    outcome = facts.outcome.value
                    yield Said(request, facts.method, facts.target, outcome, ..., event.seq)


READERS: Final[tuple[Reader, ...]] = (page, agents, python, frames_as_json, spans, columns, faults)


def differences(said: Said, row: Call) -> list[str]:
    """Return what is said otherwise than in the row of the viewer."""
    expected = {
        "method": row.method,
        "target": row.target,
        "outcome": row.outcome.value,
        "took_ns": row.latency_ns,
        "answer": row.answer,
    }
    found = {name: getattr(said, name) for name in expected}
    if isinstance(said.took_ns, int) and row.latency_ns is not None:
        found["took_ns"] = row.latency_ns + _beyond_microseconds(said.took_ns - row.latency_ns)
    return [
        f"frame {row.frame}: {name} is {found[name]!r}, not {value!r}"
        for name, value in expected.items()
        if found[name] is not ... and found[name] != value
    ]


def _beyond_microseconds(difference_ns: int) -> int:
    """Return a difference between times; 0 if it is that of rounding to a microsecond."""
    return 0 if abs(difference_ns) <= 500 else difference_ns


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_all_say_the_same_of_a_call(path: Path, reader: Reader) -> None:
    by_frame = {row.frame: row for row in rows(path)}
    said = list(reader(path))
    assert [each for one in said for each in differences(one, by_frame[one.frame])] == []
    wanted = {
        row.frame for row in by_frame.values() if row.answer is not None or reader is not frames_as_json
    }
    assert {one.frame for one in said} == wanted, "calls are missing"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_page_and_the_agents_give_the_same_members(path: Path) -> None:
    """The number of the row and the time of its request have a name of their own in each, and agents get the
    id and the arguments as JSON.
    """
    for row in rows(path):
        shared, on_page, for_agents = call_members(row), json_rows.call(row), asdict(call_row(row))
        assert on_page == {
            **shared,
            "number": row.number,
            "started_ms": milliseconds(row.started_ns),
            "worst_findings": row.worst_findings,
            "said": row.said,
        }
        own = {"call": row.number, "at_ms": milliseconds(row.started_ns)}
        values = {"id": orjson.loads(row.id) if row.id else None, "arguments": for_agents["arguments"]}
        assert for_agents == {**shared, **own, **values}


def test_a_time_in_milliseconds_is_rounded_to_the_microsecond() -> None:
    assert [milliseconds(time) for time in (1_234_499, 1_234_501, 0, None)] == [1.234, 1.235, 0, None]


@pytest.mark.parametrize(
    "wrong",
    [{"method": "a"}, {"target": "b"}, {"outcome": "cancelled"}, {"took_ns": -1}, {"answer": None}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_difference_is_seen(wrong: dict[str, Any]) -> None:
    path = RECORDINGS[1]
    row = next(row for row in rows(path) if row.target is not None and row.answer is not None)
    (said,) = (said for said in page(path) if said.frame == row.frame)
    assert differences(said, row) == []
    assert len(differences(replace(said, **wrong), row)) == 1


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_line_of_a_call_says_the_same(path: Path) -> None:
    lines = CallLines(Style())
    for row in rows(path):
        (line, *_) = lines.call(row)
        assert f" {row.method}{'' if row.target is None else f' {row.target}'}" in line
        assert row.latency_ns is None or line.endswith(duration(row.latency_ns))
        assert "✗" in line or row.outcome not in ERRORS
        assert "✗" not in line or row.outcome not in SUCCEEDED


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_fingerprint_is_of_the_method_and_the_target(path: Path) -> None:
    """A finding about a request, and one about its answer, have what the call is about in their hash."""
    calls = rows(path)
    about = [(frame, call) for call in calls for frame in (call.frame, call.answer) if frame is not None]
    findings = [_finding(frame) for frame, _ in about]
    trace = read_trace(str(path))
    for (frame, call), located in zip(about, locate(trace, findings), strict=True):
        expected = fingerprint(_finding(frame), Subject(call.method, call.target or ""))
        assert located.fingerprint == expected, f"frame {frame} of {call.method} {call.target}"


def _finding(frame: int) -> Finding:
    return Finding("PROTO-007", "error", "server", "a sentence", frame)


def _tool_label(row: Call, known: set[str | None]) -> str:
    """Return the label of a call in metrics: a tool that the server does not know makes no time series."""
    if row.method != "tools/call" or row.target is None:
        return ""
    return row.target if row.target in known else OTHER


@pytest.mark.parametrize("path", [path for path in RECORDINGS if "-http-" in path.stem], ids=lambda p: p.stem)
def test_metrics_count_the_same_calls(path: Path) -> None:
    registry = CollectorRegistry()
    metrics = CallMetrics(registry)
    for event in read_trace(str(path)).events():
        metrics.count_event(event)  # pyright: ignore[reportArgumentType] # findings are not counted
    counted, errors = Counter[tuple[str, str, str]](), Counter[str]()
    seconds: dict[tuple[str, str, str], float] = {}
    for sample in (sample for metric in registry.collect() for sample in metric.samples):
        key = sample.labels.get("sender", ""), sample.labels.get("method", ""), sample.labels.get("tool", "")
        if sample.name == "mcpproxy_call_duration_seconds_count":
            counted[key] += round(sample.value)
        elif sample.name == "mcpproxy_call_duration_seconds_sum":
            seconds[key] = sample.value
        elif sample.name == "mcpproxy_call_errors_total":
            errors[sample.labels["kind"]] += round(sample.value)
    answered = [row for row in rows(path) if row.latency_ns is not None]
    known = {row.target for row in answered if row.method == "tools/call" and row.outcome in SUCCEEDED}
    with open_view(str(path)) as view:
        known.update(tool.name for tool in view.tools.all() if tool.listed)
    keys = [(row.sender, row.method, _tool_label(row, known)) for row in answered]
    assert counted == Counter(keys)
    for key in counted:
        took_ns = [row.latency_ns or 0 for row, its_key in zip(answered, keys, strict=True) if its_key == key]
        assert seconds[key] == pytest.approx(sum(took_ns) / 1e9)
    assert errors == Counter(row.outcome.value for row in answered if row.outcome not in SUCCEEDED)
