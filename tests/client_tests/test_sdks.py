"""Clients that others wrote: each verdict on them was looked up in the specification and in their source.

``python -m tests.client_tests.sdks`` plays all servers to all of them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client_tests.sdks import __main__ as sdks
from tests.client_tests.sdks.clients import CLIENTS
from tests.client_tests.test_validate_client import LIMIT, Outcome, statuses
from tests.peers.fixtures import had
from tests.peers.install import PeerUnavailableError

STDIO = "asks-in-call,unknown-request,out-of-order,id-as-text,answer-to-nobody"
HTTP = "asks-in-call,unknown-request,out-of-order,lost-session"
OVER_HTTP = ("--listen=127.0.0.1:0",)

GATE: list[tuple[str, str, tuple[str, ...], dict[str, str]]] = [
    ("python-1", STDIO, (), {"unknown-request": "warning"}),
    ("typescript-2-auto", STDIO, (), {}),
    ("python-2", HTTP, OVER_HTTP, {}),
    ("fastmcp", "asks-in-call,lost-session", OVER_HTTP, {}),  # its transport is that of the Python SDK
]


def command_of(client: str) -> list[str]:
    """Return the command of a client that makes two calls at once; skip the test if it is not to be had."""
    try:
        return CLIENTS[client].command(calls=2)
    except PeerUnavailableError as unavailable:
        return had(unavailable)


@pytest.mark.parametrize(("client", "only", "listen", "others"), GATE, ids=[row[0] for row in GATE])
def test_the_client_of_an_sdk(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    client: str,
    only: str,
    listen: tuple[str, ...],
    others: dict[str, str],
) -> None:
    options = ("--json", *listen, f"--only={only}", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *command_of(client))
    assert statuses(outcome) == dict.fromkeys(["ordinary", *only.split(",")], "passed") | others
    told = {check["name"]: check["message"] for check in json.loads(outcome.out)["checks"]}
    assert "answer-to-nobody (behaviour)" not in told
    if client == "typescript-2-auto":  # it makes a number of the id
        assert told["id-as-text (behaviour)"] == "takes it for the answer to its call"


def test_a_line_for_each_client_when_it_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines_before: list[str] = []

    def checks(*_: object, **__: object) -> dict[str, Any]:
        lines_before.append(capsys.readouterr().err)
        return {"ordinary": {"status": "passed", "broken": ""}}

    monkeypatch.setattr(sdks, "checks", checks)
    clients = {name: sdks.SdkClient(lambda: ["client"]) for name in ("one", "two")}
    monkeypatch.setattr(sdks, "CLIENTS", clients)
    monkeypatch.setattr("sys.argv", ["sdks"])
    assert sdks.main() == 0
    assert lines_before == ["", "one: 1 passed in 0 s\n"]
