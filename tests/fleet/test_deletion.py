"""Files of a recording are deleted while it goes on, and nobody who reads the rest is misled."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from threading import Event
from typing import IO, Final

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.judge.session.frame import Finding, Frame, Gap
from mcpproxy.read.opening import follow, open_trace, read_untouched
from mcpproxy.read.view.folder import recordings
from mcpproxy.record.trace import chain, shipped_files
from mcpproxy.send.fleet import deletion, manifest
from mcpproxy.send.fleet.fetch import fetch, stored_recordings
from mcpproxy.send.fleet.ship import Shipper
from tests.benchmarks import processes
from tests.cli.conftest import Mcpproxy
from tests.relay.hosts import until_recorded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process to signal")

DEADLINE_S: Final = 60
SERVER: Final = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


class Session:
    """A session that records into files of 64 KiB. A call has about 16 KiB."""

    def __init__(self, trace: Path) -> None:
        self.trace: Final = str(trace)
        command = [sys.executable, "-m", "mcpproxy", "--trace", self.trace]
        self._stderr: Final = trace.parent.parent / "stderr.txt"
        with self._stderr.open("w") as stderr:
            self.process: Final = subprocess.Popen(
                [*command, "--rotate", "64k", "--", sys.executable, "-c", SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.calls = 0

    def call(self, count: int) -> None:
        for _ in range(count):
            self.calls += 1
            params = {"text": 16_000 * "x"}
            message = {"jsonrpc": "2.0", "id": self.calls, "method": "ping", "params": params}
            _of(self.process.stdin).write(json.dumps(message) + "\n")
            _of(self.process.stdin).flush()
            assert json.loads(_of(self.process.stdout).readline())["id"] == self.calls

    def kill_recorder(self) -> None:
        found = processes.find(self.process.pid)
        assert found is not None
        ended = os.pidfd_open(found.recorder)
        os.kill(found.recorder, signal.SIGKILL)
        assert is_readable(ended, DEADLINE_S)
        os.close(ended)

    def end(self) -> None:
        _of(self.process.stdin).close()
        assert self.process.wait(DEADLINE_S) == 0
        assert "deleted" not in self._stderr.read_text()


@pytest.fixture
def session(tmp_path: Path) -> Generator[Session]:
    session = Session(tmp_path / "r" / "t.jsonl")
    yield session
    session.process.kill()
    with session.process:  # closes its streams
        pass


@pytest.fixture
def shipper(tmp_path: Path, session: Session) -> Shipper:
    return Shipper(str(tmp_path / "r"), f"file://{tmp_path / 'store'}", delete_after_s=0)


def ship_closed(shipper: Shipper, session: Session) -> None:
    """Ship until everything is recorded, and only the first file and the one that is written are here."""
    stop, end = Event(), time.monotonic() + DEADLINE_S
    while len(here(shipper)) != 2 or _last_frame(shipper) < 2 * session.calls:
        assert time.monotonic() < end, here(shipper)
        stop.wait(0.02)  # the recorder is behind the session, and nothing tells how far
        ship_once(shipper)


def ship_all(shipper: Shipper) -> None:
    """Ship until no recording is left."""
    end = time.monotonic() + DEADLINE_S
    while here(shipper):
        assert time.monotonic() < end, here(shipper)
        ship_once(shipper)


def ship_once(shipper: Shipper) -> None:
    """Ship what is closed now. A file that was written to just before is tried again the next time."""
    faults = shipper.ship().faults
    assert [fault for fault in faults.values() if "it is tried again" not in fault] == []


def _last_frame(shipper: Shipper) -> int:
    (entry,) = recordings(shipper.folder)
    return entry.frames or 0


def here(shipper: Shipper) -> list[str]:
    return sorted(name for name in os.listdir(shipper.folder) if name.endswith(".jsonl"))


def shipped(shipper: Shipper) -> list[manifest.Manifest]:
    keys = sorted(each.key for each in shipper.store.list(manifest.FOLDER))
    return [manifest.decode(shipper.store.read(key)) for key in keys]


def test_the_remaining_files_say_where_the_rest_is(session: Session, shipper: Shipper) -> None:
    session.call(30)
    ship_closed(shipper, session)
    note = shipped_files.read_shipped(session.trace)
    assert note is not None
    first, last = chain.files_of(session.trace)
    assert (note.count, note.continued.file) == (len(shipped(shipper)) - 1, os.path.basename(last))
    assert note.url == shipper.store.where(shipped(shipper)[0].key.rpartition("/")[0])
    assert chain.first_of(last) == first
    for path in (first, last):
        trace = read_untouched(path)
        events = list(trace.events())
        assert [event.reason for event in events if isinstance(event, Gap)] == [note.text]
        assert note.text in trace.notes
    (entry,) = recordings(shipper.folder)
    assert (entry.state, entry.files) == ("running", 2)
    session.end()


def test_the_session_ends_and_the_store_has_it_whole(
    session: Session, shipper: Shipper, mcpproxy: Mcpproxy
) -> None:
    session.call(30)
    ship_closed(shipper, session)
    session.call(30)
    session.end()
    ship_all(shipper)
    assert os.listdir(shipper.folder) == []
    manifests = shipped(shipper)
    assert max(manifests, key=lambda one: one.part).frames == {"client": 60, "server": 60}
    assert len({one.recording for one in manifests}) == 1
    assert mcpproxy("verify", shipper.store.url).code == 0
    whole_and_once(shipper, session)


def whole_and_once(shipper: Shipper, session: Session) -> None:
    """Check that the store has every message of the session once, and no findings about them."""
    (stored,) = stored_recordings(shipper.store.list())
    trace = open_trace(fetch(shipper.store, stored, os.path.dirname(shipper.folder) + "/fetched"))
    events = list(trace.events())
    ids = [json.loads(event.raw)["id"] for event in events if isinstance(event, Frame)]
    assert sorted(ids) == sorted([*range(1, session.calls + 1)] * 2)
    assert [event.seq for event in events if isinstance(event, Frame)] == [*range(1, 2 * session.calls + 1)]
    assert (trace.notes, trace.complete) == ([], True)
    assert {event.rule for event in events if isinstance(event, Finding)} <= {"SEQ-001", "LIFE-001"}, events


def test_after_a_kill_of_the_recorder_the_rest_is_completed(
    session: Session, shipper: Shipper, mcpproxy: Mcpproxy
) -> None:
    """What the recorder had judged is gone: it is told of a gap, and finds nothing that is not so."""
    session.call(30)
    ship_closed(shipper, session)
    session.kill_recorder()
    session.call(30)
    assert shipper.ship().running == 1
    session.end()
    ship_all(shipper)
    last = max(shipped(shipper), key=lambda one: one.part)
    assert (last.frames, last.ending) == ({"client": 60, "server": 60}, "exited")
    assert mcpproxy("verify", shipper.store.url).code == 0
    whole_and_once(shipper, session)


def test_a_kill_between_the_note_and_the_deletion_is_made_good(
    session: Session, shipper: Shipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.call(30)
    ship_closed(shipper, session)
    count = len(shipped(shipper))
    session.call(30)

    class KilledError(BaseException):
        pass

    def die(path: str) -> None:
        raise KilledError(path)

    with monkeypatch.context() as patch:
        patch.setattr(deletion.os, "unlink", die)
        with pytest.raises(KilledError) as killed:
            ship_all(shipper)
    note = shipped_files.read_shipped(session.trace)
    assert note is not None
    assert (note.count, note.last) == (count, os.path.basename(str(killed.value)))
    assert chain.first_of(str(killed.value)) == session.trace
    again = Shipper(shipper.folder, shipper.store.url, delete_after_s=0)
    ship_closed(again, session)
    note = shipped_files.read_shipped(session.trace)
    assert note is not None
    assert note.count == len(shipped(shipper)) - 1
    session.end()
    ship_all(again)
    whole_and_once(again, session)


def test_somebody_who_follows_slowly_is_told(session: Session, shipper: Shipper) -> None:
    session.call(30)
    events = follow(session.trace)
    first = next(events)
    ship_closed(shipper, session)
    session.end()
    rest = list(events)
    assert isinstance(first, Frame)
    gaps = [event.reason for event in rest if isinstance(event, Gap)]
    assert len(gaps) == 1
    assert "shipped and deleted here" in gaps[0]
    numbers = [event.seq for event in rest if isinstance(event, Frame)]
    assert (numbers[0], numbers[-1]) == (2, 60)
    assert numbers == sorted(set(numbers))


def test_a_note_without_its_recording_is_removed(tmp_path: Path, session: Session, shipper: Shipper) -> None:
    session.end()
    until_recorded(session.trace)
    ship_all(shipper)
    Path(session.trace + shipped_files.SUFFIX).write_text("{}\n")
    assert shipper.ship().faults == {}
    assert os.listdir(shipper.folder) == []


def _of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
