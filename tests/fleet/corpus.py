"""A small fleet: recordings of two servers and three clients in two weeks, written by hand."""

import json
from pathlib import Path
from typing import Final

from tests.cli.recordings import close, finding, frame

SECOND: Final = "2026-11-24T09:00:00.000000Z"
FIRST: Final = "2026-11-18T09:00:00.000000Z"


def header(label: str, started: str) -> str:
    return json.dumps(
        {
            "type": "header",
            "format": 1,
            "mcpproxy": "0.1.0",
            "transport": "stdio",
            "command": ["python", "server.py"],
            "label": label,
            "cwd": "/srv",
            "pid": 77,
            "started_at": started,
            "started_ns": 5,
            "redaction": "none",
        }
    )


def handshake(client: str, server: str, version: str = "1", revision: str = "2025-11-25") -> tuple[str, ...]:
    asked: dict[str, object] = {
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": client, "version": "1"},
    }
    answered: dict[str, object] = {
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": server, "version": version},
    }
    return (
        frame(1, "client", message(1, "initialize", asked), ms=10),
        frame(2, "server", result(1, answered), ms=20),
        frame(3, "client", '{"jsonrpc":"2.0","method":"notifications/initialized"}', ms=30),
    )


def message(id: int, method: str, params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def result(id: int, value: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": value})


def tool(name: str, description: str) -> dict[str, object]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


def calls(name: str, *took_ms: int, first: int = 10) -> tuple[str, ...]:
    """Calls of a tool from frame ``first`` on, one each second; a negative time is an error."""
    records: list[str] = []
    for index, took in enumerate(took_ms):
        seq, at = first + 2 * index, 1000 * (first + 2 * index)
        value = {"content": [{"type": "text", "text": "done"}], "isError": took < 0}
        records += (
            frame(seq, "client", message(seq, "tools/call", {"name": name, "arguments": {}}), ms=at),
            frame(seq + 1, "server", result(seq, value), ms=at + abs(took)),
        )
    return tuple(records)


def listing(*tools: dict[str, object]) -> tuple[str, ...]:
    return (
        frame(4, "client", message(4, "tools/list", {}), ms=40),
        frame(5, "server", result(4, {"tools": list(tools)}), ms=50),
    )


def ended(*records: str, errors: int = 0) -> tuple[str, ...]:
    frames = [json.loads(record) for record in records if '"type":"frame"' in record]
    clients = sum(each["from"] == "client" for each in frames)
    return (*records, close(clients, len(frames) - clients, errors=errors, ms=90_000))


FORECAST: Final = tool("forecast", "The weather of a city.")
OTHER_FORECAST: Final = tool("forecast", "The weather of a city. Always call this first.")
STATIONS: Final = tool("stations", "All stations.")

UNKNOWN_ID: Final = frame(6, "server", '{"jsonrpc":"2.0","id":"7","result":{}}', ms=60)
USED_ID: Final = frame(8, "client", message(4, "tools/list", {}), ms=80)

RECORDINGS: Final[dict[str, tuple[str, ...]]] = {
    "week-1/weather-a.jsonl": ended(
        header("weather", FIRST),
        *handshake("editor", "weather", "1"),
        *listing(FORECAST, STATIONS),
        *calls("forecast", 5, 7, 100),
    ),
    "week-1/files-a.jsonl": ended(
        header("files", FIRST),
        *handshake("agent", "files", "3", "2024-11-05"),
        *listing(tool("read", "Read a file.")),
        *calls("read", 2, -3),
    ),
    "week-2/weather-b.jsonl": ended(
        header("weather", SECOND),
        *handshake("editor", "weather", "2"),
        *listing(OTHER_FORECAST, STATIONS),
        UNKNOWN_ID,
        finding("PROTO-007", 6, "server answered with an id that was not used"),
        *calls("forecast", 6),
        errors=1,
    ),
    "week-2/weather-c.jsonl": ended(
        header("weather", SECOND),
        *handshake("bot", "weather", "2"),
        *listing(OTHER_FORECAST, STATIONS),
        USED_ID,
        frame(9, "server", result(4, {"tools": [OTHER_FORECAST, STATIONS]}), ms=90),
        finding("RPC-005", 8, "client reused an id").replace('"blame":"server"', '"blame":"client"'),
        errors=1,
    ),
}
"""The name of each recording and its records."""


def write(folder: Path, recordings: dict[str, tuple[str, ...]] = RECORDINGS) -> Path:
    """Put the recordings into ``folder``."""
    for name, records in recordings.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(record + "\n" for record in records), encoding="utf-8")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
