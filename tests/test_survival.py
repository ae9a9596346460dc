"""Whatever happens to mcpproxy's processes or to the disk, the session and what was recorded survive.

Each test is a conversation with a wrapped server that is interrupted at a known point: every call
before it has been answered, so all of it has passed the relay.
"""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from mcpproxy.base.ready import is_readable
from tests.benchmarks import peers, processes
from tests.benchmarks.sessions import ROOT

pytestmark = pytest.mark.skipif(not processes.AVAILABLE, reason="processes are found through /proc")

DEADLINE_S: Final = 120

SERVER: Final = f"""
import os, socket, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.benchmarks import peers
test = socket.socket(socket.AF_UNIX)
test.connect(sys.argv[1])
peers.serve(0)
test.sendall(b"end of input")
"""
"""Answers calls, and tells the test, past the proxy, that its stdin has ended."""


class Wrapped:
    """A session through mcpproxy, seen from the host: a context manager that ends what is left of it."""

    def __init__(self, folder: Path, trace: Path, file_limit: int | None = None) -> None:
        self.trace = trace
        self.bytes = {"client": 0, "server": 0}
        self._sent = 0
        self._errors = (folder / "stderr").open("w+b")
        listener = socket.socket(socket.AF_UNIX)
        listener.settimeout(DEADLINE_S)
        listener.bind(str(folder / "server"))
        listener.listen()
        server = [sys.executable, "-c", SERVER, str(folder / "server")]

        def limit() -> None:
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        self._proxy = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy", "--trace", str(trace), "--", *server],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            preexec_fn=limit,
        )
        self._server, _ = listener.accept()
        self._server.settimeout(DEADLINE_S)
        listener.close()
        self._exchange(peers.INITIALIZE, peers.INITIALIZE_RESULT)
        self._send(peers.INITIALIZED)
        pids = processes.find(self._proxy.pid)
        assert pids is not None
        self.relay, self.recorder = pids.relay, pids.recorder
        self._recorder_ended = os.pidfd_open(self.recorder)

    def calls(self, count: int, text: bytes = b"hello") -> None:
        """Make ``count`` calls, one after the other's answer."""
        for _ in range(count):
            number = peers.FIRST_ID + self._sent
            self._exchange(peers.CALL % (number, text), peers.ANSWER % (number, text))
            self._sent += 1

    def kill(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def stop_the_recorder(self) -> None:
        """Not before it has let go of what it inherited; it writes the trace after that."""
        end = time.monotonic() + DEADLINE_S
        while not self.trace.exists():
            assert time.monotonic() < end, "the recorder does not begin"
            is_readable(self._recorder_ended, 0.005)
        os.kill(self.recorder, signal.SIGSTOP)

    def the_server_sees_the_end(self) -> None:
        assert self._server.recv(100) == b"end of input"

    def the_recorder_ends(self) -> None:
        assert is_readable(self._recorder_ended, DEADLINE_S), "the recorder goes on"

    def close(self) -> int:
        """Close stdin as a host does; the exit code of the proxy."""
        assert self._proxy.stdin is not None
        self._proxy.stdin.close()
        return self._proxy.wait(DEADLINE_S)

    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._proxy.stdout is not None
        self._proxy.kill()
        self._proxy.wait()
        self.close()
        self._proxy.stdout.close()
        self._errors.close()
        self._server.close()
        os.close(self._recorder_ended)

    def _send(self, data: bytes) -> None:
        assert self._proxy.stdin is not None
        self._proxy.stdin.write(data)
        self.bytes["client"] += len(data)

    def _exchange(self, request: bytes, expected: bytes) -> None:
        assert self._proxy.stdout is not None
        self._send(request)
        got = b""
        while len(got) < len(expected):
            assert is_readable(self._proxy.stdout, DEADLINE_S), "no answer"
            chunk = self._proxy.stdout.read(1 << 16)
            assert chunk, f"the proxy closed its stdout: {self.stderr()}"
            got += chunk
        assert got == expected
        self.bytes["server"] += len(got)


def check(trace: Path) -> dict[str, Any]:
    done = mcpproxy("check", "--format", "json", str(trace))
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = json.loads(done.stdout)["traces"]
    return report


def mcpproxy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )


def records(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_bytes().splitlines()]


def frames(trace: Path) -> dict[str, int]:
    return Counter(record["from"] for record in records(trace) if record["type"] == "frame")


def recorded_bytes(trace: Path) -> Counter[str]:
    """How many bytes of each peer the frames hold, their line feeds counted."""
    counts = Counter[str]()
    for line in trace.read_bytes().splitlines():
        if line.startswith(b'{"type":"frame"'):
            head, _, message = line.partition(b'"message":')
            counts[json.loads(head + b'"message":0}')["from"]] += len(message.removesuffix(b"}")) + 1
    return counts


def handshake_and(calls: int) -> dict[str, int]:
    """The frames of a session: initialize with its result, initialized, and the calls."""
    return {"client": calls + 2, "server": calls + 1}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_a_killed_relay_leaves_a_whole_recording_that_says_it_was_cut(tmp_path: Path, trace: Path) -> None:
    with Wrapped(tmp_path, trace) as session:
        session.stop_the_recorder()  # so that it has everything still to do
        session.calls(400)
        session.kill(session.relay)
        session.the_server_sees_the_end()
        os.kill(session.recorder, signal.SIGCONT)
        session.the_recorder_ends()

    assert frames(trace) == handshake_and(400)
    assert records(trace)[-1]["ending"] == "cut"
    assert not Path(f"{trace}.journal").exists()
    assert check(trace)["complete"] is False
    assert "cut" in mcpproxy("check", str(trace)).stdout


def test_the_session_goes_on_without_its_recorder(tmp_path: Path, trace: Path) -> None:
    with Wrapped(tmp_path, trace) as session:
        session.calls(200)
        session.kill(session.recorder)
        session.the_recorder_ends()
        session.calls(200)
        assert session.close() == 0
        session.the_server_sees_the_end()
        said = session.stderr()

    assert len(re.findall("recorder", said)) == 1
    assert Path(f"{trace}.journal").is_dir()
    assert check(trace)["complete"] is True  # the command has completed it from the journal
    assert frames(trace) == handshake_and(400)
    assert not Path(f"{trace}.journal").exists()


def test_a_stopped_recorder_holds_nothing_up(tmp_path: Path, trace: Path) -> None:
    with Wrapped(tmp_path, trace) as session:
        session.stop_the_recorder()
        session.calls(400)
        assert session.close() == 0
        session.the_recorder_ends()

    assert frames(trace) == handshake_and(400)
    assert check(trace)["complete"] is True


def test_when_both_are_killed_the_next_command_finishes_the_recording(tmp_path: Path, trace: Path) -> None:
    with Wrapped(tmp_path, trace) as session:
        session.calls(400)
        session.kill(session.recorder, session.relay)
        session.the_server_sees_the_end()
        session.the_recorder_ends()

    assert check(trace)["complete"] is False
    assert frames(trace) == handshake_and(400)
    assert records(trace)[-1]["ending"] == "cut"


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[tuple[Path, int | None]]:
    """A folder that holds half a megabyte: a file system of that size, or a limit on files."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield folder, 512 << 10
        return
    yield folder, None
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_costs_the_recording_and_not_the_session(
    tmp_path: Path, small_disk: tuple[Path, int | None]
) -> None:
    folder, file_limit = small_disk
    trace = folder / "trace.jsonl"
    with Wrapped(tmp_path, trace, file_limit) as session:
        session.calls(100)
        session.calls(200, text=b"x" * 20_000)  # 8 MB
        session.calls(100)
        assert session.close() == 0
        session.the_recorder_ends()
        said = session.stderr()

    assert said.count("recording interrupted") == 1
    assert check(trace)["complete"] is False
    lost = Counter[str]()
    for record in records(trace):
        if record["type"] == "gap":
            lost += Counter(client=record["client"], server=record["server"])
    assert lost.total() > 6_000_000
    assert lost + recorded_bytes(trace) == session.bytes  # what is missing is known to the byte
