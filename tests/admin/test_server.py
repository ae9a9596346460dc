"""The admin port over a real socket, and what it must never do: disturb the recording."""

import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mcpproxy.admin.metrics import Metrics
from mcpproxy.admin.server import AdminPort
from mcpproxy.cli import http
from mcpproxy.cli.usage import UsageError
from mcpproxy.recorder.follow import JournalReader
from mcpproxy.recorder.live import Live
from mcpproxy.recorder.pipeline import Recording
from mcpproxy.relay import journal
from mcpproxy.session.frame import Event
from mcpproxy.trace.reader import read_trace
from mcpproxy.trace.writer import TraceWriter
from tests.recorder.http_journals import CONVERSATION
from tests.recorder.journals import Accuser, JournalFolder

DEADLINE_S = 30


def ask(port: AdminPort, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{port.address}{path}", timeout=DEADLINE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_what_the_port_answers() -> None:
    metrics, said = Metrics(), list[str]()
    port = AdminPort("127.0.0.1", 0, metrics, said.append)
    assert ask(port, "/healthz") == (200, "ok\n")
    assert ask(port, "/readyz") == (200, "ok\n")
    metrics.passed(1, "the trace cannot be written: No space left on device")
    assert ask(port, "/readyz") == (503, "the trace cannot be written: No space left on device\n")
    assert ask(port, "/healthz") == (200, "ok\n")
    status, text = ask(port, "/metrics")
    assert status == 200
    assert "# TYPE mcpproxy_frames_total counter\n" in text
    assert "mcpproxy_recorder_stuck 1.0\n" in text
    assert ask(port, "/elsewhere")[0] == 404
    assert said == []


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        AdminPort("127.0.0.1", taken.getsockname()[1], Metrics(), print)


def recorded(tmp_path: Path, watching: Metrics, live: Live) -> Path:
    trace = tmp_path / "h.jsonl"
    JournalFolder(trace, CONVERSATION)
    writer = TraceWriter(str(trace))
    reader = JournalReader(journal.folder(str(trace)))
    session = Recording(reader, writer, Accuser, live, watching=watching)
    session.drain()
    assert session.finish()
    writer.close()
    reader.close()
    return trace


def test_a_recording_is_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    trace = recorded(tmp_path, metrics, Live(None))
    port = AdminPort("127.0.0.1", 0, metrics, print)
    tally = read_trace(str(trace))
    list(tally.events())
    assert tally.tally is not None
    text = ask(port, "/metrics")[1]
    for sender, count in tally.tally.frames.items():
        assert f'mcpproxy_frames_total{{sender="{sender}"}} {float(count)}\n' in text
    assert "mcpproxy_open_exchanges 0.0\n" in text


class Broken(Metrics):
    def saw(self, event: Event) -> None:
        raise RuntimeError("no more")


def test_metrics_that_break_stop_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    live = Live(2)
    trace = recorded(tmp_path, Broken(), live)
    live.flush()
    opened = read_trace(str(trace))
    list(opened.events())
    assert opened.complete
    said = [line for line in capfd.readouterr().err.splitlines() if "metrics" in line]
    assert said == [
        "mcpproxy: the metrics stopped, a fault of mcpproxy: RuntimeError('no more'); the recording goes on"
    ]


UPSTREAM = ("--upstream", "http://127.0.0.1:1/mcp", "--admin")


def test_a_taken_port_is_said_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"{where}: cannot listen there"):
            http.parse([*UPSTREAM, where])
