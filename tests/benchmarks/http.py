"""The cost of the HTTP data path: latency, throughput, streams, memory, processor time, recorder's lag."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.http_sessions import Client, Load, server, verify, verify_streams
from tests.benchmarks.http_variants import NGINX, TRACE, VARIANTS, Variant, variants_for
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import wait_until_recorded

ALONE: Final = "POST → JSON of 150 B, 1 connection"
SOME: Final = "POST → JSON of 150 B, 16 connections"
MANY: Final = "POST → JSON of 150 B, 64 connections"
FIRST: Final = "POST → SSE, short"
STREAM: Final = "POST → SSE, 1 stream"
STREAMS: Final = "POST → SSE, 16 streams"
LARGE: Final = "POST → JSON, large"

LOADS: Final = {
    ALONE: Load("call", 1, 1_000, 150),
    SOME: Load("call", 16, 20_000, 150),
    MANY: Load("call", 64, 20_000, 150),
    FIRST: Load("stream", 1, 2_000, 2),
    STREAM: Load("stream", 1, 20, 5_000),
    STREAMS: Load("stream", 16, 64, 1_500),
    LARGE: Load("call", 1, 2, 50 << 20),
}

SHORT: Final = {
    ALONE: Load("call", 1, 1_000, 150),
    SOME: Load("call", 16, 1_000, 150),
    MANY: Load("call", 64, 1_000, 150),
    FIRST: Load("stream", 1, 100, 2),
    STREAM: Load("stream", 1, 2, 1_000),
    STREAMS: Load("stream", 16, 32, 50),
    LARGE: Load("call", 1, 1, 8 << 20),
}

SESSIONS: Final = {ALONE: 10, STREAMS: 5}
"""So many in each round, where chance decides whether a session is fast or slow: which processors its
processes get, or how many events Linux lets the server write before it wakes the reader."""

SIMPLE: Final = (ALONE, SOME)
"""What a slow variant is measured with."""

WARM: Final = 20
"""Idle streams that are open already when those that are counted come."""

IDLE: Final = (300, 2_000)
IDLE_SHORT: Final = (100,)


def run(options: Options) -> list[Section]:
    """Measure every variant in turn.

    Raises:
        WrongBytesError: a request, an answer or an event was lost or changed.
    """
    variants, missing = variants_for(options)
    samples = Samples(missing)
    loads = SHORT if options.short else sized(options)
    idle = IDLE_SHORT if options.short else tuple(count // options.part for count in IDLE)
    load_before = os.getloadavg()[0]
    _raise_limit()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as name, server() as upstream:
        folder = Path(name)
        for _ in range(options.rounds):
            for title, load in loads.items():
                for _ in range(1 if options.short else SESSIONS.get(title, 1)):
                    for variant in variants:
                        if not variant.slow:
                            measure(samples, variant, upstream, title, load, folder)
                        elif title in SIMPLE:
                            fewer = replace(load, count=load.count // 10)
                            measure(samples, variant, upstream, title, fewer, folder)
            for variant in variants:
                if variant in VARIANTS[1:]:
                    hold(samples, variant, upstream, idle, folder)
    said = f"Load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after."
    if NGINX is None:
        said += " There is no nginx on this machine, so it has no column."
    samples.notes.append(said)
    return [Section("HTTP", samples, [variant.name for variant in variants])]


def sized(options: Options) -> dict[str, Load]:
    """Return the loads in the size that is wanted."""
    return {
        title: replace(load, count=options.size(load.count, min(load.count, SHORT[title].count)))
        for title, load in LOADS.items()
    }


def measure(samples: Samples, variant: Variant, upstream: int, title: str, load: Load, folder: Path) -> None:
    """Make the calls of ``load`` through a fresh ``variant``; its figures go to ``samples``."""
    trace = folder / TRACE
    with (
        variant.start(upstream, folder) as between,
        Client.calling(variant.name, between.port, load) as client,
    ):
        before = {role: processes.cpu_seconds(pid) for role, pid in between.pids.items()}
        outcome = client.go()
        lag_ms = 0.0
        if variant.records:
            lag_ms = (wait_until_recorded(trace, load.last_sign) - outcome.finished_ns) / 1e6
        used = {role: processes.cpu_seconds(pid) - before[role] for role, pid in between.pids.items()}
        peak = {role: processes.peak_mib(pid) for role, pid in between.pids.items()}
    if variant.records:
        verify(trace, load)
        trace.unlink()

    def add(row: str, value: float) -> None:
        samples.add(row, variant.name, value)

    rate = load.count / outcome.seconds
    match title:
        case "POST → SSE, short":
            add("time to first event, p50, µs", outcome.p50_us)
            add("time to first event, p99, µs", outcome.p99_us)
        case "POST → SSE, 1 stream" | "POST → SSE, 16 streams":
            add(f"{title}, events/s", load.size * rate)
        case "POST → JSON, large":
            size = f"{load.size >> 20} MiB"
            add(f"body of {size} there and back, MB/s", 2 * load.size * rate / 1e6)
            for role in between.pids:
                add(f"peak of the {role} with bodies of {size} (VmHWM), MiB", peak[role])
        case _:
            if load.connections == 1:
                add(f"{title}, p50, µs", outcome.p50_us)
                add(f"{title}, p99, µs", outcome.p99_us)
            add(f"{title}, requests/s", rate)
    if title == SOME:
        for role in between.pids:
            add(f"CPU of the {role} for 10,000 requests, s", used[role] * 10_000 / load.count)
        if variant.records:
            add(f"recorder is behind after {load.count:,} requests, ms", lag_ms)
    if title == STREAMS:
        for role in between.pids:
            add(f"CPU of the {role} for 100,000 events, s", used[role] * 100_000 / (load.count * load.size))


def hold(samples: Samples, variant: Variant, upstream: int, counts: tuple[int, ...], folder: Path) -> None:
    """Look at the memory of a fresh ``variant`` while it holds idle streams."""
    trace = folder / TRACE
    with variant.start(upstream, folder) as between, Client.holding(variant.name, between.port) as client:
        base: dict[str, float] = {}
        for count in (0, *counts):
            client.hold(WARM + count)
            if variant.records:  # two exchanges were the handshake
                wait_until_recorded(trace, b'"exchange":%d,"connection"' % (2 + WARM + count))
            for role, pid in between.pids.items():
                mib = processes.pss_mib(pid)
                if count:
                    row = f"memory of the {role} for an idle stream of {count:,} (PSS), KiB"
                    samples.add(row, variant.name, (mib - base[role]) * 1024 / count)
                else:
                    base[role] = mib
    if variant.records:
        verify_streams(trace, WARM + max(counts))
        trace.unlink()


def _raise_limit() -> None:
    """Let the processes to come open as many files as they may: a stream takes two in a proxy."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
