"""A scripted agent finds three planted problems among two hundred recordings, and is told why."""

import os
import sys
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.peers.processes import ROOT
from tests.view.situations import Conversation, write

OTHERS: Final = 200


def recorded(folder: Path, name: str, minute: int) -> Conversation:
    started = f"2026-11-21T{10 + minute // 60:02}:{minute % 60:02}:00Z"
    about = Conversation(label=name, started_at=started)
    about.asks(1, "tools/call", {"name": name, "arguments": {"n": minute}}, ms=1)
    about.answers(1, {"content": [{"type": "text", "text": "done"}]}, ms=2)
    return about


def plant(folder: Path) -> None:
    """The problems began first, so that everything else is later."""
    flaky = recorded(folder, "flaky", 0)
    flaky.asks(2, "tools/call", {"name": "flaky", "arguments": {}}, ms=3)
    flaky.answers(2, {"content": [{"type": "text", "text": "db: connection reset"}], "isError": True}, ms=4)
    write(folder / "flaky.jsonl", flaky.closes(ms=9))
    hung = recorded(folder, "hung", 1)
    hung.asks(2, "tools/call", {"name": "hung", "arguments": {}}, ms=3)
    write(folder / "hung.jsonl", hung.closes(ms=60_000))
    noisy = recorded(folder, "noisy", 2)
    noisy.says("server", "Loading model, please wait", 3)
    write(folder / "noisy.jsonl", noisy.closes(ms=9))
    for number in range(OTHERS):
        other = recorded(folder, "fine", 3 + number)
        other.asks(2, "tools/call", {"name": "fine", "arguments": {}}, ms=3)
        other.answers(2, {"content": []}, ms=4)
        write(folder / f"fine-{number}.jsonl", other.closes(ms=9))


def test_three_planted_problems_are_found_and_explained(tmp_path: Path) -> None:
    plant(tmp_path)
    told: dict[str, str] = {}

    async def talk() -> None:
        options = ["-m", "mcpproxy", "mcp", str(tmp_path)]
        parameters = StdioServerParameters(
            command=sys.executable, args=options, cwd=ROOT, env=dict(os.environ)
        )
        async with Client(parameters) as client:

            async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return result.structured_content or {}

            for wanted in ("status:unsuccessful", "kind:not-a-message"):
                page = await ask("find_calls", filter=wanted)
                while not page["found"]:  # a slow machine searches in several parts
                    assert "call again with next" in page["note"]
                    page = await ask("find_calls", filter=wanted, cursor=page["next"])
                for found in page["found"]:
                    for call in found["calls"]:
                        detail = await ask("get_call", recording=found["recording"], call=call["call"])
                        told[found["recording"]] = detail.get("cause") or detail["parts"][0]["text"]

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(talk)
    assert told.keys() == {"flaky", "hung", "noisy"}
    assert "db: connection reset" in told["flaky"]
    assert "no answer" in told["hung"].lower()
    assert "Loading model, please wait" in told["noisy"]
