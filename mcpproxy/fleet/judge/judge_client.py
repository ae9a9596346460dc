"""The process that judges recordings, as its parent sees it: recordings in, answers out, and how it died."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from mcpproxy.base.own_process import own_command
from mcpproxy.errors import McpProxyError
from mcpproxy.fleet import urls
from mcpproxy.fleet.judge.judge_rules import JudgeRules
from mcpproxy.fleet.judge.judge_unit import Status
from mcpproxy.fleet.judge.shard_corpus import FleetRecording
from mcpproxy.fleet.judge.store_transfers import OUT_OF_MEMORY

_FEW_ARENAS: Final = {"MALLOC_ARENA_MAX": "2"}
"""Each arena of glibc reserves 64 MiB of the memory that the process may have."""


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


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the recording that was sent with ``number``; the counts are those of ``UnitResult``."""

    number: int
    status: Status
    reason: str
    counts: Sequence[int]


class NoJudgeError(McpProxyError):
    """The process that judges recordings cannot be started, or it has other rules."""


class JudgeClient:
    """A process that judges recordings one after another. It has to be closed, or has to have died.

    Raises:
        NoJudgeError: it does not start.
    """

    def __init__(self, job: JudgeJob) -> None:
        self.current = 0
        """The number of the recording that is judged, or that was judged last."""
        self._limits: Final = job.limits
        self._unsent = b""
        self._began_s = time.monotonic()
        # What a killed process has fetched is deleted with this folder.
        self._scratch: Final = tempfile.mkdtemp(prefix="mcpproxy-") if urls.is_url(job.source) else ""
        # A session of its own: the terminal's SIGINT is for the parent, which ends this process.
        self._process: Final = subprocess.Popen(
            own_command("mcpproxy.fleet.judge.judge_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_FEW_ARENAS, **os.environ},
            start_new_session=os.name == "posix",
        )
        members = asdict(job)
        limits = members.pop("limits")
        self._unsent = orjson.dumps({**members, **limits, "scratch": self._scratch}) + b"\n"
        self._flush()
        if self._read() is None:
            code = self._process.wait()
            self.close()
            raise NoJudgeError(f"the judge did not start: exit code {code}; see what it wrote above")

    def send(self, number: int, recording: FleetRecording) -> None:
        """Send a recording, which is judged after those that were sent before. ``number`` is not 0."""
        self._unsent += orjson.dumps([number, recording.name, recording.keys, recording.size]) + b"\n"

    def receive(self) -> Answer | None:
        """Wait for an answer; ``None`` if the process died."""
        self._flush()
        while (answer := self._read()) is not None:
            if "begins" not in answer:
                return Answer(answer["number"], answer["status"], answer["reason"], answer["counts"])
            # By the clock of the judge: on a busy machine the answer is read later.
            self.current, self._began_s = answer["begins"], answer["at_s"]
        return None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._clean()

    def cause_of_death(self) -> str:
        """Say how the process died, as a sentence without its end."""
        took_s = time.monotonic() - self._began_s
        code = self._clean()
        if code == OUT_OF_MEMORY:
            return f"its judge needed more than {self._limits.memory_bytes >> 20:,} MiB of memory"
        if took_s >= self._limits.seconds:
            return f"its judge was not done after {self._limits.seconds:g} s"
        if code < 0:
            return f"its judge was ended by {_signal_name(-code)}"
        return f"its judge failed with exit code {code}"

    def _clean(self) -> int:
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # what was not sent is of no use any more
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return code

    def _flush(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(self._unsent)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it died, as the next answer says
        self._unsent = b""

    def _read(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return orjson.loads(line) if line.endswith(b"\n") else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
