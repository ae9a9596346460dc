"""One run: so many cases of a target, each a new one, and what came of them."""

import resource
import shutil
import signal
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from mcpproxy.errors import McpProxyError
from tests.fuzzers.targets import TARGETS, Files, lay

LONGEST_S: Final = 5.0
PEAK_BYTES: Final = 512 << 20
_SHOWN: Final = 20


class TooLongError(BaseException):
    """An execution that was broken off."""


@dataclass(slots=True)
class Outcome:
    """What a run has found; ``findings`` are texts for people, one for each kind."""

    target: str
    executions: int = 0
    refused: int = 0
    longest_s: float = 0.0
    peak_bytes: int = 0
    findings: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.executions:,} executions, {self.refused:,} refused with a sentence, "
            f"{len(self.findings)} findings, longest {self.longest_s:.2f} s, "
            f"peak {self.peak_bytes / (1 << 20):.0f} MiB"
        )


def run(target: str, *, seed: int, seconds: float = 1e9, executions: int = 1 << 60) -> Outcome:
    """Read cases of ``target`` until the time or the number is reached; equal seeds give equal cases."""
    of = TARGETS[target]
    seeds, outcome, known = of.seeds(), Outcome(target), set[str]()
    until = time.monotonic() + seconds
    signal.signal(signal.SIGALRM, _break_off)
    while outcome.executions < executions and time.monotonic() < until:
        number = outcome.executions
        files = of.case(seeds, Random(f"{seed}/{number}"))
        kind, text = _execute(outcome, files)
        outcome.executions += 1
        if kind and kind not in known and len(known) < _SHOWN:
            known.add(kind)
            outcome.findings.append(f"seed {seed}, case {number}: {text}")
    return outcome


def _execute(outcome: Outcome, files: Files) -> tuple[str, str]:
    """Read one case; the kind of what is wrong with that, and all there is to say of it."""
    folder = tempfile.mkdtemp(prefix="mcpproxy-fuzz-")
    lay(files, Path(folder))
    kind = text = ""
    # Of the process, not of the wall: others may keep the machine busy. The wall ends what only waits.
    started = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, 12 * LONGEST_S)
    try:
        TARGETS[outcome.target].read(folder)
    except McpProxyError as sentence:
        outcome.refused += 1
        if "\n" in str(sentence):
            kind, text = "a sentence of several lines", repr(str(sentence))
    except (Exception, TooLongError) as fault:  # whatever it is, it is a finding
        last = traceback.extract_tb(fault.__traceback__)[-1]
        kind, text = f"{type(fault).__name__} {last.filename}:{last.lineno}", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(folder, ignore_errors=True)
    took = time.process_time() - started
    outcome.longest_s = max(outcome.longest_s, took)
    outcome.peak_bytes = max(outcome.peak_bytes, _peak_bytes())
    if not kind and took > LONGEST_S:
        kind, text = "too long", f"took {took:.1f} s"
    if not kind and outcome.peak_bytes > PEAK_BYTES:
        kind, text = "too much memory", f"{outcome.peak_bytes >> 20} MiB"
    return kind, text


def _peak_bytes() -> int:
    """What this program took at most; on Linux ``ru_maxrss`` has what the process was before it, too."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _break_off(*_: object) -> None:
    raise TooLongError
