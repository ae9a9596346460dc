"""``--otlp``: the spans of a session while it is recorded."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

from mcpproxy.cli.commands import http, run
from mcpproxy.errors import UsageError
from mcpproxy.record.relay import stderr_line
from mcpproxy.send.otel.live_process import LiveSpans
from tests.otel.decoding import exported, values
from tests.otel.receiver import receiving
from tests.relay.hosts import until_recorded
from tests.view.situations import SITUATIONS, write

SERVER = (
    "import sys, json\n"
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}), flush=True)\n"
)


@contextmanager
def session(trace: Path, *options: str) -> Generator["subprocess.Popen[str]"]:
    """Run a wrapped server with these options."""
    command = [sys.executable, "-m", "mcpproxy", *options, "--trace", str(trace), "--"]
    pipe = subprocess.PIPE
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with subprocess.Popen(
        [*command, sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def asks(process: "subprocess.Popen[str]", id: int, method: str) -> None:
    """Send a request, and wait for its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f'{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}\n')
    process.stdin.flush()
    assert process.stdout.readline().startswith('{"jsonrpc"')


def ends(process: "subprocess.Popen[str]") -> str:
    """End the session, and return the rest of stderr."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    assert process.stdout.read() == ""  # nothing but the protocol
    said = process.stderr.read()
    assert process.wait() == 0
    return said


def says(stderr: IO[str], words: str) -> str:
    """Wait for a line with these words."""
    return next(line for line in stderr if words in line)


def test_live_spans_are_the_same_as_those_of_the_export(tmp_path: Path) -> None:
    trace = tmp_path / "s.jsonl"
    with receiving() as receiver, session(trace, "--otlp", receiver.url) as process:
        asks(process, 1, "ping")
        receiver.await_span("ping")
        asks(process, 2, "tools/list")
        ends(process)
        receiver.await_span("mcp.session")
    until_recorded(trace)
    offline = exported(str(trace), tmp_path / "s.otlp")
    assert sorted(span.encoded for span in receiver.spans) == sorted(span.encoded for span in offline)


def test_metrics_and_log_records_are_sent_too(tmp_path: Path) -> None:
    with receiving() as receiver, session(tmp_path / "s.jsonl", "--otlp", receiver.url) as process:
        asks(process, 1, "tools/list")  # too early: there was no handshake
        assert process.stderr is not None
        assert says(process.stderr, "PROTO-005")
        ends(process)
        receiver.await_signals()
        asked = receiver.await_span("tools/list")
    (of_resource,) = receiver.metrics
    assert values(of_resource.resource.attributes)["service.name"] == os.path.basename(sys.executable)
    (of_scope,) = of_resource.scope_metrics
    durations = {metric.name: metric.histogram.data_points for metric in of_scope.metrics}
    assert list(durations) == ["mcp.client.operation.duration", "mcp.client.session.duration"]
    assert [point.count for points in durations.values() for point in points] == [1, 1]
    (record,) = receiver.logs[0].scope_logs[0].log_records
    assert values(record.attributes)["mcpproxy.rule"] == "PROTO-005"
    assert record.trace_id.hex() == asked.trace_id


@pytest.mark.parametrize("wanted", [("metrics", "logs"), ("metrics",), ("logs",), ()])
def test_other_signals_can_be_turned_off(tmp_path: Path, wanted: tuple[str, ...]) -> None:
    """The sender, started for a recording that has ended."""
    trace = write(tmp_path / "s.jsonl", SITUATIONS["finding"])
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environ |= {f"OTEL_{name.upper()}_EXPORTER": "none" for name in ("metrics", "logs") if name not in wanted}
    with receiving() as receiver:
        command = [sys.executable, "-m", "mcpproxy.send.otel.live", trace, receiver.url]
        subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert {path for path, _ in receiver.requests} == {f"/v1/{name}" for name in ("traces", *wanted)}


def test_a_collector_that_comes_late_gets_everything(tmp_path: Path) -> None:
    with receiving() as first:
        port = int(first.url.rpartition(":")[2])
    with session(tmp_path / "s.jsonl", "--otlp", f"http://127.0.0.1:{port}") as process:
        assert process.stderr is not None
        for id in range(1, 20):
            asks(process, id, "ping")
        assert "not reached (ConnectionError)" in says(process.stderr, "spans wait: ")
        with receiving(port) as receiver:
            receiver.await_span("ping")
            assert says(process.stderr, "spans are sent again")
            ends(process)
            receiver.await_span("mcp.session")
    assert len(receiver.spans) == 20


def test_sessions_do_not_wait_for_a_collector_that_never_answers(tmp_path: Path) -> None:
    with receiving() as receiver, ExitStack() as stack:
        receiver.may_answer.clear()
        sessions = [
            stack.enter_context(session(tmp_path / f"{number}.jsonl", "--otlp", receiver.url))
            for number in range(20)
        ]
        for process in sessions:
            asks(process, 1, "ping")
        receiver.await_requests(20)  # the exporter of every session waits now
        # On a busy machine some recorders are not done in time. If they waited here, none would be.
        told = [said for process in sessions if "the recorder is not done" not in (said := ends(process))]
        assert told
        for said in told:
            assert re.search(
                r"0 spans sent, \d+ or more wait; they are tried for 5 s; to send them again: ", said
            )
        assert receiver.spans == []


class Sender:
    """The end of a recording as the user sees it, with a script in the place of the process that sends."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder: Final = folder
        self._monkeypatch: Final = monkeypatch

    def says_at_the_end(self, script: str, *, ends_with: int | None = None) -> str:
        """Return what is said after what the script says. It goes on, unless it ``ends_with`` a code."""
        program, gate = self._folder / "sender", self._folder / "gate"
        last = f"exit {ends_with}" if ends_with is not None else f"exec cat {gate}"
        program.write_text(f"#!/bin/sh\n{script}\necho mcpproxy: ready\n{last}\n")
        program.chmod(0o700)
        os.mkfifo(gate)
        stderr, write_end = os.pipe()
        self._monkeypatch.setattr(sys, "executable", str(program))
        self._monkeypatch.setattr(stderr_line, "_STDERR", write_end)
        spans = LiveSpans("s.jsonl", "http://127.0.0.1:4318", content=False, quiet=False)
        with open(stderr) as lines:
            assert lines.readline() == "mcpproxy: ready\n"
            if ends_with is not None:
                os.waitid(os.P_PID, spans.process.pid, os.WEXITED | os.WNOWAIT)
            with self._monkeypatch.context() as patch:
                patch.delattr(threading.Thread, "join")  # nothing may be waited for
                spans.finish()
            if ends_with is None:
                gate.write_text("")
            spans.process.wait()
            os.close(write_end)
            return lines.read()


@pytest.fixture
def sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sender:
    return Sender(tmp_path, monkeypatch)


AGAIN: Final = "; to send them again: mcpproxy export otlp s.jsonl http://127.0.0.1:4318\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", f"no spans are sent yet; they are tried for 5 s{AGAIN}"),
        ("echo 3 2", f"3 spans sent, 2 or more wait; they are tried for 5 s{AGAIN}"),
        ("echo 3 2; echo 5 0", "5 spans sent, the last follow\n"),
    ],
)
def test_the_end_of_a_recording_says_how_many_spans_were_sent_and_does_not_wait(
    sender: Sender, script: str, said: str
) -> None:
    assert sender.says_at_the_end(script) == f"mcpproxy: {said}"


def test_a_sender_that_has_ended_was_refused_or_has_failed(sender: Sender, tmp_path: Path) -> None:
    assert sender.says_at_the_end("echo 3 2", ends_with=0) == ""
    (tmp_path / "gate").unlink()
    said = sender.says_at_the_end("echo 3 2", ends_with=1)
    assert said == f"mcpproxy: no more spans are sent, their process has failed (1){AGAIN}"


def test_a_session_that_is_killed_ends_the_sending(tmp_path: Path) -> None:
    with receiving() as receiver, session(tmp_path / "s.jsonl", "--otlp", receiver.url) as process:
        asks(process, 1, "ping")
        process.kill()
        receiver.await_span("mcp.session")


def test_content_is_sent_if_it_is_asked_for(tmp_path: Path) -> None:
    options = ("--otlp", "--otlp-content", "--quiet")
    parsed = run.parse(["run", *options, "--", "cat"])
    assert (parsed.collector, parsed.sends_content) == ("", True)
    with (
        receiving() as receiver,
        session(tmp_path / "s.jsonl", f"--otlp={receiver.url}", "--otlp-content") as process,
    ):
        assert process.stdin is not None
        process.stdin.write(
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1}}}\n'
        )
        process.stdin.flush()
        sent = receiver.await_span("tools/call a").said
    assert (sent["gen_ai.tool.call.arguments"], sent["gen_ai.tool.call.result"]) == ('{"b":1}', "{}")


@pytest.mark.parametrize(
    ("given", "collector"),
    [
        ([], None),
        (["--otlp"], ""),
        (["--otlp", "http://127.0.0.1:4318"], "http://127.0.0.1:4318"),
        (["--otlp=http://127.0.0.1:4318"], "http://127.0.0.1:4318"),
    ],
)
def test_the_url_may_be_left_out(given: list[str], collector: str | None) -> None:
    assert run.parse(["run", *given, "--", "cat"]).collector == collector
    parsed = http.parse(["http://127.0.0.1:3000/mcp", *given])
    assert parsed.recording.collector == collector


@pytest.mark.parametrize("given", [["run", "--otlp", "cat"], ["run", "--otlp", "nowhere", "--", "cat"]])
def test_what_is_no_url_is_not_taken_for_one(given: list[str]) -> None:
    with pytest.raises(UsageError, match="is not an option"):
        run.parse(given)
