"""The server of a scenario, with a client that is played by hand."""

import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcpproxy.peers.client_tests import wrong
from mcpproxy.peers.client_tests.http_peer import ScriptedEndpoint, plain
from mcpproxy.peers.client_tests.peer import ScriptedServer
from mcpproxy.peers.client_tests.scenarios import SCENARIOS

LONG_S = 60.0
MOMENT_S = 0.3
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}


class Written(io.BytesIO):
    """What the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.pinged = threading.Event()
        self.answered = threading.Event()

    def flush(self) -> None:
        message = json.loads(self.getvalue().splitlines()[-1])
        if message.get("method") == "ping":
            self.pinged.set()
        if message.get("id") == 7:
            self.answered.set()


def test_a_client_that_takes_another_answer_for_its_own_has_time_to_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (scenario,) = (one for one in SCENARIOS if one.name == "answer-to-nobody")
    written = Written()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=written))
    monkeypatch.setattr(wrong, "GOES_ON_S", LONG_S)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb", buffering=0) as client:
        server = ScriptedServer(scenario.scripts, scenario.capabilities, scenario.eras, source)
        serving = threading.Thread(target=server.serve, daemon=True)
        serving.start()
        client.write(json.dumps(CALL).encode() + b"\n")
        assert written.pinged.wait(LONG_S)
        client.write(b'{"jsonrpc":"2.0","id":"ours-1","result":{}}\n')
        assert not written.answered.wait(MOMENT_S)
        client.close()
        assert written.answered.wait(LONG_S)
        serving.join(LONG_S)


def events(response: HTTPResponse) -> Iterator[Any]:
    return (json.loads(line[5:]) for line in response if line.startswith(b"data:"))


def test_a_client_over_http_has_time_to_leave_whatever_it_said_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (scenario,) = (one for one in SCENARIOS if one.name == "answer-to-nobody")
    monkeypatch.setattr(wrong, "GOES_ON_S", LONG_S)
    endpoint = ScriptedEndpoint(plain, scenario.scripts, scenario.capabilities, scenario.eras)
    where = urlsplit(endpoint.url)
    server = vars(endpoint)["_server"]
    with ExitStack() as stack:
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        threading.Thread(target=endpoint.serve, daemon=True).start()

        def sent(session: str, message: Any, verb: str = "POST") -> HTTPResponse:
            connection = HTTPConnection(str(where.hostname), where.port, timeout=LONG_S)
            stack.callback(connection.close)
            told = {"Mcp-Session-Id": session} if session else {}
            connection.request(verb, where.path, json.dumps({"jsonrpc": "2.0", **message}), told)
            response = connection.getresponse()
            stack.callback(response.close)
            return response

        session = str(sent("", {"id": 1, "method": "initialize"}).getheader("Mcp-Session-Id"))
        assert sent(session, {"method": "notifications/initialized"}).status == 202
        came = events(sent(session, CALL))
        assert [next(came)["id"], next(came)["id"]] == ["no-such-id", "ours-1"]
        answered = threading.Event()

        def waits() -> None:
            if next(came)["id"] == CALL["id"]:
                answered.set()

        waiting = threading.Thread(target=waits, daemon=True)
        waiting.start()
        assert sent(session, {"id": "ours-1", "result": {}}).status == 202
        is_early = answered.wait(MOMENT_S)
        assert sent(session, {}, "DELETE").status == 200
        assert answered.wait(LONG_S)
        waiting.join(LONG_S)
        assert not is_early
