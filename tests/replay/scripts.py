"""Recordings written as conversations, and the live client that talks to their replay.

A line is ``C`` or ``S`` (who said it) and a message. Each line comes ``ms_apart`` after the one before, by
default a millisecond.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mcpproxy.peers.replay.recording import LoadedTrace, RecordedSession, load
from mcpproxy.peers.replay.server.engine import ReplayEngine, ReplayOptions
from mcpproxy.peers.replay.server.replay_source import replay_source
from tests.cli.recordings import HEADER, close, frame

C: Final = "client"
S: Final = "server"

Line = tuple[str, Any]


def ask(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({"params": params} if params else {})


def tell(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {})


def give(id: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def call(id: Any, tool: str, *, token: Any = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    return ask(
        id, "tools/call", **(params if token is None else params | {"_meta": {"progressToken": token}})
    )


def text(id: Any, said: str) -> dict[str, Any]:
    return give(id, content=[{"type": "text", "text": said}])


HELLO: Final[tuple[Line, ...]] = (
    (C, ask(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})),
    (S, give(0, protocolVersion="2025-11-25", capabilities={"tools": {}}, serverInfo={"name": "s"})),
    (C, tell("notifications/initialized")),
)


def trace(path: Path, lines: Sequence[Line], *, is_cut: bool = False, ms_apart: int = 1) -> Path:
    """A trace of these lines; a ``str`` is a line that is no JSON."""
    records = [HEADER]
    count = {C: 0, S: 0}
    for number, (sender, said) in enumerate(lines, 1):
        count[sender] += 1
        if isinstance(said, str):
            t = number * ms_apart * 1_000_000
            record = {"type": "frame", "seq": number, "t": t, "from": sender, "text": said}
            records.append(json.dumps(record))
        else:
            records.append(frame(number, sender, json.dumps(said), ms=number * ms_apart))
    if not is_cut:
        records.append(close(count[C], count[S], ms=max(12_300, len(lines) * ms_apart)))
    path.write_text("".join(record + "\n" for record in records))
    return path


def recording(folder: Path, *lines: Line, is_cut: bool = False) -> LoadedTrace:
    return load(trace(folder / "t.jsonl", lines, is_cut=is_cut))


def session(folder: Path, *lines: Line) -> RecordedSession:
    return replay_source(recording(folder, *lines)).as_one()


class Player:
    """A live client of the engine: what it says, and what comes back."""

    def __init__(self, folder: Path, *lines: Line, is_cut: bool = False, **options: Any) -> None:
        found = replay_source(recording(folder, *lines, is_cut=is_cut))
        self.engine = ReplayEngine(found.as_one(), ReplayOptions(complete=found.complete, **options))
        self.notes: list[str] = []
        self.delays_ms: list[float] = []

    def begin(self) -> list[Any]:
        return [json.loads(out.raw) for out in self.engine.begin()]

    def say(self, message: Any) -> list[Any]:
        """What the replay sends upon ``message``."""
        heard = self.engine.receive(json.dumps(message).encode())
        self.notes += heard.notes
        self.delays_ms = [out.delay_ns / 1e6 for out in heard.outgoing]
        return [json.loads(out.raw) for out in heard.outgoing]
