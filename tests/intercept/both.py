"""A session with a gate on stdio and over HTTP, without processes and sockets: the same calls for both."""

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome
from mcpproxy.gate.intercept.addons.addon_policy import AddonPolicy
from mcpproxy.gate.intercept.addons.closed_gate import ClosedGate
from mcpproxy.gate.intercept.fault_policy import FaultPolicy
from mcpproxy.gate.intercept.fault_rules import FaultRules, read_faults
from mcpproxy.gate.intercept.gate_options import GateOptions
from mcpproxy.gate.intercept.held_messages import HeldMessage, Release
from mcpproxy.gate.intercept.http.http_gate import HttpGate
from mcpproxy.gate.intercept.http.http_tunnel_gate import HttpTunnelGate
from mcpproxy.gate.intercept.lane import LaneStep
from mcpproxy.gate.intercept.lanes import Lanes
from mcpproxy.gate.intercept.policies import Passing, Policies, Policy
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from mcpproxy.record.relay import journal
from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.proxy_interface import TunnelGate
from mcpproxy.record.relay.http.request_head import Refusal
from mcpproxy.record.relay.http.resolve import Upstream
from mcpproxy.record.relay.http.route import Reverse

Message = dict[str, Any]
_JSON: Final = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_SESSION: Final = b"Mcp-Session-Id: 0123456789abcdef0123\r\n"
_ANSWER: Final = b"HTTP/1.1 200 OK\r\n" + _SESSION + _JSON


def _request(body: bytes, *, begins: bool) -> bytes:
    session = b"" if begins else _SESSION + b"MCP-Protocol-Version: 2025-06-18\r\n"
    return b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + session + _JSON % len(body) + body


@slotted()
class Made:
    """What a session is made of: fault rules, what addons say of each message, and other policies."""

    faults: Sequence[str] = ()
    addons: Callable[[str, bytes], AddonOutcome] | None = None
    policies: Sequence[Callable[[], Policy]] = ()

    def rules(self, transport: str) -> FaultRules | None:
        return read_faults([], self.faults, transport, 7) if self.faults else None


class Session(Protocol):
    """Sends messages; what came out is in ``to_server`` and ``to_client``."""

    to_server: list[Message]
    to_client: list[Message]
    said: list[str]

    def client(self, message: Message) -> None:
        """Let the client send a message."""
        ...

    def server(self, message: Message) -> None:
        """Let the server answer the last request that reached it."""
        ...

    def release(self, how: str, new: Message | None = None) -> None:
        """Answer the breakpoint that holds a message."""
        ...


def _release(held: Sequence[HeldMessage], how: str, new: Message | None) -> Release:
    return Release(held[0].mark.number, how, json.dumps(new).encode() if new is not None else b"")


def nothing(*_: object) -> None:
    """Stand for what a session without processes and sockets does not do."""


def wants_all(kind: str, passing: Passing) -> bool:
    """Let addons be asked about every message."""
    del kind, passing
    return True


class StdioSession:
    """Lanes, of which every step is done at once."""

    def __init__(self, made: Made) -> None:
        self.to_server: list[Message] = []
        self.to_client: list[Message] = []
        self.said: list[str] = []
        rules, policies = made.rules("stdio"), list[Policy]()
        if rules is not None:
            policies.append(FaultPolicy(rules, self.said.append))
        if made.addons is not None:
            policies.append(AddonPolicy(wants_all, ClosedGate()))
        policies += [make() for make in made.policies]
        self._addons = made.addons
        self._lanes = Lanes(Policies(policies, self.said.append), self.said.append, self._ask)

    def _ask(self, hook: str, sender: Sender, raw: bytes, go_on: Callable[[AddonOutcome], None]) -> None:
        del sender
        assert self._addons is not None
        go_on(self._addons(hook, raw))

    def client(self, message: Message) -> None:
        self._send(CLIENT, message)

    def server(self, message: Message) -> None:
        self._send(SERVER, message)

    def _send(self, sender: Sender, message: Message) -> None:
        self._do(self._lanes.take_bytes(sender, json.dumps(message).encode() + b"\n", 0))
        self._do(self._lanes.proceed(0))

    def release(self, how: str, new: Message | None = None) -> None:
        self._do(self._lanes.release(_release(self._lanes.held, how, new), 0))

    def _do(self, steps: Any) -> None:
        for step in cast("Sequence[LaneStep]", steps):
            if step.kind in ("pass", "give", "answer"):
                (self.to_server if step.sender == CLIENT else self.to_client).append(json.loads(step.data))


class FakeAddons:
    """Addons that want every message, and say at once what becomes of it."""

    fail_closed = ""
    next_due_ns = None

    def __init__(self, said: Callable[[str, bytes], AddonOutcome]) -> None:
        self._said = said

    @classmethod
    def maker(cls, said: Callable[[str, bytes], AddonOutcome]) -> Callable[..., "FakeAddons"]:
        def make(*_: object) -> FakeAddons:
            return cls(said)

        return make

    def attach(self, *_: object) -> None:
        return

    def give_up_late(self, now_ns: int) -> None:
        del now_ns

    def remember_or_wait(self, hook: str, passing: Passing) -> bool:
        del hook, passing
        return True

    def ask(
        self, hook: str, session: str, sender: Sender, raw: bytes, go_on: Callable[[AddonOutcome], None]
    ) -> None:
        del session, sender
        go_on(self._said(hook, raw))


class HttpSession:
    """A gate with a new tunnel for each request: one ends with an answer of ours."""

    def __init__(self, made: Made) -> None:
        self.to_server: list[Message] = []
        self.to_client: list[Message] = []
        self.said: list[str] = []
        router = Reverse(Upstream("localhost", 1), "/mcp", Guard(False, [], []))
        stderr = SimpleNamespace(say=self.said.append)
        self.proxy = proxy = SimpleNamespace(stderr_log=stderr, router=router, record=nothing)
        proxy.loop = SimpleNamespace(forget=nothing)
        addons = made.addons
        options = GateOptions(
            made.rules("http"),
            cast("Any", FakeAddons.maker(addons)) if addons is not None else None,
            others=tuple(lambda _, make=make: make() for make in made.policies),
        )
        self._gate = HttpGate(cast("Any", proxy), options, "/mcp", "", HttpTunnelGate)
        self._router = router
        self._number = 0
        self._tunnel: FakeTunnel | None = None

    def client(self, message: Message) -> None:
        self._number += 1
        self._tunnel = FakeTunnel(self, self._number)
        gate = self._tunnel.gate = self._gate.tunnel_gate(cast("Any", self._tunnel))
        body = json.dumps(message).encode()
        gate.take_client(_request(body, begins=message.get("method") == "initialize"), 0)

    def server(self, message: Message) -> None:
        assert self._tunnel is not None
        body = json.dumps(message).encode()
        gate, answer = self._tunnel.gate, _ANSWER % len(body) + body
        assert gate is not None
        if gate.lets_upstream_pass(is_upgrade=False):
            self._tunnel.record(journal.SERVER, 0, answer)
            self._tunnel.give_down(answer)
        else:
            gate.take_upstream(answer, 0)

    def release(self, how: str, new: Message | None = None) -> None:
        self._gate.held.release(_release(self._gate.held.messages, how, new), 0)

    def forwarded(self, request: bytes) -> None:
        """Take what a tunnel has forwarded."""
        head, _, body = request.partition(b"\r\n\r\n")
        gate = self._tunnel.gate if self._tunnel is not None else None
        assert gate is not None
        gate.on_request(self._router.route(head + b"\r\n\r\n"), 0)
        self.to_server.append(json.loads(body))


class FakeTunnel:
    """A tunnel that has forwarded and given everything at once."""

    def __init__(self, session: HttpSession, number: int) -> None:
        self._session, self._number = session, number
        self._given = b""
        self.gate: TunnelGate | None = None
        self.records = SimpleNamespace(number=number, begin=nothing, add=self.record, note=nothing)
        self.holds_client = self.holds_upstream = self.is_over = False

    def record(self, kind: int, at_ns: int, payload: bytes) -> None:
        self._session.proxy.record(kind, at_ns, payload, self._number)

    def forward(self, data: bytes, now: int, *, is_recorded: bool = False) -> None:
        self._session.forwarded(data)
        if not is_recorded:
            self.record(journal.CLIENT, now, data)

    def refuse(self, refusal: Refusal, now: int) -> None:
        self.record(journal.OWN, now, refusal.response)
        body = refusal.response.partition(b"\r\n\r\n")[2]
        self._session.to_client += [json.loads(body)] if body else []

    def give_down(self, data: bytes) -> None:
        self._given += data
        _, blank, body = self._given.partition(b"\r\n\r\n")
        if blank and body:
            self._session.to_client.append(json.loads(body))
            self._given = b""

    def finish(self, *, is_reset: bool) -> None:
        del is_reset
        self.is_over = True

    def watch(self) -> None:
        return

    def close(self) -> None:
        self.is_over = True


TRANSPORTS: Final[dict[str, Callable[[Made], Session]]] = {"stdio": StdioSession, "http": HttpSession}
