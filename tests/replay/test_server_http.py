"""The replayed server over HTTP: statuses, sessions, streams and what is asked beside the endpoint."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.replay.server.engine import ReplayEngine
from mcpproxy.peers.replay.server.replay_source import replay_source
from tests.cli.recordings import frame
from tests.peers.processes import Process
from tests.replay.http_scripts import JSON, MASKED, STREAM, Tape
from tests.replay.scripts import HELLO, ask, call, give, tell, text, trace

ACCEPT: Final = {"accept": "application/json, text/event-stream"}
OF_DISCOVER: Final = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}


class Client:
    """A client of the replay that keeps its session id."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(timeout=60, trust_env=False, headers=ACCEPT)

    def post(self, message: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        got = self.http.post(self.url, json=message, headers=headers)
        if id := got.headers.get("mcp-session-id"):
            self.http.headers["mcp-session-id"] = id
        return got

    def hello(self) -> httpx.Response:
        got = self.post(HELLO[0][1])
        assert self.post(HELLO[2][1]).status_code == 202
        return got

    @contextmanager
    def stream(self, last_id: str = "") -> Generator[Generator[tuple[str, Any]]]:
        headers = {"last-event-id": last_id} if last_id else {}
        with self.http.stream("GET", self.url, headers=headers) as got:
            assert got.status_code == 200
            yield events_of(got)


def events_of(got: httpx.Response) -> Generator[tuple[str, Any]]:
    """Id and data of each event; what is no JSON as text."""
    id = ""
    for line in got.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            id = value
        elif name.startswith("data"):
            yield id, json.loads(value) if value else None


def events_in(got: httpx.Response) -> list[Any]:
    return [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("data: {")]


@contextmanager
def replayed(path: Path, *options: str, code: int = 0) -> Generator[tuple[Client, Process]]:
    """A client of the replay, which ends with ``code``."""
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", str(path), "--http", "127.0.0.1:0"]
    process = Process([*command, *options])
    try:
        client = Client(process.expect(r"replaying at (\S+)"))
        with client.http:
            yield client, process
        assert process.stop() == code, process.said
    finally:
        process.kill()


def greeted() -> Tape:
    tape = Tape()
    opening = tape.request("POST", HELLO[0][1])
    tape.give(opening, 200, HELLO[1][1], JSON, ["Mcp-Session-Id", MASKED], ["X-Server", "s"])
    tape.give(tape.request("POST", HELLO[2][1]), 202)
    return tape


def test_statuses_session_ids_and_headers(tmp_path: Path) -> None:
    tape = greeted()
    tape.give(tape.request("POST", call(1, "a")), 200, text(1, f"in {MASKED}"), JSON)
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
    tape.give(tape.request("POST", call(2, "b")), 400, refusal, JSON)
    tape.give(tape.request("GET"), 405)
    tape.give(tape.request("DELETE"), 204)
    with replayed(tape.write(tmp_path / "t.jsonl")) as (client, _):
        opening = client.hello()
        id = opening.headers["mcp-session-id"]
        assert (opening.json(), opening.headers["x-server"]) == (HELLO[1][1], "s")
        assert "masked" not in id

        assert client.post(call("x", "a")).json() == text("x", f"in {id}")
        refused = client.post(call("y", "b"))
        assert (refused.status_code, refused.json()) == (400, refusal)
        assert client.http.get(client.url).status_code == 405
        assert client.http.delete(client.url).status_code == 204
        assert client.post(call("z", "a")).status_code == 404


def test_a_command_behind_the_recording_that_is_not_there_is_said_to_the_user_and_the_client(
    tmp_path: Path,
) -> None:
    behind = ("--on-miss", "passthrough", "--", "/nowhere/server")
    with replayed(greeted().write(tmp_path / "t.jsonl"), *behind) as (client, process):
        client.hello()
        for id in (1, 2):
            [answer] = events_in(client.post(call(id, "new")))
            assert (answer["id"], "/nowhere/server: no such command" in str(answer["error"])) == (id, True)
        process.expect(r"^mcpproxy: (/nowhere/server): no such command")


def test_a_stream_keeps_its_events_and_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    tape = greeted()
    asked = tape.request("POST", call(1, "slow", token=1))
    tape.head(asked, 200, STREAM)
    tape.event(asked, "", id="e1", retry=10)
    tape.event(asked, tell("notifications/progress", progressToken=1, progress=1), id="e2")
    tape.end(asked)
    resumed = tape.request("GET", None, ["Last-Event-ID", "e2"])
    tape.head(resumed, 200, STREAM)
    tape.event(resumed, text(1, "done"), id="e3")
    tape.end(resumed)
    with replayed(tape.write(tmp_path / "t.jsonl")) as (client, _):
        client.hello()
        progress = tell("notifications/progress", progressToken="t", progress=1)
        with client.http.stream("POST", client.url, json=call("x", "slow", token="t")) as got:
            assert list(events_of(got)) == [("e1", None), ("e2", progress)]
        with client.stream("e2") as events:
            assert list(events) == [("e3", text("x", "done"))]
        with client.stream("e1") as events:  # a client that has lost the connection earlier
            assert next(events) == ("e2", progress)


def test_what_the_server_says_by_itself_comes_on_the_stream_of_a_get(tmp_path: Path) -> None:
    tape = greeted()
    own = tape.request("GET")
    tape.head(own, 200, STREAM)
    tape.give(tape.request("POST", call(1, "a")), 200, text(1, "A"), JSON)
    tape.event(own, ask(7, "roots/list"))
    tape.give(tape.request("POST", give(7, roots=[])), 202)
    tape.event(own, tell("notifications/message", data="thanks"))
    tape.end(own)
    with replayed(tape.write(tmp_path / "t.jsonl")) as (client, _):
        client.hello()
        with client.stream() as events:
            assert client.post(call(5, "a")).json() == text(5, "A")
            assert next(events)[1] == ask(7, "roots/list")
            assert client.post(give(7, roots=["mine"])).status_code == 202
            assert next(events)[1] == tell("notifications/message", data="thanks")


def test_every_client_has_a_session_of_its_own(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", (*HELLO, ("client", call(1, "a")), ("server", text(1, "A"))))
    with replayed(path) as (first, _):
        second = Client(first.url)
        ids = {client.hello().headers["mcp-session-id"] for client in (first, second)}
        assert len(ids) == 2
        for client in (first, second):
            assert events_in(client.post(call(9, "a"))) == [text(9, "A")]
        second.http.close()


def test_an_id_that_came_with_a_refusal_is_no_session(tmp_path: Path) -> None:
    """The Python SDK 1.x gives one to every request without one, and then refuses all but ``initialize``."""
    tape = Tape()
    other = ["Mcp-Session-Id", MASKED.replace("478a", "ffff")]
    refusal = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no session"}}
    tape.give(tape.request("POST", ask("probe", "server/discover")), 400, refusal, JSON, other)
    opening = tape.request("POST", HELLO[0][1])
    tape.give(opening, 200, HELLO[1][1], JSON, ["Mcp-Session-Id", MASKED])
    tape.give(tape.request("POST", HELLO[2][1]), 202)
    path = tape.write(tmp_path / "t.jsonl")
    with replayed(path) as (client, _):
        refused = client.post(ask(7, "server/discover"))
        assert (refused.status_code, refused.json()) == (400, refusal)
        assert "mcp-session-id" not in refused.headers
        assert client.hello().json() == HELLO[1][1]

    session = replay_source(load(path)).as_one()  # on stdio there are no statuses: the error is the answer
    heard = ReplayEngine(session).receive(json.dumps(ask(7, "server/discover")).encode())
    assert [json.loads(out.raw) for out in heard.outgoing] == [{**refusal, "id": 7}]


def test_a_client_that_asks_for_the_era_first_leaves_nothing_unasked(tmp_path: Path) -> None:
    """It asks before there is a session: what was recorded comes in the session behind it."""
    path = trace(tmp_path / "t.jsonl", (*HELLO, ("client", call(1, "a")), ("server", text(1, "A"))))
    with replayed(path) as (client, process):
        assert client.post(ask(0, "server/discover")).json()["error"]["code"] == -32601
        client.hello()
        client.post(call(9, "a"))
    assert "2 requests answered from the recording, 0 misses\n" in "".join(process.said)


def test_what_came_at_the_same_time_keeps_its_order(tmp_path: Path) -> None:
    """The recorder stamps all lines of one read alike."""
    path = trace(tmp_path / "t.jsonl", (*HELLO, ("client", call(1, "a", token=1))))
    *begun, end = path.read_text().splitlines()
    told = [tell("notifications/progress", progressToken=1, progress=n) for n in range(40)]
    for seq, said in enumerate([*told, text(1, "A")], 5):
        begun.append(frame(seq, "server", json.dumps(said), ms=9))
    path.write_text("\n".join([*begun, end]) + "\n")
    with replayed(path, "--timing", "recorded") as (client, _):
        client.hello()
        assert events_in(client.post(call(1, "a", token=1))) == [*told, text(1, "A")]


def test_misses_are_answered_and_counted(tmp_path: Path) -> None:
    with replayed(trace(tmp_path / "t.jsonl", HELLO), code=1) as (client, process):
        client.hello()
        answer = client.post(call(3, "new"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32000)
        assert process.expect(r"(miss 1: .*)").startswith('miss 1: tools/call "new" (id 3)')
        broken = client.http.post(client.url, content=b"{")
        assert (broken.status_code, broken.json()["error"]["code"]) == (400, -32700)


def test_headers_that_contradict_a_stateless_request_are_refused(tmp_path: Path) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}
    asked = ask(2, "tools/call", name="a", arguments={"city": "Lima"}, _meta=meta)
    tape = Tape()
    tools = [{"name": "a", "inputSchema": schema}]
    tape.give(tape.request("POST", ask(1, "tools/list", _meta=meta)), 200, give(1, tools=tools), JSON)
    tape.give(tape.request("POST", asked), 200, text(2, "A"), JSON)
    path = tape.write(tmp_path / "t.jsonl")
    path.write_text(path.read_text().replace(f'["Mcp-Session-Id","{MASKED}"]', '["X","y"]'))
    right = {**OF_DISCOVER, "Mcp-Method": "tools/call", "Mcp-Name": "a", "Mcp-Param-City": "Lima"}
    with replayed(path) as (client, _):
        for name in right:
            for headers in (right | {name: "other"}, {key: right[key] for key in right if key != name}):
                refused = client.post(asked, headers)
                error = refused.json()["error"]
                assert (refused.status_code, refused.json()["id"], error["code"]) == (400, 2, -32020)
                assert f"mcpproxy: {name} is " in error["message"]
        assert client.post(asked, right).json() == text(2, "A")


def test_without_sessions_nobody_gets_an_id(tmp_path: Path) -> None:
    tape = Tape()
    discover = ask(1, "server/discover", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})
    tape.give(tape.request("POST", discover), 200, give(1, supportedVersions=["2026-07-28"]), JSON)
    listen = tape.request("POST", ask(2, "subscriptions/listen"))
    tape.head(listen, 200, STREAM)
    key = "io.modelcontextprotocol/subscriptionId"
    tape.event(listen, tell("notifications/subscriptions/acknowledged", _meta={key: 2}))
    tape.give(tape.request("POST", call(3, "a")), 200, text(3, "A"), JSON)
    tape.event(listen, tell("notifications/tools/list_changed", _meta={key: 2}))
    tape.end(listen, cut=True)
    path = tape.write(tmp_path / "t.jsonl")
    path.write_text(path.read_text().replace(f'["Mcp-Session-Id","{MASKED}"]', '["X","y"]'))
    with replayed(path) as (client, _):
        answer = client.post(discover, OF_DISCOVER)
        assert (answer.status_code, "mcp-session-id" in answer.headers) == (200, False)
        with client.http.stream("POST", client.url, json=ask("L", "subscriptions/listen")) as got:
            events = events_of(got)
            assert next(events)[1]["params"] == {"_meta": {key: "L"}}
            assert client.post(call("c", "a")).json() == text("c", "A")
            assert next(events)[1]["params"] == {"_meta": {key: "L"}}


def test_beside_the_endpoint(tmp_path: Path) -> None:
    tape = greeted()
    page = "/.well-known/oauth-protected-resource"
    tape.give(tape.request("GET", target=page), 200, {"resource": "r"}, JSON)
    tape.give(tape.request("POST", call(1, "a")), 401, None, ["WWW-Authenticate", "Bearer"])
    tape.give(tape.request("POST", call(2, "a")), 200, text(2, "A"), JSON)
    with replayed(tape.write(tmp_path / "t.jsonl")) as (client, process):
        origin = client.url.removesuffix("/mcp")
        assert client.http.get(origin + page).json() == {"resource": "r"}
        assert client.http.get(origin + "/elsewhere").status_code == 404
        assert client.http.get(client.url, headers={"origin": "https://evil.example"}).status_code == 403
        assert client.http.get(client.url, headers={"host": "evil.example"}).status_code == 403
        assert client.http.get(client.url, headers={"origin": "null"}).status_code == 403
        for method in ("GET", "POST", "DELETE"):
            lost = client.http.request(method, client.url, headers={"mcp-session-id": "unknown"})
            assert (lost.status_code, lost.json()["error"]["code"]) == (404, -32001)
        client.hello()
        assert client.post(call(3, "a")).json() == text(3, "A")
        assert any("1 request refused with 401" in line for line in process.said)


def test_a_revision_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    tape = greeted()
    known = tape.request("POST", call(1, "a"), ["MCP-Protocol-Version", "2099-01-01"])
    tape.give(known, 200, text(1, "A"), JSON)
    with replayed(tape.write(tmp_path / "t.jsonl")) as (client, _):
        client.hello()
        refused = client.http.post(client.url, json=call(5, "a"), headers={"mcp-protocol-version": "1999"})
        assert (refused.status_code, refused.json()["id"]) == (400, 5)
        recorded = {"mcp-protocol-version": "2099-01-01"}
        assert client.http.post(client.url, json=call(5, "a"), headers=recorded).json() == text(5, "A")


def test_nothing_but_bad_requests(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.jsonl", HELLO)
    with replayed(path, code=1) as (client, process):
        for content in (b"", b"[]", b"\xff", b"[1,2]", b'{"id":{},"method":"x"}', b"[" * 2000):
            assert client.http.post(client.url, content=content).status_code < 500
        for method in ("PUT", "OPTIONS", "DELETE", "PATCH"):
            assert client.http.request(method, client.url).status_code == 405
        assert client.http.get(client.url, headers={"last-event-id": "x"}).status_code == 405
        assert not any("Traceback" in line for line in process.said)
