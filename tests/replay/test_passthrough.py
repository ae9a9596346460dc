"""Requests of the server behind a recording: each gets an id of its own, and its answer comes back to it."""

import json

from mcpproxy.peers.replay.server.live_messages import LiveMessage
from mcpproxy.peers.replay.server.passthrough import Passthrough
from mcpproxy.protocol.jsonrpc import Batch, parse

ASKED = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()


def asks(behind: Passthrough, id: object) -> str:
    """Let the server ask; return the id that the client sees."""
    (sent,), _ = behind.on_server_line(
        json.dumps({"jsonrpc": "2.0", "id": id, "method": "roots/list"}).encode()
    )
    seen: str = json.loads(sent.raw)["id"]
    return seen


def answered(behind: Passthrough, id: str) -> object:
    """Let the client answer; return the id that the server sees."""
    raw = json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode()
    message = parse(raw)
    assert not isinstance(message, Batch)
    (line,) = behind.on_client_message(LiveMessage(raw, message))
    return json.loads(line)["id"]


def test_two_open_requests_of_the_server_never_share_an_id() -> None:
    behind = Passthrough()
    first, second = asks(behind, "a"), asks(behind, 2)
    assert answered(behind, first) == "a"
    third = asks(behind, 3.0)
    assert len({first, second, third}) == 3
    assert answered(behind, second) == 2
    assert answered(behind, third) == 3.0


def test_who_asks_a_server_that_has_ended_is_told_so() -> None:
    behind = Passthrough()
    message = parse(ASKED)
    assert not isinstance(message, Batch)
    assert behind.pass_on(LiveMessage(ASKED, message)) == [ASKED]
    assert behind.errors_after_exit() == []
    assert [b"has ended" in out.raw for out in behind.on_exit()] == [True]
    assert behind.pass_on(LiveMessage(ASKED, message)) == []
    assert [b"has ended" in out.raw for out in behind.errors_after_exit()] == [True]
    assert not behind.has_unanswered
