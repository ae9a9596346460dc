"""Compares how two checkouts judge and record: ``python -m tests.equivalence > FILE`` in each, then diff.

The output has a line with the hash of the findings of each fixture and recording. It also has a line for each
of ``SESSIONS`` random sessions: the session is written as the journal that a killed proxy leaves behind, and
the line has the hash of the trace that recovery makes from it. The journals are written here byte by byte, so
that little is imported that a restructuring could move.

With ``--without-messages`` the sentences of findings are left out, so that checkouts between which sentences
were reworded can be compared in everything else.
"""

import hashlib
import json
import random
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import mcpproxy
from mcpproxy.judge.session.frame import Finding
from tests.rules import runner

SESSIONS: Final = 1000
WITH_MESSAGES: Final = "--without-messages" not in sys.argv[1:]
FIELDS: Final = (
    "rule", "severity", "blame", "frame", "related", "pointer", "revision", "source", "requirement",
)  # fmt: skip
HEAD: Final = struct.Struct("<IBxxxIQ")
START, CLIENT, SERVER, STDERR, CLIENT_EOF, SERVER_EOF, STDERR_EOF, SIGNAL, GAP, EXIT = range(10)
CONNECT: Final = 16
STARTED_NS: Final = 1000
RECORDINGS: Final = Path(__file__).parent.parent / "recordings"

ODD_LINES: Final = (
    b"not json",
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"jsonrpc":"2.0"}',
    b"\xef\xbb\xbf{}",
    b"[1,2]",
)
METHODS: Final = (
    "ping",
    "tools/list",
    "tools/call",
    "resources/read",
    "prompts/get",
    "logging/setLevel",
    "x/y",
)
REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01")


def message(random: random.Random) -> tuple[int, bytes]:
    """Return a random line and its sender; one line in ten is not a message."""
    sender = random.choice((CLIENT, SERVER))
    if random.random() < 0.1:
        return sender, random.choice(ODD_LINES)
    id = random.choice((1, 2, 3, "a", 2.5, None, 1 << 70))
    value: dict[str, object] = {"jsonrpc": "2.0"}
    match random.randrange(5):
        case 0:
            value |= {"id": id, "method": random.choice(METHODS), "params": params(random)}
        case 1:
            value |= {"id": id, "result": {"content": [{"type": "text", "text": "é" * random.randrange(9)}]}}
        case 2:
            value |= {"id": id, "error": {"code": random.choice((-32601, -32042, 1)), "message": "no"}}
        case 3:
            value |= {
                "method": random.choice(("notifications/progress", "notifications/cancelled")),
                "params": {"progressToken": 1, "requestId": id, "progress": random.random()},
            }
        case _:
            client = {"name": "c", "version": "1"}
            offer = {"protocolVersion": random.choice(REVISIONS), "capabilities": {}, "clientInfo": client}
            value |= {"id": id, "method": "initialize", "params": offer}
    return sender, json.dumps(value, ensure_ascii=random.random() < 0.5).encode()


def params(random: random.Random) -> dict[str, object]:
    some: dict[str, object] = {
        "name": "t",
        "arguments": {"x": 1},
        "uri": "file:///a",
        "level": "info",
        "cursor": "",
    }
    chosen: dict[str, object] = {
        name: some[name] for name in random.sample(sorted(some), random.randrange(4))
    }
    if random.random() < 0.3:
        chosen["_meta"] = {"progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    return chosen


def start(transport: str) -> bytes:
    members: dict[str, object] = {
        "transport": transport, "command": ["srv"], "label": "srv", "cwd": "/", "pid": 0, "mcpproxy": "0",
        "started_at": "2026-11-21T10:20:30.123456Z", "started_ns": STARTED_NS,
    }  # fmt: skip
    if transport == "http":
        members |= {
            "command": [], "mode": "reverse", "listen": "http://127.0.0.1:8765", "endpoint": "/mcp",
            "upstream": "http://127.0.0.1:3001/mcp", "keep_credentials": False,
            "salt": bytes(range(32)).hex(),
        }  # fmt: skip
    return json.dumps(members).encode()


def stdio(random: random.Random) -> Iterator[tuple[int, bytes, int]]:
    """Yield the records of a session on stdio: kind, payload and connection. Chunks may end within a line."""
    yield START, start("stdio"), 0
    left = {CLIENT: b"", SERVER: b"", STDERR: b""}
    for _ in range(random.randrange(1, 25)):
        sender, raw = message(random) if random.random() < 0.9 else (STDERR, b"a log line")
        data = left[sender] + raw + random.choice((b"\n", b"\n", b"\n", b"\r\n"))
        cut = random.choice((len(data), len(data), random.randrange(len(data) + 1)))
        left[sender] = data[cut:]
        if data[:cut]:
            yield sender, data[:cut], 0
        if random.random() < 0.03:
            yield GAP, b'{"reason":"full","client":0,"server":5,"stderr":0}', 0
    for sender, rest in left.items():
        if rest:
            yield sender, rest, 0
    if random.random() < 0.8:
        yield from ((CLIENT_EOF, b"", 0), (SERVER_EOF, b"", 0), (STDERR_EOF, b"", 0))
    yield EXIT, b'{"ending":"exited","code":0,"signal":null}', 0


def http(random: random.Random) -> Iterator[tuple[int, bytes, int]]:
    """Yield the records of connections over HTTP: POSTs, answered with JSON or a stream of events."""
    yield START, start("http"), 0
    for number in range(1, random.randrange(2, 6)):
        yield CONNECT, b'{"client":"127.0.0.1:5","upstream":"127.0.0.1:3001"}', number
        for _ in range(random.randrange(1, 5)):
            _, asked = message(random)
            _, told = message(random)
            session = random.choice(("", "Mcp-Session-Id: s3cr3t-session-1\r\n"))
            head = f"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{session}"
            yield CLIENT, f"{head}Content-Length: {len(asked)}\r\n\r\n".encode() + asked, number
            kind, body = "application/json", told
            if random.random() < 0.5:
                kind, body = "text/event-stream", b"event: message\nid: 1\ndata: " + told + b"\n\n"
            answer = (
                f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{session}Content-Length: {len(body)}\r\n\r\n"
            )
            data = answer.encode() + body
            cut = random.randrange(len(data))
            yield from ((SERVER, data[:cut], number), (SERVER, data[cut:], number))
        yield from ((CLIENT_EOF, b"", number), (SERVER_EOF, b"", number))
    yield EXIT, b'{"ending":"exited","code":0,"signal":null}', 0


def trace_of(seed: int, folder: Path) -> bytes:
    """Return the trace that recovery makes of session ``seed``."""
    chance = random.Random(seed)
    records = http(chance) if seed % 10 < 3 else stdio(chance)
    trace = folder / f"{seed}.jsonl"
    journal = folder / f"{seed}.jsonl.journal"
    journal.mkdir(0o700)
    at_ns = STARTED_NS
    with (journal / "00000001").open("wb") as file:
        for kind, payload, connection in records:
            file.write(HEAD.pack(len(payload), kind, connection, at_ns) + payload)
            at_ns += chance.randrange(1, 1_000_000_000)
    mcpproxy.open_trace(trace)
    recorded = trace.read_bytes()
    return recorded if WITH_MESSAGES else b"\n".join(map(_without_message, recorded.split(b"\n")[:-1]))


def _without_message(line: bytes) -> bytes:
    record = json.loads(line)
    if record.get("type") == "finding":
        del record["message"]
        return json.dumps(record).encode()
    return line


def digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def lines() -> Iterator[str]:
    for fixture in runner.fixtures():
        for revision in fixture.revisions:
            yield f"{fixture} {revision} {digest(*map(_plain, runner.judge(fixture, revision).findings))}"
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        yield f"{path.name} {digest(*map(_plain, mcpproxy.check(path).findings))}"
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(SESSIONS):
            yield f"session {seed} {hashlib.sha256(trace_of(seed, Path(folder))).hexdigest()[:32]}"


def _plain(finding: Finding) -> str:
    if WITH_MESSAGES:
        return repr(finding)
    return repr([getattr(finding, name) for name in FIELDS])


if __name__ == "__main__":
    for line in lines():
        sys.stdout.write(line + "\n")
