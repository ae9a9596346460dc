"""The admin port over a real socket, and what it must never do: disturb the recording."""

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.commands import http
from mcpproxy.judge.session.frame import Event
from mcpproxy.record.admin import brief_connection
from mcpproxy.record.admin.metrics import Metrics
from mcpproxy.record.admin.port import AdminPort
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.recorder.pipeline import RecordingPipeline
from mcpproxy.record.recorder.stderr_notes import StderrNotes
from mcpproxy.record.relay import journal
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.writer import TraceWriter
from tests.recorder.http_journals import CONVERSATION
from tests.recorder.journals import Accuser, JournalFolder

DEADLINE_S = 60


def opened(metrics: Metrics, bound: str = "127.0.0.1", tell: Callable[[str], None] = print) -> AdminPort:
    return AdminPort(bound, 0, metrics, tell)


def ask(port: AdminPort, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{port.address}{path}", timeout=DEADLINE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_what_the_port_answers() -> None:
    metrics, said = Metrics(), list[str]()
    with opened(metrics, tell=said.append) as port:
        assert ask(port, "/healthz") == (200, "ok\n")
        assert ask(port, "/readyz") == (200, "ok\n")
        metrics.set_lag(1, "the trace cannot be written: No space left on device")
        assert ask(port, "/readyz") == (503, "the trace cannot be written: No space left on device\n")
        assert ask(port, "/healthz") == (200, "ok\n")
        status, text = ask(port, "/metrics")
        assert status == 200
        assert "# TYPE mcpproxy_frames_total counter\n" in text
        assert "mcpproxy_recorder_stuck 1.0\n" in text
        assert "_created" not in text
        assert ask(port, "/elsewhere")[0] == 404
    assert said == []


def say(port: AdminPort, raw: bytes) -> bytes:
    """All that the port answers to ``raw``."""
    host, _, number = port.address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(number)), timeout=DEADLINE_S) as connection:
        connection.sendall(raw)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def asking_for(host: bytes) -> bytes:
    return b"GET /metrics HTTP/1.1\r\nHost: %b\r\n\r\n" % host


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("127.0.0.1", b"127.0.0.1:9464", 200),
        ("127.0.0.1", b"LocalHost", 200),
        ("127.0.0.1", b"[::1]:9464", 200),
        ("localhost", b"localhost:9464", 200),
        ("127.0.0.1", b"evil.example:9464", 403),
        ("127.0.0.1", b"localhost.evil.example", 403),
        ("127.0.0.1", b"", 403),
        ("127.0.0.1", b"0.0.0.0", 403),
        ("0.0.0.0", b"mcpproxy.monitoring:9464", 200),
    ],
)
def test_on_loopback_the_port_answers_to_names_of_this_machine(bound: str, host: bytes, status: int) -> None:
    with opened(Metrics(), bound) as port:
        answer = say(port, asking_for(host))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"mcpproxy_frames" in answer) == (status == 200)


def test_idle_connections_keep_nobody_from_asking() -> None:
    with opened(Metrics()) as port:
        assert ask(port, "/healthz") == (200, "ok\n")
        number = int(port.address.rpartition(":")[2])
        with ExitStack() as stack:
            idle = [stack.enter_context(socket.create_connection(("127.0.0.1", number))) for _ in range(300)]
            for half in idle[::2]:
                half.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
            for _ in range(10):
                assert ask(port, "/healthz") == (200, "ok\n")
            gone = [one for one in idle[: -brief_connection.MAX_CONNECTIONS] if hears_its_end(one)]
            assert len(gone) == 300 - brief_connection.MAX_CONNECTIONS


def test_a_request_that_takes_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_connection.BriefConnection, "life_s", 0.05)
    with opened(Metrics()) as port:
        for begun in (b"", b"GET /healthz HTTP/1.1\r\n", b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"):
            number = int(port.address.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", number), timeout=DEADLINE_S) as connection:
                connection.sendall(begun)
                assert hears_its_end(connection)


def hears_its_end(connection: socket.socket) -> bool:
    connection.settimeout(DEADLINE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        AdminPort("127.0.0.1", taken.getsockname()[1], Metrics(), print)


def recorded(tmp_path: Path, watching: Metrics, live: StderrNotes) -> Path:
    trace = tmp_path / "h.jsonl"
    JournalFolder(trace, CONVERSATION)
    writer = TraceWriter(str(trace))
    reader = JournalReader(journal.folder(str(trace)))
    session = RecordingPipeline(reader, writer, Accuser, live, watcher=watching)
    session.drain()
    assert session.finish()
    writer.close()
    reader.close()
    return trace


def test_a_recording_is_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    trace = recorded(tmp_path, metrics, StderrNotes(None))
    tally = read_trace(str(trace))
    list(tally.events())
    assert tally.tally is not None
    with opened(metrics) as port:
        text = ask(port, "/metrics")[1]
    for sender, count in tally.tally.frames.items():
        assert f'mcpproxy_frames_total{{sender="{sender}"}} {float(count)}\n' in text
    assert "mcpproxy_open_exchanges 0.0\n" in text


class Broken(Metrics):
    def count_event(self, event: Event) -> None:
        raise RuntimeError("no more")


def test_metrics_that_break_stop_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    live = StderrNotes(2)
    trace = recorded(tmp_path, Broken(), live)
    live.flush()
    opened = read_trace(str(trace))
    list(opened.events())
    assert opened.complete
    said = [line for line in capfd.readouterr().err.splitlines() if "metrics" in line]
    assert said == [
        "mcpproxy: the metrics stopped, a fault of mcpproxy: RuntimeError('no more'); the recording goes on"
    ]


UPSTREAM = ("http://127.0.0.1:1/mcp", "--admin")


def test_a_taken_port_is_said_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"{where}: cannot listen there"):
            http.parse([*UPSTREAM, where])
