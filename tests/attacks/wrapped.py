"""The wrapped process: what a host and a terminal may do to it, and what is left when it is killed."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcpproxy.base.ready import is_readable
from tests.attacks.proxied import Origin, Proxied
from tests.attacks.stage import DEADLINE_S, BrokenError, Stage, Table, hold, is_line, read
from tests.relay.hosts import peer

TABLE: Final = Table()

QUIET_S: Final = 2
"""How long nothing must come on stderr until it counts as all that will."""

BLOCKED: Final = (
    "import os, signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
IN_FOREGROUND: Final = (
    "import fcntl, os, sys, termios\n"
    "os.setsid()\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


def _run(stage: Stage, *options: str) -> tuple[str, ...]:
    return ("run", "--trace", str(stage.folder / "t.jsonl"), *options, "--")


@TABLE
def sigchld_is_blocked(stage: Stage) -> str:
    """A host that starts us with SIGCHLD blocked: the session ends with its server."""
    before = (sys.executable, "-c", BLOCKED)
    process = stage.start(*_run(stage), "sh", "-c", "exit 3", before=before, stdin=subprocess.DEVNULL)
    code = stage.wait(process, "SIGCHLD blocked")
    hold(code == 3, f"exit {code}")
    return "exit 3"


@TABLE
def stderr_is_not_read(stage: Stage) -> str:
    """A host that never reads stderr, which the server has filled: we end with the server."""
    script = "head -c 65536 /dev/zero | tr '\\0' z >&2; exit 3"
    code = stage.wait(stage.start(*_run(stage), "sh", "-c", script), "64 KiB unread")
    hold(code == 3, f"exit {code}")
    return "exit 3"


@TABLE
def findings_are_not_read(stage: Stage) -> str:
    """A host that never reads stderr, where 2,000 findings are told as JSON: we end with the server."""
    script = "yes | head -2000; printf goodbye >&2; read line; exit 3"
    process = stage.start(*_run(stage, "--live", "json"), "sh", "-c", script)
    assert process.stdin is not None
    hold(read(process.stdout, lambda got: len(got) >= 4000) == b"y\n" * 2000, "stdout is not whole")
    _until_nothing_comes(stage, process)
    process.stdin.write(b"leave\n")
    process.stdin.flush()
    code = stage.wait(process, "2,000 findings unread")
    hold(code == 3, f"exit {code}")
    return "exit 3"


def _until_nothing_comes(stage: Stage, process: "subprocess.Popen[bytes]") -> None:
    """Wait until what stderr holds has not grown for a while: it is full, or all is told."""
    assert process.stderr is not None
    waiting, since = 0, time.monotonic()
    for _ in stage.looks("the end of what is told"):
        now = int.from_bytes(fcntl.ioctl(process.stderr, termios.FIONREAD, bytes(4)), sys.byteorder)
        if now != waiting:
            waiting, since = now, time.monotonic()
        elif waiting and time.monotonic() > since + QUIET_S:
            return


@TABLE
def command_is_empty(stage: Stage) -> str:
    """``mcpproxy -- ""``: a sentence and 127, as of any command that is not there."""
    done = stage.run(*_run(stage), "", doing='mcpproxy -- ""')
    hold(done.code == 127 and "no such command" in done.err, f"exit {done.code}: {done.err[:80]!r}")
    return "exit 127, no such command"


@TABLE
def environment_is_no_mapping(stage: Stage) -> str:
    """Environment entries without a name or =, and duplicates: the server gets them as they are."""
    entries = [b"PATH=/usr/bin:/bin", b"=nameless", b"bare", b"A=1", b"A=2", b"", b"B="]
    execute = (
        "import ctypes, sys\n"
        "words = [word.encode() for word in sys.argv[1:]]\n"
        "array = lambda items: (ctypes.c_char_p * (len(items) + 1))(*items, None)\n"
        f"ctypes.CDLL(None).execve(words[0], array(words), array({entries!r}))\n"
    )

    def seen(*command: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-c", execute, *command, "/bin/cat", "/proc/self/environ"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, cwd=stage.folder,
        )  # fmt: skip
        hold(b"Traceback" not in done.stderr, f"traceback, {done.stderr.decode().splitlines()[-1:]}")
        return done.stdout

    plain, behind = seen(), seen(stage.mcpproxy, *_run(stage))
    hold(plain.count(b"A=") == 2 and plain == behind, f"the server has {behind[:80]!r}")
    return "the same bytes as unwrapped"


@TABLE
def interrupt_to_us_alone(stage: Stage) -> str:
    """SIGINT to our process alone, in a terminal: it is passed on."""
    ours, theirs = pty.openpty()
    command = (sys.executable, "-c", IN_FOREGROUND, stage.mcpproxy, *_run(stage, "--quiet"))
    with subprocess.Popen(
        [*command, *peer("polite", "SIGINT")], stdin=theirs, stdout=theirs, stderr=theirs, env=stage.env,
        cwd=stage.folder,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            _shown(ours, b"ready", "the server does not start")
            process.send_signal(signal.SIGINT)
            _shown(ours, b"bye", "SIGINT is not passed on")
            stage.wait(process, "after SIGINT")
        finally:
            process.kill()
            os.close(ours)
    return "the server takes its leave"


def _shown(terminal: int, words: bytes, otherwise: str) -> None:
    got = b""
    while words not in got:
        hold(is_readable(terminal, DEADLINE_S), otherwise)
        with suppress(OSError):  # everybody has closed it
            got += os.read(terminal, 4096)
            continue
        raise BrokenError(otherwise)


def _reach_the_server(stage: Stage, *names: str) -> str:
    failed: list[str] = []
    for name in names:
        # ``communicate`` closes the input, and a server that gets no processor for so long is ended then.
        patient = _run(stage, "--quiet", "--grace", str(10 * DEADLINE_S))
        process = stage.start(*patient, *peer("polite", name))
        hold(read(process.stdout, is_line) == b"ready\n", "the server does not start")
        process.send_signal(getattr(signal, name))
        try:
            out, _ = process.communicate(timeout=DEADLINE_S / 2)
        except subprocess.TimeoutExpired:
            failed.append(f"{name} is not passed")
        else:
            if (out, process.returncode) != (b"bye\n", 6):
                failed.append(f"{name} ends us, exit {process.returncode}")
    hold(not failed, ", ".join(failed))
    return "each reaches the server"


@TABLE
def signals_that_end(stage: Stage) -> str:
    """QUIT, USR1 and USR2 to our process: the server, which handles them, gets them."""
    return _reach_the_server(stage, "SIGQUIT", "SIGUSR1", "SIGUSR2")


@TABLE
def signals_that_tell(stage: Stage) -> str:
    """WINCH, TSTP and CONT to our process: the server gets them."""
    return _reach_the_server(stage, "SIGWINCH", "SIGTSTP", "SIGCONT")


@TABLE
def long_post_with_enforce(stage: Stage) -> str:
    """A POST of 150 kB through http --enforce: it is answered, and the server has it whole."""
    with Origin() as origin:
        origin.answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        with Proxied(stage, origin, "--enforce", "PROTO-009", path="/mcp") as proxied:
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"x": "x" * 150_000}}
            body = json.dumps(message).encode()
            answer = proxied.ask("POST", "/mcp", body, {"Content-Type": "application/json"})
            hold(b"200 OK" in answer, f"the answer is {answer[:60]!r}")
            hold(origin.heard[-1].endswith(body), "the server has not all of it")
    return "answered"


@TABLE
def relay_is_killed(stage: Stage) -> str:
    """The relay is killed, its server ignores the end of input and SIGTERM: all that it started go, too."""
    process = stage.start(*_run(stage, "--grace", str(10 * DEADLINE_S)), *peer("stubborn"))
    server = int(read(process.stdout, is_line))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    pids = {
        int(child): "server" if int(child) == server else Path(f"/proc/{child}/comm").read_text().strip()
        for child in children
    }
    hold(len(pids) >= 2, f"children of the relay: {pids}")
    handles = {os.pidfd_open(pid): name for pid, name in pids.items()}
    process.kill()
    try:
        left = [name for handle, name in handles.items() if not is_readable(handle, DEADLINE_S)]
    finally:
        for handle in handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
    hold(not left, f"{' and '.join(left)} still there after {DEADLINE_S} s or more")
    return "all are gone"
