"""Runs of a host as recordings: what a server listed and answered, and what the requests to the model had."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mcpproxy.judge.ruleset import catalogue
from mcpproxy.read.opening import open_trace
from mcpproxy.read.prompt.findings import PromptFinding, prompt_findings
from mcpproxy.read.prompt.run import read_run
from mcpproxy.read.prompt.words import call_words
from tests.prompt.sides import BASE, LATER_ON, offered, tool
from tests.view.logins import Recorded
from tests.view.situations import Conversation

PREFIX: Final = "mcp__weather__"

Call = tuple[str, Any, Any]
"""The name of a tool, its arguments, and its result, or the content that the model was given."""


def named(*names: str) -> list[dict[str, Any]]:
    """Return tools as a server lists them."""
    return [tool(name, f"Says {name}.") for name in names]


def given(*names: str, prefix: str = PREFIX, **members: Any) -> list[dict[str, Any]]:
    """Return the same tools as a host offers them to its model, each with more ``members``."""
    return [offered(prefix + name, f"Says {name}.") | members for name in names]


def text(words: str) -> dict[str, Any]:
    """Return a result of one text."""
    return {"content": [{"type": "text", "text": words}]}


def served(
    folder: Path,
    tools: Sequence[Mapping[str, Any]],
    *calls: Call,
    name: str = "weather",
    next: str = "",
    later: Sequence[Mapping[str, Any]] = (),
    at_ms: float = 2,
    answered_ms: float = 8,
    ends_ms: float = 60_000,
    meta: Mapping[str, Any] | None = None,
    **header: Any,
) -> str:
    """Write the session of a server: its list, of which ``later`` is the second page, and calls."""
    talk = Conversation(label=name, **header)
    begins: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    talk.asks(0, "initialize", begins | {"clientInfo": {"name": "host", "version": "1"}}, ms=0)
    talk.answers(0, begins | {"serverInfo": {"name": name, "version": "1"}}, ms=1)
    talk.asks(1, "tools/list", {}, ms=1.5)
    talk.answers(1, {"tools": tools} | ({"nextCursor": next} if next else {}), ms=at_ms)
    if later:
        talk.asks(2, "tools/list", {"cursor": next}, ms=at_ms)
        talk.answers(2, {"tools": later}, ms=at_ms)
    for number, (called, arguments, result) in enumerate(calls, 3):
        params = {"name": called, "arguments": arguments} | ({"_meta": meta} if meta else {})
        talk.asks(number, "tools/call", params, ms=max(at_ms, 7))
        talk.answers(number, result, ms=max(at_ms, answered_ms))
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(talk.closes(ms=ends_ms)) + "\n", encoding="utf-8")
    return str(path)


def asked(
    folder: Path,
    *requests: Sequence[Mapping[str, Any]],
    calls: Sequence[Call] = (),
    prompt: str = "go",
    refusal: Any = None,
) -> str:
    """Write the conversation with the model: each request is the tools that it offers. The model answers the
    first one with ``calls``, and is given their contents by the second one."""
    said = Recorded(folder / "m.jsonl", label="model", upstream=BASE, started_at=LATER_ON)
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    uses = [
        {"type": "tool_use", "id": f"id{at}", "name": name, "input": arguments}
        for at, (name, arguments, _) in enumerate(calls)
    ]
    told = [
        {"type": "tool_result", "tool_use_id": f"id{at}", "content": content}
        for at, (_, _, content) in enumerate(calls)
    ]
    for number, tools in enumerate(requests):
        history = messages if number == 0 else [*messages, _by("assistant", uses), _by("user", told)]
        body: dict[str, Any] = {"model": "claude", "tools": tools, "messages": history}
        answer: dict[str, Any] = {"model": "claude", "content": uses if number == 0 else []}
        said.ask(
            "POST", f"{BASE}/v1/messages", (400, {}, refusal) if refusal else (200, {}, answer), body=body
        )
    said.login()
    return str(said.path)


def conversed(folder: Path, *turns: tuple[Any, Any], path: str = "/v1/messages") -> str:
    """Write the conversation with the model: each turn is a request, and its answer or a status alone."""
    said = Recorded(folder / "m.jsonl", label="model", upstream=BASE, started_at=LATER_ON)
    for body, answer in turns:
        refused = answer if isinstance(answer, int) else 0
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}
        said.ask("POST", f"{BASE}{path}", (refused or 200, {}, error if refused else answer), body=body)
    said.login()
    return str(said.path)


def calls_of(model: str, *servers: str) -> list[list[str]]:
    """Return what ``mcpproxy prompt`` says of each call on the wire."""
    report = read_run(open_trace(model), servers)
    return [list(call_words(way)) for server in report.servers for way in server.calls]


def _by(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def findings(model: str, *servers: str) -> tuple[PromptFinding, ...]:
    """Return what is found in a run."""
    return prompt_findings(read_run(open_trace(model), servers), model, catalogue.load())


def found(model: str, *servers: str) -> list[tuple[str, str, str, str | None]]:
    """Return rule, level, peer and place of each finding."""
    each = (one.finding for one in findings(model, *servers))
    return [(one.rule, one.severity, one.blame, one.pointer) for one in each]
