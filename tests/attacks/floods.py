"""Peers that send without an end: memory, disk and time have limits, and the verdict says which was met."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.attacks.proxied import Origin, message
from tests.attacks.stage import DEADLINE_S, Done, Stage, Table, hold, is_line, read, side_by_side

TABLE: Final = Table()

MIB: Final = 1 << 20
MEMORY: Final = 1 << 30
"""What a command may have of memory here."""
DISK: Final = 300 * MIB
"""How long a file of it may be."""
ENDS_S: Final = 15 * DEADLINE_S
"""A command that judges hundreds of thousands of messages takes a while on a busy machine."""
SENT: Final = 160 * MIB
"""How much an endless answer has at most, so that no disk is filled by a command that keeps it."""

RECORDING: Final = str(Path(__file__).parents[2] / "recordings" / "everything-2025-11-25.jsonl")


class Flood(Origin):
    """Answers each request with ``head``, and then with ``piece`` again and again, a pause between them."""

    def __init__(self, head: bytes, piece: bytes, pause_s: float = 0) -> None:
        self.head, self.piece = head, piece
        self._pause_s = pause_s
        self._lull = socket.socketpair()
        super().__init__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, value, trace)
        for end in self._lull:
            end.close()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE_S)
        self._lull[0].settimeout(self._pause_s or None)
        with connection:
            try:
                self.heard.append(message(connection))
                connection.sendall(self.head)
                for _ in range(SENT // len(self.piece)):
                    connection.sendall(self.piece)
                    if self._pause_s:
                        self._rest()
            except OSError:  # the client has gone
                return

    def _rest(self) -> None:
        try:
            self._lull[0].recv(1)
        except TimeoutError:
            return


STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
BODY: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
ENDLESS: Final = {
    "comment": (STREAM + b":", b"x" * MIB),
    "id": (STREAM + b"id: ", b"x" * MIB),
    "event": (STREAM + b"event: ", b"x" * MIB),
    "data": (STREAM + b"data: ", b"x" * MIB),
    "lines of data": (STREAM, b"data: x\n" * (1 << 13)),
    "body": (BODY, b" " * MIB),
    "head": (b"HTTP/1.1 200 OK\r\nX-Field: ", b"x" * MIB),
}


def _limited(stage: Stage, *arguments: str, stdin: bytes = b"") -> Done:
    """Run a command with little memory."""
    limits = (sys.executable, "-S", "-c", LIMITED, str(MEMORY), str(DISK))
    process = stage.start(*arguments, before=limits)
    try:
        out, err = process.communicate(stdin, ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        hold(False, f"{arguments[0]} does not end")
        raise
    return Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


LIMITED: Final = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)


def _hold_verdict(done: Done, what: str) -> None:
    hold("in mcpproxy itself" not in done.err, f"{what}: {done.err[-160:]}")
    hold("Traceback" not in done.err, f"{what}: {done.err[-120:]}")
    hold("MemoryError" not in done.err + done.out, f"{what}: out of memory")
    hold(done.code in (1, 2), f"{what}: exit {done.code}")


def _recorded(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@TABLE
def endless_answers_to_validate(stage: Stage) -> str:
    """A line, event, body or head without an end ends in a verdict of validate, in little memory and disk."""

    def recorded(name: str) -> int:
        folder = stage.folder / name.replace(" ", "-")
        folder.mkdir()
        with Flood(*ENDLESS[name]) as server:
            url = f"http://127.0.0.1:{server.port}/mcp"
            done = _limited(stage, "validate", "--timeout", "4", "--trace", str(folder / "t.jsonl"), url)
        _hold_verdict(done, name)
        size = _recorded(folder)
        hold(size < 260 * MIB, f"{name}: {size // MIB} MiB recorded")
        return size

    most = max(side_by_side(recorded, ENDLESS))
    return f"{len(ENDLESS)} answers, at most {most // MIB} MiB recorded"


@TABLE
def dripping_answers_to_validate(stage: Stage) -> str:
    """An answer that comes byte by byte is a verdict of validate, and no fault of mcpproxy."""

    def judged(head: bytes) -> None:
        with Flood(head, b" ", 0.2) as server:
            trace = str(stage.folder / f"{server.port}.jsonl")
            url = f"http://127.0.0.1:{server.port}/mcp"
            done = stage.run("validate", "--timeout", "1", "--trace", trace, url)
        _hold_verdict(done, repr(head[-8:]))

    side_by_side(judged, (STREAM + b":", BODY, BODY[:20]))
    return "3 answers, a verdict each"


@TABLE
def endless_answers_to_replay(stage: Stage) -> str:
    """A line, event or body without an end ends replay client, in little memory."""

    def replayed(name: str) -> None:
        with Flood(*ENDLESS[name]) as server:
            url = f"http://127.0.0.1:{server.port}/mcp"
            done = _limited(stage, "replay", "client", RECORDING, "--timeout", "3", url)
        _hold_verdict(done, name)

    side_by_side(replayed, ("data", "comment", "lines of data", "body"))
    return "4 answers"


@TABLE
def endless_events_to_the_bridge(stage: Stage) -> str:
    """An upstream's event without an end is an error for its client, and is asked for only once."""
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    for name in ("data", "comment", "body"):
        with Flood(*ENDLESS[name]) as server:
            url = f"http://127.0.0.1:{server.port}/mcp"
            trace = str(stage.folder / name)
            done = _limited(stage, "bridge", "--trace-dir", trace, url, stdin=asked)
            hold("of more than 64 MiB" in done.out, f"{name}: {done.out[:80]!r} {done.err[-80:]!r}")
            hold(len(server.heard) == 1, f"{name}: asked {len(server.heard)} times")
    return "3 answers, an error each"


LINE: Final = "import os\nwhile True: os.write(1, b'y' * 65536)\n"
LINES: Final = "import os\nwhile True: os.write(1, b'y\\n' * 32768)\n"


@TABLE
def endless_output_of_a_server(stage: Stage) -> str:
    """A server that writes without an end, with and without lines, ends in a verdict, in little memory."""
    trace, pins = str(stage.folder / "t.jsonl"), str(stage.folder / "p.json")

    def judged(command: tuple[str, ...]) -> None:
        for code in (LINE, LINES):
            _hold_verdict(_limited(stage, *command, "--", sys.executable, "-S", "-c", code), command[0])

    commands = (
        ("validate", "--timeout", "2", "--revision", "2025-11-25", "--trace", trace),
        ("pin", "--timeout", "2", "--output", pins),
        ("replay", "client", RECORDING, "--timeout", "2"),
    )
    side_by_side(judged, commands)
    return "2 servers, 3 commands"


SERVER: Final = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    info = {"name": "s", "version": "1"}
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
    if asked["method"] != "initialize":
        result = {"x": "x" * (2 << 20)}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""

INITIALIZE: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "attack", "version": "1"},
}


class Bridged:
    """``bridge --stdio`` before a server whose answers have 2 MiB."""

    def __init__(self, stage: Stage, *options: str) -> None:
        command = (sys.executable, "-S", "-c", SERVER)
        options = ("--listen", "127.0.0.1:0", "--trace-dir", str(stage.folder / "recordings"), *options)
        self.process = stage.start(
            "bridge", "--stdio", *options, "--", *command,
            before=(sys.executable, "-S", "-c", LIMITED, str(4 * MEMORY), str(32 * MIB)),
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said = read(self.process.stderr, lambda got: b"http://127.0.0.1:" in got and is_line(got)).decode()
        self.port = int(said.partition("http://127.0.0.1:")[2].partition("/")[0])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), DEADLINE_S)

    def head(self, length: int, session: str = "") -> bytes:
        fields = f"Mcp-Session-Id: {session}\r\n" if session else ""
        accept = "Accept: application/json, text/event-stream\r\n"
        return (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{accept}{fields}"
            f"Content-Length: {length}\r\n\r\n"
        ).encode()

    def request(self, method: str, number: int, session: str = "") -> bytes:
        params = {} if session else INITIALIZE
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
        return self.head(len(body), session) + body

    def begin(self) -> str:
        """Begin a session; its id."""
        with self.connect() as connection:
            connection.sendall(self.request("initialize", 0))
            answer = _until(connection, lambda got: b'"serverInfo"' in got).decode("latin-1")
        return answer.lower().partition("mcp-session-id: ")[2].partition("\r\n")[0]

    def peak(self) -> int:
        """The most memory that the process has had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _until(connection: socket.socket, enough: Callable[[bytes], bool]) -> bytes:
    got = b""
    while not enough(got) and (data := connection.recv(1 << 16)):
        got += data
    return got


@TABLE
def unfinished_bodies(stage: Stage) -> str:
    """Sixteen bodies of 50 MB that do not end take less than 500 MB; a small request is answered."""
    bridged = Bridged(stage)
    with ExitStack() as connections:
        for _ in range(16):
            connection = connections.enter_context(bridged.connect())
            with suppress(OSError):  # it is refused
                connection.sendall(bridged.head(50_000_001))
                for _ in range(50):
                    connection.sendall(b" " * 1_000_000)
        hold(bridged.begin(), "a small request is not answered")
        peak = bridged.peak()
    hold(peak < 500_000_000, f"{peak // MIB} MiB")
    return f"{peak // MIB} MiB"


@TABLE
def answers_that_nobody_fetches(stage: Stage) -> str:
    """A hundred answers of 2 MiB to clients that have left take less than 150 MB."""
    bridged = Bridged(stage, "--event-streams")
    session = bridged.begin()
    for number in range(1, 101):
        with bridged.connect() as connection:
            connection.sendall(bridged.request("tools/list", number, session))
            _until(connection, lambda got: b"\r\n\r\n" in got)
    with bridged.connect() as connection:  # an answer that is fetched: those before it have come
        connection.sendall(bridged.request("tools/list", 101, session))
        _until(connection, lambda got: got.endswith(b"\r\n0\r\n\r\n"))
    peak = bridged.peak()
    hold(peak < 150_000_000, f"{peak // MIB} MiB")
    return f"{peak // MIB} MiB"
