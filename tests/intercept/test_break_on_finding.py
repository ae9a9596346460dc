"""``--break rule:TOOL-005``: a message is held because of what is wrong with it."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mcpproxy.api import check
from mcpproxy.gate.intercept.asking.control_client import ask
from mcpproxy.gate.intercept.control import Command
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import FaultRuleError, read_faults
from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.live.live_judge import LiveJudge, LiveLines
from mcpproxy.gate.intercept.policies import Policies
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.observer.two_views import TwoViews
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.rule_options import RuleOptions
from mcpproxy.judge.session.frame import CLIENT, SERVER, Finding, Frame, Sender
from mcpproxy.record.trace.reader import read_trace
from tests import house
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.intercept import test_breakpoints_http as over_http
from tests.intercept.test_breakpoints import Held
from tests.intercept.test_fault_http import THE_STREAMS_S, Streams, findings, server, streams
from tests.intercept.test_fault_relay import INITIALIZE, INITIALIZED, OPENED, THE_PEER_S, call
from tests.intercept.test_off import imported
from tests.relay.hosts import DEADLINE_S

__all__ = ["mcpproxy", "server", "state_dir", "streams"]

ABOUT: Final = "server sent a tools/call result in which result/content is missing"
EMPTY: Final[dict[str, object]] = {"jsonrpc": "2.0", "id": 1, "result": {}}
WHOLE: Final[dict[str, object]] = {"content": []}


def held_messages(trace: str, at_least: int = 1) -> list[dict[str, Any]]:
    while True:
        held = cast("list[dict[str, Any]]", ask(trace, {"do": "list", "starts": True})["held"])
        if len(held) >= at_least:
            return held


def release(trace: str, how: str, number: int, new: object = None) -> None:
    command: Command = {"do": how, "number": number}
    if new is not None:
        command["base64"] = base64.b64encode(json.dumps(new).encode()).decode()
    assert ask(trace, command)["done"] == how


# Lanes


class Hearing(LiveLines):
    """Judges lines, and remembers everything that was found."""

    def __init__(self, judge: LiveJudge) -> None:
        super().__init__(judge)
        self.heard: list[Finding] = []

    def judge_line(self, frame: Frame) -> tuple[Finding, ...]:
        found = super().judge_line(frame)
        self.heard += found
        return found


class Judged:
    """Lanes whose lines are judged, and what the relay has said."""

    def __init__(self, *specs: str) -> None:
        self.said: list[str] = []
        self.judge = Hearing(LiveJudge(RuleOptions(), self.said.append))
        rules = FaultPolicy(read_faults([], specs, "stdio", 7), self.said.append)
        self.lanes = Lanes(Policies([self.judge, rules], self.said.append), self.said.append)
        self.recorded: list[Frame] = []
        self.take(CLIENT, call(0, "initialize", **INITIALIZE))
        self.take(SERVER, {"jsonrpc": "2.0", "id": 0, "result": OPENED})
        self.take(CLIENT, INITIALIZED)

    def take(self, sender: Sender, *messages: object, at_ns: int = 0) -> list[str]:
        """Send messages; return what was done with each line."""
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        return [self._done(step) for step in self.lanes.take_bytes(sender, data, at_ns)]

    def due(self, at_ns: int) -> list[str]:
        return [self._done(step) for step in self.lanes.take_due(at_ns)]

    def _done(self, step: LaneStep) -> str:
        self.judge.note_step(step, 0)
        for raw in step.data.splitlines():  # what the recorder writes
            number = len(self.recorded) + 1
            is_given = step.kind in ("give", "answer")
            self.recorded.append(Frame(number, step.sender, raw, by_proxy=is_given, fault=step.fault))
        return step.kind

    @property
    def found(self) -> list[str]:
        return [found.rule for held in self.lanes.held for found in held.findings]


def test_a_line_is_held_for_what_is_wrong_with_it() -> None:
    lanes = Judged("rule:TOOL-* => pause")
    assert lanes.take(CLIENT, call(1, name="search", arguments={})) == ["pass"]
    assert lanes.take(SERVER, EMPTY) == ["withhold"]
    assert lanes.found == ["TOOL-005"]
    assert lanes.take(CLIENT, call(2, "ping")) == ["pass"]


@pytest.mark.parametrize(
    ("wanted", "is_held"),
    [
        ("rule:TOOL-005", True),
        ("rule:tool-005,RPC-*", True),
        ("severity:error", True),
        ("severity:info", False),
        ("rule:TOOL-* severity:error from:server tool:search", True),
        ("rule:TOOL-* -severity:error", False),
        ("-rule:TOOL-005", False),
        ("-rule:RPC-*", True),
        ("rule:TOOL-* from:client", False),
        ("rule:TOOL-* tool:other", False),
    ],
)
def test_one_finding_passes_all_that_is_asked_of_findings(wanted: str, is_held: bool) -> None:
    lanes = Judged(f"{wanted} => pause")
    lanes.take(CLIENT, call(1, name="search", arguments={}))
    assert lanes.take(SERVER, EMPTY) == ["withhold" if is_held else "pass"]


def test_another_breakpoint_tells_what_was_found_as_well() -> None:
    lanes = Judged("from:server tool:search => pause", "rule:PROTO-* => pause")
    lanes.take(CLIENT, call(1, name="search", arguments={}))
    assert lanes.found == []
    lanes.take(SERVER, EMPTY)
    assert lanes.found == ["TOOL-005"]


def test_a_receiver_is_judged_by_what_it_was_given() -> None:
    """The client asks again under the id of a call that was lost: for the server that is the first one."""
    lanes = Judged("rule:* from:server => pause", "from:client tool:search => drop, nth 1")
    assert lanes.take(CLIENT, call(1, name="search", arguments={})) == ["withhold"]
    assert lanes.take(SERVER, {"jsonrpc": "2.0", "id": 1, "result": WHOLE}) == ["withhold"]
    assert lanes.found == ["PROTO-007"]  # it answers what it was never asked


def test_a_sender_is_judged_when_it_sends_however_late_that_is_given() -> None:
    lanes = Judged("rule:* => pause", "from:client method:ping => delay 1s, name late")
    assert lanes.take(CLIENT, call(1, "ping"), call(2, name="search", arguments={})) == ["withhold"] * 2
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    assert lanes.take(CLIENT, cancelled) == ["withhold"]
    assert lanes.found == []
    assert lanes.due(2_000_000_000) == ["give"] * 3
    assert lanes.take(SERVER, {"jsonrpc": "2.0", "id": 1, "result": {}}) == ["pass"]


def test_every_finding_of_a_cause_holds_its_message() -> None:
    lanes = Judged("rule:TOOL-005 => pause")
    for id in range(1, 251):
        lanes.take(CLIENT, call(id, name="search", arguments={}))
        assert lanes.take(SERVER, {**EMPTY, "id": id}) == ["withhold"]


def test_a_judge_that_fails_lets_everything_pass_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Judged("rule:* => pause", "tool:held => pause")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("mcpproxy.judge.observer.two_views.TwoViews.observe_as", fail)
    for id in (1, 2):
        assert lanes.take(CLIENT, call(id, name="search", arguments={})) == ["pass"]
        assert lanes.take(SERVER, {**EMPTY, "id": id}) == ["pass"]
    assert lanes.take(CLIENT, call(3, name="held", arguments={})) == ["withhold"]
    fact = "no breakpoint on a finding holds: ZeroDivisionError: planted"
    assert lanes.said == [f"a fault of mcpproxy, {fact}"]


def test_the_same_is_found_as_in_the_recording() -> None:
    """Whatever meets the messages: who sends them is judged here as by the recorder."""
    rules = ["method:ping => drop, every 3", "tool:a => error, every 2", "from:server => truncate 9, every 5"]
    lanes = Judged("rule:NONE => pause", *rules)
    for id in range(1, 60):
        method = "tools/call" if id % 2 else "ping"
        lanes.take(CLIENT, call(id // 2, method, **({"name": "a"} if id % 2 else {})), at_ns=id)
        lanes.take(SERVER, {"jsonrpc": "2.0", "id": id // 3, "result": {}}, at_ns=id)
    assert {found.rule for found in lanes.judge.heard} >= {"RPC-005", "PROTO-007", "TOOL-005"}
    judge = TwoViews(lambda: Observer(catalogue.load(), lists_all=True))
    recorded = [
        finding
        for frame in lanes.recorded
        for finding in judge.observe(frame)
        if finding.frame == frame.seq and not frame.by_proxy
    ]
    assert lanes.judge.heard == recorded
    assert lanes.said == []


# Sessions


def test_the_command_says_what_was_found_on_stdio(tmp_path: Path, mcpproxy: Mcpproxy) -> None:
    session = Held(tmp_path, "--break", "severity:error")
    try:
        session.call(1)
        (held,) = held_messages(session.trace)
        assert (held["from"], held["kind"]) == ("server", "answer")
        assert held["findings"] == [{"rule": "TOOL-005", "message": ABOUT}]
        where = ("--trace", session.trace)
        head, line = mcpproxy("breakpoints", *where).out.splitlines()
        assert head.split() == ["NO.", "FROM", "HELD", "LEFT", "FOUND", "MESSAGE"]
        assert " TOOL-005 " in line
        shown = mcpproxy("breakpoints", "show", str(held["number"]), *where)
        assert shown.err == f"TOOL-005: {ABOUT}\n"
        assert json.loads(shown.out) == EMPTY
        release(session.trace, "edit", held["number"], {**EMPTY, "result": WHOLE})
        assert session.hear()["result"] == WHOLE
        session.say(call(2, "ping"))
        assert session.hear()["id"] == 2
        session.end()
        assert session.findings() == THE_PEER_S
    finally:
        session.close()


def test_a_request_with_a_fault_is_held_before_the_server_gets_it(tmp_path: Path) -> None:
    session = Held(tmp_path, "--break", "rule:RPC-005 from:client")
    try:
        session.say(call(1, "ping"))
        assert session.hear()["id"] == 1
        session.say(call(1, "ping"))
        (held,) = held_messages(session.trace)
        (found,) = held["findings"]
        release(session.trace, "edit", held["number"], call(2, "ping"))
        assert session.hear()["id"] == 2
        session.end()
        frames = [f for f in read_trace(session.trace).events() if isinstance(f, Frame)]
        first = next(frame for frame in frames if json.loads(frame.raw).get("method") == "ping")
        assert (found["rule"], f"frame {first.seq}" in found["message"]) == ("RPC-005", True)
        assert session.findings() == ["RPC-005 client"]
    finally:
        session.close()


def test_only_rules_that_are_selected_hold(tmp_path: Path) -> None:
    session = Held(tmp_path, "--break", "severity:error", "--ignore", "TOOL-005")
    try:
        session.call(1)
        assert session.hear() == EMPTY
    finally:
        session.close()


def test_a_rule_of_ones_own_holds_and_may_print(tmp_path: Path) -> None:
    rules = house.build(tmp_path)
    session = Held(tmp_path, "--rules", rules, "--break", "rule:HOUSE-001")
    try:
        session.say(call(1, "tools/list"))
        (held,) = held_messages(session.trace)
        assert held["findings"] == [{"rule": "HOUSE-001", "message": "client listed tools"}]
        release(session.trace, "resume", held["number"])
        assert session.hear() == EMPTY  # and nothing that the rule has printed
    finally:
        session.close()


# Over HTTP


@pytest.fixture
def hold(tmp_path: Path, streams: Streams) -> Iterator[Callable[..., over_http.Held]]:
    started: list[over_http.Held] = []

    def make(*options: str) -> over_http.Held:
        started.append(over_http.Held(tmp_path, streams, *options))
        return started[-1]

    yield make
    for each in started:
        each.close()


Hold = Callable[..., over_http.Held]


@pytest.mark.parametrize("form", [{}, over_http.AT_ONCE], ids=["stream", "stream at once"])
def test_an_event_is_held_for_what_is_wrong_with_it(hold: Hold, form: dict[str, str]) -> None:
    held = hold("--break", "rule:PROTO-009")
    answer = held.call(1, **form)
    (message,) = held_messages(held.trace)
    assert message["method"] == "notifications/message"
    assert [found["rule"] for found in message["findings"]] == ["PROTO-009"]
    release(held.trace, "drop", message["number"])
    assert over_http.words(answer.result(DEADLINE_S)) == [over_http.ANSWER % 1]
    held.proxied.stop()
    assert findings(held.proxied) == THE_STREAMS_S


def test_an_answer_in_json_is_held_and_mended(hold: Hold) -> None:
    held = hold("--break", "rule:TOOL-* from:server")
    calls = {id: held.call(id, **over_http.AS_JSON) for id in (1, 2, 3)}
    messages = held_messages(held.trace, 3)
    assert {found["rule"] for message in messages for found in message["findings"]} == {"TOOL-005"}
    for id, number in held.held(3).items():
        release(held.trace, "edit", number, {"jsonrpc": "2.0", "id": id, "result": WHOLE})
    for id, answer in calls.items():
        assert json.loads(answer.result(DEADLINE_S)[0]) == {"jsonrpc": "2.0", "id": id, "result": WHOLE}
    held.proxied.stop()
    assert findings(held.proxied) == ["TOOL-005 server"]


def test_a_request_over_http_is_held_before_the_server_gets_it(hold: Hold, streams: Streams) -> None:
    held = hold("--break", "from:client rule:RPC-005")
    assert over_http.words(held.call(5).result(DEADLINE_S))[-1] == over_http.ANSWER % 5
    again = held.call(5)
    (message,) = held_messages(held.trace)
    assert message["findings"][0]["rule"] == "RPC-005"
    assert len(streams.heard) == 3
    release(held.trace, "error", message["number"])
    assert json.loads(again.result(DEADLINE_S)[0])["error"]["code"] == -32603
    assert over_http.words(held.call(6).result(DEADLINE_S))[-1] == over_http.ANSWER % 6
    held.proxied.stop()
    assert findings(held.proxied) == sorted([*THE_STREAMS_S, "RPC-005 client"])


def test_hundreds_of_exchanges_on_many_connections_are_judged_right(hold: Hold) -> None:
    rule = 'from:client tool:search => set {"/params/name": "find"}, every 3'
    held = hold("--break", "rule:RPC-*,TOOL-*", "--fault", rule)
    ids = range(1, 201)
    answers = {id: held.call(id) for id in ids}
    for id in ids:
        assert over_http.words(answers[id].result(DEADLINE_S))[-1] == over_http.ANSWER % id
    assert ask(held.trace, {"do": "list"}) == {"held": []}
    held.call(77)  # and the judge has not ended
    assert held_messages(held.trace)[0]["findings"][0]["rule"] == "RPC-005"
    held.proxied.stop()
    assert findings(held.proxied) == sorted([*THE_STREAMS_S, "RPC-005 client"])


# Rules and costs


def test_a_plan_says_where_a_recorded_session_would_stop(tmp_path: Path, mcpproxy: Mcpproxy) -> None:
    session = Held(tmp_path, "--break", "tool:none")
    session.call(1)
    assert session.hear() == EMPTY
    session.end()
    session.close()
    planned = mcpproxy("faults", "plan", "rule:TOOL-* => pause", session.trace, "--format", "json")
    (fault,) = json.loads(planned.out)["faults"]
    (finding,) = check(session.trace).findings
    assert (fault["frame"], fault["action"]) == (finding.frame, "pause")


@pytest.mark.parametrize("spec", ["rule:PROTO-* => drop", "severity:error tool:a => delay 1s"])
def test_a_fault_does_not_wait_for_the_judge(spec: str) -> None:
    with pytest.raises(FaultRuleError, match="rule: and severity: are for breakpoints"):
        read_faults([], [spec], "stdio")


def test_other_breakpoints_import_no_judge_into_the_relay(tmp_path: Path) -> None:
    judging = {"mcpproxy.gate.intercept.live.live_judge", "mcpproxy.gate.intercept.live.live_exchanges"}
    assert imported(tmp_path, "--break", "tool:none") & judging == set()
    (tmp_path / "found").mkdir()
    found = imported(tmp_path / "found", "--break", "rule:NONE") & judging
    assert found == {"mcpproxy.gate.intercept.live.live_judge"}
