"""A wrapped server gets the signals that it would get unwrapped, and stops and goes on as it would."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.record.relay import journal
from mcpproxy.record.relay.stdio import signals
from tests.relay.hosts import DEADLINE_S, HOME, LOOPS, Host, behind, gone, peer, read_journal, stream
from tests.relay.signal_counts import HOSTS, PipeHost, TerminalHost, counts

RECORDED = ["SIGQUIT", "SIGUSR1", "SIGWINCH", "SIGTSTP", "SIGCONT", "SIGRTMIN"]

NOTHING = "import os, signal, sys\n"
BLOCKS = NOTHING + "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGUSR2, 40])\n"
IGNORES = NOTHING + "for number in signal.SIGCHLD, signal.SIGUSR1: signal.signal(number, signal.SIG_IGN)\n"
IGNORES_ALL = (
    NOTHING
    + "for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
    + "    signal.signal(number, signal.SIG_IGN)\n"
)
EXECUTE = (
    "for number in signal.SIGPIPE, signal.SIGXFSZ:  # Python's own doing\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


@pytest.mark.parametrize("name", RECORDED)
def test_a_signal_to_our_process_alone_is_recorded(name: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind("stdio", peer("polite", name), trace)) as host:
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


def dispositions(before: str, command: list[str]) -> dict[str, int]:
    """The masks of signals that a program sees which a host started that has done ``before``."""
    with Host([sys.executable, "-c", before + EXECUTE, *command]) as host:
        lines = [line.split() for line in host.rest().decode().splitlines()]
        assert host.wait() == 0
    return {name: int(mask, 16) for name, mask in lines}


@pytest.mark.parametrize("before", [NOTHING, BLOCKS, IGNORES, IGNORES_ALL], ids=lambda script: script[-30:])
@pytest.mark.parametrize("kind", LOOPS)
def test_the_server_starts_with_the_hosts_mask_and_disposition_of_every_signal(
    kind: str, before: str
) -> None:
    command = ["sed", "-n", "s/^\\(Sig\\(Blk\\|Ign\\|Cgt\\)\\):/\\1/p", "/proc/self/status"]
    plain = dispositions(before, command)
    assert plain.keys() == {"SigBlk", "SigIgn", "SigCgt"}
    assert dispositions(before, behind(kind, command)) == plain


def test_a_python_that_starts_programs_in_another_way_starts_the_server_too() -> None:
    with Host(behind("spawned", peer("polite", "SIGTERM"))) as host:
        assert host.read(6) == b"ready\n"
        host.signal(signal.SIGTERM)
        assert host.wait() == 6


def sendable(kind: str) -> list[int]:
    """The signals that are forwarded, some of the real-time ones among them."""
    if kind == "macos":  # which has no real-time signals
        return sorted(set(signals.FORWARDED) - {signal.SIGPWR, signal.SIGSTKFLT})
    return [*signals.FORWARDED, signal.SIGRTMIN, signal.SIGRTMIN + 1, signal.SIGRTMAX]


@pytest.mark.parametrize("where", HOSTS)
@pytest.mark.parametrize("kind", LOOPS)
def test_every_signal_reaches_the_server_and_its_child_as_often_as_unwrapped(kind: str, where: str) -> None:
    numbers = sendable(kind)
    wrapped = counts(HOSTS[where](behind(kind, peer("tally"))), numbers)
    assert wrapped == counts(HOSTS[where](peer("tally")), numbers)
    for_child = b"" if where == "alone" else None
    for number, (server, child) in zip(numbers, wrapped, strict=True):
        assert (server, child) == (bytes([number]), bytes([number]) if for_child is None else for_child)


@pytest.mark.parametrize("where", ["group", "alone"])
@pytest.mark.parametrize("kind", LOOPS)
def test_a_signal_that_the_host_ignored_reaches_a_server_that_handles_it(kind: str, where: str) -> None:
    numbers = sendable(kind)
    started_by = [sys.executable, "-c", IGNORES_ALL + EXECUTE]
    wrapped = counts(HOSTS[where]([*started_by, *behind(kind, peer("tally"))]), numbers)
    assert wrapped == counts(HOSTS[where]([*started_by, *peer("tally")]), numbers)
    assert [server for server, _ in wrapped] == [bytes([number]) for number in numbers]


def test_a_hangup_that_the_host_ignored_does_not_ask_the_server_to_exit() -> None:
    started_by = [sys.executable, "-c", IGNORES_ALL + EXECUTE]
    with Host([*started_by, *behind("stdio", peer("polite", "SIGTERM"), grace_s=0.01)]) as host:
        assert host.read(6) == b"ready\n"
        host.signal(signal.SIGHUP)
        host.end_input()
        assert host.silent_for(0.3)
        host.signal(signal.SIGTERM)
        assert host.rest() == b"bye\n"
        assert host.wait() == 6


def test_real_time_signals_to_the_group_and_to_us_are_all_counted() -> None:
    host = PipeHost(behind("stdio", peer("tally")))
    host.ask()
    for number in range(300):
        (os.killpg if number % 3 else os.kill)(host.pid, signal.SIGRTMIN)
    server, child = host.ask()
    host.close()
    assert (len(server), len(child)) == (300, 200)


@pytest.mark.parametrize("kind", ["plain", *LOOPS])
def test_a_terminal_that_hangs_up(kind: str, tmp_path: Path) -> None:
    """We lead its session, so the system tells us alone."""
    noted = tmp_path / "noted"
    noted.touch()
    host = TerminalHost(behind(kind, peer("notes", str(noted))))
    started = descendants(host.pid)
    host.hang_up()
    for _ in range(DEADLINE_S * 200):
        if len(noted.read_bytes()) >= 2:
            break
        select.select([], [], [], 0.005)
    seen = sorted(noted.read_bytes())
    host.close()  # with a session's leader the system ends the group in the same way once more
    assert seen == [signal.SIGHUP, signal.SIGCONT]
    assert all(map(gone, started)), "a server is left"


def descendants(pid: int) -> list[int]:
    """All of them, each before its parent."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, children) for one in (*descendants(child), child)]


def until_there_are(pid: int, number: int) -> list[int]:
    """Wait until ``pid`` has so many descendants."""
    for _ in range(DEADLINE_S * 200):
        if len(found := descendants(pid)) == number:
            return found
        select.select([], [], [], 0.005)
    raise AssertionError(f"{pid} has the descendants {descendants(pid)}")


@pytest.mark.parametrize("kind", LOOPS)
def test_who_signals_a_tree_one_by_one_children_first_reaches_the_server_once(kind: str) -> None:
    host = PipeHost(behind(kind, peer("tally")))
    host.ask()
    for pid in (*until_there_are(host.pid, 3), host.pid):  # the server, its child, the witness; us
        os.kill(pid, signal.SIGTERM)
        select.select([], [], [], 0.02)  # as a program does that looks for the next one
    assert host.ask() == (b"\x0f", b"\x0f")
    os.kill(host.pid, signal.SIGUSR1)
    assert host.ask() == (b"\x0a", b"")
    host.close()


def witness_of(relay: int) -> int:
    for _ in range(DEADLINE_S * 200):  # it takes its name after the fork
        for pid in until_there_are(relay, 3):
            if Path(f"/proc/{pid}/comm").read_text() == "signal-witness\n":
                return pid
        select.select([], [], [], 0.005)
    raise AssertionError("there is no witness")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_witness_that_is_killed_or_stopped_is_replaced(end: signal.Signals) -> None:
    host = PipeHost(behind("stdio", peer("tally")))
    host.ask()
    old = witness_of(host.pid)
    os.kill(old, end)
    os.kill(host.pid, signal.SIGUSR1)  # is forwarded, whether or not anybody answers
    assert host.ask() == (b"\x0a", b"")
    assert witness_of(host.pid) != old
    host.send(signal.SIGUSR2)
    assert host.ask() == (b"\x0c", b"\x0c")
    host.close()


def test_who_looks_for_our_command_does_not_find_the_witness() -> None:
    host = PipeHost(behind("stdio", peer("tally")))
    host.ask()
    line = Path(f"/proc/{witness_of(host.pid)}/cmdline").read_bytes().rstrip(b"\0")
    assert line == b"signal-witness of %d" % host.pid
    host.close()


def test_nobody_is_left_in_the_group_when_we_have_exited() -> None:
    with Host(behind("stdio", ["cat"]), process_group=0) as host:
        host.end_input()
        assert host.wait() == 0
        with pytest.raises(ProcessLookupError):
            os.killpg(host.process.pid, 0)


@pytest.mark.parametrize("killed", [os.kill, os.killpg], ids=["alone", "the group"])
@pytest.mark.parametrize("kind", LOOPS)
def test_nothing_is_left_after_a_kill(kind: str, killed: Callable[[int, int], None], tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    command = behind(kind, peer("stubborn"), trace, "patient", 0.2)
    with Host(command, process_group=0) as host:
        read_line(host)
        left = [os.pidfd_open(pid) for pid in until_there_are(host.process.pid, 3)]
        killed(host.process.pid, signal.SIGKILL)
        for handle in left:
            assert select.select([handle], [], [], DEADLINE_S)[0]
            os.close(handle)


def test_the_table_of_counts() -> None:
    command = [sys.executable, "-m", "tests.relay.signal_counts", "--sessions", "2"]
    ran = subprocess.run(
        command, env=HOME, capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


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
            assert is_readable(self.fd, DEADLINE_S), self.shown
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
