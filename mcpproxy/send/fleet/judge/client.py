"""The parent's side of the process that judges: sends recordings, receives answers, says how it died."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from mcpproxy.base.own_process import own_command
from mcpproxy.base.system_words import signal_name
from mcpproxy.errors import McpProxyError
from mcpproxy.send.fleet import urls
from mcpproxy.send.fleet.judge.corpus import FleetRecording
from mcpproxy.send.fleet.judge.rules import JudgeRules
from mcpproxy.send.fleet.judge.store_transfers import OUT_OF_MEMORY
from mcpproxy.send.fleet.judge.unit import Status

_FEW_ARENAS: Final = {"MALLOC_ARENA_MAX": "2"}
"""Each arena of glibc reserves 64 MiB of the memory that the process may have."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one recording: ``seconds`` of elapsed and of processor time, and bytes of memory."""

    seconds: float = 300.0
    memory_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class JudgeJob:
    """The job of a judge: ``source`` is the folder or URL of the recordings, ``out`` that of the results.

    ``key`` is ``rules.key()``, which names the rules and the version of mcpproxy.
    """

    source: str
    out: str
    rules: JudgeRules
    key: str
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """The outcome of the recording that was sent with ``number``.

    ``reason`` is as in ``UnitResult``. ``counts`` are its frames, errors, warnings and infos.
    """

    number: int
    status: Status
    reason: str
    counts: Sequence[int]


class NoJudgeError(McpProxyError):
    """The process that judges recordings cannot be started, or has other rules."""


class JudgeClient:
    """A process that judges recordings one after another. Close it, or ask for its ``cause_of_death``.

    Raises:
        NoJudgeError: it does not start.
    """

    def __init__(self, job: JudgeJob) -> None:
        self.current = 0
        """The number of the recording that is being judged, or was judged last; 0 before the first."""
        self._limits: Final = job.limits
        self._unsent = b""
        self._began_s = time.monotonic()
        # The process fetches into this folder, which is deleted even if the process is killed.
        self._scratch: Final = tempfile.mkdtemp(prefix="mcpproxy-") if urls.is_url(job.source) else ""
        # A session of its own: the terminal's SIGINT is for the parent, which ends this process.
        self._process: Final = subprocess.Popen(
            own_command("mcpproxy.send.fleet.judge.process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_FEW_ARENAS, **os.environ},
            start_new_session=os.name == "posix",
        )
        members = asdict(job)
        limits = members.pop("limits")
        self._unsent = orjson.dumps({**members, **limits, "scratch": self._scratch}) + b"\n"
        self._flush()
        if self._read_line() is None:
            code = self._process.wait()
            self.close()
            raise NoJudgeError(f"the judge did not start: exit code {code}; see what it wrote above")

    def send(self, number: int, recording: FleetRecording) -> None:
        """Queue a recording; ``receive`` sends it. Recordings are judged in order. ``number`` is not 0."""
        self._unsent += orjson.dumps([number, recording.name, recording.keys, recording.size]) + b"\n"

    def receive(self) -> JudgeAnswer | None:
        """Send the queued recordings and wait for an answer; ``None`` if the process died."""
        self._flush()
        while (answer := self._read_line()) is not None:
            if "begins" not in answer:
                return JudgeAnswer(answer["number"], answer["status"], answer["reason"], answer["counts"])
            # The clock of the process: on a busy machine the line is read later.
            self.current, self._began_s = answer["begins"], answer["at_s"]
        return None

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._reap()

    def cause_of_death(self) -> str:
        """Return how the process died, as a clause, after waiting for its end."""
        took_s = time.monotonic() - self._began_s
        code = self._reap()
        if code == OUT_OF_MEMORY:
            return f"its judge needed more than {self._limits.memory_bytes >> 20:,} MiB of memory"
        if took_s >= self._limits.seconds:
            return f"its judge was not done after {self._limits.seconds:g} s"
        if code < 0:
            return f"its judge was ended by {signal_name(-code)}"
        return f"its judge failed with exit code {code}"

    def _reap(self) -> int:
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # nobody needs the unsent lines any more
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return code

    def _flush(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(self._unsent)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it died: the next read ends
        self._unsent = b""

    def _read_line(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return orjson.loads(line) if line.endswith(b"\n") else None
