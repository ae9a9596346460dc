"""``bridge --stdio``: clients over HTTP, processes of a server on stdio."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcpproxy
from tests.bridge.ends import (
    INITIALIZE,
    INITIALIZED,
    STDIO_SERVER,
    WELCOME,
    Bridge,
    Reply,
    call,
    complete,
    frames,
    is_alive,
    recordings,
    result,
    summed_up,
)
from tests.relay.hosts import gone

PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}'
CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
QUESTION = b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}'


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    with Bridge(tmp_path) as bridge:
        yield bridge


def refused(reply: Reply, status: int, why: str) -> None:
    assert reply.status == status
    message = json.loads(reply.body())["error"]["message"]
    assert message.startswith("mcpproxy: ")
    assert why in message


def pid_of(bridge: Bridge, session: str) -> int:
    pid: int = json.loads(bridge.ask(call("pid", "pid"), session).body())["result"]["pid"]
    return pid


def test_messages_pass_byte_for_byte_and_both_legs_are_recorded(bridge: Bridge, tmp_path: Path) -> None:
    session = bridge.begin()
    request = (
        b' { "id" : 1,"jsonrpc":"2.0","method":"x","params":{"says":[%s],"n":1.10e2} }'
        % json.dumps(result(1).decode()).encode()
    )
    reply = bridge.ask(request, session)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.body() == result(1)
    assert bridge.ask(method="DELETE", session=session).status == 200
    said = bridge.stop()

    legs = recordings(tmp_path)
    for trace in legs.values():
        assert frames(trace, "client") == [INITIALIZE, INITIALIZED, request]
        assert frames(trace, "server") == [WELCOME, result(1)]
        report = mcpproxy.check(trace)
        assert (report.complete, report.notes) == (True, ())
    assert session.encode() not in legs["http"].read_bytes()
    assert summed_up(said, "stdio leg, session 1: 3 frames")
    assert summed_up(said, "HTTP leg: 3 frames")


def test_line_breaks_between_tokens_become_spaces(bridge: Bridge) -> None:
    session = bridge.begin()
    reply = bridge.ask(b'{\r\n"jsonrpc":"2.0",\n"id":1,"method":"x","params":{"says":["log"]}\n}\n', session)
    line = json.loads(reply.body())["result"]["lines"][-1]
    assert line == '{  "jsonrpc":"2.0", "id":1,"method":"x","params":{"says":["log"]} }'


def test_a_message_before_the_answer_makes_the_response_a_stream(bridge: Bridge) -> None:
    session = bridge.begin()
    reply = bridge.ask(call(1, PROGRESS, result(1), _meta={"progressToken": "t"}), session)
    assert reply.is_stream
    primed, progress, answer = reply.events()
    assert primed == {"id": b"2-1", "data": b""}
    assert progress == {"event": b"message", "id": b"2-2", "data": PROGRESS}
    assert answer == {"event": b"message", "id": b"2-3", "data": result(1)}


def test_a_slow_answer_makes_the_response_a_stream(bridge: Bridge) -> None:
    session = bridge.begin()
    slow = bridge.ask(call(1), session)  # returns when the head has come
    assert slow.is_stream
    assert slow.event() == {"id": b"2-1", "data": b""}
    assert bridge.ask(call(2, result(2), result(1)), session).body() == result(2)
    assert slow.event()["data"] == result(1)


def test_a_cut_stream_is_resumed_after_the_last_event(bridge: Bridge) -> None:
    session = bridge.begin()
    reply = bridge.ask(call(1, PROGRESS, PROGRESS, _meta={"progressToken": "t"}), session)
    assert reply.event()["id"] == b"2-1"
    assert reply.event()["id"] == b"2-2"
    reply.drop()
    assert bridge.ask(call(2, result(1), result(2)), session).body() == result(2)
    resumed = bridge.ask(method="GET", session=session, Last_Event_ID="2-2")
    assert [event["id"] for event in resumed.events()] == [b"2-3", b"2-4"]
    again = bridge.ask(method="GET", session=session, Last_Event_ID="2-3")
    assert [event["data"] for event in again.events()] == [result(1)]
    refused(bridge.ask(method="GET", session=session, Last_Event_ID="2-9"), 400, "are not kept")
    refused(bridge.ask(method="GET", session=session, Last_Event_ID="x"), 400, "is not one of this server")


def test_what_belongs_to_no_request_comes_on_the_stream_of_the_get(bridge: Bridge) -> None:
    session = bridge.begin()
    assert bridge.ask(call(1, CHANGED, result(1)), session).body() == result(1)
    get = bridge.ask(method="GET", session=session)
    assert get.is_stream
    assert get.event() == {"event": b"message", "id": b"0-1", "data": CHANGED}
    assert bridge.ask(call(2, result(2), QUESTION), session).body() == result(2)
    assert get.event()["data"] == QUESTION
    answer = b'{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}'
    reply = bridge.ask(answer, session)
    assert (reply.status, reply.body()) == (202, b"")
    lines = json.loads(bridge.ask(call(3, "log"), session).body())["result"]["lines"]
    assert answer.decode() in lines
    assert bridge.ask(method="DELETE", session=session).status == 200
    assert list(get.events()) == []


def test_a_question_during_a_call_comes_on_the_stream_of_the_call(bridge: Bridge) -> None:
    session = bridge.begin()
    reply = bridge.ask(call(1, QUESTION, result(1)), session)
    assert [event["data"] for event in reply.events()] == [b"", QUESTION, result(1)]


def test_a_batch_passes_as_it_is(bridge: Bridge) -> None:
    session = bridge.begin()
    batch = b"[%s, %s]" % (call(1, b"[%s, %s]" % (result(2), result(1))), call(2))
    reply = bridge.ask(batch, session, MCP_Protocol_Version="2025-03-26")
    assert reply.body() == b"[%s, %s]" % (result(2), result(1))
    batch = b"[%s,%s]" % (call(3, result(3), result(4)), call(4))
    reply = bridge.ask(batch, session)
    assert [event["data"] for event in reply.events()] == [b"", result(3), result(4)]
    reply = bridge.ask(batch, session, Accept="application/json")
    assert reply.body() == b"[%s,%s]" % (result(3), result(4))


def test_each_session_has_its_process_and_delete_ends_it(bridge: Bridge) -> None:
    first, second = bridge.begin(), bridge.begin()
    pids = [pid_of(bridge, session) for session in (first, second)]
    assert len(set(pids)) == 2
    assert bridge.ask(method="DELETE", session=first).status == 200
    refused(bridge.ask(call(1), first), 404, "there is no such session")
    refused(bridge.ask(method="GET", session=first), 404, "there is no such session")
    refused(bridge.ask(method="DELETE", session=first), 404, "there is no such session")
    bridge.process.expect("(session 1: 3 frames)")
    assert [is_alive(pid) for pid in pids] == [False, True]


def test_a_server_that_exits_leaves_no_request_open(bridge: Bridge) -> None:
    session = bridge.begin()
    get = bridge.ask(method="GET", session=session)
    waiting = bridge.ask(call(1), session)
    reply = bridge.ask(call(2, "exit 3"), session)
    message = json.loads(reply.body())
    assert message == {
        "jsonrpc": "2.0",
        "id": 2,
        "error": {"code": -32000, "message": "mcpproxy: the server ended with exit code 3"},
    }
    assert b"ended with exit code 3" in [event["data"] for event in waiting.events()][-1]
    assert list(get.events()) == []
    refused(bridge.ask(call(3), session), 404, "there is no such session")
    bridge.process.expect("(as you wish)")


def test_a_server_that_refuses_initialize_begins_no_session(tmp_path: Path) -> None:
    error = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}'
    with Bridge(tmp_path, command=["sh", "-c", f"read line; echo '{error.decode()}'; cat"]) as bridge:
        reply = bridge.ask(INITIALIZE)
        assert (reply.status, reply.body()) == (200, error)
        assert "mcp-session-id" not in reply.headers
        bridge.process.expect("(session 1: 1 frame)")


def test_a_server_that_ignores_the_end_is_killed(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--grace", "0.2") as bridge:
        session = bridge.begin()
        pid = pid_of(bridge, session)
        bridge.ask(call(1, "stay", result(1)), session).body()
        bridge.stop()
        assert not is_alive(pid)
    assert {"SIGTERM", "SIGKILL"} <= {
        json.loads(line)["signal"]
        for line in recordings(tmp_path)["stdio"].read_text().splitlines()
        if '"type":"signal"' in line
    }


def test_a_bridge_that_is_killed_leaves_no_process_and_whole_recordings(tmp_path: Path) -> None:
    with Bridge(tmp_path) as bridge:
        session = bridge.begin()
        pid = pid_of(bridge, session)
        bridge.ask(call(1, "stay", result(1)), session).body()
        bridge.process.kill()
    for trace in complete(tmp_path):
        close = json.loads(trace.read_bytes().splitlines()[-1])
        assert (close["type"], close["ending"]) == ("close", "cut")
    assert gone(pid)


# Who may use it


def test_foreign_pages_and_names_are_refused(bridge: Bridge) -> None:
    refused(
        bridge.ask(INITIALIZE, Host="evil.example"), 403, "Host evil.example is not a name of this machine"
    )
    refused(bridge.ask(INITIALIZE, Origin="https://evil.example"), 403, "is a foreign site")
    assert bridge.ask(INITIALIZE, Origin="http://localhost:6274").status == 200


def test_an_allowed_page_may_read_the_session_id(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--allow-origin", "https://app.example") as bridge:
        reply = bridge.ask(method="OPTIONS", Origin="https://app.example")
        assert reply.status == 204
        assert "POST" in reply.headers["access-control-allow-methods"]
        reply = bridge.ask(INITIALIZE, Origin="https://app.example")
        assert reply.headers["access-control-allow-origin"] == "https://app.example"
        assert reply.headers["access-control-expose-headers"] == "Mcp-Session-Id"


def test_a_token_is_needed_if_there_is_one(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--token", "${BRIDGE_KEY}", env={"BRIDGE_KEY": "key-0815-secret"}) as bridge:
        for fields in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "key-0815-secret"}):
            reply = bridge.ask(INITIALIZE, **fields)
            assert reply.headers["www-authenticate"] == "Bearer"
            refused(reply, 401, "the token of --token is needed")
        assert bridge.ask(INITIALIZE, Authorization="Bearer key-0815-secret").status == 200
        said = bridge.stop()
    assert not any("key-0815-secret" in line for line in said)
    for trace in complete(tmp_path):
        assert b"key-0815-secret" not in trace.read_bytes()


def test_bad_requests_are_refused(bridge: Bridge) -> None:
    session = bridge.begin()
    refused(bridge.ask(b"{", session), 400, "the body is not a message")
    refused(bridge.ask(call(1)), 400, "Mcp-Session-Id is missing")
    refused(bridge.ask(call(1), session, MCP_Protocol_Version="1999"), 400, "MCP-Protocol-Version 1999")
    refused(bridge.ask(call(1), session, Accept="text/html"), 406, "Accept does not name")
    refused(bridge.ask(method="GET"), 405, "only POST is possible")
    refused(bridge.ask(method="GET", session=session, MCP_Protocol_Version="1999"), 400, "1999 is not known")
    refused(bridge.ask(method="PUT", session=session), 405, "only POST, GET and DELETE are possible")


def test_there_is_a_limit_of_sessions(tmp_path: Path) -> None:
    with Bridge(tmp_path, "--max-sessions", "1") as bridge:
        session = bridge.begin()
        reply = bridge.ask(INITIALIZE)
        assert reply.headers["retry-after"] == "5"
        refused(reply, 503, "there are 1 sessions already")
        assert bridge.ask(method="DELETE", session=session).status == 200
        bridge.process.expect("(session 1: 2 frames)")
        bridge.begin()


# Stateless requests

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
STATELESS: dict[str, object] = {"_meta": META, "name": "x"}
WITH_TOKEN: dict[str, object] = {"_meta": {**META, "progressToken": "t"}, "name": "x"}
FIELDS = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": "x"}


def test_stateless_requests_share_a_process_unless_their_ids_are_equal(bridge: Bridge) -> None:
    first = bridge.ask(call(1, "pid", **STATELESS), **FIELDS)
    assert "mcp-session-id" not in first.headers
    second = bridge.ask(call(1, "pid", **STATELESS), **FIELDS)
    pids = [json.loads(reply.body())["result"]["pid"] for reply in (first, second)]
    assert pids[0] == pids[1]
    waiting = bridge.ask(call(1, PROGRESS, **WITH_TOKEN), **FIELDS)
    assert waiting.event() == {"event": b"message", "data": PROGRESS}  # no ids: nothing is resumed
    other = bridge.ask(call(1, "pid", **STATELESS), **FIELDS)
    assert json.loads(other.body())["result"]["pid"] != pids[0]
    same = bridge.ask(call(2, "pid", **STATELESS), **FIELDS)
    assert json.loads(same.body())["result"]["pid"] == pids[0]
    waiting.drop()


def test_closing_a_stateless_response_cancels_the_request(bridge: Bridge) -> None:
    waiting = bridge.ask(call(7, PROGRESS, **WITH_TOKEN), **FIELDS)
    waiting.event()
    waiting.drop()
    cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}'
    for id in range(100, 200):
        lines = json.loads(bridge.ask(call(id, "log", **STATELESS), **FIELDS).body())["result"]["lines"]
        if cancelled in lines:
            break
    else:
        pytest.fail("the server was not told")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"MCP_Protocol_Version": "2025-11-25"}, "MCP-Protocol-Version is not the version in _meta"),
        ({"Mcp_Method": "tools/list"}, "Mcp-Method is not the method"),
        ({"Mcp_Name": "y"}, "Mcp-Name is not the value in the body"),
        ({"Mcp_Name": "=?base64?!?="}, "Mcp-Name says that it is base64"),
    ],
)
def test_headers_that_contradict_a_stateless_request_are_refused(
    bridge: Bridge, fields: dict[str, str], why: str
) -> None:
    reply = bridge.ask(call(1, "pid", **STATELESS), **FIELDS | fields)
    assert reply.status == 400
    error = json.loads(reply.body())
    assert (error["id"], error["error"]["code"]) == (1, -32020)
    assert why in error["error"]["message"]


def test_a_stateless_request_without_its_meta_is_refused(bridge: Bridge) -> None:
    reply = bridge.ask(call(1, "pid", name="x"), **FIELDS)
    assert (reply.status, json.loads(reply.body())["error"]["code"]) == (400, -32602)
    reply = bridge.ask(INITIALIZE, MCP_Protocol_Version="2026-07-28")
    assert (reply.status, json.loads(reply.body())["error"]["code"]) == (404, -32601)


def test_errors_of_stateless_requests_have_their_status(bridge: Bridge) -> None:
    error = '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}'
    reply = bridge.ask(call(1, error, **STATELESS), **FIELDS)
    assert (reply.status, reply.body().decode()) == (404, error)


def test_signals_end_the_bridge_in_order(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Bridge(tmp_path / number.name, command=STDIO_SERVER) as bridge:
            bridge.begin()
            assert bridge.process.stop(number) == 0
        assert set(recordings(tmp_path / number.name)) == {"http", "stdio"}


def test_a_signal_as_soon_as_it_listens_is_an_orderly_end(tmp_path: Path) -> None:
    with Bridge(tmp_path, command=STDIO_SERVER) as bridge:
        assert bridge.process.stop(signal.SIGTERM) == 0
    assert set(recordings(tmp_path)) == {"http"}


def test_a_trace_is_a_file_for_the_http_leg_and_one_for_each_session(tmp_path: Path) -> None:
    options = ["--stdio", "--listen", "127.0.0.1:0", "--trace", str(tmp_path / "a.jsonl"), "--"]
    command = [sys.executable, "-m", "mcpproxy", "bridge", *options, *STDIO_SERVER]
    with Bridge(tmp_path, command=command, is_whole=True) as before:
        before.begin()
        before.begin()
        before.stop()
    assert [path.name for path in complete(tmp_path)] == [
        "a-http.jsonl",
        "a-stdio-1.jsonl",
        "a-stdio-2.jsonl",
    ]
