"""Judges recordings in a process of its own, and survives what a recording does to it.

The process gets the next recordings before it has judged the first, so that it can fetch them meanwhile. If
it dies at a recording, a new one tries that once more, without others. If that dies too, the recording is
skipped, and the next ones are judged.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.fleet.judge.judge_client import JudgeClient, JudgeJob
from mcpproxy.fleet.judge.judge_unit import UnitResult
from mcpproxy.fleet.judge.shard_corpus import FleetRecording

_ATTEMPTS: Final = 2

AHEAD: Final = 24
"""How many recordings the process has at a time. An answer from 50 ms away then costs 2 ms for each."""
AHEAD_BYTES: Final = 1 << 20
"""The process gets no more when those that it has have so many bytes: they are in its memory, and wait for it
even if another worker has nothing to do."""


@dataclass(slots=True)
class _Attempt:
    """A recording, and how often its judge has died or failed so far; ``reason`` says how the last time."""

    recording: FleetRecording
    failures: int = 0
    reason: str = ""


def judge_units(job: JudgeJob, recordings: Iterable[FleetRecording]) -> Generator[UnitResult]:
    """Yield the result of each recording as soon as it is known and kept, in no particular order.

    Recordings are taken from ``recordings`` a few at a time.

    Raises:
        NoJudgeError: no process can be started to judge them.
    """
    guard = _Guard(job, iter(recordings))
    try:
        yield from guard.results()
    finally:
        guard.close()


class _Guard:
    def __init__(self, job: JudgeJob, recordings: Iterator[FleetRecording]) -> None:
        self._job: Final = job
        self._recordings: Final = recordings
        self._again: Final[deque[_Attempt]] = deque()
        """What a process had that died; the one at which it died comes first."""
        self._sent: Final[dict[int, _Attempt]] = {}
        self._number = 0
        self._client: JudgeClient | None = None

    def results(self) -> Iterator[UnitResult]:
        while True:
            if len(self._sent) <= AHEAD // 2:  # several at a time wake the process less often
                while self._has_room() and (attempt := self._next()) is not None:
                    self._send(attempt)
            if not self._sent:
                return
            assert self._client is not None
            if (answer := self._client.receive()) is None:
                result = self._bury(self._client)
            else:
                attempt = self._sent.pop(answer.number)
                name = attempt.recording.name
                if answer.status == "skipped":
                    result = self._failed(attempt, answer.reason)
                else:
                    result = UnitResult(name, answer.status, b"", answer.reason, *answer.counts)
            if result is not None:
                yield result

    def close(self) -> None:
        """End the process."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def _has_room(self) -> bool:
        if not self._sent:
            return True
        sent = self._sent.values()
        is_alone = any(attempt.failures for attempt in sent) or (self._again and self._again[0].failures)
        sizes = (attempt.recording.size for attempt in sent)
        return not is_alone and len(self._sent) < AHEAD and sum(sizes) < AHEAD_BYTES

    def _next(self) -> _Attempt | None:
        if self._again:
            return self._again.popleft()
        recording = next(self._recordings, None)
        return None if recording is None else _Attempt(recording)

    def _send(self, attempt: _Attempt) -> None:
        if self._client is None:
            self._client = JudgeClient(self._job)
        self._number += 1
        self._sent[self._number] = attempt
        self._client.send(self._number, attempt.recording)

    def _bury(self, client: JudgeClient) -> UnitResult | None:
        """Take back what a dead process had; return a result if it died at a recording for the last time."""
        self._client = None
        reason = client.cause_of_death()
        sent = list(self._sent.items())
        number = client.current if client.current in self._sent else sent[0][0]
        guilty = self._sent[number]
        self._sent.clear()
        self._again.extendleft(attempt for each, attempt in reversed(sent) if each != number)
        return self._failed(guilty, reason)

    def _failed(self, attempt: _Attempt, reason: str) -> UnitResult | None:
        attempt.failures += 1
        if attempt.failures < _ATTEMPTS:
            self._again.appendleft(attempt)
            return None
        reason = f"{reason}, {_ATTEMPTS} times; it was skipped"
        return UnitResult(attempt.recording.name, "skipped", reason=reason)
