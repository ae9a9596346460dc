"""What becomes of a message, whatever the transport: one table of cases, played on stdio and over HTTP."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from mcpproxy.base.slotted import slotted
from mcpproxy.gate.enforce.policy import Enforcer
from mcpproxy.gate.intercept.addons.addon_outcomes import AddonOutcome
from mcpproxy.gate.intercept.policies import Instead, Passing, Policy
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import SERVER
from tests.intercept.both import TRANSPORTS, Made, Message, Session

CALL: Final[Message] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search"}}
OTHER: Final[Message] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "find"}}
PROMPTS: Final[Message] = {"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}
TOLD: Final[Message] = {"jsonrpc": "2.0", "method": "notifications/progress"}
RESULT: Final[Message] = {"jsonrpc": "2.0", "id": 1, "result": {}}
CHANGED: Final[Message] = {"jsonrpc": "2.0", "id": 1, "result": {"isError": True}}
DOWN: Final[Message] = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}
ADDON_FAILED: Final[Message] = {
    "jsonrpc": "2.0",
    "id": 1,
    "error": {"code": -32603, "message": "An addon failed"},
}
REFUSED: Final = {"refused": "PROTO-009"}
"""Stands for the error with which enforcement answers."""

TO_PROMPTS: Final = 'from:client tool:search => set {"/method": "prompts/list"}'
INFO: Final = {"name": "example", "version": "1.0"}
OPENING: Final[Sequence[tuple[str, Message]]] = (
    (
        "client",
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO},
        },
    ),
    (
        "server",
        {
            "jsonrpc": "2.0",
            "id": 0,
            "result": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": INFO,
            },
        },
    ),
    ("client", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
)


Addons = Callable[[str, bytes], AddonOutcome]


def enforcing() -> Enforcer:
    return Enforcer(catalogue.load(), frozenset({"PROTO-009"}))


class Emptied(Policy):
    """Gives an error in the place of every answer."""

    def enter(self, passing: Passing) -> Instead | None:
        return Instead("emptied", "error", json.dumps(DOWN).encode()) if passing.sender == SERVER else None


def saying(how: str, new: Message | None = None, asked: str = "request") -> Addons:
    """Return addons that do this to messages of one hook, but not to the handshake."""
    raw = json.dumps(new).encode() if new is not None else b""

    def say(hook: str, message: bytes) -> AddonOutcome:
        is_meant = hook == asked and json.loads(message).get("id") != 0
        return AddonOutcome(how, "Clock", raw) if is_meant else AddonOutcome("same")

    return say


@slotted(frozen=True)
class Case:
    """What a session is made of, what the client sends, how a breakpoint is answered; what comes out.

    The server answers what reaches it, if ``answers``.
    """

    made: Made
    sent: Message
    to_server: Sequence[Message]
    to_client: Sequence[Any]
    released: tuple[str, Message | None] | None = None
    answers: bool = False


REQUEST: Final = "from:client tool:search => "
ANSWER: Final = "from:server tool:search => "
CASES: Final = {
    "nothing acts": Case(Made(["tool:none => drop"]), CALL, [CALL], [RESULT], answers=True),
    "a rule answers": Case(Made([f"{REQUEST}error"]), CALL, [], [DOWN]),
    "a rule drops": Case(Made([f"{REQUEST}drop"]), CALL, [], []),
    "a rule edits": Case(Made([REQUEST + 'set {"/params/name": "find"}']), CALL, [OTHER], []),
    "a rule edits an answer": Case(
        Made([ANSWER + 'set {"/result/isError": true}']), CALL, [CALL], [CHANGED], answers=True
    ),
    "a rule fails an answer": Case(Made([f"{ANSWER}error"]), CALL, [CALL], [DOWN], answers=True),
    "a breakpoint lets pass": Case(Made([f"{REQUEST}pause"]), CALL, [CALL], [], ("pass", None)),
    "a breakpoint edits": Case(Made([f"{REQUEST}pause"]), CALL, [OTHER], [], ("edit", OTHER)),
    "a breakpoint drops": Case(Made([f"{REQUEST}pause"]), CALL, [], [], ("drop", None)),
    "a breakpoint answers": Case(Made([f"{REQUEST}pause"]), CALL, [], [DOWN], ("error", None)),
    "a breakpoint edits an answer": Case(
        Made([f"{ANSWER}pause"]), CALL, [CALL], [CHANGED], ("edit", CHANGED), answers=True
    ),
    "a breakpoint fails an answer": Case(
        Made([f"{ANSWER}pause"]), CALL, [CALL], [DOWN], ("error", None), answers=True
    ),
    "an addon lets pass": Case(Made(addons=saying("same")), CALL, [CALL], [RESULT], answers=True),
    "an addon edits": Case(Made(addons=saying("new", OTHER)), CALL, [OTHER], []),
    "an addon answers": Case(Made(addons=saying("answer", CHANGED)), CALL, [], [CHANGED]),
    "an addon drops": Case(Made(addons=saying("drop")), CALL, [], []),
    "an addon drops a notification": Case(Made(addons=saying("drop", asked="notification")), TOLD, [], []),
    "an addon fails": Case(Made(addons=saying("error")), CALL, [], [ADDON_FAILED]),
    "an addon edits an answer": Case(
        Made(addons=saying("new", CHANGED, "response")), CALL, [CALL], [CHANGED], answers=True
    ),
    "an answer is replaced": Case(Made(policies=[Emptied]), CALL, [CALL], [DOWN], answers=True),
    "enforcement refuses": Case(Made(policies=[enforcing]), PROMPTS, [], [REFUSED]),
    "enforcement lets pass": Case(Made(policies=[enforcing]), CALL, [CALL], [RESULT], answers=True),
    "what a rule makes is refused": Case(Made([TO_PROMPTS], policies=[enforcing]), CALL, [], [REFUSED]),
    "what a person makes is refused": Case(
        Made([f"{REQUEST}pause"], policies=[enforcing]), CALL, [], [REFUSED], ("edit", PROMPTS)
    ),
    "what an addon makes is refused": Case(
        Made(addons=saying("new", PROMPTS), policies=[enforcing]), CALL, [], [REFUSED]
    ),
    "what an addon mends passes": Case(
        Made(addons=saying("new", CALL), policies=[enforcing]), PROMPTS, [CALL], [RESULT], answers=True
    ),
    "a rule comes before addons": Case(
        Made([f"{REQUEST}error"], addons=saying("new", OTHER)), CALL, [], [DOWN]
    ),
    "a rule for answers, and addons for requests": Case(
        Made([f"{ANSWER}error"], addons=saying("same")), CALL, [CALL], [DOWN], answers=True
    ),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_message(name: str, transport: str) -> None:
    case = CASES[name]
    session = TRANSPORTS[transport](case.made)
    if case.made.policies:
        for sender, message in OPENING:
            (session.client if sender == "client" else session.server)(message)
    session.to_server.clear()
    session.to_client.clear()
    session.client(case.sent)
    held_request = case.released is not None and not case.answers
    if held_request:
        _release(session, case)
    if case.answers:
        session.server(RESULT)
        if case.released is not None:
            _release(session, case)
    assert session.to_server == case.to_server
    assert [_short(message) for message in session.to_client] == case.to_client
    assert [line for line in session.said if "no breakpoint can be answered" not in line] == []


def _release(session: Session, case: Case) -> None:
    assert case.released is not None
    session.release(*case.released)


def _short(message: Message) -> Message:
    rule = message.get("error", {}).get("data", {}).get("rule")
    return message if rule is None else {"refused": rule}
