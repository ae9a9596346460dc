"""``mcpproxy http --fault``: what meets a request that a client posts."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, IncompleteRead, RemoteDisconnected
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.api import check
from mcpproxy.cli.main import main
from mcpproxy.judge.session.frame import Frame, Note, RequestHead
from mcpproxy.peers.replay.recording import load
from mcpproxy.record.trace.reader import read_trace
from tests.relay.hosts import DEADLINE_S
from tests.relay.test_http_enforce import SESSION, Handler, Message, Proxied, Server, asked, server

__all__ = ["server"]

THE_SERVER_S: Final = ["TOOL-005 server"]
"""What the server does wrong by itself: its result of a call has no content."""

CALL: Final = asked(7, "tools/call", name="search", arguments={})
Start = Callable[..., Proxied]
LOG: Final = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}


class StreamHandler(Handler):
    """Answers a GET with a stream that has one event and stays open, a POST with a stream of two."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Streams)
        self._begin()
        self._event(LOG)
        self.server.is_over.wait(DEADLINE_S)
        self.wfile.write(b"0\r\n\r\n")

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        assert isinstance(self.server, Streams)
        if "tools/call" not in self.headers.get("X-Method", ""):
            super().do_POST()
            return
        self.server.heard.append(message := json.loads(self._body()))
        self.server.headers.append(dict(self.headers))
        answer: Message = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
        if self.headers.get("X-Method", "").endswith("at once"):
            self._at_once(LOG, answer)
            return
        self._begin()
        self._event(LOG)
        self._event(answer)
        self.wfile.write(b"0\r\n\r\n")

    def _at_once(self, *messages: object) -> None:
        body = b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in messages)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _event(self, message: object) -> None:
        event = b"data: %b\r\n\r\n" % json.dumps(message).encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))


class Streams(Server):
    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = StreamHandler
        self.is_over = threading.Event()
        self.headers: list[dict[str, str]] = []


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    with Streams() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.is_over.set()
        server.shutdown()
        thread.join(DEADLINE_S)


class Talk:
    """A client before ``streams``, with one rule."""

    def __init__(self, folder: Path, server: Streams, fault: str, option: str = "--fault") -> None:
        self.proxied = Proxied(folder, server, option, fault)
        self.proxied.open()

    def ask(self, id: int, **headers: str) -> tuple[int, list[str]]:
        """Call a tool; the status, and the data of the events that came."""
        accept = "application/json, text/event-stream"
        usual = {"Content-Type": "application/json", "Accept": accept, "X-Method": "tools/call", **SESSION}
        return self.request("POST", json.dumps({**CALL, "id": id}), {**usual, **headers})

    def request(
        self, method: str, body: str = "", headers: dict[str, str] = SESSION
    ) -> tuple[int, list[str]]:
        connection = self.proxied.connection
        connection.request(method, "/mcp", body or None, headers)
        response = connection.getresponse()
        try:
            content = response.read()
        except IncompleteRead as error:
            content = error.partial + b"\ncut"
            connection.close()
        return response.status, [line.strip() for line in content.decode().splitlines() if line.strip()]

    def findings(self) -> list[str]:
        self.proxied.stop()
        return findings(self.proxied)

    def close(self) -> None:
        self.proxied.connection.close()
        self.proxied.process.kill()
        self.proxied.process.communicate()


@pytest.fixture
def talk(tmp_path: Path, streams: Streams) -> Iterator[Callable[[str], Talk]]:
    talks: list[Talk] = []

    def make(fault: str) -> Talk:
        talks.append(Talk(tmp_path, streams, fault))
        return talks[-1]

    yield make
    for each in talks:
        each.close()


ANSWER: Final = 'data: {"jsonrpc": "2.0", "id": %d, "result": {"content": []}}'
LOG_LINE: Final = f"data: {json.dumps(LOG)}"


@pytest.fixture
def start(tmp_path: Path, server: Server) -> Iterator[Start]:
    started: list[Proxied] = []

    def make(fault: str) -> Proxied:
        started.append(Proxied(tmp_path, server, "--fault", fault))
        started[0].open()
        return started[0]

    yield make
    for proxied in started:
        proxied.connection.close()
        proxied.process.kill()
        proxied.process.communicate()


def findings(proxied: Proxied) -> list[str]:
    return sorted({f"{finding.rule} {finding.blame}" for finding in check(proxied.trace).findings})


def test_a_lost_session_is_answered_here(server: Server, start: Start) -> None:
    proxied = start("from:client tool:search => status 404, nth 2, name gone")
    answers = [proxied.post({**CALL, "id": id}, **SESSION).status for id in (1, 2, 3)]
    told = proxied.stop()
    assert answers == [200, 404, 200]
    assert [message.get("id") for message in server.heard] == [0, None, 1, 3]
    assert any(isinstance(event, Note) and "rule gone: status 404" in event.why for event in told)
    assert findings(proxied) == THE_SERVER_S


def test_an_expired_token_has_a_challenge(start: Start) -> None:
    proxied = start("from:client method:tools/list => status 401")
    proxied.connection.request(
        "POST", "/mcp", json.dumps(asked(1, "tools/list")), {"Content-Type": "application/json", **SESSION}
    )
    response = proxied.connection.getresponse()
    assert (response.status, response.getheader("WWW-Authenticate")) == (401, 'Bearer error="invalid_token"')


def test_a_limit_says_when_to_try_again(start: Start) -> None:
    proxied = start('from:client method:tools/list => status 429, headers {"Retry-After": "3"}')
    proxied.connection.request(
        "POST", "/mcp", json.dumps(asked(1, "tools/list")), {"Content-Type": "application/json", **SESSION}
    )
    response = proxied.connection.getresponse()
    assert (response.status, response.reason) == (429, "Too Many Requests")
    assert response.getheader("Retry-After") == "3"


def test_a_body_in_chunks_is_changed(server: Server, start: Start) -> None:
    proxied = start('from:client tool:search => set {"/params/name": "find"}, limit 1')
    headers = {**SESSION, "Accept": "application/json, text/event-stream"}
    assert [proxied.post_in_chunks({**CALL, "id": id}, **headers).status for id in (1, 2)] == [200, 200]
    assert [message["params"]["name"] for message in server.heard[2:]] == ["find", "search"]
    proxied.stop()
    assert findings(proxied) == THE_SERVER_S


def test_an_error_is_an_answer_with_the_id_of_its_request(server: Server, start: Start) -> None:
    proxied = start('from:client tool:search => error {"code": -32001, "message": "down"}')
    answer = proxied.post(CALL, **SESSION)
    assert (answer.status, answer.body["id"], answer.body["error"]["code"]) == (200, 7, -32001)
    assert len(server.heard) == 2
    proxied.stop()
    assert findings(proxied) == []


def test_a_delayed_request_arrives_late_and_unchanged(server: Server, start: Start) -> None:
    proxied = start("from:client tool:search => delay 300ms")
    begun = time.monotonic()
    assert proxied.post(CALL, **SESSION).body["id"] == 7
    assert time.monotonic() - begun >= 0.3
    assert server.heard[-1] == CALL
    proxied.stop()
    assert findings(proxied) == THE_SERVER_S


def test_a_request_that_is_delayed_when_the_proxy_is_stopped_is_recorded(start: Start) -> None:
    proxied = start("from:client tool:search => delay 10m")
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    proxied.connection.request("POST", "/mcp", json.dumps(CALL), {**usual, **SESSION})
    with closing(HTTPConnection(proxied.connection.host, proxied.connection.port)) as other:
        other.request("POST", "/mcp", json.dumps(asked(3, "tools/list")), {**usual, **SESSION})
        assert other.getresponse().status == 200, "so the proxy has the call as well"
    told = proxied.stop()
    sent = [json.loads(event.raw).get("id") for event in told if isinstance(event, Frame)]
    assert 7 in sent
    assert findings(proxied) == []


@pytest.mark.parametrize("do", ["drop", "disconnect", "disconnect reset"])
def test_a_connection_is_closed_instead_of_an_answer(server: Server, start: Start, do: str) -> None:
    proxied = start(f"from:client tool:search => {do}, limit 1")
    with pytest.raises((RemoteDisconnected, ConnectionResetError)):
        proxied.post(CALL, **SESSION)
    proxied.connection.close()
    assert proxied.post(CALL, **SESSION).status == 200
    assert [message.get("id") for message in server.heard] == [0, None, 7]
    proxied.stop()
    assert findings(proxied) == THE_SERVER_S


THE_STREAMS_S: Final = ["PROTO-009 server"]
"""What the server does wrong by itself: it logs, and has not said that it does."""

MakeTalk = Callable[[str], Talk]


def test_a_session_that_is_lost_stays_lost(streams: Streams, talk: MakeTalk) -> None:
    with_faults = talk("from:client tool:search => lose-session, nth 2")
    assert [with_faults.ask(id)[0] for id in (1, 2, 3)] == [200, 404, 404]
    assert with_faults.request("GET")[0] == 404
    assert [message.get("id") for message in streams.heard if message.get("id")] == [1]
    assert with_faults.findings() == ["HTTP-006 client", *THE_STREAMS_S], "it goes on after a 404"


def test_a_token_that_has_expired_is_refused_and_another_is_not(streams: Streams, talk: MakeTalk) -> None:
    with_faults = talk("from:client tool:search => expire-token, nth 2")
    old, new = {"Authorization": "Bearer old"}, {"Authorization": "Bearer new"}
    assert [with_faults.ask(id, **old)[0] for id in (1, 2, 3)] == [200, 401, 401]
    assert with_faults.ask(4, **new)[0] == 200
    assert [message["id"] for message in streams.heard if "id" in message] == [0, 1, 4]
    assert with_faults.findings() == THE_STREAMS_S


def test_an_event_is_changed_withheld_or_late(talk: MakeTalk) -> None:
    with_faults = talk('from:server kind:notification => set {"/params/data": "y"}')
    assert with_faults.ask(1) == (200, [LOG_LINE.replace('"x"', '"y"'), ANSWER % 1])
    assert with_faults.findings() == THE_STREAMS_S


def test_an_event_is_cut(talk: MakeTalk) -> None:
    with_faults = talk("from:server tool:search => cut 10, limit 1, name scissors")
    assert with_faults.ask(1) == (200, [LOG_LINE, (ANSWER % 1)[:10], "cut"])
    assert with_faults.ask(2) == (200, [LOG_LINE, ANSWER % 2])
    assert with_faults.findings() == THE_STREAMS_S


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ('tool:search => set {"/result/content": [1]}', [LOG_LINE, (ANSWER % 1).replace("[]", "[1]")]),
        ("tool:search => duplicate", [LOG_LINE, ANSWER % 1, ANSWER % 1]),
        ("kind:notification => drop", [ANSWER % 1]),
        ("kind:notification => delay 50ms", [LOG_LINE, ANSWER % 1]),
        ("tool:search => cut 10", [LOG_LINE, (ANSWER % 1)[:10], "cut"]),
    ],
)
def test_a_stream_that_comes_at_once(talk: MakeTalk, rule: str, given: list[str]) -> None:
    with_faults = talk(f"from:server {rule}, limit 1")
    at_once = {"X-Method": "tools/call at once"}
    assert with_faults.ask(1, **at_once) == (200, given)
    assert with_faults.ask(2, **at_once) == (200, [LOG_LINE, ANSWER % 2])
    told = with_faults.proxied.stop()
    sent = [event.raw for event in told if isinstance(event, Frame) and event.sender == "server"]
    assert sent.count(json.dumps(LOG).encode()) >= 2, "all that the server sent is recorded"
    assert findings(with_faults.proxied) == THE_STREAMS_S


def test_the_stream_is_refused_dropped_or_cut(streams: Streams, talk: MakeTalk) -> None:
    assert talk("kind:http => status 405").request("GET")[0] == 405
    assert talk("kind:http => disconnect, delay 100ms").request("GET") == (200, [LOG_LINE, "cut"])
    with_faults = talk("kind:http GET => drop")
    with pytest.raises((RemoteDisconnected, ConnectionResetError)):
        with_faults.request("GET")
    with_faults.proxied.connection.close()
    assert with_faults.request("DELETE")[0] == 204


def test_a_request_reaches_the_server_with_another_head(streams: Streams, talk: MakeTalk) -> None:
    with_faults = talk('from:client tool:search => set-header {"X-Fault": "yes"}, nth 1')
    with_faults.ask(1)
    with_faults.ask(2)
    assert [headers.get("X-Fault") for headers in streams.headers] == ["yes", None]
    assert with_faults.findings() == THE_STREAMS_S


def test_a_request_reaches_the_server_changed(streams: Streams, talk: MakeTalk) -> None:
    with_faults = talk('from:client id:2 => set {"/params/arguments": {"text": "long"}}')
    assert [with_faults.ask(id)[0] for id in (1, 2, 3)] == [200] * 3
    assert [message["params"]["arguments"] for message in streams.heard[2:]] == [{}, {"text": "long"}, {}]
    assert with_faults.findings() == THE_STREAMS_S


def test_both_heads_of_a_changed_request_are_kept_and_the_one_that_was_sent_is_replayed(
    talk: MakeTalk, tmp_path: Path
) -> None:
    with_faults = talk('from:client id:2 => set-header {"X-Fault": "yes"}')
    for id in (1, 2, 3):
        with_faults.ask(id)
    told = with_faults.proxied.stop()
    (first, second) = (event for event in told if isinstance(event, RequestHead) and event.fault)
    part = tmp_path / "part.jsonl"
    assert main(["trim", str(with_faults.proxied.trace), "--around", str(first.seq), "-o", str(part)]) == 0
    heads = [event for event in read_trace(str(part)).events() if isinstance(event, RequestHead)]
    assert [dict(head.headers).get("X-Fault") for head in heads if head.fault] == [None, "yes"]
    assert (first.by_proxy, second.by_proxy) == (False, True)
    exchanges = load(with_faults.proxied.trace).sessions[0].exchanges
    assert not any("X-Fault" in dict(exchange.request.headers) for exchange in exchanges.values())


def test_the_head_of_an_answer_is_changed(talk: MakeTalk) -> None:
    with_faults = talk("from:client tool:search => drop-header Content-Type, of response")
    assert with_faults.ask(1) == (200, [LOG_LINE, ANSWER % 1])
    assert with_faults.findings() == THE_STREAMS_S


def test_after_a_request_to_upgrade_everything_passes(talk: MakeTalk) -> None:
    with_faults = talk("from:server kind:answer tool:search => error")
    with_faults.request("DELETE", headers={**SESSION, "Connection": "Upgrade", "Upgrade": "other"})
    assert with_faults.ask(1) == (200, [LOG_LINE, ANSWER % 1])
