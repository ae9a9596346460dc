"""Options that hold messages, together in one session: rules first, then addons, enforcement last."""

import json
from pathlib import Path
from typing import Final

from tests.intercept.test_fault_relay import INITIALIZED, Played, call

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
