"""Recordings over HTTP, as the commands show and judge them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Mcpproxy
from tests.recorder.http_journals import (
    CONVERSATION,
    LIST,
    SESSION_ID,
    TOOLS,
    answer,
    client,
    connect,
    post,
    server,
    start,
)
from tests.recorder.journals import EXIT, JournalFolder


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A conversation, still to be folded from its journal."""
    path = tmp_path / "h.jsonl"
    JournalFolder(path, CONVERSATION)
    return str(path)


def test_a_conversation_over_http(mcpproxy: Mcpproxy, trace: str) -> None:
    shown = mcpproxy("show", "--frames", trace)
    assert (shown.code, shown.err) == (0, "")
    lines = [line for line in shown.out.splitlines() if "└" not in line]
    assert lines[1] == "srv, 2026-11-21 10:20:30 UTC: http://127.0.0.1:3001/mcp"
    words = [line[34:].rstrip() for line in lines[4:]]
    session = words[2].rpartition(" ")[2]
    assert len(session) == 8
    assert words[0] == "→ #1 POST /mcp"
    assert words[1].startswith("→ #1 initialize id 0  {")
    assert words[2] == f"← #1 200 OK  application/json  session {session}"
    assert words[3].startswith("← #1 answer to initialize id 0  {")
    assert words[4:8] == [
        f"→ #2 POST /mcp  session {session}",
        "→ #2 notifications/initialized",
        "← #2 202 Accepted",
        f"→ #3 POST /mcp  session {session}",
    ]
    assert "← #3 event without data event id 1 retry 500 ms" in words
    assert '← #3 answer to tools/list id 1 event id 2  {"tools":[]}' in words
    assert "end #3 cut short by the server" in [line[26:].strip() for line in lines]
    assert "← #6 502 Bad Gateway  application/json  from mcpproxy" in words
    assert "→ #5 body  grant_type=code&code=masked" in shown.out
    assert "mcpproxy connection 1: upstream-failed: refused" in shown.out
    assert "connected" not in shown.out


def test_heads_in_full(mcpproxy: Mcpproxy, trace: str) -> None:
    out = mcpproxy("show", "--frames", "--full", trace).out
    assert "Authorization: Bearer masked(len=6,visible=yes,hash=" in out
    assert "mcpproxy connection 1: connected: 127.0.0.1:5 to 127.0.0.1:3001" in out
    assert "end #1\n" in out
    assert SESSION_ID not in out


def test_for_machines(mcpproxy: Mcpproxy, trace: str) -> None:
    objects = [json.loads(line) for line in mcpproxy("show", "--json", trace).out.splitlines()]
    assert objects[0]["upstream"] == "http://127.0.0.1:3001/mcp"
    heads = [o for o in objects if o["kind"] in ("http-request", "http-response")]
    assert [(o.get("target"), o.get("status"), o["exchange"]) for o in heads[:3]] == [
        ("/mcp", None, 1),
        (None, 200, 1),
        ("/mcp", None, 2),
    ]
    (answered,) = [o for o in objects if o.get("event", {}).get("id") == "2"]
    assert (answered["kind"], answered["method"], answered["exchange"]) == ("response", "tools/list", 3)
    assert answered["session"] == heads[1]["session"]
    assert {"end", "proxy", "close"} <= {o["kind"] for o in objects}


TWO_SESSIONS = [
    start(),
    connect(1),
    connect(2),
    *(
        entry
        for number, id in ((1, "a" * 32), (2, "b" * 32))
        for entry in (
            client(post(LIST, f"Mcp-Session-Id: {id}"), number, number),
            server(answer(TOOLS.replace(b"1", b"9") if number == 2 else TOOLS), number + 5, number),
        )
    ),
    EXIT,
]
"""The second server answers another question than it was asked."""


@pytest.fixture
def two(tmp_path: Path) -> str:
    path = tmp_path / "two.jsonl"
    JournalFolder(path, TWO_SESSIONS)
    return str(path)


def sessions(mcpproxy: Mcpproxy, trace: str) -> list[str]:
    """Names of the sessions in the order in which they come."""
    lines = map(json.loads, mcpproxy("show", "--json", trace).out.splitlines())
    return list(dict.fromkeys(o["session"] for o in lines if o.get("session")))


def test_one_session_is_shown(mcpproxy: Mcpproxy, two: str) -> None:
    first, second = sessions(mcpproxy, two)
    out = mcpproxy("show", "--frames", "--session", second[:5], two).out
    assert "#2 POST /mcp" in out
    assert "#1 POST" not in out
    assert first not in out
    assert "mcpproxy was stopped" in out
    calls = mcpproxy("show", "--session", second[:5], two).out
    assert f"2 rows of 3 shown: session:{second}" in calls


def test_one_session_is_reported_on(mcpproxy: Mcpproxy, two: str) -> None:
    first, second = sessions(mcpproxy, two)
    everything = json.loads(mcpproxy("check", "--format", "json", two).out)["traces"][0]
    parts = [
        json.loads(mcpproxy("check", "--format", "json", "--session", name, two).out)["traces"][0]
        for name in (first, second)
    ]
    assert parts[1]["findings"]
    assert [f for part in parts for f in part["findings"]] == [
        f for f in everything["findings"] if f["frame"]
    ]
    assert [part["frames"] for part in parts] == [2, 2]


def test_a_session_that_is_not_there(mcpproxy: Mcpproxy, two: str) -> None:
    names = ", ".join(sorted(sessions(mcpproxy, two)))
    for command in ("show", "check"):
        said = mcpproxy(command, "--session", "none", two)
        assert said.code == 2
        assert f"mcpproxy: {two}: no session none in it; there are {names}\n" in said.err


def test_one_session_is_not_followed(mcpproxy: Mcpproxy, two: str) -> None:
    said = mcpproxy("show", "--session", "x", "--follow", two)
    assert (said.code, said.err) == (2, "mcpproxy: --session: is not for --follow; leave one of them out\n")


def test_the_list_tells_the_server(mcpproxy: Mcpproxy, two: str) -> None:
    assert mcpproxy("show", two).code == 0
    (recording,) = json.loads(mcpproxy("list", "--json", str(Path(two).parent)).out)["traces"]
    assert (recording["transport"], recording["upstream"]) == ("http", "http://127.0.0.1:3001/mcp")
    assert "http://127.0.0.1:3001/mcp" in mcpproxy("list", str(Path(two).parent)).out
