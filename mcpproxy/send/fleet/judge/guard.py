"""Judges recordings in a separate process, and continues if a recording kills it.

The process gets several recordings at a time, so that it can fetch the next while it judges one. If it dies
at a recording, a new process tries that one again, alone. If that dies too, the recording is skipped. One
that the process itself reports as skipped is tried twice as well.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from mcpproxy.send.fleet.judge.client import JudgeClient, JudgeJob
from mcpproxy.send.fleet.judge.corpus import FleetRecording
from mcpproxy.send.fleet.judge.unit import UnitResult

_ATTEMPTS: Final = 2
"""How often a recording is tried."""

AHEAD: Final = 24
"""How many recordings the process has at a time. A store that is 50 ms away then costs 2 ms for each."""
AHEAD_BYTES: Final = 1 << 20
"""The process gets no more recordings when it has this size of them: they are in its memory, and no idle
worker can take them over."""


@dataclass(slots=True)
class _Attempt:
    """A recording, how often judging it has failed so far, and the reason of the last failure."""

    recording: FleetRecording
    failures: int = 0
    reason: str = ""


def judge_units(job: JudgeJob, recordings: Iterable[FleetRecording]) -> Generator[UnitResult]:
    """Yield the result of each recording as soon as it is known and written, in no particular order.

    ``recordings`` is read a few at a time.

    Raises:
        NoJudgeError: no process can be started to judge them.
    """
    guard = _Guard(job, iter(recordings))
    try:
        yield from guard.results()
    finally:
        guard.close()


class _Guard:
    """Sends recordings to a process, and starts another one if it dies."""

    def __init__(self, job: JudgeJob, recordings: Iterator[FleetRecording]) -> None:
        self._job: Final = job
        self._recordings: Final = recordings
        self._again: Final[deque[_Attempt]] = deque()
        """Recordings to send again: a failed one comes first, then those that a dead process had left."""
        self._sent: Final[dict[int, _Attempt]] = {}
        """Number of a recording that the process has -> its attempt."""
        self._number = 0
        self._client: JudgeClient | None = None

    def results(self) -> Iterator[UnitResult]:
        """Yield the results; see ``judge_units``."""
        while True:
            if len(self._sent) <= AHEAD // 2:  # several at a time wake the process less often
                while self._has_room() and (attempt := self._next_attempt()) is not None:
                    self._send_attempt(attempt)
            if not self._sent:
                return
            assert self._client is not None
            if (answer := self._client.receive()) is None:
                result = self._requeue_sent(self._client)
            else:
                attempt = self._sent.pop(answer.number)
                name = attempt.recording.name
                if answer.status == "skipped":
                    result = self._count_failure(attempt, answer.reason)
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

    def _next_attempt(self) -> _Attempt | None:
        if self._again:
            return self._again.popleft()
        recording = next(self._recordings, None)
        return None if recording is None else _Attempt(recording)

    def _send_attempt(self, attempt: _Attempt) -> None:
        if self._client is None:
            self._client = JudgeClient(self._job)
        self._number += 1
        self._sent[self._number] = attempt
        self._client.send(self._number, attempt.recording)

    def _requeue_sent(self, client: JudgeClient) -> UnitResult | None:
        """Requeue the recordings of a dead process, and return the result of the one at which it died.

        ``None`` if that one is tried again.
        """
        self._client = None
        reason = client.cause_of_death()
        sent = list(self._sent.items())
        number = client.current if client.current in self._sent else sent[0][0]
        guilty = self._sent[number]
        self._sent.clear()
        self._again.extendleft(attempt for other, attempt in reversed(sent) if other != number)
        return self._count_failure(guilty, reason)

    def _count_failure(self, attempt: _Attempt, reason: str) -> UnitResult | None:
        attempt.failures += 1
        if attempt.failures < _ATTEMPTS:
            self._again.appendleft(attempt)
            return None
        reason = f"{reason}, {_ATTEMPTS} times; it was skipped"
        return UnitResult(attempt.recording.name, "skipped", reason=reason)
