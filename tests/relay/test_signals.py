"""A wrapped server gets the signals that it would get unwrapped, and stops and goes on as it would."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy.relay import journal
from tests.relay.hosts import DEADLINE_S, HOME, LOOPS, Host, behind, peer, read_journal, stream

PASSED = ["SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGTSTP", "SIGCONT", "SIGRTMIN"]

WITH_BLOCKED = (
    "import os, signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGUSR2])\n"
    "for number in signal.SIGPIPE, signal.SIGXFSZ:  # Python's own doing\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)
WITH_IGNORED = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
    "for number in signal.SIGPIPE, signal.SIGXFSZ:\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("name", PASSED)
def test_a_signal_to_our_process_alone_reaches_the_server(name: str, kind: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("polite", name), trace)) as host:
        assert host.read(6) == b"ready\n"
        host.signal(getattr(signal, name))
        assert host.rest() == b"bye\n"
        assert host.wait() == 6
    assert stream(read_journal(trace), journal.SIGNAL) == name.replace("RTMIN", "RTMIN+0").encode()


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("name", ["SIGQUIT", "SIGUSR1", "SIGALRM"])
def test_a_signal_ends_a_server_that_does_not_handle_it(name: str, kind: str) -> None:
    with Host(behind(kind, peer("waiting"))) as host:
        assert host.read(6) == b"ready\n"
        host.signal(getattr(signal, name))
        assert host.wait() == 128 + getattr(signal, name)


@pytest.mark.parametrize("script", [WITH_BLOCKED, WITH_IGNORED], ids=["blocked", "ignored"])
@pytest.mark.parametrize("kind", LOOPS)
def test_what_the_host_blocks_or_ignores_is_so_for_the_server_alone(kind: str, script: str) -> None:
    def seen(command: list[str]) -> list[int]:
        with Host([sys.executable, "-c", script, *command]) as host:
            masks = [int(line.split()[1], 16) for line in host.rest().splitlines()]
            assert host.wait() == 0
        reserved = 3 << 31  # the C library's own; posix_spawn leaves them ignored
        return [mask & ~reserved for mask in masks]

    command = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]
    assert seen(behind(kind, command)) == seen(command)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def until_state(pid: int, wanted: str) -> None:
    for _ in range(DEADLINE_S * 200):
        if state(pid) == wanted:
            return
        select.select([], [], [], 0.005)
    raise AssertionError(f"{pid} is in state {state(pid)}, not {wanted}")


@pytest.mark.parametrize("kind", LOOPS)
def test_we_stop_when_the_server_does_and_go_on_together(kind: str) -> None:
    """Both signals are sent to our process alone, as no shell would do."""
    # A group of its own: a suite that was started in the background may be in an orphaned one, whose
    # processes ignore such signals.
    with Host(behind(kind, ["sh", "-c", "echo $$; exec cat"]), process_group=0) as host:
        server = int(read_line(host))
        host.signal(signal.SIGTSTP)
        _, status = os.waitpid(host.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGTSTP
        assert state(server) == "T"
        host.signal(signal.SIGCONT)
        host.write(b"there again\n")
        assert host.read(12) == b"there again\n"
        host.end_input()
        assert host.wait() == 0


@pytest.mark.parametrize("kind", LOOPS)
def test_a_server_that_somebody_else_stops_is_not_followed(kind: str) -> None:
    """Whoever stopped the server continues the server."""
    with Host(behind(kind, ["sh", "-c", "echo $$; exec cat"])) as host:
        server = int(read_line(host))
        os.kill(server, signal.SIGSTOP)
        until_state(server, "T")
        os.kill(server, signal.SIGCONT)
        host.write(b"there again\n")
        assert host.read(12) == b"there again\n"


def read_line(host: Host) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += host.read(1)
    return line


class Terminal:
    """A shell in a terminal, and what it shows."""

    def __init__(self) -> None:
        self.fd, theirs = pty.openpty()
        in_foreground = (
            "import fcntl, os, sys, termios\n"
            "os.setsid()\n"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            "os.execvp('bash', ['bash', '--norc', '--noediting', '-i'])\n"
        )
        env = {**HOME, "PS1": "$ ", "LC_ALL": "C"}
        self.shell = subprocess.Popen(
            [sys.executable, "-c", in_foreground], stdin=theirs, stdout=theirs, stderr=theirs, env=env
        )
        os.close(theirs)
        self.shown = b""

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def until_foreground_is_a_job(self) -> None:
        for _ in range(DEADLINE_S * 200):
            if os.tcgetpgrp(self.fd) != self.shell.pid:
                return
            select.select([], [], [], 0.005)
        raise AssertionError("the shell kept the terminal")

    def expect(self, words: bytes) -> bytes:
        """What is shown up to ``words``, and no more than that."""
        while words not in self.shown:
            assert select.select([self.fd], [], [], DEADLINE_S)[0], self.shown
            self.shown += os.read(self.fd, 4096)
        before, _, self.shown = self.shown.partition(words)
        return before


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    os.close(terminal.fd)  # hangs up
    terminal.shell.wait(DEADLINE_S)


@pytest.mark.parametrize("kind", ["plain", "stdio"])
def test_job_control_under_a_shell(kind: str, terminal: Terminal) -> None:
    command = " ".join(behind(kind, peer("counting"), "''" if kind != "plain" else ""))
    terminal.expect(b"$ ")
    terminal.type(command.encode() + b"\n")
    terminal.expect(b"ready\r\n")
    terminal.type(b"\x1a")
    terminal.expect(b"Stopped")
    terminal.expect(b"$ ")
    terminal.type(b"fg\n")
    terminal.until_foreground_is_a_job()
    terminal.type(b"\x03")  # reaches the server once
    terminal.expect(b"interrupted\r\n")
    terminal.type(b"how many?\n")
    terminal.expect(b"in all 1\r\n")
    terminal.expect(b"$ ")


def test_sigint_from_a_process_is_not_taken_for_ctrl_c(terminal: Terminal) -> None:
    command = " ".join(behind("stdio", peer("polite", "SIGINT"), "''"))
    terminal.expect(b"$ ")
    terminal.type(command.encode() + b"\n")
    terminal.expect(b"ready\r\n")
    children = Path(f"/proc/{terminal.shell.pid}/task/{terminal.shell.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGINT)
    terminal.expect(b"bye\r\n")
