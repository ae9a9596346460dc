"""What looks like a mask hides nothing, unless mcpproxy has masked something there."""

import json
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.judge.session.frame import Finding, Frame, Sender
from mcpproxy.read.judging import judge
from mcpproxy.record.recorder.http.assembly import HttpAssembly
from mcpproxy.record.recorder.judge import standard_observer as live_observer
from mcpproxy.record.trace.reader import read_trace
from mcpproxy.record.trace.records import Encoded
from tests.cli import recordings
from tests.recorder.http_journals import (
    INITIALIZE,
    INITIALIZED,
    READY,
    SESSION_ID,
    answer,
    client,
    post,
    server,
    start,
)

LOOKS_MASKED: Final = "masked(len=1,visible=yes,hash=000000000000)"

UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def said(id: int, **result: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result})


def asked(id: int, method: str, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


WHO: Final = {
    "type": "object",
    "properties": {"session": {"type": "string", "pattern": UUID}},
    "required": ["session"],
}
TOOL: Final = {"name": "who", "inputSchema": WHO, "outputSchema": WHO}

LISTED: Final = asked(2, "tools/list"), said(2, tools=[TOOL])


def called(id: int, sent: str, returned: str) -> tuple[str, str]:
    """A call with its result; neither fits the tool's schemas unless it names a UUID."""
    content = {"session": returned}
    call = asked(id, "tools/call", name="who", arguments={"session": sent})
    texts = [{"type": "text", "text": json.dumps(content)}]
    return call, said(id, content=texts, structuredContent=content)


STDIO: Final = (
    recordings.INITIALIZE,
    recordings.INITIALIZED,
    recordings.READY,
    *LISTED,
    *called(3, LOOKS_MASKED, LOOKS_MASKED),
)


def sender(message: str) -> Sender:
    return "client" if '"method"' in message else "server"


def rules(found: list[Finding]) -> list[str]:
    return [finding.rule for finding in found]


BROKEN: Final = ["TOOL-008", "TOOL-008", "TOOL-002"]


def test_a_live_session_cannot_hide_behind_what_looks_like_a_mask() -> None:
    observer, found = live_observer(), list[Finding]()
    for seq, message in enumerate(STDIO, start=1):
        found += observer.observe(Frame(seq, sender(message), message.encode()))
    assert rules(found) == BROKEN


@pytest.mark.parametrize(
    ("redaction", "expected"),
    [("none", BROKEN), ("credentials", BROKEN), ("values", []), ("credentials,keys", []), ("mcpsnoop", [])],
)
def test_only_a_recording_that_was_redacted_hides(
    redaction: str, expected: list[str], tmp_path: Path
) -> None:
    header = recordings.HEADER.replace('"redaction":"none"', f'"redaction":"{redaction}"')
    frames = [recordings.frame(seq, sender(message), message) for seq, message in enumerate(STDIO, start=1)]
    path = recordings.write(tmp_path / "t.jsonl", (header, *frames, recordings.close(4, 3)))
    judged = judge(read_trace(path), Ruleset(catalogue.load()), Selection())
    assert rules(list(judged.findings)) == expected


def test_a_session_id_masked_in_one_answer_hides_nothing_in_the_next() -> None:
    """The recorder masks the id that its server repeats; nobody else's masks are taken for it."""
    head = f"Mcp-Session-Id: {SESSION_ID}"
    accept = "Accept: application/json, text/event-stream"
    fields = (head, accept, "Content-Type: application/json", "MCP-Protocol-Version: 2025-11-25")
    entries = [
        client(post(INITIALIZE, accept, "Content-Type: application/json")),
        server(answer(INITIALIZED, head)),
        client(post(READY, *fields)),
        server(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
    ]
    for call, result in (LISTED, called(3, SESSION_ID, SESSION_ID), called(4, "not mine", LOOKS_MASKED)):
        entries += [client(post(call.encode(), *fields)), server(answer(result.encode()))]
    assembly, observer = HttpAssembly(start()[1]), Observer(catalogue.load())
    found: list[Finding] = []
    masked = 0
    for event in (event for entry in entries for event in assembly.take(*entry)):
        assert not isinstance(event, Encoded)
        if isinstance(event, Frame):
            masked += event.raw.replace(LOOKS_MASKED.encode(), b"").count(b"masked(len=36,") > 0
        found += observer.observe(event)
    assert masked == 2
    assert rules(found) == BROKEN
