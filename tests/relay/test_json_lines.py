"""``--live json``: every line that mcpproxy writes to stderr is an object, whatever it is about."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.record.relay.exit_status import LATE_RECORDER
from mcpproxy.record.relay.http.listener import listen
from mcpproxy.record.relay.stderr_line import StderrEvent, stderr_line
from mcpproxy.record.relay.stdio.server_life import ServerLife

PROXY = (sys.executable, "-m", "mcpproxy")


def objects(stderr: str) -> list[dict[str, Any]]:
    """The lines, each of which says when, how bad and what."""
    read = [json.loads(line) for line in stderr.splitlines()]
    for each in read:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each["ts"])
        assert each["level"] in ("info", "warning", "error")
        assert each["message"]
    return read


def test_a_session_on_stdio(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    server = "import sys; print('this is no message', flush=True); sys.stdin.read()"
    command = [*PROXY, "--live", "json", "--trace", str(trace), "--", sys.executable, "-c", server]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stderr
        lines = [process.stderr.readline(), process.stderr.readline()]  # the recorder has seen the message
        process.stdin.close()
        lines += process.stderr
    begun, found, summary = objects("".join(lines))
    assert (begun["event"], begun["trace"]) == ("recording", str(trace))
    assert (found["event"], found["level"], found["rule"]) == ("finding", found["severity"], "STDIO-002")
    assert (summary["event"], summary["trace"]) == ("summary", str(trace))
    if "the recorder is not done" in summary["message"]:
        return  # a busy machine: the relay does not wait for the numbers
    assert summary["frames"] == {"client": 0, "server": 1}
    assert summary["findings"]["error"] == 1
    assert summary["calls"] == {"total": 0, "failed": 0, "unanswered": 0, "cancelled": 0}


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM that could be handled")
def test_a_proxy(tmp_path: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--trace-dir", str(tmp_path)]
    command = [*PROXY, "http", "http://127.0.0.1:1/mcp", "--live", "json", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        lines = [process.stderr.readline()]
        while "/metrics" not in lines[-1]:
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        lines += process.stderr
    told = {(each["event"], each.get("url", "")[-4:]) for each in objects("".join(lines))}
    assert {("listening", "/mcp"), ("listening", "rics"), ("recording", ""), ("summary", "")} <= told


@pytest.mark.skipif(sys.platform == "win32", reason="there is no bridge")
def test_a_bridge(tmp_path: Path) -> None:
    command = [*PROXY, "bridge", "http://127.0.0.1:1/mcp", "--live", "json", "--trace-dir", str(tmp_path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    begun = [each["message"] for each in objects(done.stderr) if each["event"] == "recording"]
    assert sorted(each.partition(": ")[0] for each in begun) == ["HTTP leg", "stdio leg"]


def test_an_error_before_the_session() -> None:
    with listen("127.0.0.1", 0) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*PROXY, "http", "http://127.0.0.1:1/mcp", "--live=json", "--listen", where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (told,) = objects(done.stderr)
    assert (done.returncode, told["event"], told["level"]) == (2, "error", "error")
    assert "the port is taken" in told["message"]
    wrong = subprocess.run(
        [*PROXY, "--live", "json", "--nothing", "--", "x"], capture_output=True, text=True, timeout=60
    )
    assert "unknown option --nothing" in objects(wrong.stderr)[0]["message"]


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    command = [*PROXY, "--live", "json", "--trace", str(tmp_path / "t.jsonl"), "--", "no-such-server"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    first = objects(done.stderr)[0]
    assert (done.returncode, first["event"], first["level"]) == (127, "error", "error")
    assert first["message"] == "no-such-server: no such command; check its spelling and PATH"


class QuietRelay(ServerLife):
    """A relay whose recorder is never done."""

    def __init__(self) -> None:
        super().__init__(grace_s=0, quiet=True)
        self.said: list[str] = []

    def finish(self, code: int | None, reason: str = "") -> None:
        self.say(LATE_RECORDER)

    def say(self, text: str) -> None:
        if not self.quiet:
            self.said.append(text)


def test_a_quiet_relay_says_that_the_server_does_not_start_and_nothing_else() -> None:
    relay = QuietRelay()
    fault = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    assert relay.run(["no-such-server"], fault, lambda: None, "hello") == 127
    assert [line.partition(";")[0] for line in relay.said] == ["no-such-server: no such command"]


def test_whatever_a_process_beside_the_recording_says_is_an_object() -> None:
    code = (
        "from mcpproxy.record.relay.stderr_line import use_json, write_own_line; use_json(); "
        "[write_own_line(line) for line in (b'mcpproxy: deleted\\n', b'MemoryError\\n', b'{\"a\":1}\\n')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert [each["message"] for each in objects(done.stderr)] == ["deleted", "MemoryError", '{"a":1}']


def test_text_stays_text() -> None:
    assert stderr_line(StderrEvent("hello\x1b", "x")) == b"mcpproxy: hello\\u001b\n"


def test_levels() -> None:
    for text, level in {
        "hello": "info",
        "warning: --allow-origin *": "warning",
        "WARNING: --insecure": "warning",
        "the recorder stopped, a fault of mcpproxy: x": "error",
    }.items():
        assert json.loads(stderr_line(text, as_json=True))["level"] == level
