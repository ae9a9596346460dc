"""How the peers of a session agreed on its revision, in one line."""

from pathlib import Path
from typing import Any

from mcpproxy.base.style import Style
from mcpproxy.cli.calls.listing import listing
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.read.view.negotiation import negotiations
from mcpproxy.read.view.view import open_view
from tests.view.situations import INITIALIZE, INITIALIZED, Conversation, begun, write

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "desk", "version": "3"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
OLDER = {**INITIALIZED, "protocolVersion": "2025-06-18"}
UNKNOWN = "Method not found"


def agreed(session: Conversation, tmp_path: Path, ms: float = 900) -> dict[int, str]:
    return negotiations(open_view(write(tmp_path / "s.jsonl", session.closes(ms=ms))))


def test_of_a_handshake_that_got_what_it_asked_for_nothing_is_said(tmp_path: Path) -> None:
    assert agreed(begun(), tmp_path) == {}


def test_an_older_revision_than_was_asked_for(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(1, "initialize", INITIALIZE, ms=0)
    session.answers(1, OLDER, ms=5)
    assert agreed(session, tmp_path) == {0: "initialize for 2025-11-25: 2025-06-18"}
    shown = list(listing(open_view(str(tmp_path / "s.jsonl")), parse_filter(""), Style()))
    assert shown[2:4] == ["desk 2.1 → weather 1.4, MCP 2025-06-18", "  initialize for 2025-11-25: 2025-06-18"]


def test_a_probe_that_the_server_does_not_know(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(0, "server/discover", {"_meta": META}, ms=0)
    session.fails(0, -32601, UNKNOWN, ms=5)
    session.asks(1, "initialize", INITIALIZE, ms=10)
    session.answers(1, OLDER, ms=15)
    probe = "server/discover for 2026-07-28: declined -32601"
    assert agreed(session, tmp_path) == {0: f"{probe}; initialize for 2025-11-25: 2025-06-18"}


def test_a_probe_that_is_not_answered(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(0, "server/discover", {"_meta": META}, ms=0)
    assert agreed(session, tmp_path) == {0: "server/discover for 2026-07-28: unanswered for 900 ms"}


def test_a_probe_over_http_is_of_the_session_that_begins_next(tmp_path: Path) -> None:
    session = Conversation(http=True)
    for exchange, name in ((1, "a1"), (3, "b2")):
        at = exchange * 10
        inside: dict[str, Any] = {"exchange": exchange + 1, "connection": exchange + 1}
        session.posts(exchange, ms=at)
        session.asks(0, "server/discover", {"_meta": META}, ms=at, exchange=exchange, connection=exchange)
        session.responds(exchange, 400, ms=at + 1)
        session.ends(exchange, ms=at + 2)
        session.posts(exchange + 1, ms=at + 3)
        session.asks(1, "initialize", INITIALIZE, ms=at + 3, **inside)
        session.responds(exchange + 1, 200, ms=at + 4, session=name)
        session.answers(1, OLDER, ms=at + 5, **inside)
        session.ends(exchange + 1, ms=at + 6)
    told = agreed(session, tmp_path)
    words = "server/discover for 2026-07-28: declined 400; initialize for 2025-11-25: 2025-06-18"
    assert list(told.values()) == [words, words]


def test_a_session_without_a_handshake(tmp_path: Path) -> None:
    result: dict[str, Any] = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    session = Conversation()
    session.asks(1, "tools/list", {"_meta": META}, ms=0)
    session.answers(1, result, ms=5)
    assert agreed(session, tmp_path) == {0: "no probe: each request names 2026-07-28"}


def test_what_a_server_lists_is_bounded_and_safe_to_show(tmp_path: Path) -> None:
    session = Conversation()
    session.asks(0, "server/discover", {"_meta": META}, ms=0)
    listed = ["2026-07-28", "a\x1b[2Jb", 7, "x" * 100, *map(str, range(90))]
    session.answers(0, {"supportedVersions": listed, "capabilities": {}}, ms=5)
    for id in range(1, 9):
        session.asks(id, "initialize", {**INITIALIZE, "protocolVersion": [id]}, ms=id * 10)
        session.fails(id, -32602, "Unsupported protocol version", ms=id * 10 + 5)
    told = agreed(session, tmp_path)[0]
    assert told.startswith(f"server/discover for 2026-07-28: 2026-07-28, a\\u001b[2Jb, 7, {'x' * 64}, 0, 1; ")
    assert told.endswith("; initialize: error -32602; 3 more")
