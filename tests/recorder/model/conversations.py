"""A conversation with a model, as the journal of a proxy before its interface has it."""

import json
from pathlib import Path
from typing import Any, Final

from mcpproxy.judge.session.frame import Frame, Sender
from mcpproxy.record.trace.reader import read_trace
from tests.recorder.http_journals import answer, client, client_eof, connect, post, server, server_eof, start
from tests.recorder.journals import EXIT, Entry, JournalFolder, record
from tests.trace.bodies import body_bytes

KEY: Final = "sk-test-0123456789abcdef"
TOOLS: Final[Any] = [
    {"name": f"tool_{number}", "description": "Says the weather. " * 20, "input_schema": {"type": "object"}}
    for number in range(4)
]


def turns(count: int, path: str = "/v1/messages", name: str = "messages") -> list[tuple[str, bytes, bytes]]:
    """Requests that each have the conversation so far again: the path, the body, the answer."""
    said: list[Any] = [{"role": "user", "content": "go"}]
    asked: list[tuple[str, bytes, bytes]] = []
    for number in range(count):
        call = {
            "type": "tool_use",
            "id": f"c{number}",
            "name": "tool_1",
            "input": {"token": f"t{number}", "code": "æ"},
        }
        body = {"model": "m", "tools": TOOLS, name: said, "max_tokens": 100 + number}
        reply = {"model": "m", "content": [{"type": "text", "text": "Let me look."}, call]}
        asked.append((path, json.dumps(body).encode(), json.dumps(reply).encode()))
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"result {number} " * 30}
        said = [*said, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return asked


def journal_of(
    asked: list[tuple[str, bytes, bytes]], *, kept: str = "everything", **members: Any
) -> list[Entry]:
    entries = [start(**{"endpoint": "", "model": "any", "kept": kept, **members}), connect()]
    for number, (path, body, reply) in enumerate(asked):
        entries += [
            client(post(body, f"x-api-key: {KEY}", target=path), 2 * number + 1),
            server(answer(reply), 2 * number + 2),
        ]
    return [*entries, client_eof(at=800), server_eof(at=801), EXIT]


def recorded(folder: Path, *segments: list[Entry]) -> Path:
    trace = folder / "m.jsonl"
    JournalFolder(trace, *segments)
    record(trace)
    return trace


def bodies(trace: Path, sender: Sender = "client") -> list[bytes]:
    """The bodies that one peer sent, as the reader gives them."""
    records = list(read_trace(str(trace)).records())
    exchanges = dict.fromkeys(one.exchange for one in records if isinstance(one, Frame))
    return [body_bytes(records, exchange, sender) for exchange in exchanges]
