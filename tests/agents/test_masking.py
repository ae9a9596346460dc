"""No secret leaves a recording: not in an answer, and not by what a filter finds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents.agent import Agent, calls_in
from tests.cli import recordings
from tests.view.situations import Conversation, write

KEY: Final = "sk-live0123456789abcdefghijklmnop"
PASSWORD: Final = "correct-horse-7-battery"
OTHER: Final = "ghp_0123456789abcdefghijklmnopqrstuvwxyz01"
URL: Final = "https://me:hunter2hunter2@example.test/x"
SECRETS: Final = (KEY, PASSWORD, OTHER, "hunter2hunter2")


def recorded(path: Path) -> None:
    """Write a session with a secret in every place that an answer shows."""
    about = Conversation(label=f"files {OTHER}", command=["python", "server.py", "--token", PASSWORD, URL])
    client = {"name": f"client {OTHER}", "version": "1"}
    about.asks(
        1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}, ms=1
    )
    server = {"name": f"server {OTHER}", "version": KEY}
    about.answers(1, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server}, ms=2)
    about.asks(2, "tools/list", ms=3)
    tool = {"name": "login", "description": f"use {KEY}", "inputSchema": {"type": "object"}}
    about.answers(2, {"tools": [tool]}, ms=4)
    about.asks(3, "tools/call", {"name": "login", "arguments": {"password": PASSWORD, "note": KEY}}, ms=5)
    about.notifies("notifications/message", {"level": "info", "data": {"api_key": PASSWORD}}, ms=6)
    about.answers(3, {"content": [{"type": "text", "text": f'{{"password": "{PASSWORD}"}} {OTHER}'}]}, ms=7)
    about.asks(4, "resources/read", {"uri": URL}, ms=8)
    about.fails(4, -32602, f"no access with {KEY}", ms=9)
    about.asks(5, "tools/call", {"name": OTHER}, ms=10)
    found = recordings.finding("PROTO-007", 5, f'answered with "{PASSWORD}" and {KEY}')
    stderr = json.dumps({"type": "stderr", "t": 11_000_000, "text": f"listening with password={PASSWORD}"})
    write(path, (*about.records, found, stderr))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    recorded(tmp_path / "a.jsonl")
    recorded(tmp_path / "b.jsonl")
    with Agent(tmp_path) as made:
        yield made


def every_answer(agent: Agent) -> list[dict[str, Any]]:
    rows = calls_in(agent("find_calls", recording="a"))
    return [
        *agent.pages("list_recordings"),
        *agent.pages("describe_recording"),
        *agent.pages("find_calls"),
        *(agent("get_call", recording="a", call=row["call"]) for row in rows),
        *(agent("get_frame", recording="a", frame=frame) for frame in range(1, 11)),
        *agent.pages("list_findings", recording="a"),
        *agent.pages("get_statistics", recording="a"),
        *agent.pages("get_context_cost", recording="a"),
        *agent.pages("compare_recordings", before="a", after="b"),
    ]


def test_no_answer_has_a_secret(agent: Agent) -> None:
    said = json.dumps(every_answer(agent))
    assert [secret for secret in SECRETS if secret in said] == []
    assert said.count("masked(") > 30


def test_a_large_answer_has_no_secret(tmp_path: Path) -> None:
    about = Conversation()
    about.asks(1, "tools/call", {"name": "t"}, ms=1)
    text = f'{{"password": "{PASSWORD}", "rest": "{"x" * 400_000}"}}'
    about.answers(1, {"content": [{"type": "text", "text": text}]}, ms=2)
    write(tmp_path / "large.jsonl", tuple(about.records))
    agent = Agent(tmp_path)
    said = json.dumps([*agent.pages("find_calls"), agent("get_call", call=1), agent("get_frame", frame=2)])
    assert PASSWORD not in said
    assert "masked(" in said


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("term", ['"{}"', "tool:{}*", "resource:*{}*", "target:*{}*", "method:*{}*"])
def test_a_filter_does_not_tell_whether_a_secret_is_there(agent: Agent, secret: str, term: str) -> None:
    for part in (secret, secret[:12]):
        wanted = term.format(part)
        assert agent("find_calls", recording="a", filter=wanted)["total"] == 0
        rest = agent("find_calls", recording="a", filter=f"-{wanted}")["total"]
        assert rest == agent("find_calls", recording="a")["total"]


def test_a_text_beside_a_secret_is_found(agent: Agent) -> None:
    assert agent("find_calls", recording="a", filter='"no access with"')["total"] == 1
    assert agent("find_calls", recording="a", filter="tool:login")["total"] == 1


def test_equal_secrets_are_equal_in_two_recordings(agent: Agent) -> None:
    assert agent("compare_recordings", before="a", after="b")["differences"] == []
    texts = [agent("get_frame", recording=name, frame=5)["text"] for name in ("a", "b")]
    assert texts[0] == texts[1]


def test_a_finding_does_not_quote_a_masked_value(agent: Agent) -> None:
    message = agent("list_findings", recording="a")["findings"][0]["message"]
    assert message.startswith('answered with "…" and masked(')


def over_http(path: Path) -> None:
    """Write a session with secrets in the heads of requests and answers, in URLs and on stderr."""
    query = f"https://example.test/mcp?access_token={PASSWORD}"
    about = Conversation(http=True, upstream=f"{query}&user=1", endpoint=f"/mcp?token={PASSWORD}")
    fields = [
        ["authorization", f"Bearer {PASSWORD}"],
        ["cookie", f"sid={PASSWORD}"],
        ["x-api-key", PASSWORD],
        ["mcp-session-id", PASSWORD],
        ["mcp-param-password", PASSWORD],
        ["x-note", f"see {URL}"],
    ]
    about.posts(1, ms=1, target=f"/mcp?token={PASSWORD}", headers=fields)
    arguments = {"url": query, "json": json.dumps({"config": json.dumps({"password": PASSWORD})})}
    about.asks(1, "tools/call", {"name": "t", "arguments": arguments}, ms=2, exchange=1)
    about.says("server", f"not JSON: password={PASSWORD}", 3, exchange=1)
    about.answers(1, {"content": [{"type": "resource_link", "uri": query, "name": OTHER}]}, ms=4, exchange=1)
    about.ends(1, ms=5)
    batch = [{"jsonrpc": "2.0", "method": "notifications/x", "params": {"client_secret": PASSWORD}}]
    about.says("client", batch, 6)
    head = {"exchange": 1, "connection": 1, "status": 500, "reason": f"no {OTHER}", "version": "1.1"}
    answer = json.dumps({"type": "response", "seq": 6, "t": 7, **head, "headers": [["set-cookie", PASSWORD]]})
    lines = (f"Authorization: Bearer {PASSWORD}", json.dumps({"password": PASSWORD}), f"GET {query} {URL}")
    stderr = [json.dumps({"type": "stderr", "t": 8, "text": line}) for line in lines]
    gap = {"type": "gap", "t": 9, "client": 0, "server": 0, "stderr": 1}
    gap |= {"reason": f"after {OTHER}"}
    write(path, (*about.records, answer, *stderr, json.dumps(gap)))


def test_no_answer_has_a_secret_of_a_head_a_url_or_stderr(tmp_path: Path) -> None:
    over_http(tmp_path / "a.jsonl")
    over_http(tmp_path / "b.jsonl")
    agent = Agent(tmp_path)
    answers = [agent("list_recordings"), agent("describe_recording"), *agent.pages("find_calls")]
    answers += [agent("get_call", call=row["call"]) for row in calls_in(agent("find_calls", recording="a"))]
    answers += [agent("get_frame", frame=frame) for frame in range(1, 7)]
    answers += [agent("get_statistics"), agent("compare_recordings", before="a", after="b")]
    said = json.dumps(answers)
    assert [secret for secret in SECRETS if secret in said] == []
    assert said.count("masked(") > 30


@pytest.mark.parametrize("part", [OTHER, OTHER[:12], OTHER[-6:]])
def test_a_name_does_not_tell_whether_a_secret_is_there(agent: Agent, part: str) -> None:
    assert agent("list_recordings", match=part)["total"] == 0
    for name in (f"files {part}", part):
        assert "there is no recording" in agent.error("get_call", call=1, recording=name)


def test_a_recording_is_named_by_its_label_as_it_is_shown(agent: Agent) -> None:
    label = agent("list_recordings")["recordings"][0]["label"]
    assert label.startswith("files masked(")
    assert agent("get_call", call=1, recording=label)["call"]["method"] == "initialize"
    assert agent("list_recordings", match=label)["total"] == 2
