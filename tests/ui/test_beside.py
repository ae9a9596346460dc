"""``--ui``: the page of a session that is recorded, started with it."""

import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from mcpproxy.cli.main import main
from mcpproxy.show.ui import beside

ADDRESS = re.compile(
    r"mcpproxy: page: (http://127\.0\.0\.1:\d+/\?token=\S+) \(it ends with the session; later: (.*)\)"
)

SERVER = (
    "import sys, json\n"
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}), flush=True)\n"
)
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


@contextmanager
def session(trace: Path) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """Start a wrapped server with ``--ui``; yield it and the address of the page."""
    command = [
        sys.executable,
        "-m",
        "mcpproxy",
        "--ui",
        "--trace",
        str(trace),
        "--",
        sys.executable,
        "-c",
        SERVER,
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        try:
            yield process, address(process.stderr, trace)
        finally:
            process.kill()


def address(stderr: IO[str], trace: Path) -> str:
    found = next(match for line in stderr if (match := ADDRESS.fullmatch(line.rstrip("\n"))))
    assert found[2] == f"mcpproxy ui {trace}"
    return found[1]


def asks(client: httpx.Client, url: str) -> Any:
    home, _, token = url.partition("/?token=")
    answer = client.get(f"{home}/api/recordings", headers={"Authorization": f"Bearer {token}"})
    return answer.raise_for_status().json()


def ends(live: httpx.Response) -> None:
    """Wait until the page has ended: then its stream of events does."""
    with suppress(httpx.RemoteProtocolError):
        for _ in live.iter_raw():
            pass


def is_gone(url: str) -> None:
    """Wait until nothing listens there any more: the stream of events ends a little earlier."""
    for _ in range(3000):
        try:
            httpx.get(url.partition("/?token=")[0], timeout=60)
        except httpx.TransportError:
            return
        time.sleep(0.01)
    pytest.fail("the page has not ended")


def test_the_page_shows_the_session_and_ends_with_it(tmp_path: Path) -> None:
    trace = tmp_path / "session.jsonl"
    with session(trace) as (process, url), httpx.Client(timeout=60) as client:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(PING)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        (one,) = asks(client, url)["recordings"]
        assert one["path"] == str(trace)
        assert one["running"] or one["state"] == "starting"
        home, _, token = url.partition("/?token=")
        with client.stream("GET", f"{home}/api/live", headers={"Authorization": f"Bearer {token}"}) as live:
            process.stdin.close()
            assert process.stdout.read() == ""  # nothing but the protocol
            assert process.wait() == 0
            ends(live)
    is_gone(url)


def test_the_page_ends_when_the_session_is_killed(tmp_path: Path) -> None:
    with session(tmp_path / "session.jsonl") as (process, url), httpx.Client(timeout=60) as client:
        home, _, token = url.partition("/?token=")
        with client.stream("GET", f"{home}/api/live", headers={"Authorization": f"Bearer {token}"}) as live:
            process.kill()
            ends(live)


def test_a_host_does_not_wait_for_the_page(tmp_path: Path) -> None:
    with session(tmp_path / "session.jsonl") as (process, url):
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        assert "Traceback" not in process.stderr.read()
        assert url


def test_a_quiet_session_has_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--ui", "--quiet", "--", "true"]) == 2
    assert "--ui writes an address to stderr, and --quiet forbids it" in capsys.readouterr().err


def test_over_http_there_is_a_page_too(tmp_path: Path) -> None:
    trace = tmp_path / "session.jsonl"
    command = [sys.executable, "-m", "mcpproxy", "http", "http://127.0.0.1:9/mcp", "--listen", "127.0.0.1:0"]
    command += ["--ui", "--trace", str(trace)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = address(process.stderr, trace)
        with httpx.Client(timeout=60) as client:
            assert asks(client, url)["recordings"][0]["transport"] in ("http", "")
        process.terminate()
        assert process.wait() == 0


def test_a_session_goes_on_if_no_page_can_be_started(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert beside.start(str(tmp_path / "t.jsonl")) is None
    assert capfd.readouterr().err.startswith("mcpproxy: there is no page: ")
