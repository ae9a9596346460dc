"""Shipping the recordings of other containers: there, no process of a session can be seen."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import IO, Final

import pytest

from mcpproxy.base.byte_budget import ByteBudget
from mcpproxy.base.files import Folder
from mcpproxy.base.ready import is_readable
from mcpproxy.cli.commands.prune import old_recordings
from mcpproxy.record.relay import journal
from mcpproxy.send.fleet import manifest
from mcpproxy.send.fleet.object_contents import decompress_pieces
from mcpproxy.send.fleet.store import Store
from tests.benchmarks import processes

ECHO: Final = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"
CONTAINER: Final = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
DEADLINE_S: Final = 60


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    try:
        ran = subprocess.run([*CONTAINER, "true"], capture_output=True, text=True, check=False)
    except OSError as fault:
        pytest.skip(f"no namespace of processes can be made: {fault.strerror}")
    if ran.returncode:
        pytest.skip(f"no namespace of processes can be made: {ran.stderr.strip()}")


@pytest.fixture
def session(tmp_path: Path) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "mcpproxy", "--quiet", "--trace", str(tmp_path / "r" / "t.jsonl")]
    with subprocess.Popen(
        [*command, "--", sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as session:
        yield session
        session.kill()


def say(session: subprocess.Popen[str], numbers: range) -> None:
    """Send messages, each after the answer to the one before."""
    for number in numbers:
        line = f'{{"jsonrpc":"2.0","method":"notifications/x","params":{{"number":{number}}}}}\n'
        _of(session.stdin).write(line)
        _of(session.stdin).flush()
        assert _of(session.stdout).readline() == line


def kill_recorder(session: subprocess.Popen[str], trace: Path) -> None:
    """Kill the recorder as soon as the trace has its header, which is written a moment after it is made."""
    found = processes.find(session.pid)
    assert found is not None
    ended = os.pidfd_open(found.recorder)
    while not trace.exists() or b"\n" not in trace.read_bytes():
        assert not is_readable(ended, 0.005), "the recorder has ended"
    os.kill(found.recorder, signal.SIGKILL)
    assert is_readable(ended, DEADLINE_S)
    os.close(ended)


def run_in_container(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*CONTAINER, sys.executable, "-m", "mcpproxy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def test_a_session_of_another_container_goes_on_without_its_recorder(
    tmp_path: Path, session: subprocess.Popen[str]
) -> None:
    folder, url = tmp_path / "r", f"file://{tmp_path / 'store'}"
    ship = ("ship", str(folder), url, "--delete-after", "0s")
    say(session, range(10))
    kill_recorder(session, folder / "t.jsonl")
    say(session, range(10, 20))
    ran = run_in_container(*ship)
    assert (ran.returncode, "1 recording still being made" in ran.stderr) == (0, True), ran.stderr
    assert list(Store(url).list()) == []
    assert Path(journal.folder(str(folder / "t.jsonl"))).is_dir()
    say(session, range(20, 30))
    _of(session.stdin).close()
    assert session.wait(DEADLINE_S) == 0
    assert run_in_container(*ship).returncode == 0
    assert list(folder.iterdir()) == []
    (stored,) = Store(url).list("manifests")
    one = manifest.decode(Store(url).read(stored.key))
    assert one.frames == {"client": 30, "server": 30}
    content = b"".join(decompress_pieces(Store(url).stream(one.key, 1 << 30), one.key, ByteBudget(1 << 30)))
    assert sorted(map(int, re.findall(rb'number\\?":(\d+)\}', content))) == [
        number for number in range(30) for _ in ("client", "server")
    ]


def test_a_reader_in_another_container_completes_nothing(
    tmp_path: Path, session: subprocess.Popen[str]
) -> None:
    trace = tmp_path / "r" / "t.jsonl"
    say(session, range(3))
    kill_recorder(session, trace)
    say(session, range(3, 6))
    listed = run_in_container("list", str(trace.parent))
    assert "running" in listed.stdout, listed
    shown = run_in_container("show", str(trace))
    assert '"number":5' in shown.stdout, shown  # from a draft of what the journal has
    assert Path(journal.folder(str(trace))).is_dir()


def test_old_recordings_are_kept_while_a_relay_of_another_container_writes_them(
    tmp_path: Path, session: subprocess.Popen[str]
) -> None:
    """Where the lock of the recorder was all that was asked for, also those of the same container."""
    say(session, range(3))
    kill_recorder(session, tmp_path / "r" / "t.jsonl")
    assert list(old_recordings(Folder(str(tmp_path / "r")), 0)) == []


def _of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
