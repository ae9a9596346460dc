"""Whatever happens to the recorder, the session goes on and stderr says so once."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal, priority
from mcpproxy.record.relay.exit_status import LATE_RECORDER, RECORDER_S, SUMMARY_S, UNREAD_S, RecorderWait
from mcpproxy.record.relay.stdio import forked_recorder
from mcpproxy.record.relay.stdio.server_life import ServerLife
from tests.relay.hosts import LOOPS, Host, behind, peer, read_journal, stream

MISHAPS = {
    "raising": b"mcpproxy: recorder: RuntimeError: out of tape\n"
    b"mcpproxy: the recorder has stopped; the session goes on and the journal keeps the traffic\n",
    "killed": b"mcpproxy: the recorder has stopped; the session goes on and the journal keeps the traffic\n",
    "stopped": b"stops\nwent on\n",  # continued at the end of the session
}


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize(("recorder", "said"), MISHAPS.items(), ids=MISHAPS)
def test_the_session_goes_on(kind: str, recorder: str, said: bytes, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("echo"), trace, recorder)) as host:
        host.until_said(b"stops\n" if recorder == "stopped" else said)
        for _ in range(100):
            host.write(b"hello\n")
            assert host.read(6) == b"hello\n"
        host.end_input()
        assert host.wait() == 0
        assert host.all_errors() == said
    assert stream(read_journal(trace), journal.CLIENT) == b"hello\n" * 100


@pytest.mark.parametrize("kind", LOOPS)
def test_a_recorder_that_never_ends_is_left_behind(kind: str, tmp_path: Path) -> None:
    from tests.relay.hosts import kill

    with Host(behind(kind, peer("echo"), str(tmp_path / "t"), "hanging")) as host:
        host.until_said(b"recorder ")
        host.end_input()
        assert host.rest() == b""
        assert host.wait() == 0
        errors = host.all_errors()  # ends, although the recorder lives and had our stderr once
    pid = int(errors.split()[1])
    kill(pid)
    assert errors.count(b"\n") == 2
    assert b"the recorder is not done" in errors


@pytest.mark.parametrize("kind", LOOPS)
def test_of_a_whole_recording_nobody_says_that_it_is_not_done(kind: str, tmp_path: Path) -> None:
    from tests.relay.hosts import kill

    with Host(behind(kind, peer("echo"), str(tmp_path / "t"), "whole")) as host:
        host.until_said(b"recorder ")
        host.end_input()
        assert host.rest() == b""
        assert host.wait() == 0
        errors = host.all_errors()
    kill(int(errors.split()[1]))
    assert errors.count(b"\n") == 1


def test_a_recorder_is_waited_for_once_more_when_the_recording_is_whole(tmp_path: Path) -> None:
    folder, said = tmp_path / "t.journal", list[str]()
    folder.mkdir()
    wait = RecorderWait(0, [str(folder)])
    assert wait.left_s() <= 0
    wait.say_if_late(said.append)
    assert said == [LATE_RECORDER]
    folder.rmdir()
    assert wait.left_s() == SUMMARY_S
    wait.say_if_late(said.append)
    assert said == [LATE_RECORDER]


@pytest.mark.parametrize(("is_terminal", "is_awaited"), [(True, False), (False, True), (False, False)])
def test_the_end_waits_for_the_recorder_where_somebody_reads(is_terminal: bool, is_awaited: bool) -> None:
    code = (
        "from mcpproxy.record.relay.exit_status import RECORDER_S, recorder_s;"
        f"assert (recorder_s(is_awaited={is_awaited}) == RECORDER_S) == {is_terminal or is_awaited}"
    )
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    try:
        ran = subprocess.run([sys.executable, "-c", code], stderr=theirs, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert ran.returncode == 0


class Ended(ServerLife):
    """A session whose server exits with a code, after something may have asked for that."""

    def __init__(self, code: int, asked: str) -> None:
        super().__init__(grace_s=0, quiet=True)
        self.code = code
        self.signalled, self.client_ended, self.host_gone = (asked == each for each in ASKED[1:])
        self.waits_s = 0.0

    def serve(self) -> int:
        return self.code

    def finish(self, code: int | None, reason: str = "") -> None:
        self.waits_s = self.recorder_s


ASKED = ("", "signal", "end of stdin", "end of stdout")


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("code", [0, 1, -6])
def test_the_end_waits_for_the_recorder_if_the_server_failed_unasked(code: int, asked: str) -> None:
    session = Ended(code, asked)
    assert session.run(["server"], None, lambda: None, "") == code
    assert session.waits_s == (RECORDER_S if code and not asked else UNREAD_S)


def test_the_end_of_the_relay_does_not_ask_for_a_spawned_recorder() -> None:
    """The recorder outlives the relay. Popen would ask for its exit code while the interpreter ends."""
    lines = (
        "import os, signal, sys, threading",
        "from mcpproxy.record.relay.spawned_recorder import SpawnedRecorder",
        "recorder = SpawnedRecorder([sys.executable, '-c', 'import signal; signal.pause()'])",
        "pid = recorder._process.pid",
        "recorder.leave(b'')",
        "[thread.join() for thread in threading.enumerate() if thread.daemon]",
        "del recorder",
        "os.kill(pid, signal.SIGKILL)",
    )
    program = (sys.executable, "-X", "dev", "-c", "\n".join(lines))
    ran = subprocess.run(program, capture_output=True, timeout=60, check=True)
    assert b"still running" not in ran.stderr


@pytest.mark.parametrize("kind", LOOPS)
def test_it_holds_nothing_that_a_peer_waits_on(kind: str, tmp_path: Path) -> None:
    with Host(behind(kind, peer("echo"), str(tmp_path / "t"), "patient")) as host:
        host.end_input()
        assert host.rest() == b""
        assert host.wait() == 0
        assert host.all_errors() == b"descriptors [0, 1, 2], own session True\n"


@pytest.mark.parametrize("kind", LOOPS)
def test_it_is_woken_once_when_it_asks(kind: str, tmp_path: Path) -> None:
    with Host(behind(kind, peer("echo"), str(tmp_path / "t"), "sleepy")) as host:
        host.until_said(b"asleep\n")
        for _ in range(50):
            host.write(b"x")
            host.read(1)
        host.end_input()
        assert host.wait() == 0
        assert host.all_errors() == b"asleep\nwoken by 1 byte, flag 0\n"


def test_the_portable_relay_starts_it_as_a_command(tmp_path: Path) -> None:
    with Host(behind("threads", peer("echo"), str(tmp_path / "t"), "patient")) as host:
        host.write(b"x")
        host.end_input()
        assert host.rest() == b"x"
        assert host.wait() == 0
        assert host.all_errors() == b"followed to the end\n"


def test_the_recorder_lowers_its_priority_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    def say_how(wake_fd: int, asleep: object) -> None:
        os.write(2, b"%d\n" % os.getpriority(os.PRIO_PROCESS, 0))

    for given in (priority.NICE if sys.platform == "linux" else 0, 0):
        recorder = forked_recorder.fork_recorder(say_how, None, 0)
        recorder.leave(b"")
        os.set_blocking(recorder.notes, True)
        with open(recorder.notes, "rb") as notes:
            own = os.getpriority(os.PRIO_PROCESS, 0)
            assert int(notes.read()) == (own + given if own < priority.NICE else own)
        os.waitpid(recorder.pid, 0)
        monkeypatch.setattr(os, "sched_setscheduler", refuse, raising=False)


def test_the_recorder_has_normal_priority_when_the_relay_waits_for_it() -> None:
    def say_twice(wake_fd: int, asleep: object) -> None:
        os.write(2, b"%s\n" % nice_of_session())
        while os.read(wake_fd, 64):
            pass
        os.write(2, b"%s\n" % nice_of_session())

    recorder = forked_recorder.fork_recorder(say_twice, None, 0)
    os.set_blocking(recorder.notes, True)
    with open(recorder.notes, "rb") as notes:
        before = notes.readline().strip()
        recorder.leave(b"")
        after = notes.readline().strip()
    os.waitpid(recorder.pid, 0)
    if before == b"none":
        assert after == b"none"
    else:
        # Of those who are not root the kernel takes one such change in a tenth of a second.
        assert before in (b"%d" % priority.SESSION_NICE, b"0")
        assert after == b"0" or (after == before and os.geteuid() != 0)


def nice_of_session() -> bytes:
    try:
        return Path("/proc/self/autogroup").read_bytes().split()[-1]
    except (OSError, IndexError):
        return b"none"
