"""Both sides of a run as recordings: a server, and a host that renames, cuts and leaves out."""

import json
from pathlib import Path
from typing import Any, Final

from mcpproxy.judge.session.masked_values import mask
from tests.view.logins import Recorded
from tests.view.situations import Conversation

BASE: Final = "http://127.0.0.1:8901"
PICTURE: Final = "aGVsbG8="
SOUND: Final = "c291bmQ="
LONG: Final = "Says the weather. " * 200

LATER_ON: Final = "2026-11-21T10:20:31.123456Z"
"""A second after the session of the server began: its last call is answered, and it is still open."""

OBJECT: Final = {"type": "object"}


def with_date(**format: str) -> dict[str, Any]:
    """Return a schema of one property."""
    return {"type": "object", "properties": {"at": {"type": "string", **format}}}


def tool(name: str, description: str, schema: Any = OBJECT) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


def offered(name: str, description: str, schema: Any = OBJECT) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}


TOOLS: Final = [
    tool("now", LONG, with_date(format="date")),
    tool("wind.speed", "The wind."),
    tool("tides", "The tides."),
]
LATER: Final = [tool("moon", "The moon.")]
RESULT: Final = {
    "content": [
        {"type": "text", "text": "sunny"},
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "audio", "data": SOUND, "mimeType": "audio/wav"},
    ],
    "structuredContent": {"sky": "clear"},
}


def server(folder: Path, *, label: str = "weather", name: str = "w", **next: str) -> Path:
    """A session: two pages of tools, two calls. ``next`` is the ``nextCursor`` of the second page, if any."""
    talk = Conversation(label=label)
    begins: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
    hello = begins | {"capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    info = begins | {"serverInfo": {"name": "w", "version": "1"}}
    talk.asks(1, "initialize", hello, ms=1)
    talk.answers(1, info | {"instructions": "Ask for a city first."}, ms=2)
    talk.asks(2, "tools/list", {}, ms=3)
    talk.answers(2, {"tools": TOOLS, "nextCursor": "p2"}, ms=4)
    talk.asks(3, "tools/list", {"cursor": "p2"}, ms=5)
    talk.answers(3, {"tools": LATER, **next}, ms=6)
    talk.asks(4, "tools/call", {"name": "now", "arguments": {"at": "2026-11-28", "token": "t"}}, ms=7)
    talk.answers(4, RESULT, ms=8)
    talk.asks(5, "tools/call", {"name": "wind.speed", "arguments": {"unit": "m/s"}}, ms=9)
    talk.answers(5, {"content": [{"type": "text", "text": "x" * 5000}]}, ms=10)
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(talk.closes(ms=5000)) + "\n", encoding="utf-8")
    return path


def model(folder: Path, *, refusal: Any = None) -> Path:
    """What a host made of it: Anthropic Messages, a request with the tools, and one with the results."""
    said = Recorded(folder / "m.jsonl", label="model", upstream=BASE, started_at=LATER_ON)
    tools = [
        offered("Bash", "A shell."),
        offered("mcp__weather__now", LONG[:2048] + "… [truncated]", with_date()),
        offered("mcp__weather__wind_speed", "The wind."),
        offered("mcp__weather__tides", "The tides."),
    ]
    question = {"role": "user", "content": "go"}
    asked: dict[str, Any] = {"model": "claude", "tools": tools, "messages": [question]}
    first = {"at": "2026-11-28", "token": str(mask("t"))}
    calls = [
        {"type": "tool_use", "id": "a", "name": "mcp__weather__now", "input": first},
        {"type": "tool_use", "id": "b", "name": "mcp__weather__wind_speed", "input": {"unit": "km/h"}},
    ]
    picture = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    kept = [{"type": "text", "text": '{"sky": "clear"}'}, {"type": "image", "source": picture}]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": kept},
        {"type": "tool_result", "tool_use_id": "b", "content": "x" * 2000 + " (cut)"},
    ]
    usage = {"input_tokens": 700, "output_tokens": 9}
    url = f"{BASE}/v1/messages"
    if refusal is not None:
        said.ask("POST", url, (400, {}, refusal), body=asked)
    else:
        said.ask("POST", url, (200, {}, {"model": "claude", "content": calls, "usage": usage}), body=asked)
        history = [
            *asked["messages"],
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
        ]
        done = {
            "model": "claude",
            "content": [{"type": "text", "text": "ok"}],
            "usage": usage | {"input_tokens": 2900},
        }
        said.ask("POST", url, (200, {}, done), body=asked | {"messages": history})
    said.login()
    return said.path


def of_a_model(path: Path) -> Path:
    """Give a recording the header that ``mcpproxy model`` writes."""
    header, *records = path.read_text(encoding="utf-8").splitlines()
    about = json.dumps({**json.loads(header), "model": "any", "kept": "tools"})
    path.write_text("\n".join([about, *records, ""]), encoding="utf-8")
    return path
