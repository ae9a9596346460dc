"""Addons with ``fail_open = False``: whatever messages and hosts are like, nothing passes unseen."""

import gzip
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mcpproxy.gate.intercept.addons.closed_gate_http import GatedPaths
from tests.intercept.odd_messages import ADDON, REQUESTS, RESPONSES, SECRET, Odd
from tests.peers.web_server import WebServer
from tests.relay.hosts import DEADLINE_S, HOME

OPEN: Final = ADDON.replace("fail_open = False", "fail_open = True")
BLOCKS: Final = """
import os, sys, time
from mcpproxy.addons import Addon
class Guard(Addon):
    fail_open = False
    budget_s = {budget_s}
    def request(self, session, message):
        with open(__file__ + ".pid", "w") as file:
            file.write(str(os.getpid()))
        if message.tool == "SECRET":
            {does}
            return message.error(1, "blocked")
class Other(Addon):
    def response(self, session, request, message):
        return None
"""


class Session:
    """A client before a wrapped server that is lenient."""

    def __init__(self, folder: Path, *options: str, addon: str = "") -> None:
        self.heard_path = folder / "heard"
        self.heard_path.touch()
        self.addon_path = folder / "guard.py"
        if addon:
            self.addon_path.write_text(addon)
            options = ("--addon", str(self.addon_path), *options)
        command = [sys.executable, "-m", "mcpproxy", "--trace", str(folder / "t.jsonl"), *options, "--"]
        self.stderr_path = folder / "stderr"
        with self.stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*command, sys.executable, "-m", "tests.intercept.odd_messages", str(self.heard_path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**HOME, "PYTHONPATH": os.getcwd()},
            )
        self._unread = b""
        self._id = 1000
        self.ask(b'"initialize","params":{}')

    def ask(self, method: bytes) -> bytes:
        """Send a request, and return its answer."""
        self._id += 1
        self.say(b'{"jsonrpc":"2.0","id":%d,"method":%b}' % (self._id, method))
        while not (line := self.hear()).startswith(
            (b'{"jsonrpc": "2.0", "id": %d' % self._id, b'{"jsonrpc":"2.0","id":%d' % self._id)
        ):
            pass
        return line

    def until_ping(self) -> list[bytes]:
        """Return everything that comes before the answer to a ping."""
        self._id += 1
        self.say(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % self._id)
        lines: list[bytes] = []
        while not (line := self.hear()).startswith(b'{"jsonrpc": "2.0", "id": %d, "result"' % self._id):
            lines.append(line)
        return lines

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> bytes:
        assert self.process.stdout is not None
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            assert select.select([self.process.stdout], [], [], DEADLINE_S)[0], "nothing comes"
            parts.append(os.read(self.process.stdout.fileno(), 1 << 20))
            assert parts[-1], "the session has ended"
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text()

    @property
    def heard(self) -> bytes:
        return self.heard_path.read_bytes()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


Start = Callable[..., Session]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Session] = []

    def make(*options: str, addon: str = "") -> Session:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Session(folder, *options, addon=addon))
        return started[-1]

    yield make
    for session in started:
        session.close()


def assert_told(odd: Odd, id: int, lines: list[bytes]) -> None:
    """The errors in ``lines`` are those that an odd message with this id gets."""
    said: list[Any] = [json.loads(line) for line in lines]
    errors = [
        each for line in said for each in (cast("list[Any]", line) if isinstance(line, list) else [line])
    ]
    assert all("error" in each for each in errors), odd.name
    ids = [each["id"] for each in errors]
    expected = {"ID": id, "null": None}.get(odd.told, odd.told)
    assert ids == [] if odd.told == "" else expected in ids, odd.name


def test_no_odd_line_passes_and_each_is_answered(start: Start) -> None:
    session = start(addon=ADDON)
    for id, odd in enumerate(REQUESTS, 1):
        session.say(odd.raw.replace(b"ID", b"%d" % id))
        assert_told(odd, id, session.until_ping())
    assert SECRET not in session.heard
    for number, odd in enumerate(RESPONSES):
        id = 500 + number
        session.say(b'{"jsonrpc":"2.0","id":%d,"method":"say","params":%d}' % (id, number))
        lines = session.until_ping()
        assert not any(SECRET in line for line in lines), odd.name
        assert_told(odd if odd.told == "ID" else odd._replace(told=""), id, lines)
    assert session.stderr.count("does not pass Guard: it is not JSON") == 2, "once for each side"
    assert "Traceback" not in session.stderr


@pytest.mark.parametrize(
    ("options", "addon"),
    [((), OPEN), (("--fault", "tool:none => drop"), ""), (("--break", "tool:none"), ""), ((), "")],
    ids=["open addon", "fault", "breakpoint", "plain"],
)
def test_without_a_closed_gate_odd_lines_pass_as_they_are(
    start: Start, options: tuple[str, ...], addon: str
) -> None:
    session = start(*options, addon=addon)
    for id, odd in enumerate(REQUESTS, 1):
        session.say(odd.raw.replace(b"ID", b"%d" % id))
    session.until_ping()
    assert session.heard.count(SECRET) == len(REQUESTS)
    for number, odd in enumerate(RESPONSES):
        session.say(b'{"jsonrpc":"2.0","id":%d,"method":"say","params":%d}' % (500 + number, number))
        assert session.hear() == odd.raw.replace(b"ID", b"%d" % (500 + number))


@pytest.mark.parametrize(
    ("does", "budget_s"),
    [
        ("time.sleep(600)", 0.05),
        ("os._exit(1)", 5),
        ("raise RecursionError", 5),
        ("raise SystemExit", 5),
        ("os.kill(os.getpid(), 19)", 0.05),
        ("os.write(int(sys.argv[1]), b'garbage, and no frame ' * 99)", 5),
        ("os.write(int(sys.argv[1]), bytes(12) + b'\\\\0\\\\0\\\\0\\\\5' * 3 + b'5' * 10)", 5),
        ("os.remove(__file__) or os._exit(1)", 5),
    ],
)
def test_a_host_that_fails_whenever_it_is_asked_opens_nothing(
    start: Start, does: str, budget_s: float
) -> None:
    session = start(addon=BLOCKS.format(does=does, budget_s=budget_s))
    for _ in range(8):
        assert b'"error"' in session.ask(b'"tools/call","params":{"name":"SECRET"}')
    assert SECRET not in session.heard
    assert "Traceback" not in session.stderr


def test_a_host_that_is_killed_again_and_again_opens_nothing(start: Start) -> None:
    session = start(addon=BLOCKS.format(does="pass", budget_s=5))
    pid_path = Path(f"{session.addon_path}.pid")
    ended: set[int] = set()
    while "failed too often" not in session.stderr:
        assert b'"error"' in session.ask(b'"tools/call","params":{"name":"SECRET"}')
        written = pid_path.read_text()
        if written and int(written) not in ended:  # it is the host that was just asked
            os.kill(int(written), signal.SIGKILL)
            ended.add(int(written))
    for method in (b'"ping"', b'"tools/call","params":{"name":"SECRET"}'):
        assert b"An addon failed" in session.ask(method)
    assert SECRET not in session.heard


@pytest.mark.parametrize("depth", [985, 1000, 1023, 1100])
def test_answers_that_nest_deep_are_answered_and_fail_no_host(start: Start, depth: int) -> None:
    session = start(addon=BLOCKS.format(does="pass", budget_s=30) + "    fail_open = False\n")
    deep = b"[" * depth + b"]" * depth
    for id in (b"5", b'"x"', deep, b"9" * 5000, b'"\\ud800"', b"1e400", b"true", b"1.5"):
        session.say(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, deep))
    assert b'"blocked"' in session.ask(b'"tools/call","params":{"name":"SECRET"}')
    assert b'"result"' in session.ask(b'"tools/call","params":[]')
    assert "in time" not in session.stderr
    assert "has ended" not in session.stderr


# Over HTTP


class Lenient(BaseHTTPRequestHandler):
    """Answers whatever it can find in a body, in the form that ``X-Form`` names."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, LenientServer)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.heard.append(body)
        asked, id = re.search(rb'"say", ?"params": ?(\d+)', body), re.search(rb'"id": ?(\d+)', body)
        answer = b'{"jsonrpc":"2.0","id":%b,"result":{}}' % (id[1] if id else b"null")
        if asked is not None and id is not None:
            answer = RESPONSES[int(asked[1])].raw.replace(b"ID", id[1])
        form = self.headers.get("X-Form", "json")
        media_type = "text/plain" if form == "text" else "application/json"
        if "sse" in form:
            media_type = "text/event-stream"
            answer = b"".join(b"data: %b\n" % line for line in answer.split(b"\n")) + b"\n"
            answer += b"data: SECRET\n" if "tail" in form else b""
        self.send_response(404 if form == "404" else 200)
        self.send_header("Content-Type", media_type if form != "404" else "text/html")
        if form == "gzip":
            self.send_header("Content-Encoding", "gzip")
            answer = gzip.compress(answer, 0)
        if "chunked" in form:
            self.send_header("Transfer-Encoding", "chunked")
            answer = b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer), answer)
        elif "close" in form:
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        assert isinstance(self.server, LenientServer)
        answer = f"event: endpoint\ndata: {self.server.endpoint}\n\n".encode()
        is_chunked = self.headers.get("X-Form") == "chunked"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header(
            *("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(len(answer)))
        )
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer), answer) if is_chunked else answer)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


class LenientServer(WebServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Lenient)
        self.heard: list[bytes] = []
        self.endpoint = ""


class Proxy:
    """A proxy before ``server`` with an addon."""

    def __init__(self, folder: Path, server: LenientServer, addon: str, *more: str) -> None:
        (folder / "guard.py").write_text(addon)
        self.server = server
        command = [sys.executable, "-m", "mcpproxy", "http", "--listen", "127.0.0.1:0"]
        options = ["--trace", str(folder / "h.jsonl"), "--addon", str(folder / "guard.py"), *more]
        self.process = subprocess.Popen(
            [*command, f"http://127.0.0.1:{server.server_port}/mcp", *options],
            stderr=subprocess.PIPE,
            env=HOME,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(rb"listening on http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                break
        self.rest = threading.Thread(target=self.process.stderr.read)  # so that it can write on
        self.rest.start()

    def post(self, body: bytes, *fields: str, path: str = "/mcp", method: str = "POST") -> tuple[int, bytes]:
        """Send a request; the status of the answer and its body, as they are on the wire."""
        head = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close", *fields]
        if not any(field.startswith("Content-Type") for field in fields):
            head.append("Content-Type: application/json")
        if not any(field.startswith("Transfer-Encoding") for field in fields):
            head.append(f"Content-Length: {len(body)}")
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE_S) as sock:
            sock.sendall("\r\n".join([*head, "", ""]).encode() + body)
            while data := sock.recv(1 << 20):
                answer += data
        return int(answer[9:12]), answer.partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self.rest.join(DEADLINE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


MakeProxy = Callable[..., Proxy]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[MakeProxy]:
    made: list[Proxy] = []
    with LenientServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def make(addon: str, *more: str) -> Proxy:
            made.append(Proxy(tmp_path, server, addon, *more))
            return made[-1]

        yield make
        for each in made:
            each.close()
        server.shutdown()
        thread.join(DEADLINE_S)


PATHS: Final = (
    *("/mcp/", "//mcp", "/%6dcp", "/mcp?x", "/mcp/x", "/mcp/../x", "/MCP", "/x\\..\\mcp", "//mcp?x=://"),
    *("/x/../mcp", "/./mcp", "/x/%2e%2E/mcp", "/../mcp", "/mcp;a=1", "/x/..;a/mcp;a", "/mcp%3Ba", "/;/mcp"),
)
"""Each may be that of the endpoint for some servers."""

CALL: Final = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"SECRET"}}'


def test_no_odd_request_passes_over_http_and_each_is_answered(proxy: MakeProxy) -> None:
    guarded = proxy(ADDON)
    for id, odd in enumerate(REQUESTS, 1):
        status, body = guarded.post(odd.raw.replace(b"ID", b"%d" % id))
        if status in (200, 400) and odd.told:
            assert_told(odd, id, [body])
        is_known = b'"id":%d,' % id in body or b"[" in body
        assert (status == 200) == is_known, odd.name
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(CALL), CALL)
    for status, body, fields in [
        (415, CALL, ["Content-Type: text/plain"]),
        (415, CALL, ["Content-Type: multipart/mixed; boundary=x"]),
        (415, gzip.compress(CALL), ["Content-Encoding: gzip"]),
        (417, CALL, ["Expect: 100-continue"]),
        (400, CALL, ["Upgrade: x", "Connection: upgrade"]),
        (400, chunked.replace(b"\r\n0", b"XX"), ["Transfer-Encoding: chunked"]),
    ]:
        assert guarded.post(body, *fields)[0] == status, fields
    assert guarded.post(CALL, method="PUT")[0] == 415
    for path in PATHS:
        assert guarded.post(CALL, "Content-Type: text/plain", path=path)[0] == 415, path
    assert guarded.server.heard == []
    form = "Content-Type: application/x-www-form-urlencoded"
    assert guarded.post(b"code=1", form, path="/token")[0] == 200, "what is no message goes its way"
    assert guarded.post(CALL) == (200, b'{"jsonrpc":"2.0","id":7,"result":{}}')
    assert guarded.server.heard[0] == b"code=1"


NAMED: Final = (
    ("messages/?s=1", "/a/messages/?s=1"),
    ("../b", "/b"),
    ("/c?x", "/c?y"),
    ("http://other:1/d", "/d"),
    ("//other/e", "/e"),
    ("/f\tf", "/ff"),
    ("\\g", "/g"),
    ("h\u00e9", "/a/h%C3%A9"),
    ("http://[::1/i", "/i"),
    ("?x", "/a/sse?x"),
)
"""What a server names in its answer to ``GET /a/sse``, and where clients post to then."""


@pytest.mark.parametrize("form", ["json", "chunked"])
@pytest.mark.parametrize("options", [(), ("--fault", "from:server => delay 1ms")], ids=["", "acted on"])
def test_the_path_that_a_server_of_http_and_sse_names_is_gated(
    proxy: MakeProxy, options: tuple[str, ...], form: str
) -> None:
    guarded = proxy(ADDON, "--endpoint", "/a/sse", *options)
    for named, posted in NAMED:
        guarded.server.endpoint = named
        if named != "?x":
            assert guarded.post(CALL, "Content-Type: text/plain", path=posted)[0] == 200, named
        assert guarded.post(b"", f"X-Form: {form}", path="/a/sse?v=1", method="GET")[0] == 200
        assert guarded.post(CALL, "Content-Type: text/plain", path=posted)[0] == 415, named


def test_if_too_much_is_named_every_path_is_gated() -> None:
    paths = GatedPaths()
    for number in range(2_000):
        paths.add_named(f"/messages/{number}", "/sse")
    assert paths.has("/messages/1999")
    paths = GatedPaths()
    paths.add_named("/" + "m" * (1 << 20), "/sse")
    assert paths.has("/" + "m" * (1 << 20))


FORMS: Final = (
    *("json", "chunked", "close", "sse", "sse chunked", "sse close", "sse tail", "sse chunked tail"),
    *("sse close tail", "gzip", "text", "404"),
)


@pytest.mark.parametrize("form", FORMS)
def test_no_odd_answer_passes_over_http_and_each_request_is_answered(proxy: MakeProxy, form: str) -> None:
    guarded = proxy(ADDON)
    for number, odd in enumerate(RESPONSES):
        if odd.name.startswith("long") and form != "sse chunked":  # it takes a second
            continue
        body = b'{"jsonrpc":"2.0","id":%d,"method":"say","params":%d}' % (500 + number, number)
        status, answer = guarded.post(body, f"X-Form: {form}", "Accept-Encoding: gzip")
        assert status == (404 if form == "404" else 200)
        assert SECRET not in answer, odd.name
        assert answer.count(b'"id":%d,' % (500 + number)) == 1, odd.name
        assert answer.count(b'"error"') == 1, odd.name
    fields = ("X-Form: sse chunked",) if "sse" in form else ()
    status, answer = guarded.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', *fields)
    assert b'{"jsonrpc":"2.0","id":1,"result":{}}' in answer


@pytest.mark.parametrize(("does", "budget_s"), [("time.sleep(600)", 0.05), ("os._exit(1)", 5)])
def test_a_host_that_fails_over_http_opens_nothing(proxy: MakeProxy, does: str, budget_s: float) -> None:
    guarded = proxy(BLOCKS.format(does=does, budget_s=budget_s))
    for _ in range(8):
        status, body = guarded.post(CALL)
        assert (status, b'"id":7,"error"' in body) == (200, True)
    assert guarded.server.heard == []


def test_odd_bodies_pass_an_open_addon_as_they_are(proxy: MakeProxy) -> None:
    opened = proxy(OPEN)
    for id, odd in enumerate(REQUESTS, 1):
        opened.post(odd.raw.replace(b"ID", b"%d" % id))
        assert opened.server.heard[-1] == odd.raw.replace(b"ID", b"%d" % id), odd.name
    for number, odd in enumerate(RESPONSES):
        body = b'{"jsonrpc":"2.0","id":%d,"method":"say","params":%d}' % (500 + number, number)
        assert opened.post(body)[1] == odd.raw.replace(b"ID", b"%d" % (500 + number)), odd.name
