"""What the recordings of a host before a probe say: the wire, and the prompt by ``mcpproxy.read.prompt``."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import mcpproxy
from mcpproxy.judge.session.frame import Close
from mcpproxy.model.tool_names import written
from mcpproxy.protocol.jsonrpc import Notification
from mcpproxy.read.opening import open_trace
from mcpproxy.read.prompt.report import PromptReport, ServerWay, ToolWay
from mcpproxy.read.prompt.run import has_turns, read_run

MODEL: Final = "model.jsonl"
SERVERS: Final = "servers"
SAID: Final = "said.txt"


@dataclass(frozen=True)
class Wire:
    """A session of the server. ``ended_ns`` is when it ended, from its start on; ``cancelled`` has by the id
    of a call when the host gave it up."""

    path: str
    calls: tuple[mcpproxy.Call, ...]
    cancelled: Mapping[Any, int]
    ended_ns: int

    def of(self, method: str) -> list[mcpproxy.Call]:
        """Return the requests of the host with a method."""
        return [call for call in self.calls if call.method == method and call.sender == "client"]

    def waited_s(self, call: mcpproxy.Call) -> float:
        """Return how long the host waited for the answer to a request: until it came, was given up, or the
        session ended; 0 if its end was not recorded."""
        if call.id in self.cancelled:
            return (self.cancelled[call.id] - call.at_ns) / 1e9
        ns = call.latency_ns if call.latency_ns is not None else self.ended_ns - call.at_ns
        return max(ns, 0) / 1e9


@dataclass(frozen=True)
class Seen:
    """A run of a host before a probe. ``said`` is what the host wrote, ``called`` what its model called."""

    probe: str
    folder: str
    report: PromptReport | None
    wires: tuple[Wire, ...]
    called: frozenset[str]
    said: str = ""
    name: str = ""

    @property
    def servers(self) -> Sequence[ServerWay]:
        return self.report.servers if self.report is not None else ()

    @cached_property
    def tools(self) -> tuple[tuple[int, str, dict[str, Any]], ...]:
        """The tools that were listed: index, name and definition of each."""
        listed: dict[str, dict[str, Any]] = {}
        for wire in self.wires:
            for call in wire.of("tools/list"):
                result: dict[str, Any] = call.result or {}
                listed |= {each["name"]: each for each in result.get("tools", ())}
        return tuple((at, name, each) for at, (name, each) in enumerate(listed.items()))

    @cached_property
    def ways(self) -> dict[str, tuple[ToolWay, ServerWay]]:
        """By the name of a tool: what became of it. Of several sessions that one counts that has it."""
        found: dict[str, tuple[ToolWay, ServerWay]] = {}
        for server in self.servers:
            for way in server.tools:
                known = found.get(way.match.tool.name)
                if known is None or known[0].match.offered is None:
                    found[way.match.tool.name] = way, server
        return found

    @property
    def has_prompt(self) -> bool:
        """Whether a request to the model was recorded that offers any tool."""
        return self.report is not None and self.report.requests > 0

    def place(self, way: ToolWay) -> str:
        """Say where the request is that has a tool, or the answer that lists it."""
        if way.asked.frame:
            return f"{self.folder}/{MODEL} frame {way.asked.frame}"
        return f"{self.folder}/{SERVERS} frame {way.match.tool.frame}"

    def call_place(self, frame: int) -> str:
        return f"{self.folder}/{MODEL} frame {frame}"


@dataclass(frozen=True)
class Evidence:
    """All runs of a host in one version. ``prefix`` is what it puts before the names of the probe's tools."""

    host: str
    version: str
    runs: tuple[Seen, ...]

    @cached_property
    def prefix(self) -> str:
        """What stands before names: that of most servers, or of most single tools."""
        counted = Counter(
            way.match.prefix
            for run in self.runs
            if run.probe != "awkward"
            for way, _ in run.ways.values()
            if way.match.prefix is not None
        )
        return counted.most_common(1)[0][0] if counted else ""

    def named(self, probe: str) -> Iterator[Seen]:
        return (run for run in self.runs if run.probe == probe)

    def others(self) -> list[str]:
        """Return the names of tools that are the host's own."""
        reports = [run.report for run in self.runs if run.report is not None]
        return sorted({written(tool) for report in reports for tool in report.others})


def read_seen(folder: Path, probe: str, called: Iterable[str]) -> Seen:
    """Read the recordings of a run."""
    paths = sorted((folder / SERVERS).glob("*.jsonl"))
    model = folder / MODEL
    report = None
    if model.exists() and has_turns(open_trace(str(model))):
        report = read_run(open_trace(str(model)), [str(path) for path in paths])
    said = folder / SAID
    return Seen(
        probe,
        "/".join(folder.parts[-2:]),
        report,
        tuple(_wire(path) for path in paths),
        frozenset(called),
        said.read_text(encoding="utf-8") if said.exists() else "",
    )


def _wire(path: Path) -> Wire:
    trace = mcpproxy.open_trace(path)
    cancelled: dict[Any, int] = {}
    for frame in trace.frames():
        message = frame.message
        if (
            frame.sender == "client"
            and isinstance(message, Notification)
            and message.method == "notifications/cancelled"
            and isinstance(message.params, dict)
        ):
            cancelled[message.params.get("requestId")] = frame.observed_at_ns
    events = list(open_trace(str(path)).records())
    # What is cut off ends with its last record, and not when the host ended it.
    closes = [each.observed_at_ns for each in events if isinstance(each, Close) and each.ending != "cut"]
    calls = trace.calls()
    for call in calls:  # some hosts cancel what was answered long ago
        if call.latency_ns is not None and call.at_ns + call.latency_ns <= cancelled.get(call.id, 0):
            del cancelled[call.id]
    return Wire(str(path), calls, cancelled, closes[-1] if closes else 0)
