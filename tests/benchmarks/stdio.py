"""The cost of the stdio data path: latency, throughput, memory, processor time, lag of the recorder.

What it costs while nothing happens, and what a large result holds up, are measured with it.
"""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.benchmarks import processes, structured, upkeep
from tests.benchmarks.options import Kind, Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import (
    VARIANTS,
    Load,
    Session,
    StuckError,
    Variant,
    finish,
    last_frame,
    variants_for,
    wait_until_recorded,
)

PING_PONG: Final = "one call at a time"
SMALL: Final = "calls of 150 B, 64 in flight"
MEDIUM: Final = "calls of 4 KB, 64 in flight"
LARGE: Final = "messages of 1 MB, 4 in flight"

LOADS: Final = {
    PING_PONG: Load(150, 10_000, 1),
    SMALL: Load(150, 100_000, 64),
    MEDIUM: Load(4096, 25_000, 64),
    LARGE: Load(1 << 20, 150, 4),
}

SHORT: Final = {PING_PONG: 500, SMALL: 5_000, MEDIUM: 1_000, LARGE: 12}
"""The least number of calls."""

_LATE: Final = re.compile(r"judged up to ([0-9.]+) s late")

SHORT_RESULTS: Final = 2
SHORT_IDLE_S: Final = 0.5


def run(options: Options) -> list[Section]:
    """Measure every variant in turn; a table for each kind of channel.

    Raises:
        WrongBytesError: a frame was lost or changed.
    """
    found: list[Section] = []
    loads = sized(LOADS, options)
    variants, missing = variants_for(options)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-benchmark-") as folder:
        trace = Path(folder) / "trace.jsonl"
        for kind in options.kinds:
            samples = Samples(missing)
            stuck: set[tuple[str, str]] = set()
            for _ in range(options.rounds):
                for name, load in loads.items():
                    for variant in variants:
                        if (variant.name, name) in stuck:
                            continue
                        try:
                            measure(samples, variant, kind, name, load, trace)
                        except StuckError as error:
                            stuck.add((variant.name, name))
                            samples.notes.append(f"{variant.name}, {name}: {error}.")
            for variant in VARIANTS:
                if variant in variants:
                    results = options.size(structured.RESULTS, SHORT_RESULTS)
                    structured.measure(samples, variant, kind, trace, results)
            look_at_memory(samples, kind, loads[SMALL], trace)
            if kind == options.kinds[0]:  # without traffic there is no difference between them
                idle_s = SHORT_IDLE_S if options.short else upkeep.IDLE_S / options.part
                upkeep.look_at_idle(samples, kind, trace, idle_s)
            if options.long:
                upkeep.look_at_endurance(samples, kind, trace)
            title = "pipes" if kind == "pipe" else "socket pairs"
            found.append(Section(f"stdio, {title}", samples, [variant.name for variant in variants]))
    return found


def sized(loads: Mapping[str, Load], options: Options) -> dict[str, Load]:
    """Return the loads in the size that is wanted."""
    return {name: replace(load, count=options.size(load.count, SHORT[name])) for name, load in loads.items()}


def measure(samples: Samples, variant: Variant, kind: Kind, name: str, load: Load, trace: Path) -> None:
    """One session under ``load``; its figures go to ``samples``."""
    with Session(variant, kind, load, trace) as session:
        pids = processes.find(session.pid) if variant.records and name == SMALL else None
        before = [processes.cpu_seconds(pid) for pid in (pids.relay, pids.recorder)] if pids else []
        outcome = session.go()
        if variant.records and name == SMALL:
            lag_ns = wait_until_recorded(trace, last_frame(load)) - outcome.finished_ns
            samples.add(f"recorder is behind after {load.count:,} calls, ms", variant.name, lag_ns / 1e6)
        if pids:
            for role, pid, used in zip(
                ("relay", "recorder"), (pids.relay, pids.recorder), before, strict=True
            ):
                seconds = (processes.cpu_seconds(pid) - used) * 100_000 / load.count
                samples.add(f"CPU of the {role} for 100,000 calls, s", variant.name, seconds)
        session.close()
        if variant.records and name == SMALL and (late := _LATE.search(session.remarks())):
            samples.add("recorder was late by its own summary, s", variant.name, float(late[1]))
    match name:
        case "one call at a time":
            samples.add(f"{name}, p50, µs", variant.name, outcome.p50_us)
            samples.add(f"{name}, p99, µs", variant.name, outcome.p99_us)
        case "messages of 1 MB, 4 in flight":
            samples.add(
                f"{name}, MB/s each way", variant.name, load.size * load.count / 1e6 / outcome.seconds
            )
        case _:
            samples.add(f"{name}, calls/s", variant.name, load.count / outcome.seconds)
    if variant.records:
        finish(trace, load)


def look_at_memory(samples: Samples, kind: Kind, load: Load, trace: Path) -> None:
    """A session of its own, since looking costs time."""
    variant = VARIANTS[-1]
    with Session(variant, kind, load, trace) as session:
        pids = processes.find(session.pid)
        if pids is not None:
            both = {"relay": pids.relay, "recorder": pids.recorder}
            most = dict.fromkeys(both, 0.0)

            def look() -> None:
                for role, pid in both.items():
                    most[role] = max(most[role], processes.pss_mib(pid))

            session.go_meanwhile(look)
            wait_until_recorded(trace, last_frame(load))
            for role, pid in both.items():
                samples.add(f"memory of the {role} under load (PSS), MiB", variant.name, most[role])
                samples.add(f"peak of the {role} (VmHWM), MiB", variant.name, processes.peak_mib(pid))
        else:
            session.go()
        session.close()
    finish(trace, load)
