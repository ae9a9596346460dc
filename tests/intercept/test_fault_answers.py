"""What a client gets of the answers of a server over HTTP, as a conversation without a network."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from mcpproxy.gate.intercept.addons.addon_policy import AddonPolicy
from mcpproxy.gate.intercept.addons.closed_gate import ClosedGate
from mcpproxy.gate.intercept.fault_decisions import FaultDecision
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import read_faults
from mcpproxy.gate.intercept.gate_options import GateOptions
from mcpproxy.gate.intercept.http.http_answer_faults import AnswerFaults
from mcpproxy.gate.intercept.http.http_answer_steps import AnswerStep, ExpectedAnswer
from mcpproxy.gate.intercept.http.http_answers import AnswerReader
from mcpproxy.gate.intercept.http.http_events import HttpEvents
from mcpproxy.gate.intercept.http.http_gate import HttpGate
from mcpproxy.gate.intercept.policies import AppliedFault, Instead, Passing, Policies, Policy
from mcpproxy.judge.session.frame import CLIENT, FaultMark, Frame, RequestHead
from mcpproxy.record.framing.bodies import Chunked

MS: Final = 1_000_000
ASKED: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}'
SAID: Final = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
LOG: Final = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
DOWN: Final = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"down"}}'
JSON_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Own: 1\r\n\r\n"
)
SSE_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END: Final = b"0\r\n\r\n"


def body(content: bytes, head: bytes = JSON_HEAD) -> bytes:
    return head % len(content) + content


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def event(data: bytes, id: bytes = b"7") -> bytes:
    return b"event: message\r\nid: %b\r\ndata: %b\r\n\r\n" % (id, data)


LENGTH_HEAD: Final = JSON_HEAD.replace(b"application/json", b"text/event-stream")
EVENTS: Final = event(LOG) + event(SAID) + b": ping\r\n\r\n"
"""Events in a stream whose head says its length, as servers that have all of them at once send it."""

STREAM: Final = SSE_HEAD + chunk(b": ping\r\n\r\n") + chunk(event(LOG)) + chunk(event(SAID)) + END


class Answers:
    """The answers to one request, in a session without faults before."""

    def __init__(self, *specs: str) -> None:
        self.said: list[str] = []
        self.steps: list[AnswerStep] = []
        self.marks = 0
        self.rules = FaultPolicy(read_faults([], specs, "http", 7), is_http=True)
        self.decision = self._asked()
        self.begin([self.rules], ClosedGate())

    def begin(self, policies: list[Policy], gate: ClosedGate, *, is_gated: bool = False) -> None:
        """Read the answer to one request from now on."""
        faults = AnswerFaults(Policies(policies, self.said.append, gate), self.mark)
        self.reader = AnswerReader(faults, lambda fault: self.said.append(f"a bug: {fault}"))
        id = b"1" if is_gated else b""
        self.reader.expected.append(ExpectedAnswer("", "POST", self.decision, is_gated, id))

    def mark(self, rule: str, action: str) -> FaultMark:
        self.marks += 1
        return FaultMark(rule, action, self.marks)

    def _asked(self) -> FaultDecision | None:
        self.rules.enter_head(RequestHead(1, 1, 1, method="POST", target="/mcp", headers=()))
        met = self.rules.enter(Passing(Frame(2, CLIENT, ASKED)))
        return met.decision if met and met.decision.rule.action.text == "response" else None

    def feed(self, *parts: bytes) -> bytes:
        """Return what the client is given."""
        for part in parts:
            self.steps += self.reader.feed(part, 0)
        return self.given

    @property
    def given(self) -> bytes:
        end = self.kinds.index("end") if "end" in self.kinds else None
        return b"".join(step.data for step in self.steps[:end] if step.kind in ("pass", "give"))

    @property
    def recorded(self) -> list[tuple[str, bytes]]:
        return [(step.part, step.content) for step in self.steps if step.kind == "give"]

    @property
    def kinds(self) -> list[str]:
        return [step.kind for step in self.steps]


@pytest.mark.parametrize(
    "answer",
    [
        body(SAID),
        STREAM,
        body(EVENTS, LENGTH_HEAD),
        body(EVENTS + b"data: incomplete", LENGTH_HEAD),
        SSE_HEAD + chunk(event(LOG) + event(SAID)) + END,
        SSE_HEAD + chunk(event(LOG)[:9]) + chunk(event(LOG)[9:]) + END,
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + body(SAID),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\nanything",
        b"no HTTP at all\r\n\r\n",
    ],
)
def test_what_no_rule_matches_passes_however_it_is_cut(answer: bytes) -> None:
    for size in (1, 2, 7, 64, len(answer)):
        answers = Answers("from:server tool:other => drop")
        parts = [answer[start : start + size] for start in range(0, len(answer), size)]
        assert answers.feed(*parts) == answer
        assert set(answers.kinds) == {"pass"}
        assert answers.reader.take_held() == b""


@pytest.mark.parametrize("size", [1, 3, 50, 1000])
@pytest.mark.parametrize(
    ("do", "new"),
    [
        ('error {"code": -32000, "message": "down"}', DOWN),
        ('set {"/result/content": 1}', SAID.replace(b"[]", b"1")),
        ("truncate 4", SAID[:4]),
        ("raw hello", b"hello"),
    ],
)
def test_an_answer_is_changed(do: str, new: bytes, size: int) -> None:
    answers = Answers(f"from:server tool:search => {do}")
    answer = body(SAID)
    assert answers.feed(*(answer[at : at + size] for at in range(0, len(answer), size))) == body(new)
    assert answers.kinds == ["alter", "give", "give"]
    assert answers.recorded == [("head", JSON_HEAD % len(new)), ("body", new)]
    answers = Answers(f"from:server tool:search => {do}")
    given = answers.feed(*(STREAM[at : at + size] for at in range(0, len(STREAM), size)))
    assert given == STREAM.replace(chunk(event(SAID)), chunk(event(new)))
    assert answers.recorded == [("event", event(new))]


@pytest.mark.parametrize("size", [1, 50, 1000])
@pytest.mark.parametrize(
    ("rule", "events"),
    [
        ('tool:search => set {"/result/content": 1}', EVENTS.replace(b"[]", b"1")),
        ("tool:search => drop", EVENTS.replace(event(SAID), b"")),
        ("tool:search => duplicate", EVENTS.replace(event(SAID), event(SAID) * 2)),
        ("kind:notification => error", EVENTS),
        ("kind:notification => raw x", EVENTS.replace(LOG, b"x")),
    ],
)
def test_a_stream_of_a_known_length_gets_a_new_one(rule: str, events: bytes, size: int) -> None:
    answers = Answers(f"from:server {rule}")
    answer = body(EVENTS, LENGTH_HEAD)
    assert answers.feed(*(answer[at : at + size] for at in range(0, len(answer), size))) == body(
        events, LENGTH_HEAD
    )
    sent = b"".join(step.data for step in answers.steps if step.kind in ("pass", "alter"))
    assert sent == answer, "what the server sent is recorded once, whatever the client gets"


def test_a_stream_of_a_known_length_ends_before_it_is_complete() -> None:
    answers = Answers("from:server kind:notification => cut 9")
    assert answers.feed(body(EVENTS, LENGTH_HEAD)) == LENGTH_HEAD % len(EVENTS) + event(LOG)[:9]
    assert [step.data for step in answers.steps if step.kind == "pass"][1:] == [
        event(SAID),
        b": ping\r\n\r\n",
    ]


def test_the_exchange_ends_when_all_is_given_for_its_last_bytes() -> None:
    answers = Answers("from:server tool:search => duplicate")
    answers.feed(body(event(SAID), LENGTH_HEAD))
    assert [(step.kind, step.has_more) for step in answers.steps] == [
        ("alter", True),
        ("give", True),
        ("alter", True),
        ("give", True),
        ("give", False),
    ]


def test_events_of_one_chunk_keep_their_bytes_beside_a_changed_one() -> None:
    answers = Answers("from:server tool:search => drop")
    assert answers.feed(SSE_HEAD + chunk(event(LOG) + event(SAID) + b": x\n\n") + END) == (
        SSE_HEAD + chunk(event(LOG)) + chunk(b": x\n\n") + END
    )


def test_an_event_is_given_twice_and_noise_before_it() -> None:
    answers = Answers("from:server tool:search => duplicate, gap 5ms")
    assert answers.feed(STREAM) == STREAM.replace(chunk(event(SAID)), chunk(event(SAID)) * 2)
    assert answers.kinds[-5:] == ["alter", "give", "wait", "give", "pass"]
    answers = Answers("from:server tool:search => garbage 4")
    _, (_, noise), (_, last) = [("", b""), *answers.recorded] if answers.feed(STREAM) else []
    assert noise.startswith(b"event: message\r\nid: 7\r\ndata: #")
    assert last == event(SAID)


def test_an_event_is_cut_and_the_connection_ends() -> None:
    answers = Answers("from:server tool:search => cut 9")
    assert answers.feed(STREAM).endswith(chunk(event(LOG)) + chunk(event(SAID)[:9]))
    assert answers.kinds[-4:] == ["alter", "give", "end", "pass"]
    answers = Answers("from:server tool:search => cut 9")
    assert answers.feed(body(SAID)) == body(SAID)[: len(JSON_HEAD % 10) + 9]
    assert answers.kinds[-1] == "end"


def test_a_message_in_a_stream_closes_it() -> None:
    answers = Answers("from:server kind:notification => disconnect reset")
    assert answers.feed(STREAM) == SSE_HEAD + chunk(b": ping\r\n\r\n")
    assert [step.is_reset for step in answers.steps if step.kind == "end"] == [True]


def test_an_answer_becomes_a_status() -> None:
    answers = Answers("from:server tool:search => status 503")
    assert answers.feed(body(SAID)).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    answers = Answers("from:server tool:search => status 503")
    assert answers.feed(STREAM) == STREAM, "its head has passed already"


def test_a_late_answer_is_the_same_answer() -> None:
    answers = Answers("from:server tool:search => delay 5ms")
    assert answers.feed(body(SAID)) == body(SAID)
    assert [(step.kind, step.delay_ns) for step in answers.steps] == [
        ("alter", 0),
        ("wait", 5 * MS),
        ("give", 0),
        ("give", 0),
    ]


@pytest.mark.parametrize("answer", [body(SAID), STREAM, body(EVENTS, LENGTH_HEAD)])
def test_a_field_of_the_head_is_set_or_dropped(answer: bytes) -> None:
    answers = Answers('from:client => set-header {"Content-Type": "text/html"}, of response')
    kind = answer.partition(b"Content-Type: ")[2].partition(b"\r\n")[0]
    line = b"Content-Type: %b\r\n" % kind
    assert answers.feed(answer) == answer.replace(line, b"").replace(
        b"\r\n\r\n", b"\r\nContent-Type: text/html\r\n\r\n", 1
    )
    answers = Answers("from:client => drop-header content-type, of response")
    assert answers.feed(answer) == answer.replace(line, b"")


def test_a_body_that_ends_with_the_connection() -> None:
    answers = Answers("from:server tool:search => error")
    assert answers.feed(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + SAID) == b""
    answers.steps += answers.reader.end()
    assert answers.given.endswith(b'"error":{"code":-32603,"message":"Internal error"}}')


def test_what_is_too_long_passes() -> None:
    long = b'{"x":"%b"}' % (b"y" * (17 << 20))
    answers = Answers("from:server => drop")
    assert answers.feed(body(long)) == body(long)
    answers = Answers("from:server => drop")
    streamed = SSE_HEAD + chunk(event(long)) + END
    assert answers.feed(streamed) == streamed
    answers = Answers("from:server => drop")
    assert answers.feed(body(event(long), LENGTH_HEAD)) == body(event(long), LENGTH_HEAD)


@pytest.mark.parametrize("answer", [body(SAID), STREAM, body(EVENTS, LENGTH_HEAD)])
def test_a_bug_of_ours_lets_everything_pass(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr("mcpproxy.gate.intercept.fault_policy.effect_of", fail)
    answers = Answers("from:server tool:search => drop")
    assert answers.feed(*(answer[at : at + 50] for at in range(0, len(answer), 50))) == answer
    assert answers.said == ["a fault of mcpproxy, no rule acts any more: LookupError: a bug"]


@pytest.mark.parametrize("sent", [body(SAID), STREAM])
def test_a_bug_opens_no_closed_gate(sent: bytes) -> None:
    class Failing(Policy):
        def enter(self, passing: Passing) -> AppliedFault:
            raise RuntimeError(passing)

    answers = Answers("tool:none => drop")
    gate = ClosedGate("Guard")
    answers.begin([Failing(), AddonPolicy(lambda _, __: False, gate)], gate, is_gated=True)
    given = answers.feed(sent, sent)
    assert SAID not in given
    assert given.count(b'"id":1,"error"') == 1
    assert answers.steps[-1].kind == "end"
    assert "a fault of mcpproxy" in answers.said[0]


class Gated(Answers):
    """The answers to request 1 before a gate that fails closed, under rules."""

    def __init__(self, *specs: str, hook: str | None = None) -> None:
        super().__init__(*(specs or ("tool:none => drop",)))
        gate = ClosedGate("Guard", self.said.append)
        addons = AddonPolicy(lambda kind, _: kind == hook, gate)
        self.begin([self.rules, addons], gate, is_gated=True)


ODD: Final = SAID.replace(b"[]", b"NaN")


@pytest.mark.parametrize("end", [END, b"00;x=y\r\n\r\n", b"0\r\n0: 1\r\n\r\n"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_stream_ends_as_its_server_ended_it_after_an_event_that_was_withheld(
    end: bytes, is_known: bool
) -> None:
    odd = ODD if is_known else b"garbage"
    sent = SSE_HEAD + chunk(event(LOG)) + chunk(event(odd)) + end
    for at in range(len(sent) - len(end) - 1, len(sent)):
        answers = Gated()
        given = answers.feed(sent[:at], sent[at:])
        assert odd not in given
        read = Chunked()
        content, stop = read.feed(given, len(SSE_HEAD))
        assert (read.over, stop, given[-len(end) :]) == (True, len(given), end)
        assert content.count(b'"id":1,"error"') == 1


SET_HEAD: Final = 'from:client => set-header {"X-Set": "5"}, of response'


@pytest.mark.parametrize("sent", [body(ODD), body(event(LOG) + event(ODD), LENGTH_HEAD)])
def test_what_is_withheld_is_so_whatever_a_rule_does_to_the_head(sent: bytes) -> None:
    answers = Gated(SET_HEAD)
    given = answers.feed(sent)
    assert ODD not in given
    assert given.count(b'"id":1,"error"') == 1
    assert b"\r\nX-Set: 5\r\n" in given


@pytest.mark.parametrize("sent", [body(SAID), body(event(SAID), LENGTH_HEAD)])
@pytest.mark.parametrize("changed", [SAID, SAID.replace(b"[]", b"[1]"), None])
def test_addons_are_asked_whatever_a_rule_does_to_the_head(sent: bytes, changed: bytes | None) -> None:
    answers = Gated(SET_HEAD, hook="response")
    answers.feed(sent)
    assert answers.kinds == ["ask"]
    asked = answers.steps.pop()
    given = Instead("addon Guard", "new", changed) if changed != SAID else None
    answers.steps += asked.on_outcome(given)
    assert SAID not in answers.given or changed == SAID
    if changed is not None:
        assert changed in answers.given
        assert b"\r\nX-Set: 5\r\n" in answers.given


def test_of_the_events_of_one_body_each_meets_its_own_policy() -> None:
    answers = Gated("from:server kind:notification => drop")
    given = answers.feed(body(event(SAID) + event(LOG) + event(ODD), LENGTH_HEAD))
    assert SAID in given
    assert LOG not in given
    assert ODD not in given
    assert b'"id":1,"error"' in given
    head, _, content = given.partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(content) in head


@pytest.mark.parametrize(
    "fields",
    [
        b"application/json\r\nContent-Type: text/event-stream",
        b"text/event-stream\r\ncontent-type: application/json",
        b"text/event-stream; a, application/json",
        b"application/json\r\nContent-Encoding: gzip\r\nContent-Encoding: identity",
    ],
)
@pytest.mark.parametrize("is_gated", [False, True])
def test_a_body_that_clients_may_read_differently_does_not_pass_a_closed_gate(
    fields: bytes, is_gated: bool
) -> None:
    answers = Gated() if is_gated else Answers("tool:none => drop")
    sent = body(SAID).replace(b"application/json", fields)
    given = answers.feed(sent)
    assert (SAID in given) != is_gated
    assert (b'"id":1,"error"' in given) == is_gated


class Guard:
    """Addons that fail closed, and are never asked."""

    fail_closed = "Guard"
    next_due_ns = None

    @classmethod
    def made(cls, *_: object) -> "Guard":
        return cls()

    def attach(self, *_: object) -> None:
        return

    def remember_or_wait(self, *_: object) -> bool:
        return False


class Quiet(SimpleNamespace):
    """A proxy without a network."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(stderr_log=SimpleNamespace(say=say), router=SimpleNamespace(), record=print)
        self.loop = SimpleNamespace(forget=print)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_request_that_nothing_has_judged_does_not_pass_a_closed_gate(
    is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("a bug")

    said: list[str] = []
    monkeypatch.setattr(HttpEvents, "read_client", fail)
    rules = read_faults([], ["tool:none => drop"], "http", 7)
    options = GateOptions(rules, cast("Any", Guard.made) if is_closed else None)
    gate = HttpGate(cast("Any", Quiet(said.append)), options, "/mcp", "", cast("Any", None))
    for _ in range(2):
        assert (gate.enter(b"POST", 0, 1).action is not None) == is_closed
    assert said[0] == "a fault of mcpproxy, no rule acts any more: LookupError: a bug"
