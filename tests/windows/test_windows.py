"""What mcpproxy promises, kept on Windows: each test is one line of that promise, played under Wine."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Final

import pytest

from mcpproxy.judge.session.frame import Frame, Sender
from mcpproxy.record.relay import journal
from mcpproxy.record.trace import chain
from mcpproxy.record.trace.reader import read_trace
from tests.relay.test_fidelity import STREAMS
from tests.windows.arguments import HOSTILE, without_percent
from tests.windows.wine import Windows, path

HERE: Final = Path(__file__).parent
ECHO: Final = HERE / "echo.py"
RECORDING: Final = HERE.parents[1] / "recordings" / "everything-http-2025-06-18.jsonl"
PING: Final = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
BARE: Final = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
PATIENCE_S: Final = 240
"""A recorder of Windows takes seconds to start under Wine, and more where other tests run."""

KINDS: Final = {about: sent for about, sent in STREAMS.items() if "32 MiB" not in about}


def await_that(holds: Callable[[], bool]) -> None:
    """Wait until a condition outside of this process holds, which nothing announces."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def await_begun(trace: Path) -> None:
    """Wait until a trace has its header, which the recorder writes a moment after it makes the file."""
    await_that(lambda: trace.exists() and b"\n" in trace.read_bytes())


def await_recorded(trace: Path) -> None:
    await_that(lambda: trace.exists() and not os.path.exists(journal.folder(str(trace))))


def frames(trace: Path) -> dict[Sender, bytes]:
    """Return the bytes of each side in a recording."""
    parts: dict[Sender, list[bytes]] = {"client": [], "server": []}
    for event in read_trace(str(trace), files=chain.files_of(str(trace))).events():
        if isinstance(event, Frame):
            parts[event.sender].append(event.raw + (b"\n" if event.terminated else b""))
    return {sender: b"".join(raw) for sender, raw in parts.items()}


@contextmanager
def wrapped(windows: Windows, trace: Path, *server: str | Path) -> Generator[subprocess.Popen[bytes]]:
    with windows.start(windows.python, "-m", "mcpproxy", "--trace", trace, "--", *server) as host:
        try:
            yield host
        finally:
            host.kill()


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def processes(*words: str) -> list[int]:
    """Return the ids of the processes whose command line contains all these words."""
    found: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "python.exe" in line and all(word in line for word in words):
            found.append(int(name))
    return found


def test_the_demo_finds_its_three_faults(windows: Windows) -> None:
    ran = windows.mcpproxy("demo", timeout_s=PATIENCE_S)
    out = ran.stdout.decode(errors="replace")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert re.findall(r"error ([A-Z]+-\d+)", out) == ["SCHEMA-004", "STDIO-002", "PROTO-007"]
    assert "the server exited with 0" in out


def test_every_kind_of_bytes_passes_and_is_recorded(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with wrapped(windows, trace, windows.python, ECHO) as host:
        for about, sent in KINDS.items():
            writer = threading.Thread(target=pipe(host.stdin).write, args=(sent,))
            writer.start()
            assert read_exactly(pipe(host.stdout), len(sent)) == sent, about
            writer.join()
        pipe(host.stdin).close()
        assert pipe(host.stdout).read() == b""
        assert host.wait() == 0
    await_recorded(trace)
    everything = b"".join(KINDS.values())
    assert frames(trace) == {"client": everything, "server": everything}


ENDS: Final[dict[str, tuple[tuple[str | Path, ...], int, str]]] = {
    "its own code": ((ECHO, "exit", "3"), 3, "exited"),
    "a large code": ((ECHO, "exit", "255"), 255, "exited"),
    "a crash": ((ECHO, "crash"), 0xC0000005, "exited"),
    "the end of stdin": ((ECHO,), 0, "exited"),
}


@pytest.mark.parametrize(("server", "code", "ending"), ENDS.values(), ids=ENDS)
def test_the_end_of_the_server_is_ours(
    server: tuple[str | Path, ...], code: int, ending: str, windows: Windows, tmp_path: Path
) -> None:
    trace = tmp_path / "t.jsonl"
    ran = windows.mcpproxy("--trace", trace, "--", windows.python, *server, timeout_s=PATIENCE_S)
    # Of the code of a program, this system has eight bits.
    assert (ran.returncode, ran.stdout) == (code & 0xFF, b""), ran.stderr
    await_recorded(trace)
    closing = json.loads(trace.read_bytes().splitlines()[-1])
    assert (closing["ending"], closing["exit_code"]) == (ending, code)


CTRL_C: Final = {
    # What the server does, its exit code, and what the host reads from it last.
    "dies": (0xC000013A, "KeyboardInterrupt"),
    "goes": (7, "interrupted"),
    "ignores": (0, "more"),
}


@pytest.mark.parametrize(("server", "code", "last"), [(name, *end) for name, end in CTRL_C.items()])
def test_ctrl_c_does_to_the_server_what_it_does_without_us(
    server: str, code: int, last: str, windows: Windows, tmp_path: Path
) -> None:
    trace = tmp_path / "t.jsonl"
    unwrapped = after_ctrl_c(windows, tmp_path, windows.python, ECHO, server)
    assert (unwrapped[0], unwrapped[1][-1]) == (code, last)
    wrapped = (windows.python, "-m", "mcpproxy", "--trace", trace, "--", windows.python, ECHO, server)
    assert after_ctrl_c(windows, tmp_path, *wrapped) == unwrapped
    await_recorded(trace)
    lines = [json.loads(line) for line in trace.read_bytes().splitlines()]
    assert [line["signal"] for line in lines if line["type"] == "signal"] == ["SIGINT"]
    assert (lines[-1]["ending"], lines[-1]["exit_code"]) == ("exited", code)


def test_ctrl_c_stops_the_http_proxy(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    url = ("http://127.0.0.1:9/mcp", "--listen", "127.0.0.1:0")
    stopped = after_ctrl_c(
        windows, tmp_path, windows.python, "-m", "mcpproxy", "http", *url, "--trace", trace
    )
    assert stopped == (0, [])
    await_recorded(trace)
    lines = [json.loads(line) for line in trace.read_bytes().splitlines()]
    assert (lines[-2]["why"], lines[-1]["ending"]) == ("mcpproxy received SIGINT", "exited")


def after_ctrl_c(windows: Windows, folder: Path, *command: str | Path) -> tuple[int, list[str]]:
    """Return the exit code of a program that got Ctrl-C, and what it wrote without mcpproxy's own lines."""
    result = folder / "result.json"
    windows.run_in_console(windows.python, HERE / "console.py", result, *command, timeout_s=PATIENCE_S)
    ended = json.loads(result.read_text(encoding="utf-8"))
    return ended["code"], [line for line in ended["lines"] if not line.startswith("mcpproxy: ")]


def test_ctrl_break_leaves_the_server_to_the_console(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    command = ("--trace", trace, "--", windows.python, ECHO)
    with windows.start(windows.python, HERE / "ctrl_break.py", *command) as host:
        await_that(lambda: trace.exists() and b"SIGBREAK" in trace.read_bytes())
        pipe(host.stdin).write(PING % 1)
        assert pipe(host.stdout).readline() == PING % 1
        pipe(host.stdin).close()
        assert host.wait() == 0
    await_recorded(trace)
    assert frames(trace) == {"client": PING % 1, "server": PING % 1}


def test_a_command_that_does_not_exist(windows: Windows, tmp_path: Path) -> None:
    ran = windows.mcpproxy("--trace", tmp_path / "t.jsonl", "--", "no-such-server", timeout_s=PATIENCE_S)
    assert ran.returncode == 127
    assert b"mcpproxy: no-such-server: no such command; check its spelling and PATH" in ran.stderr


def test_ten_thousand_calls_are_all_recorded(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    sent = b"".join(PING % number for number in range(10_000))
    ran = windows.mcpproxy("--trace", trace, "--", windows.python, ECHO, given=sent, timeout_s=PATIENCE_S)
    assert (ran.returncode, ran.stdout) == (0, sent)
    await_recorded(trace)
    assert frames(trace) == {"client": sent, "server": sent}


FOLDERS: Final = {
    "spaces and Unicode": "Größe 東京 🙂 a b",
    "more than 260 characters": "/".join(["d" * 40] * 8),
}


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_a_recording_may_be_in_any_folder(folder: str, windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / folder / "t 1.jsonl"
    trace.parent.mkdir(parents=True)
    sent = PING % 1
    ran = windows.mcpproxy("--trace", trace, "--", windows.python, ECHO, given=sent, timeout_s=PATIENCE_S)
    assert (ran.returncode, ran.stdout) == (0, sent)
    windows.mcpproxy("check", trace, timeout_s=PATIENCE_S)
    await_recorded(trace)
    assert frames(trace) == {"client": sent, "server": sent}


@pytest.mark.parametrize(("page", "arrow"), [("cp437", b"->"), ("cp932", b"\x81\xa8"), ("ascii", b"->")])
def test_what_a_console_cannot_show_is_written_otherwise(page: str, arrow: bytes, windows: Windows) -> None:
    recording = HERE.parents[1] / "recordings" / "everything-2025-06-18.jsonl"
    command = (windows.python, "-m", "mcpproxy", "show", recording)
    ran = windows.run(*command, env={"PYTHONIOENCODING": page}, timeout_s=PATIENCE_S)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"ping " + arrow + b" {}" in ran.stdout


@pytest.mark.parametrize("who", ["the relay", "the recorder", "both"])
def test_after_a_kill_nothing_is_lost(who: str, windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with wrapped(windows, trace, windows.python, ECHO, "stay", tmp_path) as host:
        pipe(host.stdin).write(PING % 1)
        assert pipe(host.stdout).readline() == b"staying\r\n"
        await_begun(trace)
        recorders = processes("mcpproxy.record.recorder", path(tmp_path))
        assert len(recorders) == 1
        if who != "the relay":
            os.kill(recorders[0], signal.SIGKILL)
        if who == "the recorder":
            assert any(b"the recorder has stopped" in line for line in pipe(host.stderr))
            running = windows.mcpproxy("list", tmp_path, timeout_s=PATIENCE_S)
            assert b"running" in running.stdout, "the relay still writes to the journal"
        host.kill()
    # Nothing but the relay ended the server, which never exits by itself.
    await_that(lambda: not processes(path(ECHO), "stay", path(tmp_path)))
    if who != "the relay":
        windows.mcpproxy("check", trace, timeout_s=PATIENCE_S)
    await_recorded(trace)
    assert frames(trace) == {"client": PING % 1, "server": b"staying\r\n"}
    assert json.loads(trace.read_bytes().splitlines()[-1])["ending"] == "cut"


@contextmanager
def held(windows: Windows, sharing: str, file: Path) -> Generator[None]:
    """Have a file open in another program: ``shared`` or ``alone`` (see ``hold.py``)."""
    with windows.start(windows.python, HERE / "hold.py", sharing, file) as holder:
        try:
            assert pipe(holder.stdout).readline() == b"held\r\n"
            yield
        finally:
            pipe(holder.stdin).close()


IN_USE: Final = "in use by another program, or permission denied"


def killed_session(windows: Windows, folder: Path) -> Path:
    """Return the trace of a session that was killed, relay and recorder, after a call and its answer."""
    trace = folder / "t.jsonl"
    with wrapped(windows, trace, windows.python, ECHO) as host:
        pipe(host.stdin).write(PING % 1)
        assert pipe(host.stdout).readline() == PING % 1
        await_begun(trace)
        for recorder in processes("mcpproxy.record.recorder", path(folder)):
            os.kill(recorder, signal.SIGKILL)
    return trace


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.journal/00000001", "t.jsonl.journal/lock"])
def test_a_session_ends_well_while_a_reader_has_a_file_open(
    name: str, windows: Windows, tmp_path: Path
) -> None:
    trace = tmp_path / "t.jsonl"
    with wrapped(windows, trace, windows.python, ECHO) as host:
        pipe(host.stdin).write(PING % 1)
        assert pipe(host.stdout).readline() == PING % 1
        await_begun(trace)
        with held(windows, "shared", tmp_path / name):
            pipe(host.stdin).close()
            assert host.wait() == 0
            await_that(lambda: b'"type":"close"' in trace.read_bytes())
            shown = windows.mcpproxy("show", trace, timeout_s=PATIENCE_S)
            assert (shown.returncode, shown.stderr) == (0, b"")
            assert b"the server exited with 0" in shown.stdout
            assert b"waiting" not in shown.stdout, "the recorder is done, though not all is deleted"
    await_that(
        lambda: not processes("mcpproxy.record.recorder", path(tmp_path))
    )  # it tries to delete for a while
    windows.mcpproxy("check", trace, timeout_s=PATIENCE_S)
    assert os.listdir(tmp_path) == ["t.jsonl"]
    assert frames(trace) == {"client": PING % 1, "server": PING % 1}


LOCKED: Final = {
    # What another program alone has open, and what ``check`` says, with its exit code.
    "t.jsonl": (2, f"t.jsonl: {IN_USE}; close that program, or run as the user who recorded it"),
    "t.jsonl.journal/00000001": (2, f"could not be recovered: {IN_USE.capitalize()}; the trace was judged"),
    "t.jsonl.journal/lock": (0, f"completed in a copy, nothing was written here: .*, {IN_USE}"),
}


@pytest.mark.parametrize(("name", "code", "said"), [(name, *end) for name, end in LOCKED.items()])
def test_a_killed_session_is_completed_once_no_other_program_has_its_files_open(
    name: str, code: int, said: str, windows: Windows, tmp_path: Path
) -> None:
    trace = killed_session(windows, tmp_path)
    with held(windows, "alone", tmp_path / name):
        ran = windows.mcpproxy("check", trace, timeout_s=PATIENCE_S)
        assert ran.returncode == code
        assert re.search(said, (ran.stdout + ran.stderr).decode(errors="replace"))
    windows.mcpproxy("check", trace, timeout_s=PATIENCE_S)
    assert os.listdir(tmp_path) == ["t.jsonl"]
    assert frames(trace) == {"client": PING % 1, "server": PING % 1}
    assert json.loads(trace.read_bytes().splitlines()[-1])["ending"] == "cut"


def test_a_recording_is_rotated_while_its_files_are_read(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    sent = b"".join(PING % number for number in range(1_000))
    options = ("--trace", trace, "--rotate", "64k")
    with windows.start(windows.python, "-m", "mcpproxy", *options, "--", windows.python, ECHO) as host:
        pipe(host.stdin).write(sent)
        assert read_exactly(pipe(host.stdout), len(sent)) == sent
        await_that(lambda: len(chain.files_of(str(trace))) > 1)
        with held(windows, "shared", trace), held(windows, "shared", tmp_path / "t.2.jsonl"):
            pipe(host.stdin).write(sent)
            assert read_exactly(pipe(host.stdout), len(sent)) == sent
            pipe(host.stdin).close()
            assert host.wait() == 0
            await_recorded(trace)
    assert frames(trace) == {"client": 2 * sent, "server": 2 * sent}
    assert len(chain.files_of(str(trace))) > 2


@pytest.mark.parametrize("whom", ["the server", "the relay"])
def test_a_process_that_is_terminated_ends_the_session(whom: str, windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with wrapped(windows, trace, windows.python, ECHO, "id", tmp_path) as host:
        server = int(pipe(host.stdout).readline())
        await_begun(trace)
        relay = json.loads(trace.read_bytes().splitlines()[0])["pid"]
        target = server if whom == "the server" else relay
        terminate = f"import os; os.kill({target}, 9)"  # TerminateProcess with the code 9, as taskkill does
        windows.run(windows.python, "-c", terminate, timeout_s=PATIENCE_S)
        code = host.wait()
        assert pipe(host.stdout).read() == b""
    await_that(lambda: not processes(path(tmp_path)))
    await_recorded(trace)
    closing = json.loads(trace.read_bytes().splitlines()[-1])
    if whom == "the server":
        assert (code, closing["ending"], closing["exit_code"]) == (9, "exited", 9)
    else:  # Wine gives this system another code than the one of a terminated process
        assert (closing["ending"], closing["exit_code"]) == ("cut", None)


class Server(BaseHTTPRequestHandler):
    """Answers a POST with an empty result, and a GET with a stream of events."""

    protocol_version = "HTTP/1.1"
    EVENTS = 20

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(self.EVENTS):
            event = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None: ...


def test_http_with_fifty_streams(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = False  # closing the server waits until Wine has let go of every connection
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/mcp"
    proxy = windows.start(
        windows.python, "-m", "mcpproxy", "http", url, "--listen", "127.0.0.1:0", "--trace", trace
    )
    try:
        listening = re.search(rb"listening on http://127.0.0.1:(\d+)/mcp", pipe(proxy.stderr).readline())
        assert listening is not None
        port = int(listening[1])
        answers: list[tuple[int, int]] = []

        def stream() -> None:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            client.request("GET", "/mcp", headers={"Accept": "text/event-stream"})
            response = client.getresponse()
            answers.append((response.status, response.read().count(b"data: ")))
            client.close()

        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        for number in range(20):
            client.request("POST", "/mcp", PING % number, headers)
            assert json.loads(client.getresponse().read())["id"] == number
        client.close()
        streams = [threading.Thread(target=stream) for _ in range(50)]
        for one in streams:
            one.start()
        for one in streams:
            one.join()
        assert Counter(answers) == {(200, Server.EVENTS): 50}
        await_begun(trace)
    finally:
        proxy.kill()
        proxy.communicate()
        server.shutdown()
        server.server_close()
    await_recorded(trace)
    recorded = [event for event in read_trace(str(trace)).events() if isinstance(event, Frame)]
    assert any(event.observed_at_ns % 1_000_000 for event in recorded), "no clock that counts ticks"
    sent = Counter(event.sender for event in recorded)
    assert sent == {"client": 20, "server": 20 + 50 * Server.EVENTS}


def test_http_refuses_what_it_is_told_to(windows: Windows, tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/mcp"
    options = ("--listen", "127.0.0.1:0", "--trace", tmp_path / "t.jsonl", "--enforce", "STAT-001")
    proxy = windows.start(windows.python, "-m", "mcpproxy", "http", url, *options)
    try:
        listening = re.search(rb"listening on http://127.0.0.1:(\d+)/mcp", pipe(proxy.stderr).readline())
        assert listening is not None
        client = http.client.HTTPConnection("127.0.0.1", int(listening[1]), timeout=PATIENCE_S)
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": BARE}}
        headers = {
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/list",
        }
        client.request("POST", "/mcp", json.dumps(request), headers)
        answer = client.getresponse()
        assert answer.status == 400
        assert json.loads(answer.read())["error"]["data"]["rule"] == "STAT-001"
        client.close()
    finally:
        proxy.kill()
        proxy.communicate()
        server.shutdown()
        server.server_close()


def test_check_says_what_it_could_not_judge(windows: Windows) -> None:
    ran = windows.mcpproxy("check", RECORDING, timeout_s=PATIENCE_S)
    assert (ran.returncode, ran.stderr) == (1, b"")
    out = ran.stdout.decode(errors="replace")
    assert (
        out.count("incomplete: values are not checked against schemas: jsonschema_rs cannot be loaded") == 1
    )
    assert "2 errors, 1 warning in 1 trace, 22 frames" in out


def test_show_follows_a_session(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with wrapped(windows, trace, windows.python, "-m", "mcpproxy.demo.server") as host:
        await_begun(trace)
        shown = windows.start(windows.python, "-m", "mcpproxy", "show", "--follow", trace)
        pipe(host.stdin).write(PING % 1)
        lines = (line.decode(errors="replace") for line in pipe(shown.stdout))
        assert any("ping" in line for line in lines)
        pipe(host.stdin).close()
        assert any("exited with 0" in line for line in lines)
        shown.kill()
        shown.communicate()


def test_a_recording_of_linux_replaces_a_server(windows: Windows) -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    recording = HERE.parents[1] / "recordings" / "everything-2025-06-18.jsonl"
    ran = windows.mcpproxy("replay", "server", recording, given=ping, timeout_s=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["id"] == 1


def test_validate_probes_a_server(windows: Windows) -> None:
    """With every check of how a process is started, spoken to and ended; the others are of messages alone."""
    only = ("--only", "tools,transport,robustness")
    server = (windows.python, "-m", "mcpproxy.demo.server")
    ran = windows.mcpproxy("validate", *only, "--", *server, timeout_s=2 * PATIENCE_S)
    assert ran.returncode == 1, ran.stderr
    assert b"SCHEMA-004" in ran.stdout


def test_hostile_arguments_arrive_as_given(windows: Windows, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    show = folder / "show.py"
    show.write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))\n", encoding="utf-8")
    for name in ("tool.cmd", "tool.bat"):
        (folder / name).write_text(f'@"{path(windows.python)}" "%~dp0show.py" %*\r\n', encoding="utf-8")
    tools = ("program.exe", "tool.cmd", "tool.bat", "tool")
    ran = windows.run(windows.python, HERE / "start_once.py", *tools, cwd=folder, timeout_s=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr
    got = [json.loads(line) for line in ran.stdout.splitlines()]
    assert got == [list(HOSTILE), *[list(without_percent())] * 3]


def test_a_script_that_windows_cannot_run_is_refused(windows: Windows, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("echo hello\n", encoding="utf-8")
    ran = windows.mcpproxy("--", tmp_path / "script", cwd=tmp_path, timeout_s=PATIENCE_S)
    assert ran.returncode in (126, 127)
    said = [line for line in ran.stderr.decode(errors="replace").splitlines() if "script: " in line]
    assert len(said) == 1


def test_a_line_break_is_not_given_to_a_batch_file(windows: Windows, tmp_path: Path) -> None:
    (tmp_path / "tool.cmd").write_text("@echo ran\r\n", encoding="utf-8")
    ran = windows.mcpproxy("--", "tool", "a\r\nb", cwd=tmp_path, timeout_s=PATIENCE_S)
    assert (ran.returncode, ran.stdout) == (126, b"")
    assert b"tool: cannot be run (it is a batch file, to which no argument with a line break" in ran.stderr
