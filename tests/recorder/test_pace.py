"""The pace of the recorder: it gives way to a burst with which it cannot keep up, but not for long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.record.recorder import wakeup
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.wakeup import LARGEST_BURST_BYTES, LATE_NS, LONGEST_BURST_NS, Pace
from mcpproxy.record.relay.journal import SEGMENT_BYTES
from tests.recorder.journals import START, JournalFolder, client, packed

MS = 1_000_000
PING = packed(client(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'))


class Clock:
    """Stands for ``time``: now, and the processor time that the recorder has used."""

    def __init__(self) -> None:
        self.now_ns = 60_000 * MS
        self.used_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def thread_time_ns(self) -> int:
        return self.used_ns


class Recorder:
    """A recorder whose relay forwards something in each millisecond of a burst."""

    def __init__(self, trace: Path, clock: Clock) -> None:
        self.clock = clock
        self.journal = JournalFolder(trace, [START])
        self.segment = 1
        self.burst_ends_ns = clock.now_ns
        self.relay_ends_ns = 0
        self.reader = JournalReader(str(self.journal.path))
        self.pace = Pace(self.reader)
        self.pace.may_continue(clock.now_ns)
        self.naps = 0

    def traffic_for(self, ms: int) -> None:
        self.burst_ends_ns = self.clock.now_ns + ms * MS

    def passes(self, ms: int) -> None:
        self.clock.now_ns += ms * MS
        if self.clock.now_ns <= self.burst_ends_ns:
            self.journal.append(self.segment, PING)

    def records(self, ms: int) -> bool:
        """Record what came until now with so much processor time; return whether it goes on at once."""
        read_ns = self.clock.now_ns
        self.clock.used_ns += ms * MS
        self.passes(ms)
        return self.pace.may_continue(read_ns)

    def waits(self) -> bool:
        def pause(for_s: float) -> bool:
            self.naps += 1
            self.passes(round(for_s * 1000))
            return 0 < self.relay_ends_ns <= self.clock.now_ns

        return self.pace.await_end_of_burst(pause)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(wakeup, "time", clock)
    return clock


@pytest.fixture
def recorder(clock: Clock, tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "s.jsonl", clock)
    yield made
    made.reader.close()


def test_a_recorder_that_is_quick_enough_reads_on(recorder: Recorder) -> None:
    recorder.traffic_for(ms=500)
    for _ in range(40):
        recorder.passes(ms=8)
        assert recorder.records(ms=7)


def test_it_waits_for_the_end_of_a_burst_and_then_reads_on(recorder: Recorder) -> None:
    recorder.traffic_for(ms=300)
    recorder.passes(ms=8)
    assert not recorder.records(ms=12)
    began_ns = recorder.clock.now_ns
    assert recorder.pace.gives_way
    assert not recorder.waits()
    assert 280 * MS <= recorder.clock.now_ns - began_ns <= 320 * MS
    assert not recorder.pace.gives_way
    naps = recorder.naps
    for read_ns in range(began_ns, recorder.clock.now_ns, 8 * MS):  # what came meanwhile
        recorder.clock.used_ns += 12 * MS
        assert recorder.pace.may_continue(read_ns)
    assert recorder.naps == naps


def test_a_burst_that_goes_on_in_the_next_segment_has_not_ended(recorder: Recorder) -> None:
    recorder.traffic_for(ms=300)
    recorder.passes(ms=8)
    assert not recorder.records(ms=12)
    began_ns, recorder.segment = recorder.clock.now_ns, 2
    assert not recorder.waits()
    assert recorder.clock.now_ns - began_ns >= 280 * MS


def test_it_waits_no_longer_than_it_may(recorder: Recorder) -> None:
    recorder.traffic_for(ms=60_000)
    recorder.passes(ms=8)
    read_ns = recorder.clock.now_ns
    assert not recorder.records(ms=12)
    assert not recorder.waits()
    assert LONGEST_BURST_NS <= recorder.clock.now_ns - read_ns <= LONGEST_BURST_NS + 20 * MS
    assert recorder.pace.may_continue(read_ns + 8 * MS)  # it is a second old: that is enough


def test_it_waits_for_no_more_than_the_journal_may_hold(recorder: Recorder) -> None:
    recorder.traffic_for(ms=60_000)
    recorder.passes(ms=8)
    assert not recorder.records(ms=12)
    began_ns = recorder.clock.now_ns
    for segment in range(2, 2 + LARGEST_BURST_BYTES // SEGMENT_BYTES):
        recorder.journal.append(segment, PING)
    assert not recorder.waits()
    assert recorder.clock.now_ns - began_ns <= 10 * MS
    recorder.passes(ms=8)
    assert recorder.records(ms=7)


def test_the_end_of_the_relay_ends_the_wait(recorder: Recorder) -> None:
    recorder.traffic_for(ms=60_000)
    recorder.passes(ms=8)
    assert not recorder.records(ms=12)
    recorder.relay_ends_ns = recorder.clock.now_ns + 50 * MS
    assert recorder.waits()
    assert recorder.clock.now_ns <= recorder.relay_ends_ns + 10 * MS


def test_a_late_recorder_has_full_priority_until_it_has_caught_up(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(wakeup.priority, "restore", lambda: said.append("full"))
    monkeypatch.setattr(wakeup.priority, "lower", lambda: said.append("low"))
    recorder.pace.caught_up()
    assert said == []
    for _ in range(2):
        recorder.pace.may_continue(recorder.clock.now_ns - LATE_NS - 1)
    assert said == ["full"]
    for _ in range(2):
        recorder.pace.caught_up()
    assert said == ["full", "low"]
