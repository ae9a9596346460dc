"""A recording made on one system is read on the other: this one, and Windows."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.record.relay import journal
from tests.windows.test_windows import ECHO, PATIENCE_S, await_begun, await_recorded, frames, pipe
from tests.windows.wine import Windows

SERVER: Final = Path(__file__).parent / "crlf_server.py"
CALLS: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}\r\n',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\r\n',
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":'
    b'{"path":"C:\\\\Program Files\\\\a b"}}}\r\n',
)
ANSWERED: Final = (True, False, True)


class System:
    """Runs Python: of Windows, or of this system."""

    def __init__(self, windows: Windows | None) -> None:
        self._windows = windows
        self.python: str | Path = windows.python if windows else sys.executable

    def start(self, *command: str | Path) -> subprocess.Popen[bytes]:
        if self._windows:
            return self._windows.start(self.python, *command)
        pipe = subprocess.PIPE
        return subprocess.Popen([self.python, *command], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)

    def mcpproxy(self, *arguments: str | Path, given: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run a command to its end. Return its exit code and output, without what names the system."""
        with self.start("-m", "mcpproxy", *arguments) as process:
            out, err = process.communicate(given, timeout=PATIENCE_S)
        return process.returncode, neutral(out), neutral(err)


def neutral(output: bytes) -> bytes:
    """Return the output without the folder of a trace, CRs, and the reason of what was not judged."""
    text = re.sub(rb'"folder": "[^"]*"', b"", output)
    text = re.sub(rb'[^"\s]*(?=t\.jsonl)', b"", text.replace(b"\r\n", b"\n"))
    return re.sub(rb"t\.jsonl: incomplete: values are not checked against schemas.*\n", b"", text)


@pytest.fixture(params=["Windows", "this system"])
def made_on(request: pytest.FixtureRequest, windows: Windows) -> System:
    return System(windows if request.param == "Windows" else None)


@pytest.fixture
def systems(windows: Windows) -> tuple[System, System]:
    return System(None), System(windows)


@contextmanager
def session(system: System, trace: Path, server: Sequence[str | Path]) -> Generator[subprocess.Popen[bytes]]:
    with system.start("-m", "mcpproxy", "--trace", trace, "--", system.python, *server) as host:
        try:
            yield host
        except OSError as error:  # it ended too early: its stderr says why
            host.kill()
            error.add_note(pipe(host.stderr).read().decode("utf-8", "replace"))
            raise
        finally:
            host.kill()


def test_a_recording_is_the_same_on_every_system(
    made_on: System, systems: tuple[System, System], tmp_path: Path
) -> None:
    trace = tmp_path / "folder" / "t.jsonl"
    trace.parent.mkdir()
    with session(made_on, trace, [SERVER]) as host:
        answers: list[bytes] = []
        for call, is_answered in zip(CALLS, ANSWERED, strict=True):
            pipe(host.stdin).write(call)
            if is_answered:
                answers.append(pipe(host.stdout).readline())
        pipe(host.stdin).close()
        assert host.wait() == 0
    await_recorded(trace)
    assert frames(trace) == {"client": b"".join(CALLS), "server": b"".join(answers)}
    here, there = systems
    for command in (("check", trace), ("show", "--json", trace), ("list", "--json", trace.parent)):
        assert here.mcpproxy(*command) == there.mcpproxy(*command)
    for system in systems:
        with system.start("-m", "mcpproxy", "replay", "server", trace) as process:
            replayed, _ = process.communicate(b"".join(CALLS), timeout=PATIENCE_S)
        assert replayed == b"".join(answers), "with every CR and LF"


def test_a_killed_session_is_completed_on_the_other_system(
    made_on: System, systems: tuple[System, System], windows: Windows, tmp_path: Path
) -> None:
    trace, left = tmp_path / "t.jsonl", tmp_path / "left" / "t.jsonl"
    line = CALLS[0]
    with session(made_on, trace, [ECHO]) as host:
        pipe(host.stdin).write(line)
        assert pipe(host.stdout).readline() == line
        await_begun(trace)
        # What a kill of all processes would leave now.
        left.parent.mkdir()
        shutil.copyfile(trace, left)
        shutil.copytree(journal.folder(str(trace)), journal.folder(str(left)))
        os.truncate(left, os.path.getsize(left) // 2)
    here, there = systems
    other = here if made_on.python == windows.python else there
    code, out, err = other.mcpproxy("check", left)
    assert (code, err) == (1, b"")
    assert b"the recording was cut: mcpproxy was killed before the session ended" in out
    assert os.listdir(left.parent) == ["t.jsonl"]
    assert frames(left) == {"client": line, "server": line}
