"""``mcpproxy run --enforce``: a refused request is answered here, and the other side never sees it."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.cli.enforce_options import rules_to_enforce
from mcpproxy.errors import McpProxyError
from mcpproxy.gate.enforce.policy import Enforcer, enforceable_rules
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.policies import Policies
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.rule_options import RuleOptions
from mcpproxy.judge.session.frame import CLIENT, SERVER, Event, Finding, Frame
from mcpproxy.record.framing.lines import LineFramer
from mcpproxy.record.trace.reader import read_trace
from tests.relay.hosts import DEADLINE_S, HOME, until_recorded

PEER: Final = str(Path(__file__).parent / "enforced_peer.py")
Message = dict[str, Any]

INFO: Final = {"name": "example", "version": "1.0"}
MCP: Final[Message] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
ACP: Final[Message] = {
    "protocolVersion": 1,
    "agentCapabilities": {"mcpCapabilities": {"sse": True}},
    "agentInfo": INFO,
}
OPEN_MCP: Final[Message] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO},
}
OPEN_ACP: Final[Message] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientInfo": INFO},
}
INITIALIZED: Final[Message] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(id: object, method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


class Client:
    """A client and its server with a proxy in between that enforces ``rules``."""

    def __init__(self, folder: Path, rules: str, opening: Message, *options: str) -> None:
        self.trace = folder / "session.jsonl"
        command = [sys.executable, PEER, json.dumps(opening)]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "mcpproxy",
                "--trace",
                str(self.trace),
                "--enforce",
                rules,
                *options,
                "--",
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=HOME,
        )
        self.stderr = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)

    def send(self, *messages: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, message: object) -> Any:
        self.send(message)
        return self.receive()

    def leave(self) -> list[Any]:
        """Close stdin and wait for the end; what the server had heard by then."""
        _, self.stderr = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0
        until_recorded(self.trace)
        return [json.loads(line) for line in self.stderr.splitlines() if line[:1] in (b"{", b"[")]

    def recorded(self) -> list[Event | Finding]:
        return list(read_trace(str(self.trace)).events())


def test_an_agent_never_sees_a_server_that_it_cannot_reach(tmp_path: Path) -> None:
    http: Message = {"type": "http", "name": "search", "url": "https://example.com/mcp", "headers": []}
    stdio: Message = {"name": "files", "command": "/bin/files", "args": [], "env": []}
    with Client(tmp_path, "ACP-001", ACP) as client:
        client.ask(OPEN_ACP)
        refused = client.ask(request(1, "session/new", cwd="/srv", mcpServers=[stdio, http]))
        allowed = client.ask(request(1, "session/new", cwd="/srv", mcpServers=[stdio]))
        heard = client.leave()
        told = client.recorded()
    assert refused["error"]["code"] == -32602
    assert refused["error"]["data"] == {
        "requestedTransport": "http",
        "serverName": "search",
        "declaredCapability": False,
        "supportedTransports": ["stdio", "sse"],
    }
    assert "mcpCapabilities.http" in refused["error"]["message"]
    assert allowed["result"] == {}
    assert [message["id"] for message in heard] == [0, 1]
    frames = [event for event in told if isinstance(event, Frame)]
    assert [(f.sender, f.refused, f.by_proxy) for f in frames] == [
        ("client", False, False),
        ("server", False, False),
        ("client", True, False),
        ("server", False, True),
        ("client", False, False),
        ("server", False, False),
    ]
    # The refused request is told once, and has not happened: its id may come again, it needs no answer.
    assert [(f.rule, f.blame, f.frame) for f in told if isinstance(f, Finding)] == [
        ("ACP-001", "client", 3),
        ("ACP-011", "server", 6),  # this peer answers session/new with nothing
    ]


def test_an_agent_never_sees_a_server_of_a_wrong_shape(tmp_path: Path) -> None:
    files: Message = {"name": "files", "command": "/bin/files", "args": []}
    with Client(tmp_path, "ACP-011", ACP) as client:
        client.ask(OPEN_ACP)
        wrong = [{**files, "env": {"KEY": "value"}}]
        refused = client.ask(request(1, "session/new", cwd="/srv", mcpServers=wrong))
        right = [{**files, "env": [{"name": "KEY", "value": "value"}]}]
        allowed = client.ask(request(1, "session/new", cwd="/srv", mcpServers=right))
        heard = client.leave()
    assert refused["error"]["data"]["pointer"] == "/params/mcpServers/0/env"
    assert "mcpServers[0].env as an object" in refused["error"]["message"]
    assert allowed["result"] == {}
    assert [message["id"] for message in heard] == [0, 1]


def test_a_client_is_refused_with_rule_requirement_source_and_place(tmp_path: Path) -> None:
    with Client(tmp_path, "undeclared-capability", MCP) as client:
        client.ask(OPEN_MCP)
        client.send(INITIALIZED)
        refused = client.ask(request("a", "resources/read", uri="file:///a"))
        assert client.ask(request("b", "tools/list"))["id"] == "b"
        heard = client.leave()
    assert refused["id"] == "a"
    assert refused["error"]["code"] == -32600
    assert refused["error"]["data"] == {
        "rule": "PROTO-009",
        "requirement": "R-044",
        "source": "https://modelcontextprotocol.io/specification/2025-06-18/basic/lifecycle#operation",
        "pointer": "/method",
    }
    assert [message["method"] for message in heard] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]


def test_a_request_of_the_server_is_refused_to_the_server(tmp_path: Path) -> None:
    asked = request(7, "sampling/createMessage", messages=[], maxTokens=1)
    with Client(tmp_path, "PROTO-009", MCP) as client:
        client.ask(OPEN_MCP)
        client.send(INITIALIZED, {"jsonrpc": "2.0", "method": "_ask", "params": asked})
        assert client.ask(request(1, "tools/list"))["id"] == 1  # and nothing before it
        heard = client.leave()
        told = client.recorded()
    refusal = next(message for message in heard if "error" in message)
    assert (refusal["id"], refusal["error"]["data"]["rule"]) == (7, "PROTO-009")
    own = [event for event in told if isinstance(event, Frame) and (event.refused or event.by_proxy)]
    assert [(f.sender, f.refused, f.by_proxy) for f in own] == [
        ("server", True, False),
        ("client", False, True),
    ]
    assert {f.blame for f in told if isinstance(f, Finding) and f.rule == "PROTO-009"} == {"server"}


def test_a_batch_is_refused_as_a_whole(tmp_path: Path) -> None:
    opening = {**MCP, "protocolVersion": "2025-03-26"}
    hello = {**OPEN_MCP, "params": {**OPEN_MCP["params"], "protocolVersion": "2025-03-26"}}
    with Client(tmp_path, "PROTO-009", opening) as client:
        client.ask(hello)
        client.send(INITIALIZED)
        answers = client.ask([request(1, "tools/list"), INITIALIZED, request(2, "prompts/list")])
        client.ask(request(3, "tools/list"))
        heard = client.leave()
    assert [(answer["id"], answer["error"]["data"]["pointer"]) for answer in answers] == [
        (1, "/2/method"),
        (2, "/2/method"),
    ]
    assert not any(isinstance(message, list) for message in heard)


def test_a_flood_both_ways_passes_byte_by_byte(tmp_path: Path) -> None:
    """Far more than all pipes hold, both ways at once: nothing is lost, mixed up or stuck."""
    lines = [json.dumps(request(n, "tools/call", text="x" * (n * 997 % 70_000))).encode() for n in range(200)]
    data = b"\n".join([*lines, b"not json", b"", b'{"half": '])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mcpproxy",
            "--trace",
            str(tmp_path / "t"),
            "--enforce",
            "ACP-001",
            "--",
            "cat",
        ],
        input=data,
        capture_output=True,
        env=HOME,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0
    assert done.stdout == data


def test_the_last_line_is_judged_though_no_line_feed_ends_it(tmp_path: Path) -> None:
    with Client(tmp_path, "PROTO-005", MCP) as client:
        assert client.process.stdin is not None
        client.process.stdin.write(json.dumps(request(1, "tools/list")).encode())
        out, err = client.process.communicate(timeout=DEADLINE_S)
    assert json.loads(out)["error"]["data"]["rule"] == "PROTO-005"
    assert not any(line.startswith(b"{") for line in err.splitlines())


def test_a_refused_request_may_be_cancelled_and_its_id_used_again() -> None:
    """The client may have given up before it read our answer."""
    observer = Observer(catalogue.load(), revision="2025-06-18")
    observer.observe(Frame(1, CLIENT, json.dumps(request(1, "prompts/list")).encode(), refused=True))
    cancelled: Message = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1},
    }
    assert observer.observe(Frame(2, CLIENT, json.dumps(cancelled).encode())) == []
    assert (
        observer.observe(Frame(3, CLIENT, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()))
        == []
    )


# What may be named

REFUSED: Final = {
    "about responses": ("PROTO-007", "a request alone does not show whether the rule is broken"),
    "about notifications": (
        "unknown-notification",
        "a request alone does not show whether the rule is broken",
    ),
    "known too late": ("SEQ-002", "a request alone does not show whether the rule is broken"),
    "a family": ("ACP", "is a family"),
    "no rule": ("ACP-999", "is neither a rule"),
    "nothing": (" , ", "names no rule"),
}


@pytest.mark.parametrize(("named", "fact"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_enforced_is_said_in_one_line(named: str, fact: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "--enforce", named, "--", "cat"],
        capture_output=True,
        env=HOME,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("mcpproxy: run: ")
    assert fact in done.stderr
    assert done.stderr.count("\n") == 1


def test_rules_are_named_by_code_or_name() -> None:
    assert rules_to_enforce("run", ["ACP-001, undeclared-capability", "rpc-005"]) == {
        "ACP-001",
        "PROTO-009",
        "RPC-005",
    }
    with pytest.raises(McpProxyError, match="did you mean ACP-0"):
        rules_to_enforce("run", ["ACP-01"])


def test_a_rule_that_is_left_out_cannot_be_enforced() -> None:
    both = RuleOptions(select=("RPC",), ignore=("RPC-005",))
    with pytest.raises(McpProxyError, match="RPC-005: --ignore leaves it out; do not ignore it"):
        rules_to_enforce("run", ["RPC-005"], both)
    with pytest.raises(McpProxyError, match="ACP-001: it is not selected; select it as well"):
        rules_to_enforce("run", ["ACP-001"], both)


def test_only_what_requests_alone_decide_can_be_enforced() -> None:
    possible = enforceable_rules()
    assert {f"ACP-{n:03}" for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11)} <= possible
    assert {"PROTO-001", "PROTO-005", "PROTO-009", "RPC-003", "RPC-004", "RPC-005", "SEQ-003"} <= possible
    assert not possible & {
        "ACP-008",
        "PROTO-002",
        "PROTO-006",
        "PROTO-007",
        "SEQ-001",
        "SEQ-002",
        "RPC-001",
        "HTTP-001",
    }


# The gate by itself


class Barrier:
    """Lanes with an enforcer, and what they have said."""

    def __init__(self, enforcer: Enforcer) -> None:
        self.said: list[str] = []
        self.lanes = Lanes(Policies([enforcer], self.said.append), self.said.append)

    def take(self, data: bytes, at_ns: int = 0) -> list[tuple[str, bytes]]:
        return [(step.kind, step.data) for step in self.lanes.take_bytes(CLIENT, data, at_ns)]


LINE: Final = st.one_of(
    st.just(json.dumps(request(1, "tools/list")).encode()),
    st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")),
)


@given(st.lists(LINE, max_size=8), st.booleans(), st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_what_may_pass_passes_byte_by_byte_as_it_came(
    lines: list[bytes], ends: bool, cuts: list[int]
) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    barrier = Barrier(Enforcer(catalogue.load(), frozenset({"ACP-001"})))
    passed: list[tuple[str, bytes]] = []
    at = 0
    while at < len(data):
        step = cuts[at % len(cuts)]
        passed += barrier.take(data[at : at + step], at)
        at += step
    passed += [(step.kind, step.data) for step in barrier.lanes.end(CLIENT, at)]
    assert b"".join(line for _, line in passed) == data
    assert {kind for kind, _ in passed} <= {"pass"}
    assert barrier.said == []


def test_a_line_too_long_to_hold_passes_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(limit: int) -> LineFramer:
        del limit
        return LineFramer(8)

    monkeypatch.setattr("mcpproxy.gate.intercept.lane.LineFramer", short)
    barrier = Barrier(Enforcer(catalogue.load(), frozenset({"PROTO-005"})))
    long = json.dumps(request(1, "tools/list")).encode()
    pieces = barrier.take(long, 1)
    pieces += barrier.take(b"\n" + long + b"\n", 2)
    assert b"".join(line for _, line in pieces) == long + b"\n" + long + b"\n"
    assert barrier.said == ["a line over 16 MiB passes without being judged"]


class Faulty(Enforcer):
    def refusal(self, frame: Frame) -> None:
        raise RuntimeError("a wheel came off")


def test_a_fault_of_ours_lets_everything_pass_and_is_told_once() -> None:
    barrier = Barrier(Faulty(catalogue.load(), frozenset({"PROTO-005"})))
    line = json.dumps(request(1, "tools/list")).encode() + b"\n"
    assert barrier.take(line * 2) == [("pass", line), ("pass", line)]
    assert barrier.said == [
        "a fault of mcpproxy, nothing is refused any more: RuntimeError: a wheel came off"
    ]


def test_an_answer_waits_for_the_end_of_a_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpproxy.gate.intercept.lane.LIMIT_BYTES", 80)
    barrier = Barrier(Enforcer(catalogue.load(), frozenset({"PROTO-005"})))
    assert [step.kind for step in barrier.lanes.take_bytes(SERVER, b"x" * 100, 0)] == ["pass"]
    line = json.dumps(request(1, "tools/list")).encode() + b"\n"
    assert barrier.take(line) == [("refuse", line)]
    *passed, answer = barrier.lanes.take_bytes(SERVER, b"x\n", 1)
    assert [step.kind for step in passed] == ["pass"]
    assert (answer.kind, answer.sender, json.loads(answer.data)["id"]) == ("answer", SERVER, 1)


def test_findings_of_level_info_do_not_refuse() -> None:
    enforcer = Enforcer(catalogue.load(), frozenset({"RPC-003"}))
    odd = Frame(1, CLIENT, b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}')
    assert [f.severity for f in Observer(catalogue.load()).observe(odd)] == ["info"]
    assert enforcer.refusal(Frame(1, CLIENT, odd.raw)) is None
    verdict = enforcer.refusal(Frame(2, CLIENT, b'{"jsonrpc":"2.0","id":[1],"method":"ping"}'))
    assert verdict is not None
    assert json.loads(verdict.answer)["id"] is None


@pytest.mark.parametrize("id", [2**70, -1, "", "\ud800", "seven"])
def test_the_answer_repeats_the_id(id: object) -> None:
    enforcer = Enforcer(catalogue.load(), frozenset({"PROTO-005"}))
    verdict = enforcer.refusal(Frame(1, CLIENT, json.dumps(request(id, "tools/list")).encode()))
    assert verdict is not None
    assert json.loads(verdict.answer)["id"] == id


def test_without_enforce_nothing_of_it_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from mcpproxy.cli.commands import run; code = run.run(sys.argv[1:]);"
        "own = [m for m in sys.modules if 'gate' in m or 'enforce' in m or m == 'orjson'];"
        "print(sorted(own), file=sys.stderr)"
    )
    trace = str(tmp_path / "t.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", script, "--quiet", "--trace", trace, "--", "cat"],
        input=b"{}\n", capture_output=True, env=HOME, timeout=DEADLINE_S,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (b"{}\n", b"[]\n")
