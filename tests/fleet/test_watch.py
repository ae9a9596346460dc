"""``ship --watch`` and ``--ship``: shipping beside sessions, until the last byte."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Queue
from threading import Event

import pytest

from mcpproxy.send.fleet import manifest
from mcpproxy.send.fleet.ship import Shipped, Shipper
from mcpproxy.send.fleet.store import Store, StoreError, StoreUnreachableError
from mcpproxy.send.fleet.watch import watch
from tests.cli import recordings
from tests.peers.object_store import ObjectStore

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"


def url_of(folder: Path) -> str:
    return f"file://{folder / 'store'}"


def shipped(folder: Path) -> list[str]:
    return [each.key for each in Store(url_of(folder)).list("manifests")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to handle")
def test_after_the_signal_recordings_that_have_ended_are_still_shipped(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    command = [sys.executable, "-m", "mcpproxy", "ship", str(folder), url_of(tmp_path), "--watch"]
    with subprocess.Popen(
        [*command, "--every", "3600", "--delete-after", "0s"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "shipping" in process.stderr.readline()
        recordings.write(folder / "t.jsonl", recordings.CLEAN)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 0, said
    assert len(shipped(tmp_path)) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="--ship needs fork")
def test_a_session_ships_its_own_recording(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    recordings.write(folder / "another.jsonl", recordings.CLEAN)
    command = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(folder), "--ship", url_of(tmp_path)]
    ran = subprocess.run(
        [*command, "--", sys.executable, "-c", ECHO],
        input='{"x": 1}\n',
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == '{"x": 1}\n'
    (trace,) = re.findall("recording to (.+)", ran.stderr)
    # The process that the session has started goes on; a second one ends when the file is shipped by either.
    second = [sys.executable, "-m", "mcpproxy.send.fleet.ship_process", str(trace), url_of(tmp_path)]
    assert subprocess.run(second, stdin=subprocess.DEVNULL, check=False).returncode == 0
    assert len(shipped(tmp_path)) == 1


def test_a_store_that_was_away_is_tried_again(tmp_path: Path) -> None:
    recordings.write(tmp_path / "t.jsonl", recordings.CLEAN)
    said: Queue[str] = Queue()
    stop, tries = Event(), list[int]()

    def opened() -> Shipper:
        tries.append(1)
        if len(tries) < 3:
            raise StoreUnreachableError("s3://x", "connection refused", "try again")
        return Shipper(str(tmp_path), url_of(tmp_path))

    def tell(text: str) -> None:
        said.put(text)
        if "shipped" in text:
            stop.set()

    assert watch(opened, stop, tell, pause_s=0.01, grace_s=0) == 0
    assert [said.get_nowait() for _ in range(said.qsize())] == [
        "s3://x: connection refused; try again",
        f"1 file shipped to {url_of(tmp_path)} ({size_of(tmp_path)})",
    ]


def test_a_bucket_that_is_made_later_is_waited_for(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in object_store.variables.items():
        monkeypatch.setenv(name, value)
    recordings.write(tmp_path / "t.jsonl", recordings.CLEAN)
    said: Queue[str] = Queue()
    stop, tries = Event(), list[int]()
    url = "s3://made-later/mcp"

    def opened() -> Shipper:
        tries.append(1)
        if len(tries) == 3:
            Store("s3://made-later").create("ready", b"")  # this server makes a bucket for an object
        return Shipper(str(tmp_path), url)

    def tell(text: str) -> None:
        said.put(text)
        if "shipped" in text:
            stop.set()

    assert watch(opened, stop, tell, pause_s=0.01, grace_s=0) == 0
    first, second = (said.get_nowait() for _ in range(said.qsize()))
    assert first.endswith(": there is no such bucket; create it, or name another; it is tried again")
    assert second.startswith(f"1 file shipped to {url} ")
    with pytest.raises(StoreError, match="there is no such bucket"):  # without --watch nothing waits
        Shipper(str(tmp_path), "s3://never-made/mcp").ship()


def test_credentials_are_refused_at_once_unless_they_have_worked(tmp_path: Path) -> None:
    recordings.write(tmp_path / "t.jsonl", recordings.CLEAN)
    denied = StoreError("s3://x", "access denied", "check the credentials")
    said: list[str] = []

    def refused() -> Shipper:
        raise denied

    with pytest.raises(StoreError, match="access denied"):
        watch(refused, Event(), said.append, pause_s=0.01, grace_s=0)

    class Renewed(Shipper):
        passes = 0

        def ship(self) -> Shipped:
            self.passes += 1
            if self.passes == 2:
                raise denied
            if self.passes == 3:
                stop.set()
            return super().ship()

    stop = Event()
    shipper = Renewed(str(tmp_path), url_of(tmp_path))
    assert watch(lambda: shipper, stop, said.append, pause_s=0.01, grace_s=0) == 0
    assert said[1:] == ["s3://x: access denied; check the credentials; it is tried again"]


def size_of(folder: Path) -> str:
    (packed,) = (folder / "store").rglob("*.zst")
    return f"{packed.stat().st_size} B"


@pytest.mark.skipif(sys.platform == "win32", reason="--ship needs fork")
def test_the_closed_files_of_a_running_recording_are_shipped(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    command = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(folder), "--rotate", "64k", "--quiet"]
    line = '{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"' + 20_000 * "x" + '"}}\n'
    with subprocess.Popen(
        [*command, "--", sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        for _ in range(20):
            session.stdin.write(line)
            session.stdin.flush()
            assert session.stdout.readline() == line
        shipper = Shipper(str(folder), url_of(tmp_path), delete_after_s=0)
        stop, deadline = Event(), time.monotonic() + 60
        done = shipper.ship()
        while len(shipped(tmp_path)) < 4 or len(list(folder.glob("*.jsonl"))) > 2:
            done = shipper.ship()  # a file that was written to just before is tried again the next time
            assert [fault for fault in done.faults.values() if "it is tried again" not in fault] == []
            assert time.monotonic() < deadline
            stop.wait(0.05)  # the recorder is behind the session, and nothing tells how far
        assert done.running == 1
        assert len(list(folder.glob("*.jsonl.shipped"))) == 1
        session.stdin.close()
    assert watch(lambda: shipper, done_event(), print, pause_s=1, grace_s=60) == 0
    assert list(folder.iterdir()) == []
    assert {one.ending for one in manifests(tmp_path)} == {"continued", "exited"}


def done_event() -> Event:
    stop = Event()
    stop.set()
    return stop


def manifests(folder: Path) -> list[manifest.Manifest]:
    store = Store(url_of(folder))
    return [manifest.decode(store.read(key)) for key in shipped(folder)]
