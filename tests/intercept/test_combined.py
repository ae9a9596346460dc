"""Options that hold messages, together in one session: rules first, then addons, enforcement last."""

import json
from pathlib import Path
from typing import Final

from mcpproxy.judge.session.frame import Frame, Note, ResponseHead
from tests.intercept.test_fault_relay import INITIALIZED, Played, call
from tests.relay.test_http_enforce import SESSION, Proxied, Server, asked, server

__all__ = ["server"]

OVERHEARD: Final = call(9, "prompts/list")


def test_what_a_fault_makes_of_a_request_is_refused_too(tmp_path: Path) -> None:
    fault = 'from:client id:2 => set {"/method": "prompts/list"}, name odd'
    options = ("--fault", fault, "--enforce", "PROTO-009")
    messages = [INITIALIZED, call(1, "tools/list"), call(2, "tools/list"), call(3, "prompts/list")]
    played = Played(tmp_path, *options, messages=messages)
    assert played.server_heard == [0, None, 1]
    assert sorted(played.answers) == [0, 1, 2, 3]
    answers = {answer["id"]: answer for answer in map(json.loads, played.stdout.splitlines())}
    assert [answers[id]["error"]["data"]["rule"] for id in (2, 3)] == ["PROTO-009"] * 2
    marks = [(f.sender, f.by_proxy, f.fault.rule, f.fault.number) for f in played.frames() if f.fault]
    assert marks == [("client", False, "odd", 1), ("server", True, "PROTO-009", 1)]
    refused = [frame for frame in played.frames() if frame.refused]
    assert [json.loads(frame.raw)["id"] for frame in refused] == [3]
    # The client is blamed for its own request, not for what the fault made of the other.
    assert [found for found in played.findings() if found.startswith("PROTO")] == ["PROTO-009 client"]


def test_a_late_handshake_is_judged_when_it_is_given(tmp_path: Path) -> None:
    options = ("--fault", "method:notifications/initialized => delay 100ms", "--enforce", "PROTO-009")
    played = Played(tmp_path, *options, messages=[INITIALIZED, call(1, "tools/list"), OVERHEARD])
    assert played.server_heard == [0, None, 1]
    assert sorted(played.answers) == [0, 1, 9]


def test_over_http_what_a_fault_makes_of_a_request_is_refused_too(tmp_path: Path, server: Server) -> None:
    fault = 'from:client id:2 => set {"/method": "prompts/list"}, name odd'
    proxied = Proxied(tmp_path, server, "--fault", fault, "--enforce", "PROTO-009")
    try:
        proxied.open()
        answers = [
            proxied.post(asked(id, method), **SESSION)
            for id, method in ((1, "tools/list"), (2, "tools/list"), (3, "prompts/list"), (4, "tools/list"))
        ]
        told = proxied.stop()
    finally:
        proxied.process.kill()
        proxied.process.communicate()
    assert [message.get("id") for message in server.heard] == [0, None, 1, 4]
    assert ["result" in answer.body for answer in answers] == [True, False, False, True]
    assert [answer.body["error"]["data"]["rule"] for answer in answers[1:3]] == ["PROTO-009"] * 2
    why = "PROTO-009: client sent prompts/list, but the server never declared prompts"
    assert [note.why for note in told if isinstance(note, Note) and note.what == "refused"] == [why] * 2
    assert len([head for head in told if isinstance(head, ResponseHead) and head.by_proxy]) == 2
    sent = [json.loads(frame.raw) for frame in told if isinstance(frame, Frame) and frame.sender == "client"]
    assert [message["method"] for message in sent if message.get("id") == 2] == ["tools/list"]
