"""``--break``: messages that are held until somebody answers them, and ``mcpproxy breakpoints``."""

import base64
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mcpproxy.api import check
from mcpproxy.base.ready import is_readable
from mcpproxy.errors import UsageError
from mcpproxy.gate.intercept.asking import control_client
from mcpproxy.gate.intercept.asking.control_client import NoAnswerError, NotHeldError, ask
from mcpproxy.gate.intercept.control import Command, Control, control_path
from mcpproxy.gate.intercept.held_messages import NothingHeldError, Release
from mcpproxy.judge.session.frame import Frame
from mcpproxy.record.recorder.recovery import recover
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.intercept.test_fault_lanes import ONE, TWO, Played
from tests.intercept.test_fault_relay import INITIALIZE, INITIALIZED, OPENED, PEER, THE_PEER_S, Message, call
from tests.relay.hosts import DEADLINE_S, HOME, until_recorded

__all__ = ["mcpproxy", "state_dir"]

SEARCH: Final[dict[str, object]] = {"name": "search", "arguments": {}}
ANSWERED: Final[dict[str, object]] = {
    "number": 1, "from": "client", "rule": "x", "left_s": 1, "then": "pass", "findings": [], "base64": "",
}  # fmt: skip


def search(id: int) -> Message:
    return {**call(id), "params": SEARCH}


# The lanes


def test_a_held_line_lets_the_others_pass_and_goes_on_when_it_may() -> None:
    lanes = Played("from:client tool:search => pause")
    assert lanes.client(ONE + TWO) == [("keep", ONE), ("pass", TWO)]
    assert [(held.sender, held.raw) for held in lanes.lanes.held] == [("client", ONE)]
    assert [step.data for step in lanes.lanes.release(Release(1, "pass"), 0)] == [ONE]
    assert lanes.lanes.held == []
    with pytest.raises(NothingHeldError):
        list(lanes.lanes.release(Release(1, "pass"), 0))


def test_a_line_that_somebody_writes_stays_one_line() -> None:
    lanes = Played("from:client => pause")
    lanes.client(ONE)
    (step,) = lanes.lanes.release(Release(1, "edit", b"hello\nagain"), 0)
    assert (step.sender, step.data) == ("client", b"hello again\n")


@pytest.mark.parametrize(("then", "given"), [("pass", [("to server", ONE)]), ("drop", [])])
def test_what_becomes_of_it_when_nobody_answers(then: str, given: list[tuple[str, bytes]]) -> None:
    lanes = Played(f"from:client => pause, within 2s, then {then}")
    lanes.client(ONE)
    assert lanes.lanes.next_due_ns == 2_000_000_000
    assert lanes.at(1999) == []
    assert lanes.at(2000) == given
    assert lanes.lanes.next_due_ns is None


# A session


class Held:
    """A client whose calls are held, and the control of its session."""

    def __init__(self, folder: Path, *options: str, name: str = "session") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.trace = str(folder / f"{name}.jsonl")
        command = [sys.executable, "-m", "mcpproxy", "--trace", self.trace, *options, "--", sys.executable]
        self.process = subprocess.Popen(
            [*command, PEER, json.dumps(OPENED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=HOME,
        )
        self._unread = b""
        self.say(call(0, "initialize", **INITIALIZE))
        assert self.hear()["id"] == 0
        self.say(INITIALIZED)

    def say(self, message: object) -> None:
        self.say_bytes(json.dumps(message).encode())

    def say_bytes(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            ready = is_readable(self.process.stdout, DEADLINE_S)
            assert ready
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, "the session has ended"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def call(self, id: int) -> None:
        self.say(search(id))

    def held(self, at_least: int = 1) -> dict[int, int]:
        """The id of each held call -> its number; when so many are held."""
        while True:
            lines = cast("list[dict[str, Any]]", ask(self.trace, {"do": "list"})["held"])
            if len(lines) >= at_least:
                return {json.loads(base64.b64decode(line["base64"]))["id"]: line["number"] for line in lines}

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(DEADLINE_S) == 0
        until_recorded(self.trace)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def findings(self) -> list[str]:
        return sorted({f"{finding.rule} {finding.blame}" for finding in check(self.trace).findings})


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    session = Held(tmp_path, "--break", "from:client tool:search")
    yield session
    session.close()


def test_a_hundred_held_calls_are_answered_in_any_order(held: Held) -> None:
    for id in range(1, 101):
        held.call(id)
    numbers = held.held(100)
    draw = random.Random(7)
    order = draw.sample(range(1, 101), 100)
    expected: set[int] = set()
    for id in order:
        how = draw.choice(["resume", "drop", "error", "edit"])
        edited = json.dumps(search(id + 1000)).encode()
        command: Command = {"do": how, "number": numbers[id], "base64": base64.b64encode(edited).decode()}
        assert ask(held.trace, command)["done"] == how
        if how != "drop":
            expected.add(id + 1000 if how == "edit" else id)
    assert {held.hear()["id"] for _ in expected} == expected
    assert ask(held.trace, {"do": "list"}) == {"held": []}
    held.end()
    assert not os.path.exists(control_path(held.trace))
    assert held.findings() == THE_PEER_S
    sent = [event for event in read_trace(held.trace).events() if isinstance(event, Frame) and event.fault]
    assert sum(not frame.by_proxy for frame in sent) == 100


def test_the_command_lists_shows_and_answers(held: Held, mcpproxy: Mcpproxy) -> None:
    for id in (1, 2, 3, 4):
        held.call(id)
    numbers = held.held(4)
    where = ("--trace", held.trace)
    assert len(mcpproxy("breakpoints", *where).out.splitlines()) == 5
    assert '"name": "search"' in mcpproxy("breakpoints", "show", str(numbers[1]), *where).out
    assert mcpproxy("breakpoints", "resume", str(numbers[1]), *where).code == 0
    assert held.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    mcpproxy("breakpoints", "error", str(numbers[2]), "--text", "no", "--code", "7", *where)
    assert held.hear()["error"] == {"code": 7, "message": "no"}
    mcpproxy("breakpoints", "drop", str(numbers[3]), *where)
    edited = json.dumps(call(9, "ping"))
    mcpproxy("breakpoints", "edit", str(numbers[4]), "--text", edited, *where)
    assert held.hear()["id"] == 9
    assert mcpproxy("breakpoints", *where).out == "nothing is held\n"
    said = mcpproxy("breakpoints", "resume", "99", *where)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "nothing is held by the number 99; mcpproxy breakpoints lists what is held" in said.err


def test_an_editor_changes_a_message(
    held: Held, mcpproxy: Mcpproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys\np = sys.argv[1]\nt = open(p).read().replace('search', 'find')\nopen(p, 'w').write(t)\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    monkeypatch.delenv("VISUAL", raising=False)
    held.call(1)
    number = held.held()[1]
    assert mcpproxy("breakpoints", "edit", str(number), "--trace", held.trace).code == 0
    assert held.hear()["id"] == 1
    held.end()
    given = [e for e in read_trace(held.trace).events() if isinstance(e, Frame) and e.by_proxy]
    assert [b'"find"' in frame.raw for frame in given] == [True]


@pytest.mark.parametrize(
    ("variable", "editor", "why"),
    [
        ("EDITOR", "  ", "EDITOR names no editor; set EDITOR to a command, or give --text"),
        ("EDITOR", "vi '", "EDITOR=vi ' cannot be read (No closing quotation); set EDITOR to a command"),
        ("VISUAL", " ", "VISUAL names no editor; set VISUAL to a command"),
        ("EDITOR", "''", "EDITOR names no editor"),
        ("EDITOR", "no-such-editor", "no-such-editor cannot be started (No such file or directory)"),
    ],
)
def test_an_editor_that_is_none_leaves_the_message_held(
    held: Held, mcpproxy: Mcpproxy, monkeypatch: pytest.MonkeyPatch, variable: str, editor: str, why: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv(variable, editor)
    held.call(1)
    number = held.held()[1]
    said = mcpproxy("breakpoints", "edit", str(number), "--trace", held.trace)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert f"breakpoints: {why}" in said.err
    assert held.held() == {1: number}


def test_a_relay_that_is_killed_while_a_call_is_held_leaves_what_the_client_said(held: Held) -> None:
    held.call(1)
    held.held()
    held.process.kill()
    held.process.wait(DEADLINE_S)
    with pytest.raises(UsageError, match="its session has ended; name one that runs"):
        ask(held.trace, {"do": "list"})
    assert os.path.exists(control_path(held.trace))  # who only asks deletes nothing
    while os.path.isdir(journal.folder(held.trace)):  # the recorder ends by itself
        recover(held.trace)
    told = list(read_trace(held.trace).events())
    kept = [event for event in told if isinstance(event, Frame) and event.fault]
    assert [(frame.raw, frame.by_proxy) for frame in kept] == [(json.dumps(search(1)).encode(), False)]
    assert held.findings() == []


def test_who_leaves_in_the_middle_of_a_command_changes_nothing(held: Held) -> None:
    held.call(1)
    number = held.held()[1]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(control_path(held.trace))
        sock.sendall(b'{"do": "dr')
    assert held.held() == {1: number}
    assert ask(held.trace, {"do": "resume", "number": number})["done"] == "resume"
    assert held.hear()["id"] == 1


def test_a_list_of_beginnings_says_when_nothing_has_changed(held: Held) -> None:
    held.say({**search(1), "params": {**SEARCH, "arguments": {"text": "x" * 1000}}})
    held.held()
    command: Command = {"do": "list", "starts": True}
    answer = ask(held.trace, command)
    (first,) = cast("list[dict[str, Any]]", answer["held"])
    assert (first["kind"], first["method"], first["target"]) == ("request", "tools/call", "search")
    assert (first["id"], first["bytes"] > 1000, len(base64.b64decode(first["start"]))) == ("1", True, 200)
    assert ask(held.trace, {**command, "state": answer["state"]}) == {"same": True}
    held.call(2)
    held.held(2)
    assert "held" in ask(held.trace, {**command, "state": answer["state"]})


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ({"do": "drop"}, {"done": "drop", "number": True}),
        ({"do": "list", "starts": True}, {"state": True, "held": []}),
        ({"do": "list"}, {"held": [{**ANSWERED, "held_s": True}]}),
    ],
)
def test_an_answer_with_a_boolean_for_a_number_is_none(
    monkeypatch: pytest.MonkeyPatch, command: Command, answer: Command
) -> None:
    def exchange_lines(*_: object) -> bytes:
        return json.dumps(answer).encode()

    monkeypatch.setattr(control_client, "_exchange_lines", exchange_lines)
    with pytest.raises(NoAnswerError, match="is not an answer of mcpproxy"):
        ask("t.jsonl", command)


def test_who_comes_second_is_told_what_became_of_the_message(held: Held) -> None:
    held.call(1)
    number = held.held()[1]
    assert ask(held.trace, {"do": "drop", "number": number})["done"] == "drop"
    for do in ("resume", "show"):
        with pytest.raises(NotHeldError, match=f"message {number} was dropped already"):
            ask(held.trace, {"do": do, "number": number})


def test_a_relay_that_is_stopped_does_not_answer_and_its_session_goes_on(held: Held) -> None:
    held.call(1)
    number = held.held()[1]
    held.process.send_signal(signal.SIGSTOP)
    with pytest.raises(NoAnswerError, match="its session does not answer"):
        ask(held.trace, {"do": "list"}, 0.05)
    held.process.send_signal(signal.SIGCONT)
    assert held.held() == {1: number}


def test_only_the_user_may_connect(held: Held) -> None:
    assert os.stat(control_path(held.trace)).st_mode & 0o777 == 0o600


def test_a_client_that_leaves_while_a_call_is_held_ends_the_session(tmp_path: Path) -> None:
    session = Held(tmp_path, "--break", "from:client tool:search", "--break-timeout", "200ms")
    session.call(1)
    session.end()
    assert session.findings() == THE_PEER_S
    session.close()


def test_a_held_call_is_answered_with_an_error_when_the_time_is_over(tmp_path: Path) -> None:
    options = ("--break-timeout", "50ms", "--break-then", "error")
    session = Held(tmp_path, "--break", "from:client tool:search", *options)
    session.call(1)
    assert session.hear()["error"]["code"] == -32603
    session.end()
    assert session.findings() == []
    session.close()


def test_a_session_that_is_not_recorded_says_that_nobody_can_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "--break", "tool:none", "--", "cat"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**HOME, "XDG_STATE_HOME": str(tmp_path / "file")},
        cwd=tmp_path,
        timeout=DEADLINE_S,
    )
    assert said.returncode == 0
    assert b"no breakpoint can be answered (nothing is recorded)" in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_socket_replaces_one_that_was_left_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.control"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    made = Control(str(path), print, print, lambda command: command)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    with pytest.raises(FileExistsError):  # somebody listens there
        Control(str(path), print, print, lambda command: command)
    made.close()
    assert not path.exists()
    path.write_text("a file of the user")
    with pytest.raises(FileExistsError):
        Control(str(path), print, print, lambda command: command)
    assert path.read_text() == "a file of the user"


def test_a_socket_is_removed_by_its_session_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.control"
    made = Control(str(path), print, print, lambda command: command)
    path.unlink()
    path.write_text("a file of the user")
    made.close()
    assert path.read_text() == "a file of the user"


def test_a_path_that_is_longer_than_the_name_of_a_socket_may_be(tmp_path: Path) -> None:
    session = Held(tmp_path / ("long" * 30), "--break", "from:client tool:search")
    session.call(1)
    assert ask(session.trace, {"do": "resume", "number": session.held()[1]})["done"] == "resume"
    assert session.hear()["id"] == 1
    session.close()


NOT_DONE: Final = (
    b"{}",
    b"[]",
    b"no JSON",
    b"\xff",
    b"[" * 5000 + b"]" * 5000,
    b'{"do":' * 5000,
    b'{"do": "resume"}',
    b'{"do": "resume", "number": true}',
    b'{"do": "resume", "number": 1.0}',
    b'{"do": "resume", "number": [1]}',
    b'{"do": ["resume"], "number": 1}',
    b'{"do": "resume", "number": %b}' % (b"9" * 5000),
    b'{"do": "list", "starts": true, "state": {}, "number": NaN, "do": "drop"}',
    b'{"do": "error", "number": 1, "message": "caf\\udce9"}',
    b'{"do": "error", "number": 1, "message": 5}',
    b'{"do": "error", "number": 1, "code": true}',
    b'{"do": "edit", "number": 1}',
    b'{"do": "edit", "number": 1, "base64": "!"}',
    b'{"do": "edit", "number": 1, "base64": "@@@"}',
    b'{"do": "edit", "number": 1, "base64": "Cg=="}',
    b'{"do": "edit", "number": 1, "base64": "%b"}' % (b"QUFB" * (6 << 20)),
)


def refused_commands(trace: str) -> None:
    """Send all that is no command, or cannot be done; each gets one line."""
    with socket.socket(socket.AF_UNIX) as sock, sock.makefile("rb") as answers:
        sock.settimeout(DEADLINE_S)
        sock.connect(control_path(trace))
        for command in NOT_DONE:
            sock.sendall(command + b"\n")
            answer = answers.readline(1000)
            assert list(json.loads(answer)) == ["refused"], (command[:100], answer)


def test_what_is_no_command_is_refused_and_the_message_is_still_held(held: Held, mcpproxy: Mcpproxy) -> None:
    held.call(1)
    number = str(held.held()[1])
    assert number == "1"
    refused_commands(held.trace)
    for do in ("error", "edit"):
        said = mcpproxy("breakpoints", do, number, "--text", "caf\udce9", "--trace", held.trace)
        assert (said.code, said.err.count("\n"), "UTF-8" in said.err) == (2, 1, True)
    held.say(call(5, "ping"))
    assert held.hear()["id"] == 5
    assert ask(held.trace, {"do": "resume", "number": 1})["done"] == "resume"
    assert held.hear()["id"] == 1


def test_who_connects_often_sends_without_end_or_reads_nothing_does_no_harm(held: Held) -> None:
    held.say({**search(1), "params": {**SEARCH, "arguments": {"text": "x" * (1 << 20)}}})
    held.held()
    connected = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    try:
        for sock in connected:
            sock.connect(control_path(held.trace))
            sock.settimeout(DEADLINE_S)
        connected[-1].setblocking(False)
        with suppress(BlockingIOError):  # each answer has the message, and nobody reads one
            for _ in range(10_000):
                connected[-1].send(b'{"do": "list"}\n' * 1000)
        with suppress(OSError):  # a command without an end
            for _ in range(40):
                connected[-2].sendall(b"x" * (1 << 20))
        assert held.held()
        assert memory(held.process.pid) < 300 << 20
    finally:
        for sock in connected:
            sock.close()
    held.say(call(5, "ping"))
    assert held.hear()["id"] == 5


def memory(pid: int) -> int:
    """The bytes of memory that a process had at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["resume"], "breakpoints: resume needs the number of a message"),
        (["jump", "1"], "invalid choice"),
        (["--trace", "{}"], "this session holds nothing at breakpoints; start one with --break FILTER"),
    ],
)
def test_what_cannot_be_answered(mcpproxy: Mcpproxy, tmp_path: Path, argv: list[str], fact: str) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text("")
    said = mcpproxy("breakpoints", *(word.format(trace) for word in argv))
    assert said.code == 2
    assert fact in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["--break", "from:clent"], "--break: match, column 6"),
        (["--break", "sort:time"], "--break: match"),
        (
            ["--break", "tool:x", "--break-timeout", "5"],
            '--break-timeout: "5" is not a duration; write "500ms"',
        ),
        (["--break", "tool:x", "--break-then", "stop"], '--break-then: "stop" is not known; write pass'),
    ],
)
def test_a_breakpoint_that_cannot_be_set(mcpproxy: Mcpproxy, options: list[str], fact: str) -> None:
    said = mcpproxy("run", *options, "--", "true")
    assert said.code == 2
    assert fact in said.err
