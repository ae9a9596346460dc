"""What judging costs per frame, every rule on, beside what parsing the same bytes costs.

Small frames, as most are, written without spaces, as the SDKs write them: the two directions of each kind
of traffic in turn, and no finding, because a session that is as it should be is what must be cheap. CPU
time of one process, so that other work on the machine counts little.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Frame, Sender
from mcpproxy.protocol.jsonrpc import JSON
from tests.benchmarks.options import Options
from tests.benchmarks.report import Samples, Section
from tests.benchmarks.sessions import WrongBytesError

VARIANTS: Final = ("orjson alone", "judge")
FRAMES: Final = 20_000
SHORT_FRAMES: Final = 200

STATELESS: Final[JSON] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TOOL: Final[JSON] = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
TEXT: Final = "x" * 60

Line = tuple[Sender, bytes]


@dataclass(frozen=True)
class Traffic:
    """One kind of conversation: how it opens, and the frames of turn ``n``."""

    name: str
    opening: tuple[Line, ...]
    turn: Callable[[int], tuple[Line, ...]]

    def lines(self, frames: int) -> Iterator[Line]:
        """The opening, and then turns until there are about so many frames."""
        yield from self.opening
        for n in range(1, frames // len(self.turn(0)) + 1):
            yield from self.turn(n)


def client(message: dict[str, JSON]) -> Line:
    return "client", orjson.dumps({"jsonrpc": "2.0", **message})


def server(message: dict[str, JSON]) -> Line:
    return "server", orjson.dumps({"jsonrpc": "2.0", **message})


def handshake(revision: str) -> tuple[Line, ...]:
    info: JSON = {"name": "bench", "version": "1.0.0"}
    opening: JSON = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    answer: JSON = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info}
    return (
        client({"id": "a", "method": "initialize", "params": opening}),
        server({"id": "a", "result": answer}),
        client({"method": "notifications/initialized"}),
        client({"id": "b", "method": "tools/list"}),
        server({"id": "b", "result": {"tools": [TOOL]}}),
    )


def call(n: int) -> tuple[Line, ...]:
    return (
        client({"id": n, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": TEXT}}}),
        server({"id": n, "result": {"content": [{"type": "text", "text": TEXT}]}}),
    )


def call_with_progress(n: int) -> tuple[Line, ...]:
    params: JSON = {"name": "echo", "arguments": {"text": TEXT}, "_meta": {"progressToken": n}}
    steps = (
        server(
            {"method": "notifications/progress", "params": {"progressToken": n, "progress": k, "total": 8}}
        )
        for k in range(8)
    )
    answer: JSON = {"content": [{"type": "text", "text": TEXT}]}
    return (
        client({"id": n, "method": "tools/call", "params": params}),
        *steps,
        server({"id": n, "result": answer}),
    )


def stateless_call(n: int) -> tuple[Line, ...]:
    params: JSON = {"name": "echo", "arguments": {"text": TEXT}, "_meta": STATELESS}
    answer: JSON = {"resultType": "complete", "content": [{"type": "text", "text": TEXT}]}
    return (
        client({"id": n, "method": "tools/call", "params": params}),
        server({"id": n, "result": answer}),
    )


def ping(n: int) -> tuple[Line, ...]:
    return client({"id": n, "method": "ping"}), server({"id": n, "result": {}})


def acp_opening() -> tuple[Line, ...]:
    info: JSON = {"name": "bench", "version": "1.0.0"}
    return (
        client({"id": "a", "method": "initialize", "params": {"protocolVersion": 1, "clientInfo": info}}),
        server({"id": "a", "result": {"protocolVersion": 1, "agentInfo": info}}),
        client({"id": "b", "method": "session/new", "params": {"cwd": "/srv", "mcpServers": []}}),
        server({"id": "b", "result": {"sessionId": "s"}}),
    )


def prompt_turn(n: int) -> tuple[Line, ...]:
    text: JSON = {"type": "text", "text": TEXT}
    call: dict[str, JSON] = {"toolCallId": f"t{n}"}
    updates: tuple[dict[str, JSON], ...] = (
        {"sessionUpdate": "tool_call", "title": "Build", "status": "pending", **call},
        {"sessionUpdate": "tool_call_update", "status": "completed", **call},
        *({"sessionUpdate": "agent_message_chunk", "content": text} for _ in range(6)),
    )
    return (
        client({"id": n, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [text]}}),
        *(server({"method": "session/update", "params": {"sessionId": "s", "update": u}}) for u in updates),
        server({"id": n, "result": {"stopReason": "end_turn"}}),
    )


TRAFFIC: Final = (
    Traffic("tools/call, 2025-06-18", handshake("2025-06-18"), call),
    Traffic("tools/call, 2025-11-25", handshake("2025-11-25"), call),
    Traffic("tools/call, 2026-07-28", (), stateless_call),
    Traffic("progress notifications, 2025-11-25", handshake("2025-11-25"), call_with_progress),
    Traffic("ping, 2025-11-25", handshake("2025-11-25"), ping),
    Traffic("prompt turns, ACP 1", acp_opening(), prompt_turn),
)


def run(options: Options) -> list[Section]:
    """Judge every kind of traffic, in turn with parsing it.

    Raises:
        WrongBytesError: the judge objected to lawful traffic.
    """
    samples = Samples()
    for _ in range(options.rounds):
        for traffic in TRAFFIC:
            lines = list(traffic.lines(options.size(FRAMES, SHORT_FRAMES)))
            row = f"{traffic.name}, µs per frame"
            samples.add(row, "orjson alone", _cost(lines, parse_all))
            samples.add(row, "judge", _cost(lines, judge_all))
    return [Section("judge", samples, VARIANTS[-1:] if options.ours else VARIANTS)]


def _cost(lines: list[Line], work: Callable[[list[Line]], None]) -> float:
    started = time.process_time()
    work(lines)
    return (time.process_time() - started) / len(lines) * 1e6


def parse_all(lines: list[Line]) -> None:
    for _, raw in lines:
        orjson.loads(raw)


def judge_all(lines: list[Line]) -> None:
    observer = Observer(catalogue.load())
    for seq, (sender, raw) in enumerate(lines, start=1):
        if found := observer.observe(Frame(seq, sender, raw, seq * 1000)):
            raise WrongBytesError(f"judge: frame {seq} is lawful, but: {found[0].rule} {found[0].message}")
