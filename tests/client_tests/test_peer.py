"""The server of a scenario, with a client that is played by hand."""

import io
import json
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from mcpproxy.client_tests import wrong
from mcpproxy.client_tests.peer import ScriptedServer
from mcpproxy.client_tests.scenarios import SCENARIOS

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
