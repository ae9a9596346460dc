"""What mcpproxy uses while nothing happens, and after a million frames."""

import os
import time
from pathlib import Path
from typing import Final

from tests.benchmarks import processes
from tests.benchmarks.options import Kind
from tests.benchmarks.report import Samples
from tests.benchmarks.sessions import (
    VARIANTS,
    Load,
    Session,
    finish,
    last_frame,
    wait_until_recorded,
)

IDLE_S: Final = 10.0
SETTLE_S: Final = 2.0
"""After the last frame was recorded there is still something to be put away."""

CALLS: Final = Load(150, 100, 1)
MANY_CALLS: Final = Load(150, 500_000, 64)
PATIENCE_S: Final = 300
EARLY: Final = 200_000
"""Frames; what is used up to there is what the whole is compared with."""


def look_at_idle(samples: Samples, kind: Kind, trace: Path, seconds: float = IDLE_S) -> None:
    """A session that has made a few calls and then none for ``seconds``: wake-ups and memory."""
    variant = VARIANTS[-1]
    with Session(variant, kind, CALLS, trace) as session:
        session.go()
        wait_until_recorded(trace, last_frame(CALLS))
        if (pids := processes.find(session.pid)) is not None:
            time.sleep(min(SETTLE_S, seconds))
            both = {"relay": pids.relay, "recorder": pids.recorder}
            before = {role: processes.wakeups(pid) for role, pid in both.items()}
            time.sleep(seconds)
            for role, pid in both.items():
                woken = processes.wakeups(pid) - before[role]
                samples.add(f"wake-ups of the {role} in {seconds:g} s without traffic", variant.name, woken)
            for role, pid in both.items():
                samples.add(f"memory of the {role}, idle (PSS), MiB", variant.name, processes.pss_mib(pid))
        session.close()
    finish(trace, CALLS)


def look_at_endurance(samples: Samples, kind: Kind, trace: Path, load: Load = MANY_CALLS) -> None:
    """A session of a million frames: the most memory up to frame ``EARLY``, up to the last, and at rest."""
    variant = VARIANTS[-1]
    with Session(variant, kind, load, trace) as session:
        if (pids := processes.find(session.pid)) is None:
            session.go()
        else:
            both = {"relay": pids.relay, "recorder": pids.recorder}
            early, most = dict.fromkeys(both, 0.0), dict.fromkeys(both, 0.0)

            def look() -> None:
                for role, pid in both.items():
                    most[role] = max(most[role], processes.pss_mib(pid))
                if latest_frame(trace) <= EARLY:
                    early.update(most)
                time.sleep(0.02)  # looking holds up who is looked at

            session.go_meanwhile(look)
            until = time.monotonic() + PATIENCE_S
            while latest_frame(trace) < 3 + 2 * load.count and time.monotonic() < until:
                look()
            wait_until_recorded(trace, last_frame(load), 0.1)
            frames = f"{2 * load.count:,} frames"
            for role, pid in both.items():
                values = {f"up to frame {EARLY:,}": early[role], f"up to the end of {frames}": most[role]}
                values[f"at rest after {frames}"] = processes.pss_mib(pid)
                for when, value in values.items():
                    samples.add(f"memory of the {role} {when} (PSS), MiB", variant.name, value)
        session.close()
    finish(trace, load)


def latest_frame(trace: Path) -> int:
    """The number of the frame that was recorded last, as far as the end of ``trace`` shows."""
    try:
        with trace.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            _, found, rest = file.read().rpartition(b'{"type":"frame","seq":')
    except FileNotFoundError:
        return 0
    return int(rest.partition(b",")[0] or 0) if found and b"," in rest else 0
