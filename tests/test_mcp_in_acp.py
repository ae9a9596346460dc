"""MCP inside ACP: each MCP session that a connection of ACP carries is judged as one of its own.

The shapes by ``serverId`` are those that the ACP SDK 2.4 sends, those by ``connectionId`` those of the RFD.
"""

import json
from typing import Any, Final, TypeAlias

import pytest

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Close, Event, Finding, Frame, Gap, Sender

CLIENT: Final = "client"
AGENT: Final = "server"

Said: TypeAlias = "tuple[Sender, dict[str, Any], list[str]]"
Script: TypeAlias = "tuple[Said, ...]"

META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
}
COUNT: Final = {
    "name": "count",
    "inputSchema": {"type": "object", "properties": {"of": {"type": "string"}}},
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
LISTED: Final = {"tools": [COUNT], "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}

OPENED: Final[Script] = (
    (
        CLIENT,
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": 1,
                "clientCapabilities": {},
                "clientInfo": {"name": "editor", "version": "1"},
            },
        },
        [],
    ),
    (
        AGENT,
        {
            "id": 0,
            "result": {
                "protocolVersion": 1,
                "agentCapabilities": {"mcpCapabilities": {"acp": True}},
                "agentInfo": {"name": "agent", "version": "1"},
                "authMethods": [],
            },
        },
        [],
    ),
    (
        CLIENT,
        {
            "id": 1,
            "method": "session/new",
            "params": {
                "cwd": "/srv",
                "mcpServers": [{"type": "acp", "name": "project-tools", "serverId": "s-1"}],
            },
        },
        [],
    ),
    (AGENT, {"id": 1, "result": {"sessionId": "session-1"}}, []),
)


def counted(n: object, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": json.dumps({"n": n}, separators=(",", ":"))}]
    return {"content": content, "structuredContent": {"n": n}, **more}


# By server


def ask(id: int, request: str, method: str, *found: str, meta: bool = True, **params: object) -> Said:
    inner = {**params, "_meta": META} if meta else params
    address = {"serverId": "s-1", "requestId": request}
    return (
        AGENT,
        {"id": id, "method": "mcp/message", "params": {**address, "method": method, "params": inner}},
        [*found],
    )


def tell(request: str, method: str, *found: str, **params: object) -> Said:
    address = {"serverId": "s-1", "requestId": request}
    return (
        CLIENT,
        {"method": "mcp/message", "params": {**address, "method": method, "params": params}},
        [*found],
    )


def give(id: int, result: object, *found: str) -> Said:
    return CLIENT, {"id": id, "result": {"result": result}}, [*found]


def give_error(id: int, error: object, *found: str) -> Said:
    return CLIENT, {"id": id, "result": {"error": error}}, [*found]


def fail(id: int, code: int, *found: str) -> Said:
    return CLIENT, {"id": id, "error": {"code": code, "message": "failed"}}, [*found]


def ask_for_progress(id: int, request: str, token: object) -> Said:
    asker, message, found = ask(id, request, "tools/call", name="count", arguments={})
    message["params"]["params"]["_meta"] = {**META, "progressToken": token}
    return asker, message, found


TOOLS: Final[Script] = (*OPENED, ask(0, "r-0", "tools/list"), give(0, LISTED))

BY_SERVER: Final[dict[str, Script]] = {
    "a result that fits its outputSchema": (
        *TOOLS,
        ask(1, "r-1", "tools/call", name="count", arguments={}),
        give(1, counted(1, resultType="complete")),
    ),
    "a result that does not": (
        *TOOLS,
        ask(1, "r-1", "tools/call", name="count", arguments={}),
        give(1, counted("one", resultType="complete"), "TOOL-002"),
    ),
    "a result without what its revision requires": (
        *TOOLS,
        ask(1, "r-1", "tools/list"),
        give(1, {"tools": [COUNT]}, "STAT-004"),
    ),
    "the revision is pinned, although a request does not name it": (
        *OPENED,
        ask(0, "r-0", "tools/list", "META-001", "STAT-001", meta=False),
        give_error(0, {"code": -32602, "message": "Invalid params"}),
    ),
    "an error of MCP is none of ACP": (
        *TOOLS,
        ask(1, "r-1", "tools/call", name="count", arguments={}),
        give_error(1, {"code": -32602, "message": "no"}),
        ask(2, "r-2", "tools/call", name="count", arguments={}),
        give_error(2, {"code": "no", "message": "no"}, "RPC-011"),
    ),
    "a request that got an error of ACP was never sent, so its id is free": (
        *TOOLS,
        ask(1, "r-1", "tools/call", name="count", arguments={}),
        fail(1, -33000),
        ask(2, "r-1", "tools/call", name="count", arguments={}),
        give(2, counted(1, resultType="complete")),
    ),
    "and so is its progress token": (
        *TOOLS,
        ask_for_progress(1, "r-1", "p"),
        tell("r-1", "notifications/progress", progressToken="p", progress=5),
        fail(1, -33000),
        ask_for_progress(2, "r-2", "p"),
        tell("r-2", "notifications/progress", progressToken="p", progress=1),
        give(2, counted(1, resultType="complete")),
    ),
    "a request that was cancelled in ACP may be sent again before that is answered": (
        *TOOLS,
        ask_for_progress(1, "r-1", "p"),
        (AGENT, {"method": "$/cancel_request", "params": {"requestId": 1}}, []),
        ask_for_progress(2, "r-2", "p"),
        fail(1, -32800),
    ),
    "two sessions of ACP have the same progress token": (
        *TOOLS,
        ask_for_progress(1, "r-1", 1),
        ask_for_progress(2, "r-2", 1),
        give(2, counted(1, resultType="complete")),
        tell("r-1", "notifications/progress", progressToken=1, progress=1),
        give(1, counted(1, resultType="complete")),
    ),
    "two sessions of ACP get different lists": (
        *TOOLS,
        ask(1, "r-1", "tools/list"),
        give(1, {**LISTED, "tools": []}),
        ask(2, "r-2", "tools/call", name="count", arguments={}),
        give(2, counted(1, resultType="complete")),
    ),
    "the id of a request that is still open is not": (
        *TOOLS,
        ask(1, "r-1", "tools/call", name="count", arguments={}),
        ask(2, "r-1", "tools/list", "RPC-006"),
        fail(2, -32602),
    ),
    "a result without an outcome says nothing of MCP": (
        *TOOLS,
        ask(1, "r-1", "tools/call", name="count", arguments={}),
        (CLIENT, {"id": 1, "result": {"content": []}}, []),
        ask(2, "r-1", "tools/list"),
        give(2, LISTED),
    ),
    "a notification belongs to the session of its request": (
        *TOOLS,
        (
            AGENT,
            {
                "id": 1,
                "method": "mcp/message",
                "params": {
                    "serverId": "s-1",
                    "requestId": "r-1",
                    "method": "tools/call",
                    "params": {"name": "count", "_meta": {**META, "progressToken": "p"}},
                },
            },
            [],
        ),
        tell("r-1", "notifications/progress", progressToken="p", progress=1),
        tell("r-1", "notifications/progress", "PROG-003", progressToken="q", progress=1),
        give(1, counted(1, resultType="complete")),
    ),
    "a server of this revision asks nothing": (
        *TOOLS,
        (
            CLIENT,
            {
                "id": 5,
                "method": "mcp/message",
                "params": {"serverId": "s-1", "requestId": "r-9", "method": "roots/list"},
            },
            ["STAT-006", "DEPR-001"],
        ),
    ),
}


# By connection


def connected(id: int, name: str) -> Script:
    return (
        (AGENT, {"id": id, "method": "mcp/connect", "params": {"serverId": "s-1"}}, []),
        (CLIENT, {"id": id, "result": {"connectionId": name}}, []),
    )


def over(
    channel: str, id: int | None, method: str, *found: str, sender: Sender = AGENT, **params: object
) -> Said:
    message: dict[str, Any] = {} if id is None else {"id": id}
    inner = {"params": params} if params else {}
    return (
        sender,
        {**message, "method": "mcp/message", "params": {"connectionId": channel, "method": method, **inner}},
        [*found],
    )


def answer(id: int, result: object, *found: str, sender: Sender = CLIENT) -> Said:
    return sender, {"id": id, "result": result}, [*found]


def shaken(name: str, id: int, version: str = "2025-11-25") -> Script:
    """The handshake of MCP on a connection; ``id`` is that of its first request."""
    info = {"name": "any", "version": "1"}
    return (
        over(name, id, "initialize", protocolVersion=version, capabilities={}, clientInfo=info),
        answer(id, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}),
        over(name, None, "notifications/initialized"),
    )


UNKNOWN: Final = {"code": -32601, "message": "Method not found"}
CONNECTED: Final[Script] = (*OPENED, *connected(0, "c-1"), *shaken("c-1", 1))
LISTING: Final[Script] = (over("c-1", 2, "tools/list"), answer(2, {"tools": [COUNT]}))

BY_CONNECTION: Final[dict[str, Script]] = {
    "a result that fits its outputSchema": (
        *CONNECTED,
        *LISTING,
        over("c-1", 3, "tools/call", name="count", arguments={}),
        answer(3, counted(1)),
    ),
    "a result that does not": (
        *CONNECTED,
        *LISTING,
        over("c-1", 3, "tools/call", name="count", arguments={}),
        answer(3, counted("one"), "TOOL-002"),
    ),
    "each connection has its own handshake": (
        *CONNECTED,
        *connected(2, "c-2"),
        over("c-2", 3, "tools/list", "PROTO-005"),
        answer(3, {"tools": []}),
        over("c-1", 4, "tools/list"),
        answer(4, {"tools": []}),
    ),
    "a connection that is closed leaves nothing to a new one of its name": (
        *CONNECTED,
        (AGENT, {"id": 2, "method": "mcp/disconnect", "params": {"connectionId": "c-1"}}, []),
        answer(2, {}),
        *connected(3, "c-1"),
        *shaken("c-1", 4),
    ),
    "the server asks its client, too": (
        *CONNECTED,
        over("c-1", 7, "ping", sender=CLIENT),
        answer(7, {}, sender=AGENT),
        over("c-1", 8, "roots/list", "PROTO-009", sender=CLIENT),
        (AGENT, {"id": 8, "error": {"code": -32601, "message": "no"}}, []),
    ),
    "what is about the envelope is said once": (
        *CONNECTED,
        over("c-1", 2, "tools/list"),
        (CLIENT, {"id": 2, "error": {"code": "no", "message": "no"}}, ["RPC-011"]),
    ),
    "a peer that does not know what carries MCP says nothing of MCP": (
        *CONNECTED,
        over("c-1", 2, "ping"),
        (CLIENT, {"id": 2, "error": {"code": -32601, "message": "mcp/message is not supported"}}, []),
        over("c-1", 3, "ping"),
        (CLIENT, {"id": 3, "error": UNKNOWN | {"data": {"method": "mcp/message"}}}, []),
        over("c-1", 4, "ping"),
        (CLIENT, {"id": 4, "error": UNKNOWN}, ["LIFE-004"]),
    ),
    "a cancellation names an id that is not on this wire": (
        *CONNECTED,
        over("c-1", None, "notifications/cancelled", requestId="of the client"),
    ),
    "after it, the request may be sent again with its progress token": (
        *CONNECTED,
        over("c-1", 2, "tools/call", name="count", arguments={}, _meta={"progressToken": 1}),
        over("c-1", None, "notifications/cancelled", requestId="of the client"),
        over("c-1", 3, "tools/call", name="count", arguments={}, _meta={"progressToken": 1}),
    ),
    "a subscription has an id that is not on this wire": (
        *OPENED,
        *connected(0, "c-1"),
        over("c-1", 2, "subscriptions/listen", notifications={"toolsListChanged": True}, _meta=META),
        over(
            "c-1",
            None,
            "notifications/subscriptions/acknowledged",
            sender=CLIENT,
            notifications={"toolsListChanged": True},
            _meta={"io.modelcontextprotocol/subscriptionId": "of the client"},
        ),
        over(
            "c-1",
            None,
            "notifications/tools/list_changed",
            sender=CLIENT,
            _meta={"io.modelcontextprotocol/subscriptionId": "of the client"},
        ),
        answer(2, {"resultType": "complete", "_meta": {}}),
    ),
    "of a connection that was opened before, nothing is missing": (
        *OPENED,
        over("c-9", 2, "tools/list"),
        answer(2, {"tools": []}),
    ),
    "nor of one that the client does not know": (
        *OPENED,
        over("c-9", 2, "tools/list"),
        fail(2, -32602),
    ),
}


def judged(script: Script, *, numbered_from: int = 1) -> list[list[Finding]]:
    """Return what is found at each message, and then at the end."""
    observer, events = Observer(catalogue.load()), list[Event]()
    for number, (sender, message, _) in enumerate(script, numbered_from):
        raw = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
        events.append(Frame(number, sender, raw, number * 1_000_000))
    return [observer.observe(event) for event in (*events, Close("cut"))]


@pytest.mark.parametrize(
    "script", [*BY_SERVER.values(), *BY_CONNECTION.values()], ids=[*BY_SERVER, *BY_CONNECTION]
)
def test_what_is_found_inside(script: Script) -> None:
    found = [[finding.rule for finding in findings] for findings in judged(script)]
    assert found == [*(expected for _, _, expected in script), []]


def only(script: Script) -> Finding:
    (finding,) = (finding for findings in judged(script) for finding in findings)
    return finding


@pytest.mark.parametrize(
    ("script", "pointer", "revision"),
    [
        (BY_SERVER["a result that does not"], "/result/result/structuredContent/n", "2026-07-28"),
        (BY_CONNECTION["a result that does not"], "/result/structuredContent/n", "2025-11-25"),
    ],
)
def test_a_finding_is_about_the_frame_of_acp(script: Script, pointer: str, revision: str) -> None:
    finding = only(script)
    assert (finding.frame, finding.pointer, finding.revision) == (len(script), pointer, revision)
    assert finding.blame == CLIENT, "the client of ACP is the server of MCP"
    assert finding.message.startswith('in the MCP session "project-tools": server answered "count" with ')


def test_the_agent_is_to_blame_for_what_the_client_of_mcp_sends() -> None:
    finding = only(BY_SERVER["the id of a request that is still open is not"])
    assert (finding.blame, finding.pointer) == (AGENT, "/params/requestId")


def test_after_a_gap_nothing_is_missing() -> None:
    observer = Observer(catalogue.load())
    found: list[Finding] = []
    script = (*CONNECTED[:-1], over("c-1", 3, "tools/list"), answer(3, {"tools": []}))
    for number, (sender, message, _) in enumerate(script, 1):
        if number == len(CONNECTED):
            found += observer.observe(Gap("the disk was full"))
        found += observer.observe(Frame(number, sender, json.dumps({"jsonrpc": "2.0", **message}).encode()))
    assert found == []


def swapped(script: Script) -> Script:
    """The agent has the server, and its client uses it, as a conductor that of a proxy."""
    opened, carried = script[: len(OPENED)], script[len(OPENED) :]
    other: dict[Sender, Sender] = {CLIENT: AGENT, AGENT: CLIENT}
    return (*opened, *((other[sender], message, found) for sender, message, found in carried))


@pytest.mark.parametrize("scripts", [BY_SERVER, BY_CONNECTION])
def test_who_asks_for_a_connection_or_a_server_is_the_client(scripts: dict[str, Script]) -> None:
    assert not any(judged(swapped(scripts["a result that fits its outputSchema"])))
    finding = only(swapped(scripts["a result that does not"]))
    assert (finding.rule, finding.blame) == ("TOOL-002", AGENT)


def test_two_connections_of_one_name_are_not_mixed_up() -> None:
    assert not any(judged((*CONNECTED, *swapped((*OPENED, *connected(2, "c-1")))[len(OPENED) :], *LISTING)))


def server(number: int, said: Said) -> Said:
    sender, message, found = said
    return sender, {**message, "params": {**message["params"], "serverId": f"s-{number}"}}, found


def test_of_servers_that_were_forgotten_nothing_is_missing() -> None:
    asked = [server(number, ask_for_progress(number, "r", "p")) for number in range(300)]
    told = tell("r", "notifications/progress", progressToken="p", progress=1)
    again = [server(number, ask(number + 300, "r", "tools/list")) for number in range(300)]
    told_again = [server(number, told) for number in range(300)]
    assert not any(judged((*OPENED, *asked, *told_again, *again, *told_again)))


def test_a_server_in_use_is_not_forgotten() -> None:
    script = [*TOOLS]
    for number in range(2, 400):
        script += (
            server(number, ask(2 * number, "r", "tools/list")),
            ask(2 * number + 1, f"{number}", "tools/list"),
        )
    script += (
        ask(900, "r-1", "tools/call", name="count", arguments={}),
        give(900, counted("one", resultType="complete")),
    )
    assert only((*script,)).rule == "TOOL-002"


def test_a_session_that_begins_with_a_carried_message_is_one_of_acp() -> None:
    script = (over("c-1", 2, "tools/list"), answer(2, {"tools": [COUNT]}))
    assert judged(script, numbered_from=7) == [[], [], []]


@pytest.mark.parametrize("prefix", ["_", ""])
def test_a_proxy_is_opened_like_an_agent(prefix: str) -> None:
    """Its conductor speaks for its client, and in ``proxy/successor`` for what comes after it."""
    (_, opening, _), (_, opened, _), (_, new, _), (_, made, _) = OPENED
    successor = f"{prefix}proxy/successor"
    sent_on = {"id": 1, "method": successor, "params": {"method": "session/new", "params": new["params"]}}
    script: Script = (
        (CLIENT, opening | {"method": f"{prefix}proxy/initialize"}, []),
        (AGENT, {"id": 0, "method": successor, "params": {"method": "initialize", "params": {}}}, []),
        (CLIENT, {"id": 0, "result": opened["result"]}, []),
        (AGENT, opened, []),
        (CLIENT, new, []),
        (AGENT, sent_on, []),
        (CLIENT, made, []),
        (AGENT, made, []),
        (CLIENT, {"id": 2, "method": "no/such", "params": {}}, ["ACP-010"]),
    )
    found = [[finding.rule for finding in findings] for findings in judged(script)]
    assert found == [*(expected for _, _, expected in script), []]


@pytest.mark.parametrize("scripts", [BY_SERVER, BY_CONNECTION])
def test_an_id_that_is_too_long_to_remember_is_none(scripts: dict[str, Script]) -> None:
    text = json.dumps(scripts["a result that does not"])
    text = text.replace("s-1", "s" * 1_001).replace("c-1", "c" * 1_001)
    assert not any(judged(json.loads(text))), "its messages are not judged"


def test_a_name_that_is_too_long_to_remember_is_none() -> None:
    text = json.dumps(BY_SERVER["a result that does not"]).replace("project-tools", "n" * 1_001)
    assert only(json.loads(text)).message.startswith('in the MCP session "s-1": ')


def judged_refused(script: Script, refused: int) -> list[str]:
    """Return the rules that are broken if mcpproxy refuses the message at this place."""
    observer, found = Observer(catalogue.load()), list[Finding]()
    for number, (sender, message, _) in enumerate(script):
        raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
        found += observer.observe(Frame(number + 1, sender, raw, refused=number == refused))
    return [finding.rule for finding in found]


def test_what_mcpproxy_refuses_did_not_happen() -> None:
    call, result = BY_SERVER["a result that fits its outputSchema"][-2:]
    assert judged_refused((*TOOLS, call, call, result), len(TOOLS)) == []


def test_a_connection_that_mcpproxy_refuses_has_not_begun() -> None:
    """Nor has one ended."""
    script = (*CONNECTED, *connected(2, "c-1"), *LISTING)
    assert judged_refused(script, len(CONNECTED) + 1) == []
    end: Script = ((AGENT, {"id": 9, "method": "mcp/disconnect", "params": {"connectionId": "c-1"}}, []),)
    faulty = BY_CONNECTION["a result that does not"][len(CONNECTED) :]
    script = (*CONNECTED, *end, answer(9, {}), *faulty)
    assert judged_refused(script, len(CONNECTED) + 1) == ["TOOL-002"]


def test_an_error_of_acp_that_mcpproxy_refuses_ends_nothing() -> None:
    call = ask(1, "r-1", "tools/call", name="count", arguments={})
    script = (*TOOLS, call, fail(1, -33000), ask(2, "r-1", "tools/list"))
    assert judged_refused(script, len(TOOLS) + 1) == ["RPC-006"]
