"""How long a peer probably waits for an answer, as its recording says."""

import json
from pathlib import Path

import pytest

from mcpproxy.read.view.view import open_view
from mcpproxy.show.ui.held_sessions import SDK_LIMIT_S, probable_limit
from tests.view.situations import C, begun, write


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [
        ("McpError: MCP error -32001: Request timed out", 5.0),  # the TypeScript SDK
        ("timed out after 5.0s", 5.0),  # the Python SDK
        ("the user has cancelled it", SDK_LIMIT_S),
    ],
)
def test_a_client_that_gave_up_before_waits_as_long_again(
    tmp_path: Path, reason: str, seconds: float
) -> None:
    session = begun()
    session.asks(2, "tools/call", {"name": "forecast", "arguments": {}}, ms=1000)
    session.notifies("notifications/cancelled", {"requestId": 2, "reason": reason}, ms=6000, by=C)
    write(tmp_path / "s.jsonl", session.closes(ms=9000))
    with open_view(str(tmp_path / "s.jsonl")) as view:
        assert probable_limit(view, "client")["seconds"] == seconds
        assert probable_limit(view, "server")["seconds"] == SDK_LIMIT_S


def test_the_python_sdk_waits_without_a_limit(tmp_path: Path) -> None:
    records = begun().closes(ms=100)
    said = json.loads(records[1])
    said["message"]["params"]["clientInfo"] = {"name": "mcp", "version": "0.1.0"}
    write(tmp_path / "s.jsonl", (records[0], json.dumps(said), *records[2:]))
    with open_view(str(tmp_path / "s.jsonl")) as view:
        assert probable_limit(view, "client")["seconds"] is None
