"""A recorded client played over HTTP: its headers, streams that break off, servers that misbehave."""

import json
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.cli.main import main
from mcpproxy.peers.replay.client.player import Send
from mcpproxy.peers.replay.client.recorded_headers import HeaderWriter
from mcpproxy.peers.replay.client.script import steps
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.replay.server.replay_source import replay_source
from mcpproxy.protocol.jsonrpc import Message
from tests.peers.web_server import WebServer
from tests.replay.http_scripts import JSON, MASKED, STREAM, Tape
from tests.replay.scripts import HELLO, C, S, ask, call, give, tell, text, trace

ASKED, GREETED, READY = (line[1] for line in HELLO)
DEADLINE_S: Final = 60
VERSION: Final = ["MCP-Protocol-Version", "2025-11-25"]


class Server:
    """A server in a thread: ``answer`` is called for each POST, ``go_on`` for each GET."""

    def __init__(
        self, answer: Callable[["Answering", Any], None], tls: ssl.SSLContext | None = None, host: str = ""
    ) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()
        outer = self

        class Handler(Answering):
            server_over = self.over

            def do_POST(self) -> None:
                outer.requests.append(("POST", {name.lower(): value for name, value in self.headers.items()}))
                answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self) -> None:
                outer.requests.append(("GET", {name.lower(): value for name, value in self.headers.items()}))
                answer(self, None)

            def do_DELETE(self) -> None:
                outer.requests.append(
                    ("DELETE", {name.lower(): value for name, value in self.headers.items()})
                )
                self.give(204)

        self._http = WebServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_port
        self.url = f"{'https' if tls else 'http'}://{host or '127.0.0.1'}:{self.port}/mcp"

    @contextmanager
    def running(self) -> Generator["Server"]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._http.shutdown()
            thread.join()
            self._http.server_close()


class Answering(BaseHTTPRequestHandler):
    """One request and the ways to answer it."""

    server_over: threading.Event

    def give(self, status: int, said: Any = None, *, session: str = "") -> None:
        body = b"" if said is None else json.dumps(said).encode()
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def show(self, status: int, page: str, location: str) -> None:
        """Answer with a page that is no message, as a web server does."""
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def stream(self, *events: str, length: int = 0, session: str = "") -> None:
        """Send events; with a ``length`` that is longer the stream counts as cut."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if session:
            self.send_header("Mcp-Session-Id", session)
        if length:
            self.send_header("Content-Length", str(length))
            self.close_connection = True
        self.end_headers()
        self.wfile.write("".join(events).encode())
        self.wfile.flush()

    def handshake(self, said: Any) -> bool:
        """Answer what opens a session; whether it was that."""
        if said is None:
            self.give(405)
        elif said["method"] == "initialize":
            self.give(200, GREETED, session="live-session")
        elif said["method"] == "notifications/initialized":
            self.give(202)
        else:
            return False
        return True

    def log_message(self, format: str, *args: Any) -> None:
        pass


def opening() -> Tape:
    tape = Tape()
    tape.give(tape.request("POST", ASKED, JSON), 200, GREETED, JSON, ["Mcp-Session-Id", MASKED])
    tape.give(tape.request("POST", READY, JSON, VERSION), 202)
    return tape


def played(
    server: Server, path: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, Any, str]:
    code = main(["replay", "client", str(path), server.url, "--format", "json", *more])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def test_sessions_and_versions_are_the_live_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(http: Answering, said: Any) -> None:
        if not http.handshake(said):
            http.give(200, text(said["id"], "A"))

    tape = opening()
    tape.give(tape.request("POST", call(1, "a"), JSON, VERSION, ["X-Own", "kept"]), 200, text(1, "A"), JSON)
    tape.give(tape.request("DELETE", None, VERSION), 204)
    with Server(answer).running() as server:
        code, report, _ = played(
            server, tape.write(tmp_path / "t.jsonl"), capsys, "--header", "Authorization: Bearer x"
        )
    assert (code, report["counts"]["same"]) == (0, 2)
    assert [method for method, _ in server.requests] == ["POST", "POST", "POST", "DELETE"]
    first, *rest = (headers for _, headers in server.requests)
    assert "mcp-session-id" not in first
    assert {headers["mcp-session-id"] for headers in rest} == {"live-session"}
    assert {headers["authorization"] for headers in (first, *rest)} == {"Bearer x"}
    assert rest[1]["x-own"] == "kept"
    assert rest[1]["mcp-protocol-version"] == "2025-11-25"


@pytest.mark.parametrize("length", [0, 1000], ids=["ended", "cut"])
def test_a_stream_that_breaks_off_is_asked_to_go_on(
    length: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(http: Answering, said: Any) -> None:
        if said is None and http.headers["Last-Event-ID"] == "e1":
            http.stream(f"id: e2\ndata: {json.dumps(text(1, 'A'))}\n\n")
        elif not http.handshake(said):
            http.stream("id: e1\nretry: 1\ndata:\n\n", length=length)

    tape = opening()
    stream = tape.request("POST", call(1, "a"), JSON, VERSION)
    tape.head(stream, 200, STREAM)
    tape.event(stream, text(1, "A"), id="old")
    tape.end(stream)
    with Server(answer).running() as server:
        code, report, _ = played(server, tape.write(tmp_path / "t.jsonl"), capsys)
    assert (code, report["items"][-1]["verdict"]) == (0, "same")
    assert server.requests[-1][0] == "GET"


def test_the_handshake_of_a_recording_from_stdio_is_resumed_in_its_session_which_is_deleted_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(http: Answering, said: Any) -> None:
        if said is None and http.headers["Last-Event-ID"] == "e1":
            http.stream(f"data: {json.dumps(GREETED)}\n\n")
        elif said is None:
            http.give(405)
        elif said["method"] == "initialize":
            http.stream("id: e1\nretry: 1\ndata:\n\n", session="live-session")
        elif not http.handshake(said):
            http.give(200, text(said["id"], "A"))

    path = trace(tmp_path / "t.jsonl", [*HELLO, (C, call(1, "a")), (S, text(1, "A"))])
    with Server(answer).running() as server:
        code, report, _ = played(server, path, capsys, "--header", "Authorization: Bearer x")
    assert (code, report["counts"]["same"]) == (0, 2)
    assert [method for method, _ in server.requests] == ["POST", "GET", "POST", "GET", "POST", "DELETE"]
    assert {headers.get("mcp-session-id") for _, headers in server.requests[1:]} == {"live-session"}
    assert {headers["authorization"] for _, headers in server.requests} == {"Bearer x"}


def refuses(http: Answering, said: Any) -> None:
    http.give(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no"}})


def hangs(http: Answering, said: Any) -> None:
    http.server_over.wait(DEADLINE_S)


def breaks_off(http: Answering, said: Any) -> None:
    http.stream('data: {"jsonrpc":"2.0","id":1,')


def hangs_in_a_stream(http: Answering, said: Any) -> None:
    http.stream(": still there\n\n")
    http.server_over.wait(DEADLINE_S)


def floods(http: Answering, said: Any) -> None:
    event = 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}\n\n'
    http.stream(event)
    try:
        while not http.server_over.is_set():
            http.wfile.write(event.encode() * 100)
    except OSError:
        pass


def says_html(http: Answering, said: Any) -> None:
    http.give(200, "<html>")


def closes(http: Answering, said: Any) -> None:
    http.close_connection = True


FAULTS: Final[dict[str, tuple[Callable[[Answering, Any], None], str, str]]] = {
    "refuses": (refuses, "changed", ""),
    "hangs": (hangs, "missing", "no answer in time to tools/call"),
    "breaks off": (breaks_off, "missing", ""),
    "hangs in a stream": (hangs_in_a_stream, "missing", "no answer in time to tools/call"),
    "floods": (floods, "missing", "said more than 1000 things that were not recorded"),
    "says html": (says_html, "missing", ""),
    "closes the connection": (closes, "missing", ""),
}


@pytest.mark.parametrize(("fault", "verdict", "told"), FAULTS.values(), ids=FAULTS)
def test_a_server_that_misbehaves(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: Callable[[Answering, Any], None],
    verdict: str,
    told: str,
) -> None:
    def answer(http: Answering, said: Any) -> None:
        if not http.handshake(said):
            fault(http, said)

    tape = opening()
    tape.give(tape.request("POST", call(1, "a"), JSON, VERSION), 200, text(1, "A"), JSON)
    with Server(answer).running() as server:
        # Only one that hangs is given up; the others have the time that a busy machine takes.
        limit_s = "1" if fault in (hangs, hangs_in_a_stream) else "60"
        code, report, err = played(server, tape.write(tmp_path / "t.jsonl"), capsys, "--timeout", limit_s)
    found = next(item for item in report["items"] if item["what"] == 'tools/call "a"')
    assert (code, found["verdict"]) == (1, verdict)
    assert told in err


NO_CERTIFICATE: Final = "<title>400 No required SSL certificate was sent</title>"
GIVE_ONE: Final = "400: No required SSL certificate was sent; give one with --client-cert and --client-key"


@pytest.mark.parametrize("recorded_on", ["http", "stdio"])
@pytest.mark.parametrize(
    ("status", "location", "page", "words"),
    [
        (307, "/mcp/", "", "307 to http://127.0.0.1:PORT/mcp/; try that URL"),
        (301, "https://b.example/mcp", "Moved", "301 to https://b.example/mcp; try that URL"),
        (301, "", "", "301 without a Location"),
        (400, "", NO_CERTIFICATE, GIVE_ONE),
        (200, "", "<title>Sign in</title>", "200 without a message: Sign in"),
    ],
)
def test_a_refusal_is_said_with_what_to_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    recorded_on: str,
    status: int,
    location: str,
    page: str,
    words: str,
) -> None:
    is_open = True

    def answer(http: Answering, said: Any) -> None:
        if not (is_open and http.handshake(said)):
            http.show(status, page, location)

    tape, path = opening(), tmp_path / "t.jsonl"
    if recorded_on == "http":
        tape.give(tape.request("POST", call(1, "a"), JSON, VERSION), 200, text(1, "A"), JSON)
        tape.write(path)
    else:
        trace(path, [*HELLO, (C, call(1, "a")), (S, text(1, "A"))])
    with Server(answer).running() as server:
        words = words.replace("PORT", str(server.port))
        code, report, _ = played(server, path, capsys)
        call_frame = next(item["frame"] for item in report["items"] if item["what"] == 'tools/call "a"')
        assert (code, report["counts"]["new"]) == (1, 0)
        assert [note for note in report["notes"] if "HTTP" in note] == [
            f'no answer to tools/call "a" (frame {call_frame}): HTTP status {words}'
        ]

        is_open = False
        code, report, err = played(server, path, capsys)
        assert (code, report) == (2, None)
        if status == 301 and not location:
            words += "; no MCP server seems to be at this path"
        assert f": HTTP status {words}; no" in err
        assert err.endswith("; nothing could be compared\n")
        assert err.count("HTTP status") == 1


def test_a_subscription_is_a_stream_that_stays_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called = threading.Event()
    began, changed = (
        tell("notifications/subscriptions/acknowledged"),
        tell("notifications/tools/list_changed"),
    )

    def answer(http: Answering, said: Any) -> None:
        if said["method"] == "subscriptions/listen":
            http.stream(f"data: {json.dumps(began)}\n\n")
            called.wait(DEADLINE_S)
            http.wfile.write(f"data: {json.dumps(changed)}\n\n".encode())
            http.server_over.wait(DEADLINE_S)
        else:
            http.give(200, text(said["id"], "A"))
            called.set()

    tape = Tape()
    stream = tape.request("POST", ask(1, "subscriptions/listen"), JSON)
    tape.head(stream, 200, STREAM)
    tape.event(stream, began)
    tape.give(tape.request("POST", call(2, "a"), JSON), 200, text(2, "A"), JSON)
    tape.event(stream, changed)
    tape.end(stream, cut=True)
    with Server(answer).running() as server:
        code, report, err = played(server, tape.write(tmp_path / "t.jsonl"), capsys)
    assert (code, report["counts"]["same"]) == (0, 4), err


ROOTS: Final[dict[str, tuple[bool, list[tuple[str, str]]]]] = {
    "does not ask": (False, [("the server's roots/list", "missing")]),
    "refuses the answer": (True, [("HTTP POST with the answer to roots/list", "changed")]),
}


@pytest.mark.parametrize(("asks", "differing"), ROOTS.values(), ids=ROOTS)
def test_what_becomes_of_an_answer_counts_as_much_as_what_it_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asks: bool, differing: list[tuple[str, str]]
) -> None:
    asked = ask("r", "roots/list")

    def answer(http: Answering, said: Any) -> None:
        if said is None:
            http.stream(*([f"data: {json.dumps(asked)}\n\n"] if asks else []))
            http.server_over.wait(DEADLINE_S)
        elif "method" in said:
            http.handshake(said)
        else:
            http.give(400)

    tape = opening()
    stream = tape.request("GET", None, VERSION)
    tape.head(stream, 200, STREAM)
    tape.event(stream, asked)
    tape.give(tape.request("POST", give("r", roots=[]), JSON, VERSION), 202)
    tape.end(stream, cut=True)
    path = tape.write(tmp_path / "t.jsonl")
    with Server(answer).running() as server:
        _, report, _ = played(server, path, capsys)
        code, silent, _ = played(server, path, capsys, "--ignore", "roots/list")
    items = [(item["what"], item["verdict"]) for item in report["items"] if item["verdict"] != "same"]
    assert items == differing
    assert (code, silent["counts"]["same"]) == (0, 1)


def test_an_update_over_http_is_recorded_by_a_proxy_in_between(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said_now = ["A"]

    def answer(http: Answering, said: Any) -> None:
        if not http.handshake(said):
            http.give(200, text(said["id"], said_now[0]))

    tape = opening()
    tape.give(tape.request("POST", call(1, "a"), JSON, VERSION), 200, text(1, "A"), JSON)
    path = tape.write(tmp_path / "t.jsonl")
    with Server(answer).running() as server:
        said_now[0] = "B"
        assert played(server, path, capsys)[0] == 1
        assert played(server, path, capsys, "--update")[0] == 0
        assert played(server, path, capsys)[0] == 0
    assert b"live-session" not in path.read_bytes()


class LiveSession:
    """A session of which nothing is known yet."""

    session_id = version = ""

    def headers_for(self, message: Message | None = None) -> list[tuple[str, str]]:
        raise AssertionError(message)


def test_names_in_headers_follow_the_body(tmp_path: Path) -> None:
    tape = Tape()
    method = ["Mcp-Method", "tasks/get"]
    tape.give(tape.request("POST", ask(1, "tasks/get", taskId="old"), JSON, method, ["Mcp-Name", "old"]), 200)
    session = replay_source(load(tape.write(tmp_path / "t.jsonl"))).as_one()
    [step] = steps(session)
    for live, name in (("new", "new"), ("old", "old"), ("ö", "=?base64?w7Y=?=")):
        raw = json.dumps(ask(1, "tasks/get", taskId=live)).encode()
        headers = dict(HeaderWriter(session, LiveSession()).headers(Send(raw, step, 1)))
        assert (headers["Mcp-Name"], headers["Mcp-Method"]) == (name, "tasks/get")
