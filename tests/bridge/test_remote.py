"""``bridge URL``: a host on stdio, a server over HTTP."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcpproxy
from tests.bridge.ends import (
    INITIALIZE,
    INITIALIZED,
    SIGKILL,
    WELCOME,
    Asked,
    Host,
    Server,
    complete,
    frames,
    recordings,
    summed_up,
)

REQUEST = b'{"id":1,  "jsonrpc":"2.0","method":"tools/list", "params":{"x":1.10e2,"\\u0061":"\\/"}}'
ANSWER = b'{"result":{ "tools":[],"n":12345678901234567890 },"id":1,"jsonrpc":"2.0"}'


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def handshake(host: Host, server: Server, **fields: str) -> Asked:
    """Open a session; return the GET for the stream of the session."""
    host.say(INITIALIZE)
    server.asked().answer(200, WELCOME, Mcp_Session_Id="s-1234567890", **fields)
    assert host.hear() == WELCOME
    host.say(INITIALIZED)
    server.asked().answer(202)
    return server.asked("GET")


def close(host: Host, server: Server) -> None:
    """End a session, which the bridge does with DELETE."""
    assert host.process.stdin is not None
    host.process.stdin.close()
    asked = server.asked("DELETE")
    assert asked.headers["mcp-session-id"] == "s-1234567890"
    asked.answer(200)
    assert host.exit() == 0


def error(line: bytes) -> str:
    """Return the text of an error of ours for request 1."""
    message = json.loads(line)
    assert message["id"] == 1
    assert message["error"]["code"] == -32000
    text: str = message["error"]["message"]
    return text


def test_messages_pass_byte_for_byte_and_both_legs_are_recorded(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        asked = server.asked()
        assert asked.body == REQUEST
        assert asked.headers["mcp-session-id"] == "s-1234567890"
        assert asked.headers["mcp-protocol-version"] == "2025-11-25"
        assert asked.headers["accept"] == "application/json, text/event-stream"
        asked.answer(200, ANSWER)
        assert host.hear() == ANSWER
        close(host, server)

    legs = recordings(tmp_path)
    for trace in legs.values():
        assert frames(trace, "client") == [INITIALIZE, INITIALIZED, REQUEST]
        assert frames(trace, "server") == [WELCOME, ANSWER]
        report = mcpproxy.check(trace)
        assert (report.complete, report.notes) == (True, ())
    assert b"s-1234567890" not in legs["http"].read_bytes()
    assert summed_up(host.said, "stdio leg: 3 frames")
    assert summed_up(host.said, "HTTP leg: 3 frames")


def test_line_breaks_between_tokens_become_spaces(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        server.asked().answer(200, b'{\r\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {}\n}\n')
        assert host.hear() == b'{    "jsonrpc": "2.0",   "id": 1,   "result": {} }'
        host.say(REQUEST)
        server.asked().stream(b'data: {"jsonrpc":"2.0",\ndata: "id":1,"result":{}}\n\n')
        assert host.hear() == b'{"jsonrpc":"2.0", "id":1,"result":{}}'
        close(host, server)


def test_messages_of_the_server_come_from_both_streams(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        get = handshake(host, server)
        get.stream(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
        assert host.hear() == b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        host.say(REQUEST)
        asked = server.asked()
        asked.stream(b'data: {"jsonrpc":"2.0","id":"q","method":"roots/list"}\n\n')
        assert host.hear() == b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
        host.say(b'{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}')
        answered = server.asked()
        assert answered.body == b'{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}'
        answered.answer(202)
        asked.send(b"event: message\ndata: " + ANSWER + b"\n\n")
        asked.end()
        assert host.hear() == ANSWER
        close(host, server)


def test_a_stream_that_ends_before_the_answer_is_resumed(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        asked = server.asked()
        asked.stream(b"id: 7\nretry: 1\ndata: \n\n")
        asked.end()
        resumed = server.asked("GET")
        assert resumed.headers["last-event-id"] == "7"
        resumed.stream(b"id: 8\ndata: " + ANSWER + b"\n\n")
        resumed.end()
        assert host.hear() == ANSWER
        close(host, server)


def test_the_stream_of_the_session_is_opened_again(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        get = handshake(host, server)
        get.stream(b'id: a\nretry: 1\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
        assert host.hear() == b'{"jsonrpc":"2.0","method":"notifications/x"}'
        get.end()
        again = server.asked("GET")
        assert again.headers["last-event-id"] == "a"
        again.stream(b'data: {"jsonrpc":"2.0","method":"notifications/y"}\n\n')
        assert host.hear() == b'{"jsonrpc":"2.0","method":"notifications/y"}'
        close(host, server)


def test_a_stream_without_event_ids_that_ends_early_is_an_error(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        asked = server.asked()
        asked.stream()
        asked.end()
        assert error(host.hear()) == "mcpproxy: the server ended the stream without an answer"
        close(host, server)


def test_a_batch_passes_as_it_is(server: Server, tmp_path: Path) -> None:
    batch = b'[{"jsonrpc":"2.0","id":1,"method":"a"}, {"jsonrpc":"2.0","id":2,"method":"b"}]'
    answers = b'[{"jsonrpc":"2.0","id":2,"result":{}}, {"jsonrpc":"2.0","id":1,"result":{}}]'
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(batch)
        asked = server.asked()
        assert asked.body == batch
        asked.answer(200, answers)
        assert host.hear() == answers
        close(host, server)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"", "wants authorization (HTTP 401); give it with --header 'Authorization: Bearer ${TOKEN}'"),
        (500, b"<html>oh no</html>", "answered HTTP 500"),
        (301, b"", "answered HTTP 301 without a Location"),
        (
            400,
            b"<title>400 No required SSL certificate was sent</title>",
            "answered HTTP 400: No required SSL certificate was sent; give one with --client-cert and "
            "--client-key",
        ),
        (200, b"<html>hello</html>", "answered HTTP 200 without a message"),
        (200, b"<title>Sign in</title>", "answered HTTP 200 without a message: Sign in"),
        (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No"}}', "answered HTTP 400: No"),
    ],
)
def test_what_is_no_answer_becomes_an_error(
    server: Server, tmp_path: Path, status: int, body: bytes, why: str
) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        server.asked().answer(status, body)
        assert error(host.hear()) == f"mcpproxy: the server {why}"
        close(host, server)
    assert any(f"the server {why}" in line for line in host.said)


def test_an_error_of_the_server_passes_with_its_status(server: Server, tmp_path: Path) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}'
    with Host(tmp_path, server.url) as host:
        host.say(REQUEST)
        server.asked().answer(404, body)
        assert host.hear() == body
        assert host.close() == 0


def test_a_session_that_the_server_has_ended_ends_the_bridge(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST, REQUEST.replace(b'"id":1', b'"id":2'))
        first, second = server.asked(), server.asked()
        second.answer(404)
        ended = {json.loads(host.hear())["id"] for _ in range(2)}
        assert ended == {1, 2}
        first.wait_gone()
        assert host.exit() == 1
    assert any("has ended the session (HTTP 404); start again" in line for line in host.said)
    assert set(recordings(tmp_path)) == {"stdio", "http"}


def test_a_server_that_dies_leaves_no_request_open(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        server.asked()
        server.stop()
        assert "cut the exchange short" in error(host.hear())
        host.say(REQUEST)
        assert error(host.hear()) == "mcpproxy: the server cannot be reached (connection refused)"
        assert host.close() == 0


def test_a_bridge_that_is_killed_ends_its_session(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        get = handshake(host, server)
        get.stream()
        host.process.send_signal(SIGKILL)
        server.asked("DELETE").answer(200)  # the inner half sees the end of its stdin
        get.wait_gone()


def test_requests_that_are_open_at_the_end_of_stdin_are_answered(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        asked = server.asked()
        assert host.process.stdin is not None
        host.process.stdin.close()
        asked.answer(200, ANSWER)
        assert host.hear() == ANSWER
        server.asked("DELETE").answer(405)
        assert host.exit() == 0


def test_a_redirect_within_the_server_is_followed(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        host.say(REQUEST)
        server.asked().answer(307, Location="/mcp/")
        asked = server.asked()
        assert (asked.target, asked.body) == ("/mcp/", REQUEST)
        asked.answer(200, ANSWER)
        assert host.hear() == ANSWER
        host.say(REQUEST)
        asked = server.asked()
        assert asked.target == "/mcp/"
        asked.answer(307, Location="http://127.0.0.2:1/mcp")
        assert "names http://127.0.0.2:1, another origin than its own" in error(host.hear())
        assert host.close() == 0


def test_headers_come_from_the_environment_and_are_masked(server: Server, tmp_path: Path) -> None:
    headers = ["--header", "Authorization: Bearer ${KEY}", "--header", "X-Tenant: tenant-4711-secret"]
    with Host(tmp_path, *headers, server.url, env={"KEY": "key-0815-secret"}) as host:
        host.say(REQUEST)
        asked = server.asked()
        assert asked.headers["authorization"] == "Bearer key-0815-secret"
        assert asked.headers["x-tenant"] == "tenant-4711-secret"
        asked.answer(200, ANSWER)
        assert host.hear() == ANSWER
        assert host.close() == 0
    for trace in recordings(tmp_path).values():
        assert b"-secret" not in trace.read_bytes()
    assert not any("-secret" in line for line in host.said)


def test_a_server_that_has_only_http_sse_is_reached(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        host.say(INITIALIZE)
        server.asked().answer(405)
        stream = server.asked("GET")
        stream.stream(b"event: endpoint\ndata: /messages?sessionId=12345678901234\n\n")
        asked = server.asked()
        assert (asked.target, asked.body) == ("/messages?sessionId=12345678901234", INITIALIZE)
        asked.answer(202, b"Accepted", Content_Type="text/plain")
        stream.send(b"event: message\ndata: " + WELCOME + b"\n\n")
        assert host.hear() == WELCOME
        host.say(REQUEST)
        asked = server.asked()
        assert asked.body == REQUEST
        asked.answer(202)
        stream.end()
        assert "has ended the stream of the session" in error(host.hear())
        assert host.exit() == 1


META = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


def test_an_endpoint_of_another_server_is_told_and_not_used(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, server.url) as host:
        host.say(INITIALIZE)
        server.asked().answer(405)
        server.asked("GET").stream(b"event: endpoint\ndata: http://127.0.0.2:1/messages\n\n")
        assert b"names http://127.0.0.2:1, another origin than its own" in host.hear()
        assert host.close() == 0


def test_a_stateless_request_has_its_headers_and_is_cancelled_by_closing_its_stream(
    server: Server, tmp_path: Path
) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xc3\xa4",%b}}' % META
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    with Host(tmp_path, server.url) as host:
        host.say(request)
        asked = server.asked()
        assert asked.headers["mcp-protocol-version"] == "2026-07-28"
        assert asked.headers["mcp-method"] == "tools/call"
        assert asked.headers["mcp-name"] == "=?base64?w6Q=?="
        asked.stream(b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
        assert host.hear() == b'{"jsonrpc":"2.0","method":"notifications/x"}'
        host.say(cancel)
        asked.wait_gone()
        assert host.close() == 0


def test_a_trace_is_two_files_with_the_names_of_the_legs(server: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcpproxy", "bridge", "--trace", str(tmp_path / "a.b.jsonl"), server.url]
    with Host(tmp_path, command=command) as host:
        handshake(host, server).answer(405)
        close(host, server)
    assert [path.name for path in complete(tmp_path)] == ["a.b-http.jsonl", "a.b-stdio.jsonl"]


def test_a_request_that_breaks_an_enforced_rule_does_not_reach_the_server(
    server: Server, tmp_path: Path
) -> None:
    with Host(tmp_path, "--enforce", "reused-request-id", server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        server.asked().answer(200, ANSWER)
        assert host.hear() == ANSWER
        host.say(REQUEST)
        refused = json.loads(host.hear())["error"]
        assert refused["message"] == "client reused request id number 1, first used in frame 4"
        close(host, server)


def test_the_address_of_the_page_is_said_once(server: Server, tmp_path: Path) -> None:
    with Host(tmp_path, "--ui", server.url) as host:
        handshake(host, server).answer(405)
        host.say(REQUEST)
        server.asked().answer(200, ANSWER)
        assert host.hear() == ANSWER
        host.until_said(r"token=\S+\s")
        close(host, server)
    assert len(re.findall(r"http://\S+/\?token=\S+", "".join(host.said))) == 1


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "one of URL and --stdio is needed"),
        (["ftp://host/"], "ftp://host/ is not an http:// or https:// URL"),
        (["http://user@host/"], "the URL holds a user or a fragment"),
        (["http://host:x/"], "http://host:x/ is not a URL"),
        (
            ["--header", "A: ${NOT_SET_ANYWHERE}", "http://host/"],
            "--header A names NOT_SET_ANYWHERE, which is not set",
        ),
        (["--header", "Host: x", "http://host/"], "--header Host cannot be set"),
        (["--ui", "--quiet", "http://host/"], "--ui writes an address to stderr"),
        (["--otlp=x", "http://host/"], "x is not the URL of a collector"),
        (["--enforce", "RPC-005", "--stdio", "--", "cat"], "--enforce is not for --stdio"),
        (["http://host/", "--", "cat"], "a command needs --stdio"),
        (["--stdio"], "--stdio needs a command"),
        (["--stdio", "--poll-retry", "1", "--", "cat"], "--poll-retry needs --poll-after"),
        (["--stdio", "--poll-after", "-1", "--", "cat"], "'-1' is not a number of seconds"),
        (["--stdio", "--", "no-such-command-anywhere"], "no-such-command-anywhere: no such command"),
        (["--stdio", "--listen", "0.0.0.0:0", "--", "cat"], "--listen 0.0.0.0 is more than this machine"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path: Path, arguments: list[str], fact: str) -> None:
    with Host(tmp_path, *arguments) as host:
        assert host.close() == 2
    (line,) = host.said
    assert fact in line
    assert list(tmp_path.iterdir()) == []
