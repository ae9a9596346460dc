"""``mcpproxy mcp`` on a folder of 1,000 recordings: how long each tool takes, and how large its answers are.

The official client asks over stdio, as a host does, first a new server, and then the same one again. The
recordings are those that ship, under other names.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import WrongBytesError
from tests.peers.processes import ROOT

RECORDINGS: Final = 1000
SHORT_RECORDINGS: Final = 50
OPENED: Final = 40
"""Of how many recordings calls, findings and so on are asked for; more than stay open."""
MAX_BYTES: Final = 25_000
PASSES: Final = ("first", "again")
COLUMNS: Final = [f"{name}: {figure}, ms" for name in PASSES for figure in ("p50", "p95", "max")]
SIZE: Final = "largest answer, bytes"
FILTERS: Final = ("status:error", "tool:no-such-tool", '"no such text"', "rule:PROTO-* latency:>1ms")


def make(folder: Path, count: int) -> None:
    """Write ``count`` recordings."""
    sources = [path.read_bytes().split(b"\n", 1) for path in sorted((ROOT / "recordings").glob("*.jsonl"))]
    for place in range(count):
        header, records = sources[place % len(sources)]
        day, minute = divmod(place, 60)
        started_at = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T10:{minute:02}:00.000000Z"
        members = {**json.loads(header), "started_at": started_at}
        text = json.dumps(members, separators=(",", ":")).encode()
        (folder / f"{place:04}-{members.get('label') or 'recording'}.jsonl").write_bytes(
            text + b"\n" + records
        )


class _Asking:
    """Asks, and keeps how long each answer took and how large it was."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.took_ms: defaultdict[str, list[float]] = defaultdict(list)
        self.bytes: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        began_s = time.perf_counter()
        result = await self._client.call_tool(tool, arguments)
        self.took_ms[tool].append((time.perf_counter() - began_s) * 1000)
        size = len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
        self.bytes[tool] = max(self.bytes[tool], size)
        if result.is_error or size >= MAX_BYTES:
            raise WrongBytesError(f"{tool} {arguments}: {size} bytes, {result.content}")
        return result.structured_content or {}


async def _ask(asking: _Asking, opened: int) -> None:
    handles: list[str] = []
    page = await asking("list_recordings", limit=100)
    while True:
        handles += [row["recording"] for row in page["recordings"]]
        if "next" not in page:
            break
        page = await asking("list_recordings", limit=100, cursor=page["next"])
    for wanted in FILTERS:
        page = await asking("find_calls", filter=wanted)
        for _ in range(10):
            if "next" in page:
                page = await asking("find_calls", filter=wanted, cursor=page["next"])
    for _ in range(20):
        await asking("list_runs")
        await asking("explain_rule", rule="PROTO-007")
    for before, handle in pairwise(handles[: opened + 1]):
        await asking("describe_recording", recording=handle)
        await asking("list_findings", recording=handle)
        await asking("get_statistics", recording=handle)
        await asking("get_context_cost", recording=handle)
        await asking("get_call", recording=handle, call=2)
        await asking("get_frame", recording=handle, frame=1)
        await asking("compare_recordings", before=before, after=handle)


async def _measure(folder: str, opened: int) -> tuple[float, list[_Asking]]:
    command = ["-m", "mcpproxy", "mcp", folder]
    parameters = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT, env=dict(os.environ))
    began_s = time.perf_counter()
    async with Client(parameters) as client:
        ready_ms = (time.perf_counter() - began_s) * 1000
        passes = [_Asking(client) for _ in PASSES]
        for asking in passes:
            await _ask(asking, opened)
    return ready_ms, passes


def run(options: Options) -> list[Section]:
    """Ask through all tools, in each round a new server."""
    count = options.size(RECORDINGS, SHORT_RECORDINGS)
    opened = min(OPENED, count // 5)
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-agents-") as folder:
        make(Path(folder), count)
        for _ in range(options.rounds):
            ready_ms, passes = anyio.run(_measure, folder, opened)
            for name, asking in zip(PASSES, passes, strict=True):
                asking.took_ms["all"] = [took for times in asking.took_ms.values() for took in times]
                asking.bytes["all"] = max(asking.bytes.values())
                for tool, times in asking.took_ms.items():
                    for figure, value in _figures(times).items():
                        samples.add(tool, f"{name}: {figure}, ms", value)
            for tool in passes[0].bytes:
                samples.add(tool, SIZE, max(each.bytes[tool] for each in passes))
            samples.add("until the client is connected", "first: p50, ms", ready_ms)
    samples.notes.append(f"{count:,} recordings.")
    return [Section("agents", samples, [*COLUMNS, SIZE], ratios=False)]


def _figures(times: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the maximum."""
    p95 = sorted(times)[-(-95 * len(times) // 100) - 1]
    return {"p50": statistics.median(times), "p95": p95, "max": max(times)}
