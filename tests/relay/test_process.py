"""The wrapped command behaves as the same command unwrapped: exit code, stdout and stderr are equal."""

import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mcpproxy.base.ready import is_readable
from mcpproxy.record.relay import journal
from tests.relay.hosts import (
    DEADLINE_S,
    HOME,
    LOOPS,
    RELAYS,
    Host,
    behind,
    gone,
    kill,
    peer,
    read_journal,
    stream,
)

Seen = tuple[int, bytes, bytes]
Play = Callable[[Host], bytes]


def listen(host: Host) -> bytes:
    return host.rest()


def end_then_listen(host: Host) -> bytes:
    host.end_input()
    return host.rest()


def ask_and_end(host: Host) -> bytes:
    host.write(b"one\ntwo\n")
    host.end_input()
    return host.rest()


def send(name: str) -> Play:
    def play(host: Host) -> bytes:
        ready = host.read(6)
        host.signal(getattr(signal, name))
        return ready + host.rest()

    return play


def terminate_and_go_on(host: Host) -> bytes:
    got = host.read(6)
    host.signal(signal.SIGTERM)
    host.write(b"still there?\n")
    got += host.read(13)
    host.end_input()
    return got + host.rest()


def go_away(host: Host) -> bytes:
    host.stop_reading()
    host.end_input()
    return b""


def hear_the_end_then_ask(host: Host) -> bytes:
    got = host.rest()  # ends although the server has not
    host.write(b"question\n")
    return got


def ask_after_ready(host: Host) -> bytes:
    ready = host.read(6)
    host.write(b"question\n")
    return ready + host.rest()


def refused(host: Host) -> bool:
    """Whether the system tells, before the deadline, that nobody reads our end of stdin any more."""
    broken = select.poll()
    broken.register(host.stdin, 0)
    return bool(broken.poll(DEADLINE_S * 1000))


def write_until_refused(host: Host) -> bytes:
    got = host.read(6)
    host.until_said(b"closed\n")
    try:
        host.write(b"taken by the relay, at most\n")
        assert refused(host)
        host.write(b"x")
    except BrokenPipeError:
        got += b"refused\n"
    host.signal(signal.SIGTERM)
    return got + host.rest()


TABLE: dict[str, tuple[list[str], Play]] = {
    "exit 0": (peer("leave", "0"), listen),
    "exit 3": (peer("leave", "3"), listen),
    "exit 255": (peer("leave", "255"), listen),
    "killed by SIGKILL": (peer("die", "SIGKILL"), listen),
    "killed by SIGSEGV": (peer("die", "SIGSEGV"), listen),
    "SIGPIPE has its default": (["sh", "-c", "kill -PIPE $$; echo survived"], listen),
    "answers after EOF": (peer("late", "3"), ask_and_end),
    "EOF with nothing said": (peer("late", "1"), end_then_listen),
    "SIGTERM": (peer("waiting"), send("SIGTERM")),
    "SIGINT": (peer("waiting"), send("SIGINT")),
    "SIGHUP": (peer("waiting"), send("SIGHUP")),
    "SIGTERM with a last word": (peer("polite", "SIGTERM"), send("SIGTERM")),
    "SIGINT with a last word": (peer("polite", "SIGINT"), send("SIGINT")),
    "SIGTERM ignored": (peer("deaf"), terminate_and_go_on),
    "client gone": (peer("unheard"), go_away),
    "server closes stdout": (peer("close", "1"), hear_the_end_then_ask),
    "server closes stderr": (peer("close", "2"), ask_after_ready),
    "server closes stdin": (peer("close", "0"), write_until_refused),
    "10 MiB on stderr": (peer("flood", "2", str(10 << 20)), end_then_listen),
    "10 MiB on stdout": (peer("flood", "1", str(10 << 20)), end_then_listen),
    "no descriptor of ours": (peer("descriptors"), listen),
}


def perform(command: list[str], play: Play, over: str) -> Seen:
    with Host(command, over) as host:
        out = play(host)
        code = host.wait()
        return code, out, host.all_errors()


@cache
def unwrapped(title: str, over: str) -> Seen:
    """What every relay is compared with; played once."""
    command, play = TABLE[title]
    return perform(command, play, over)


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
@pytest.mark.parametrize("title", TABLE)
def test_wrapped_is_as_unwrapped(title: str, over: str, kind: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    command, play = TABLE[title]
    assert perform(behind(kind, command, trace), play, over) == unwrapped(title, over)
    assert read_journal(trace)[-1][0] == journal.EXIT


@pytest.mark.parametrize(
    "locale", [{}, {"LC_CTYPE": ""}, {"LC_CTYPE": "C"}, {"LC_ALL": "C"}, {"LC_CTYPE": "C.UTF-8"}], ids=repr
)
def test_the_environment_is_the_hosts(locale: dict[str, str]) -> None:
    """In the C locale, Python sets LC_CTYPE for itself and for all that it starts."""

    def seen(command: list[str]) -> bytes:
        with Host(command, env=locale, without=("LC_ALL", "LC_CTYPE", "LANG")) as host:
            return host.rest()

    assert seen(behind("stdio", ["env"])) == seen(["env"])


@pytest.mark.parametrize("variable", [b"", b"LC_CTYPE=C", b"LC_CTYPE="], ids=repr)
def test_an_environment_that_is_no_mapping_passes_as_it_is(variable: bytes) -> None:
    """Entries without a name, without a value, and the same name twice: the C library passes them on."""
    entries = [b"PATH=/usr/bin:/bin", b"=nameless", b"bare", b"A=1", b"A=2", variable, b"", b"B="]
    execute = (
        "import ctypes, sys\n"
        "words = [word.encode() for word in sys.argv[1:]]\n"
        f"entries = {[*entries, *(f'{name}={HOME[name]}'.encode() for name in ('PYTHONPATH',))]!r}\n"
        "array = lambda items: (ctypes.c_char_p * (len(items) + 1))(*items, None)\n"
        "ctypes.CDLL(None).execve(words[0], array(words), array(entries))\n"
    )

    def seen(command: list[str]) -> bytes:
        with Host([sys.executable, "-c", execute, *command]) as host:
            return host.rest()

    plain = seen(["/bin/cat", "/proc/self/environ"])
    assert plain.count(b"A=") == 2
    assert seen(behind("stdio", ["cat", "/proc/self/environ"])) == plain


@pytest.mark.parametrize("kind", LOOPS)
def test_a_client_is_told_at_once_that_the_server_reads_no_more(kind: str) -> None:
    with Host(behind(kind, peer("close", "0"))) as host:
        assert refused(host)
        host.signal(signal.SIGTERM)
        assert host.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["no-such-command-anywhere"], 127, b"no such command"),
        ([""], 127, b"no such command"),
        ([__file__], 126, b"Permission denied"),
        ([os.path.dirname(__file__)], 126, b"Permission denied"),
    ],
    ids=["no such command", "no command at all", "not executable", "a folder"],
)
def test_a_command_that_cannot_be_started(
    command: list[str], code: int, words: bytes, kind: str, tmp_path: Path
) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, command, trace)) as host:
        assert host.rest() == b""
        assert host.wait() == code
        errors = host.all_errors()
    assert errors.startswith(b"mcpproxy: " + (command[0] or "''").encode())
    assert words in errors
    assert errors.count(b"\n") == 1
    ended = json.loads(stream(read_journal(trace), journal.EXIT))
    assert (ended["ending"], ended["code"], ended["signal"]) == ("not started", None, None)
    assert errors.decode().rstrip().endswith(f": {ended['reason']}")


def test_a_server_whose_pipes_cannot_be_used(tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind("exhausted", peer("polite", "SIGTERM"), trace)) as host:
        assert host.wait() == 126
        errors = host.all_errors()
    assert errors.startswith(f"mcpproxy: {sys.executable}: ".encode())
    assert b"Too many open files" in errors
    assert errors.count(b"\n") == 1
    assert b'"ending":"not started"' in stream(read_journal(trace), journal.EXIT)


@pytest.mark.parametrize("kind", RELAYS)
def test_signals_are_recorded(kind: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("polite", "SIGTERM"), trace)) as host:
        host.read(6)
        host.signal(signal.SIGTERM)
        assert host.wait() == 6
    assert stream(read_journal(trace), journal.SIGNAL) == b"SIGTERM"


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_what_a_host_writes_before_it_goes_away_arrives(over: str, kind: str) -> None:
    """What it has written, and that it reads no more, are seen together."""
    said = b"".join(b"%d\n" % number for number in range(10_000))
    with Host(behind(kind, ["sh", "-c", "echo ready; cat >&2"]), over) as host:
        assert host.read(6) == b"ready\n"
        host.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, host.process.pid, os.WSTOPPED | os.WNOWAIT)
        host.write(said)
        host.stop_reading()
        host.end_input()
        host.signal(signal.SIGCONT)
        assert host.wait() == 0
        assert host.all_errors() == said


@pytest.mark.parametrize("kind", RELAYS)
def test_a_stubborn_server_does_not_outlive_a_host_that_went_away(kind: str) -> None:
    with Host(behind(kind, peer("stubborn"), grace_s=0.2)) as host:
        server = int(_line(host))
        host.stop_reading()
        host.end_input()
        if kind == "threads":  # which learns that nobody reads by writing, or from a signal
            host.signal(signal.SIGHUP)
        assert host.wait() in (128 + signal.SIGKILL, 128 + signal.SIGHUP)
        assert gone(server)


@pytest.mark.parametrize("kind", RELAYS)
def test_a_stubborn_server_does_not_outlive_eof_and_a_signal(kind: str) -> None:
    with Host(behind(kind, peer("stubborn"), grace_s=0.2)) as host:
        server = int(_line(host))
        host.end_input()
        host.signal(signal.SIGTERM)
        assert host.wait() == 128 + signal.SIGKILL
        assert gone(server)


@pytest.mark.parametrize("kind", RELAYS)
def test_a_host_that_only_closed_stdin_is_waited_for(kind: str) -> None:
    """With a grace period of nothing at all, the late answers still come."""
    with Host(behind(kind, ["sh", "-c", "cat; sleep 0.3; echo late"], grace_s=0)) as host:
        host.write(b"question\n")
        host.end_input()
        assert host.rest() == b"question\nlate\n"
        assert host.wait() == 0


@pytest.mark.parametrize("kind", LOOPS)
def test_a_killed_relay_leaves_no_server_behind(kind: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("stubborn"), trace, "patient", 0.2)) as host:
        server = int(_line(host))
        host.signal(signal.SIGKILL)
        assert gone(server)


@pytest.mark.parametrize("kind", LOOPS)
def test_a_server_that_ignores_everything_is_gone_a_second_after_the_relay(kind: str, tmp_path: Path) -> None:
    """Whatever the recorder still has to do, and however long the host gave the server."""
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("stubborn"), trace, "busy", 10 * DEADLINE_S)) as host:
        server = os.pidfd_open(int(_line(host)))
        host.until_said(b"recorder ")
        recorder = int(host.errors.split()[1])
        host.signal(signal.SIGKILL)
        is_gone = is_readable(server, DEADLINE_S)  # a second on an idle machine
        os.close(server)
        kill(recorder)
        assert is_gone


@pytest.mark.parametrize("over", ["pipes", "sockets"])
@pytest.mark.parametrize("size", [1_000, 65_000, 65_536])
def test_a_host_that_reads_no_stderr_is_not_waited_for(over: str, size: int) -> None:
    """The server's bytes would fit without us, so they must fit beside our own lines."""
    script = f"head -c {size} /dev/zero | tr '\\0' z >&2; exit 3"
    with Host(behind("greeting", ["sh", "-c", script]), over, reads_errors=False) as host:
        assert host.wait() == 3
        host.read_errors()
        assert host.all_errors().count(b"z") == size


@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_two_thousand_findings_that_nobody_reads_hold_nothing_up(over: str) -> None:
    command = [sys.executable, "-m", "mcpproxy", "--live", "json", "--trace", "", "--", "yes"]
    with tempfile.TemporaryDirectory() as folder:
        command[6] = f"{folder}/t.jsonl"
        command[8:] = ["sh", "-c", "yes | head -2000; printf goodbye >&2; read line; exit 3"]
        with Host(command, over, reads_errors=False) as host:
            assert host.read(4000) == b"y\n" * 2000
            host.write(b"leave\n")
            assert host.wait() == 3
            host.read_errors()
            assert b"goodbye" in host.all_errors()


@pytest.mark.parametrize("kind", RELAYS)
def test_a_child_that_the_server_left_does_not_keep_the_relay(kind: str) -> None:
    with Host(behind(kind, peer("parent"))) as host:
        child = int(_line(host))
        try:
            assert host.wait() == 9
            assert host.rest() == b""
        finally:
            kill(child)


@pytest.mark.parametrize("kind", LOOPS)
def test_an_inherited_descriptor_belongs_to_the_server_alone(kind: str) -> None:
    ours, theirs = os.pipe()
    with Host(behind(kind, peer("let_go", str(theirs))), pass_fds=(theirs,)) as host:
        os.close(theirs)
        with os.fdopen(ours, "rb") as file:
            assert file.read() == b"hello"  # its end comes although server and relay still live
        assert host.process.poll() is None
        host.end_input()
        assert host.wait() == 0


@pytest.mark.parametrize("kind", RELAYS)
def test_standard_streams_may_be_closed_from_the_start(kind: str) -> None:
    script = 'exec "$@" 0<&- 2>&-'
    with Host(["sh", "-c", script, "sh", *behind(kind, peer("echo"))]) as host:
        assert host.rest() == b""
        assert host.wait() == 0


def _line(host: Host) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += host.read(1)
    return line
