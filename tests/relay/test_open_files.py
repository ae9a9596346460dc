"""At the limit of open files: one line says so, and no server is left running."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.relay.hosts import DEADLINE_S, HERE

LIMITS = range(5, 18)
"""With less, Python itself does not start. With more, the recorder starts, too."""

LINE = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
SERVER = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.write(1, os.read(0, 99))"


def limited(limit: int, folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """mcpproxy with its ``arguments`` and so few files that it may open."""
    return subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent), "XDG_STATE_HOME": str(folder)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )


@pytest.mark.parametrize("limit", LIMITS)
def test_a_wrapped_server_works_or_does_not_run(limit: int, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with limited(limit, tmp_path, "--", "/bin/sh", "-c", f"echo $$ > {mark}; exec cat") as process:
        answer, said = process.communicate(LINE, DEADLINE_S)
    assert b"Traceback" not in said
    assert (process.returncode, answer) in ((0, LINE), (2, b""), (126, b""))
    if process.returncode:
        assert b"oo many " in said
    if mark.exists() and (pid := mark.read_text().strip()):
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("limit", [*LIMITS][:8])
@pytest.mark.parametrize("command", ["http http://127.0.0.1:9/mcp", "bridge --stdio -- cat"])
def test_a_proxy_listens_or_does_not_run(limit: int, command: str, tmp_path: Path) -> None:
    name, *rest = command.split()
    with limited(limit, tmp_path, name, "--listen", "127.0.0.1:0", *rest) as process:
        assert process.stderr is not None
        said = b""
        while (line := process.stderr.readline()) and b"listening on" not in line:
            said += line
        process.terminate()
        said += process.communicate(timeout=DEADLINE_S)[1]
    assert b"Traceback" not in said
    # What listens may not have got so far that it handles the signal.
    assert process.returncode in ((0, 2, -signal.SIGTERM) if line else (2,)), said
    assert process.returncode != 2 or b"oo many " in said
