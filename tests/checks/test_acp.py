"""ACP: undeclared MCP servers are reported and refused in every combination; and what is not ACP."""

import itertools
import json
from typing import Any, Final

import pytest

from mcpproxy.gate.enforce.policy import Enforcer
from mcpproxy.judge.checks import STANDARD
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import CLIENT, SERVER, Finding, Frame, Sender
from mcpproxy.protocol import acp
from mcpproxy.protocol.revisions import ACP

SERVERS: Final[dict[str, dict[str, Any]]] = {
    "stdio": {"name": "files", "command": "/bin/files", "args": [], "env": []},
    "http": {"type": "http", "name": "search", "url": "https://example.com/mcp", "headers": []},
    "sse": {"type": "sse", "name": "events", "url": "https://example.com/sse", "headers": []},
}

MIXES: Final = [mix for size in range(4) for mix in itertools.permutations(SERVERS, size)]
"""Every choice of servers in every order."""

METHODS: Final = {
    "acp-1": ("session/new", "session/load", "session/resume"),
    "acp-2": ("session/new", "session/resume"),
}

ABSENT: Final = "absent"
DECLARED: Final[dict[str, tuple[object, ...]]] = {
    "acp-1": (True, False, None, ABSENT),
    "acp-2": ({}, None, ABSENT),
}


def combinations(version: str) -> list[dict[str, object]]:
    """Every way to declare, deny or leave out each transport that has a capability in ``version``."""
    names = tuple(acp.TRANSPORTS[version])
    choices = itertools.product(DECLARED[version], repeat=len(names))
    return [{n: c for n, c in zip(names, choice, strict=True) if c != ABSENT} for choice in choices]


def frame(seq: int, sender: Sender, message: dict[str, Any]) -> Frame:
    return Frame(seq, sender, json.dumps({"jsonrpc": "2.0", **message}).encode(), seq)


def handshake(version: str, transports: dict[str, object]) -> list[Frame]:
    number, info = int(version[-1]), {"name": "example", "version": "1.0"}
    params = {"protocolVersion": number, "clientInfo": info, "info": info}
    agent: dict[str, Any] = (
        {"mcpCapabilities": transports, "loadSession": True, "sessionCapabilities": {"resume": {}}}
        if version == "acp-1"
        else {"session": {"mcp": transports}}
    )
    result = {
        "protocolVersion": number,
        "agentInfo": info,
        "info": info,
        "agentCapabilities": agent,
        "capabilities": agent,
    }
    return [
        frame(1, CLIENT, {"id": 0, "method": "initialize", "params": params}),
        frame(2, SERVER, {"id": 0, "result": result}),
    ]


def request(version: str, method: str, mix: tuple[str, ...]) -> Frame:
    typed = {"type": "stdio"} if version == "acp-2" else {}
    servers = [{**(typed if name == "stdio" else {}), **SERVERS[name]} for name in mix]
    params = {"cwd": "/srv", "sessionId": "s-1", "mcpServers": servers}
    return frame(3, CLIENT, {"id": 1, "method": method, "params": params})


def allowed(version: str, transports: dict[str, object], name: str) -> bool:
    if version == "acp-1" and name == "stdio":
        return True
    value = transports.get(name)
    return value is True if version == "acp-1" else isinstance(value, dict)


@pytest.mark.parametrize(("version", "method"), [(v, m) for v in ACP for m in METHODS[v]])
def test_only_servers_on_undeclared_transports_are_reported_and_refused(version: str, method: str) -> None:
    for transports in combinations(version):
        opening = handshake(version, transports)
        observer, enforcer = Observer(catalogue.load()), Enforcer(catalogue.load(), frozenset({"ACP-001"}))
        for event in opening:
            assert observer.observe(event) == []
            assert enforcer.refusal(event) is None
        for mix in MIXES:
            case = f"{version} {method} {transports} {mix}"
            refused = [name for name in mix if not allowed(version, transports, name)]
            trial = request(version, method, mix)
            trial.refused = True  # so that each mix meets the same session
            found = observer.observe(trial)
            assert [(f.rule, f.pointer) for f in found] == [
                ("ACP-001", f"/params/mcpServers/{mix.index(name)}") for name in refused
            ], case
            verdict = enforcer.refusal(request(version, method, mix))
            if not refused:
                assert verdict is None, case
                continue
            assert verdict is not None, case
            answer = json.loads(verdict.answer)
            assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", 1, -32602), case
            first = refused[0]
            others = [n for n in ("http", "sse") if allowed(version, transports, n)]
            assert answer["error"]["data"] == {
                "requestedTransport": first,
                "serverName": SERVERS[first]["name"],
                "declaredCapability": False,
                "supportedTransports": others if first == "stdio" else ["stdio", *others],
            }, case
            if first in acp.TRANSPORTS[version]:
                assert acp.TRANSPORTS[version][first] in answer["error"]["message"], case
        assert observer.revision == version


def test_every_combination_is_there() -> None:
    assert len(MIXES) == 16
    assert {version: len(combinations(version)) for version in ACP} == {"acp-1": 16, "acp-2": 9}


def findings_of(*messages: tuple[Sender, dict[str, Any]]) -> list[Finding]:
    observer = Observer(catalogue.load())
    return [f for seq, (sender, m) in enumerate(messages, 1) for f in observer.observe(frame(seq, sender, m))]


def initialize(**params: object) -> tuple[Sender, dict[str, Any]]:
    return CLIENT, {"id": 0, "method": "initialize", "params": params}


INFO: Final = {"name": "example", "version": "1.0"}

OPENINGS: Final[dict[str, tuple[dict[str, object], bool]]] = {
    "version 1": ({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": INFO}, True),
    "version 1, with nothing else": ({"protocolVersion": 1}, True),
    "version 1, with members of MCP": (
        {"protocolVersion": 1, "capabilities": {}, "clientInfo": INFO},
        True,
    ),
    "version 2": ({"protocolVersion": 2, "capabilities": {}, "info": INFO}, True),
    "both versions at once": (
        {
            "protocolVersion": 2,
            "capabilities": {},
            "info": INFO,
            "clientCapabilities": {},
            "clientInfo": INFO,
        },
        True,
    ),
    "a version as text": ({"protocolVersion": "1", "clientCapabilities": {}}, True),
    "a version as text, with nothing else": ({"protocolVersion": "1"}, True),
    "version 2 as text": ({"protocolVersion": "2", "capabilities": {}, "info": INFO}, True),
    "a version with a fraction": ({"protocolVersion": 1.0, "clientInfo": INFO}, True),
    "a version in dotted form": ({"protocolVersion": "0.9", "clientCapabilities": {}}, True),
    "a date for a version": ({"protocolVersion": "2026-01-01", "clientCapabilities": {}}, True),
    "null for a version": ({"protocolVersion": None, "clientCapabilities": {}, "clientInfo": INFO}, True),
    "no version": ({"clientCapabilities": {}, "clientInfo": INFO}, True),
    "MCP": ({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}, False),
    "MCP with a number for its version": (
        {"protocolVersion": 2, "capabilities": {}, "clientInfo": INFO},
        False,
    ),
    "MCP with a text that is no date": (
        {"protocolVersion": "1", "capabilities": {}, "clientInfo": INFO},
        False,
    ),
    "MCP with a member of ACP": (
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO, "clientCapabilities": {}},
        False,
    ),
}

UNCLEAR: Final[dict[str, dict[str, object]]] = {
    "nothing": {},
    "true is not a number": {"protocolVersion": True},
    "too large a number": {"protocolVersion": 20250618, "clientInfo": INFO},
}
"""Params of an initialize that may be one of MCP or of ACP."""


@pytest.mark.parametrize(("params", "is_acp"), OPENINGS.values(), ids=OPENINGS)
def test_a_session_is_recognised_by_its_opening(params: dict[str, object], is_acp: bool) -> None:
    observer = Observer(catalogue.load())
    found = observer.observe(frame(1, CLIENT, {"id": 0, "method": "initialize", "params": params}))
    found += observer.observe(frame(2, CLIENT, {"id": 1, "method": "session/new", "params": {}}))
    rules = {finding.rule.partition("-")[0] for finding in found}
    assert ("ACP" in rules) == is_acp
    assert ("PROTO" in rules or "SEQ" in rules) != is_acp


@pytest.mark.parametrize("params", UNCLEAR.values(), ids=UNCLEAR)
def test_an_unclear_opening_is_made_clear_by_what_follows(params: dict[str, object]) -> None:
    opening = initialize(**params)
    answer = SERVER, {"id": 0, "result": {"protocolVersion": 1, "agentInfo": INFO}}
    new: tuple[Sender, dict[str, Any]] = (
        CLIENT,
        {"id": 1, "method": "session/new", "params": {"cwd": "/srv", "mcpServers": []}},
    )
    assert {f.rule.partition("-")[0] for f in findings_of(opening)} == {"PROTO"}
    for rest in ((answer, new), (new, answer)):
        after = findings_of(opening, *rest)[len(findings_of(opening)) :]
        assert {f.rule for f in after} <= {"ACP-006"}


def test_a_client_of_mcp_with_an_agent_speaks_mcp() -> None:
    """The client is right by its own protocol, and the answer is none of it."""
    opening = initialize(protocolVersion="2025-06-18", capabilities={}, clientInfo=INFO)
    answer = SERVER, {"id": 0, "result": {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {}}}
    assert {(f.rule, f.blame) for f in findings_of(opening, answer)} == {("PROTO-001", SERVER)}


@pytest.mark.parametrize(
    ("version", "says"),
    [("1", "as a string"), (None, "as null"), (1.5, "written as 1.5"),
     (1.0, "written as 1.0"), ("2026-01-01", "as a string"), ([1], "as an array")],
)  # fmt: skip
def test_a_wrong_version_is_the_only_finding(version: object, says: str) -> None:
    found = findings_of(
        initialize(protocolVersion=version, clientCapabilities={}),
        (SERVER, {"id": 0, "result": {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {}}}),
        (CLIENT, {"id": 1, "method": "session/new", "params": {"cwd": "/srv", "mcpServers": []}}),
        (SERVER, {"id": 1, "result": {"sessionId": "s-1"}}),
        (CLIENT, {"id": 2, "method": "session/prompt", "params": {"sessionId": "s-1", "prompt": []}}),
        (SERVER, {"id": 2, "result": {"stopReason": "end_turn"}}),
    )
    assert [(f.rule, f.requirement, f.blame) for f in found] == [("ACP-011", "A-033", CLIENT)]
    assert says in found[0].message
    assert found[0].severity == ("info" if version == 1.0 else "error")


def test_a_session_stays_what_it_opened_as() -> None:
    later: tuple[Sender, dict[str, Any]] = CLIENT, {"id": 9, "method": "session/prompt", "params": {}}
    opening = initialize(protocolVersion="2025-06-18", capabilities={}, clientInfo=INFO)
    answer = (
        SERVER,
        {"id": 0, "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": INFO}},
    )
    started = CLIENT, {"method": "notifications/initialized"}
    assert [f.rule for f in findings_of(opening, answer, started, later)] == ["RPC-019"]


def test_what_only_mcp_says_has_no_check_in_acp() -> None:
    """A result may be null, an id may be used again, and nobody sends notifications/initialized."""
    rules = {code for row in STANDARD.for_protocol("acp").message_checks for code in row.rules}
    assert not {
        code for code in rules if code.partition("-")[0] in ("SEQ", "LIFE", "TOOL", "SCHEMA", "SHAPE")
    }
    assert not rules & {"RPC-005", "RPC-008", "RPC-010", "RPC-016", "RPC-019", "PROTO-005", "PROTO-006"}
    requirements = catalogue.load().rules
    for code in rules:
        assert any(version in row.keywords for row in requirements[code].requirements for version in ACP), (
            code
        )


@pytest.mark.parametrize(
    ("path", "absolute"),
    [("/srv", True), ("C:\\srv", True), ("c:/srv", True), ("\\\\host\\share", True), ("srv", False),
     ("", False), ("./srv", False), ("C:srv", False), ("file:///srv", False), ("~/srv", False)],
)  # fmt: skip
def test_an_absolute_path_is_one_on_some_system(path: str, absolute: bool) -> None:
    assert acp.is_absolute(path) == absolute
