"""Sessions without a recorder: what can be read of them meanwhile, and that nothing is changed by that."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import Finding
from mcpproxy.record.recorder import draft
from mcpproxy.record.recorder.draft import Draft
from mcpproxy.record.recorder.lock import Lock
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import Trace
from tests.recorder.journals import (
    SESSION,
    STARTED_NS,
    Accuser,
    Entry,
    JournalFolder,
    client,
    packed,
    read,
    recording,
    start,
)

SEGMENTS = [SESSION[1:5], SESSION[5:8], SESSION[8:12]]
"""The lines that are cut run over the ends of the segments."""


@pytest.fixture
def relay() -> Iterator[int]:
    """The number of a process that has just been started."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        yield started.pid


@pytest.fixture
def segments(relay: int, monkeypatch: pytest.MonkeyPatch) -> list[list[Entry]]:
    """The segments of a session whose relay runs, judged by the accuser."""
    monkeypatch.setattr(draft, "standard_observer", Accuser)
    now_ns = time.monotonic_ns()
    begun, *others = (
        [(kind, payload, now_ns + at_ns - STARTED_NS, of) for kind, payload, at_ns, of in segment]
        for segment in SEGMENTS
    )
    return [[start(relay, now_ns), *begun], *others]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def events(trace: Trace) -> list[object]:
    return list(trace.events())


def recorded(tmp_path: Path, segments: list[list[Entry]]) -> list[object]:
    """What a recorder that keeps up writes."""
    other = tmp_path / "other" / "s.jsonl"
    other.parent.mkdir()
    JournalFolder(other, *segments)
    pipeline, writer = recording(other)
    pipeline.drain()
    writer.close()
    return list(read(other))


def test_before_its_recorder_begins_a_session_can_be_read(
    trace: Path, tmp_path: Path, segments: list[list[Entry]]
) -> None:
    JournalFolder(trace, *segments)
    before = snapshot(tmp_path)
    assert draft.is_needed(str(trace))
    drafted = Draft(str(trace))
    assert snapshot(tmp_path) == before
    assert events(drafted.trace) == recorded(tmp_path, segments)
    assert drafted.trace.path == str(trace)
    assert drafted.trace.is_recording


def test_it_goes_on_with_the_session(trace: Path, tmp_path: Path, segments: list[list[Entry]]) -> None:
    folder = JournalFolder(trace, segments[0])
    drafted = Draft(str(trace))
    assert drafted.frames == 4
    for number, entries in enumerate(segments[1:], start=2):
        folder.append(number, packed(*entries))
    drafted.add_new_records()
    assert events(drafted.trace) == recorded(tmp_path, segments)
    assert drafted.frames == 7


def test_after_its_recorder_was_killed_a_session_can_be_read(
    trace: Path, tmp_path: Path, segments: list[list[Entry]]
) -> None:
    folder = JournalFolder(trace, *segments[:2])
    pipeline, writer = recording(trace)
    pipeline.drain()  # it deletes a segment, and is killed
    writer.close()
    assert folder.names() == ["00000002", "checkpoint"]
    folder.append(3, packed(*segments[2]))
    before = snapshot(tmp_path)
    assert draft.is_needed(str(trace))
    drafted = Draft(str(trace))
    assert snapshot(tmp_path) == before
    assert events(drafted.trace) == recorded(tmp_path, segments)


def test_it_has_the_findings_of_a_recorder(trace: Path, segments: list[list[Entry]]) -> None:
    JournalFolder(trace, *segments)
    found = [event for event in Draft(str(trace)).trace.events() if isinstance(event, Finding)]
    assert [finding.frame for finding in found] == [1, 2, 3, 4, 5, 6, 7]


def test_none_is_needed_while_a_recorder_records(trace: Path, segments: list[list[Entry]]) -> None:
    folder = JournalFolder(trace, *segments)
    lock = Lock.take(str(folder.path))
    assert lock is not None
    assert draft.is_needed(str(trace))  # it has written nothing yet
    pipeline, writer = recording(trace)
    pipeline.drain()
    assert not draft.is_needed(str(trace))
    writer.close()
    lock.release()


def test_none_is_needed_after_the_session(trace: Path) -> None:
    assert not draft.is_needed(str(trace))
    JournalFolder(trace, [start(), client(b"1\n")])  # of a relay that is gone
    assert not draft.is_needed(str(trace))


def test_a_journal_that_says_nothing_yet_has_none(trace: Path) -> None:
    JournalFolder(trace)
    assert not draft.is_needed(str(trace))


def test_a_damaged_journal_is_refused_in_a_line(trace: Path, relay: int) -> None:
    damaged = (journal.EXIT, b"[]", time.monotonic_ns(), 0)
    JournalFolder(trace, [start(relay, time.monotonic_ns()), damaged])
    with pytest.raises(TraceError, match="the journal is damaged"):
        Draft(str(trace))


def test_a_draft_leaves_nothing_behind(
    trace: Path, tmp_path: Path, segments: list[list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def noted(**named: str) -> str:
        made.append(make(**named))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", noted)
    JournalFolder(trace, *segments)
    drafted = Draft(str(trace))
    assert [os.path.isdir(folder) for folder in made] == [True]
    del drafted
    assert [os.path.isdir(folder) for folder in made] == [False]
