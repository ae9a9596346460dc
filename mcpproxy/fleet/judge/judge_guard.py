"""Judges recordings in a process of its own, and survives what a recording does to it.

If the process dies at a recording, a new one tries once more. If that dies too, the recording is skipped, and
the next one is judged.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from mcpproxy.errors import McpProxyError
from mcpproxy.fleet.judge.judge_process import OUT_OF_MEMORY
from mcpproxy.fleet.judge.judge_rules import JudgeRules
from mcpproxy.fleet.judge.judge_unit import UnitResult
from mcpproxy.fleet.judge.shard_corpus import FleetRecording

_ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What one recording may use: seconds, of time and of a processor, and bytes of memory."""

    seconds: float = 300.0
    memory_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class JudgeJob:
    """Which recordings are judged: ``source`` is their folder or URL, ``out`` that of the results.

    ``key`` is that of ``rules``, see ``JudgeRules.key``.
    """

    source: str
    out: str
    rules: JudgeRules
    key: str
    limits: Limits = Limits()


class NoJudgeError(McpProxyError):
    """The process that judges recordings cannot be started, or it has other rules."""


class JudgeGuard:
    """Judges recordings one after another. It has to be closed."""

    def __init__(self, job: JudgeJob) -> None:
        self._job: Final = job
        self._process: subprocess.Popen[bytes] | None = None

    def judge(self, recording: FleetRecording) -> UnitResult:
        """Judge one recording, and keep its result.

        Raises:
            NoJudgeError: no process can be started to judge it.
        """
        reason = ""
        for _ in range(_ATTEMPTS):
            process = self._started()
            began = time.monotonic()
            answer = _ask(process, [recording.name, recording.keys])
            if answer is None:
                reason = self._cause_of_death(process, time.monotonic() - began)
            elif answer["status"] != "skipped":
                return UnitResult(recording.name, answer["status"], b"", answer["reason"], *answer["counts"])
            else:
                reason = answer["reason"]
        return UnitResult(recording.name, "skipped", reason=f"{reason}, {_ATTEMPTS} times; it was skipped")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()
            _close_pipes(process)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        command = [sys.executable, "-m", "mcpproxy.fleet.judge.judge_process"]
        # A session of its own: the terminal's SIGINT is for the parent, which ends this process.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=os.name == "posix"
        )
        self._process = process
        job = asdict(self._job)
        limits = job.pop("limits")
        if _ask(process, {**job, **limits}) is None:
            code = process.wait()
            self.close()
            raise NoJudgeError(f"the judge did not start: exit code {code}; see what it wrote above")
        return process

    def _cause_of_death(self, process: subprocess.Popen[bytes], took_s: float) -> str:
        code = process.wait()
        _close_pipes(process)
        self._process = None
        limits = self._job.limits
        if code == OUT_OF_MEMORY:
            return f"its judge needed more than {limits.memory_bytes >> 20:,} MiB of memory"
        if took_s >= limits.seconds:
            return f"its judge was not done after {limits.seconds:g} s"
        if code < 0:
            return f"its judge was ended by {_signal_name(-code)}"
        return f"its judge failed with exit code {code}"


def judge_units(job: JudgeJob, recordings: Iterable[FleetRecording]) -> Iterator[UnitResult]:
    """Yield the result of each recording as soon as it is known.

    Raises:
        NoJudgeError: no process can be started to judge them.
    """
    guard = JudgeGuard(job)
    try:
        for recording in recordings:
            yield guard.judge(recording)
    finally:
        guard.close()


def _ask(process: subprocess.Popen[bytes], value: object) -> dict[str, Any] | None:
    """Send a line, and return the answer; ``None`` if the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(orjson.dumps(value) + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    line = process.stdout.readline()
    return orjson.loads(line) if line.endswith(b"\n") else None


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # what was not sent is of no use any more


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
