"""The shapes of ACP's messages: what is said of a value, and what is lawful and passed over."""

import re
from typing import Any, Final

import pytest

from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import ABSENT
from mcpproxy.protocol.revisions import ACP
from mcpproxy.protocol.shapes.acp_messages import ACP_MESSAGES
from mcpproxy.protocol.shapes.acp_setup import ACP_SETUP
from mcpproxy.protocol.shapes.acp_work import ACP_WORK
from mcpproxy.protocol.shapes.lookup import Part, variants, violations
from mcpproxy.protocol.shapes.notation import Block, read
from tests.every import every

# A case: method and part, version, the value, and what is said of it ("pointer clause").
Case = tuple[str, str, Any, list[str]]

STDIO: Final[dict[str, Any]] = {"name": "files", "command": "/bin/files", "args": ["-v"], "env": []}
HTTP: Final[dict[str, Any]] = {
    "type": "http",
    "name": "search",
    "url": "https://example.com/mcp",
    "headers": [],
}
TEXT: Final = {"type": "text", "text": "Hello"}


def new(*servers: Any) -> Any:
    return {"cwd": "/srv", "mcpServers": list(servers)}


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if key != name}


def update(kind: str, **members: Any) -> Any:
    return {"sessionId": "s-1", "update": {"sessionUpdate": kind, **members}}


SERVERS: dict[str, Case] = {
    "both transports": ("session/new params", "acp-1", new(STDIO, HTTP, {**HTTP, "type": "sse"}), []),
    "stdio with a type of its own": ("session/new params", "acp-1", new({**STDIO, "type": "stdio"}), []),
    "stdio with the type of another": ("session/new params", "acp-1", new({**STDIO, "type": "http"}), []),
    "a transport of a draft": ("session/new params", "acp-1", new({"type": "acp", "serverId": "s"}), []),
    "an object for the environment": (
        "session/load params",
        "acp-1",
        {**new({**STDIO, "env": {}}), "sessionId": "s-1"},
        ["/params/mcpServers/0/env should be an array, is an object"],
    ),
    "parts of another type": (
        "session/new params",
        "acp-1",
        new({**STDIO, "command": ["/bin/files"], "args": [1], "env": [{"name": "A", "value": None}, "B=c"]}),
        [
            "/params/mcpServers/0/command should be a string, is an array",
            "/params/mcpServers/0/args/0 should be a string, is a number",
            "/params/mcpServers/0/env/0/value should be a string, is null",
            "/params/mcpServers/0/env/1 should be an object, is a string",
        ],
    ),
    "no headers": (
        "session/new params",
        "acp-1",
        new(without(HTTP, "headers")),
        ["/params/mcpServers/0/headers is missing"],
    ),
    "an address without its type": (
        "session/new params",
        "acp-1",
        new(without(HTTP, "type")),
        ["/params/mcpServers/0/type is missing"],
    ),
    "only a type": (
        "session/new params",
        "acp-1",
        new({"type": "http", "name": "search"}),
        ["/params/mcpServers/0/url is missing", "/params/mcpServers/0/headers is missing"],
    ),
    "a type of no version": (
        "session/new params",
        "acp-1",
        new({"type": "ws", "name": "search", "url": "ws://search.example"}, {"type": "acp", "name": "own"}),
        ['/params/mcpServers/0/type should be "http" or "sse", is "ws"'],
    ),
    "a type for a command": ("session/new params", "acp-1", new({**STDIO, "type": "ws"}), []),
    "only a name": (
        "session/resume params",
        "acp-1",
        {**new({"name": "files", "args": [], "env": []}), "sessionId": "s-1"},
        ["/params/mcpServers/0/command is missing"],
    ),
    "null for an entry": (
        "session/new params",
        "acp-1",
        new(None),
        ["/params/mcpServers/0 should be an object, is null"],
    ),
    "what version 2 leaves out": (
        "session/new params",
        "acp-2",
        new(
            {"type": "stdio", "name": "files", "command": "/bin/files"},
            without(HTTP, "headers"),
            {"type": "x"},
        ),
        [],
    ),
    "no type in version 2": (
        "session/new params",
        "acp-2",
        new(STDIO),
        ["/params/mcpServers/0/type is missing"],
    ),
    "null, which only some optional members may be": (
        "session/new params",
        "acp-2",
        {
            "cwd": "/srv",
            "additionalDirectories": None,
            "mcpServers": [{**STDIO, "type": "stdio", "env": None}],
        },
        ["/params/mcpServers/0/env should be an array, is null"],
    ),
}

CAPABILITIES: dict[str, Case] = {
    "true for an object": (
        "initialize result",
        "acp-1",
        {"agentCapabilities": {"sessionCapabilities": {"list": True, "load": True}}},
        ["/result/agentCapabilities/sessionCapabilities/list should be an object or null, is true"],
    ),
    "an object for true": (
        "initialize result",
        "acp-1",
        {"agentCapabilities": {"loadSession": {}, "mcpCapabilities": {"http": {}}, "promptCapabilities": []}},
        [
            "/result/agentCapabilities/loadSession should be a boolean or null, is an object",
            "/result/agentCapabilities/promptCapabilities should be an object or null, is an array",
            "/result/agentCapabilities/mcpCapabilities/http should be a boolean or null, is an object",
        ],
    ),
    "of the client": (
        "initialize params",
        "acp-1",
        {"clientCapabilities": {"fs": True, "terminal": "yes", "auth": {"terminal": {}}}},
        [
            "/params/clientCapabilities/fs should be an object or null, is true",
            "/params/clientCapabilities/terminal should be a boolean or null, is a string",
            "/params/clientCapabilities/auth/terminal should be a boolean or null, is an object",
        ],
    ),
    "of version 2": (
        "initialize result",
        "acp-2",
        {"capabilities": {"session": {"mcp": {"http": True}, "delete": {}}, "auth": {}}},
        ["/result/capabilities/session/mcp/http should be an object or null, is true"],
    ),
    "of the other version": ("initialize params", "acp-2", {"clientCapabilities": 7}, []),
    "null and unknown": (
        "initialize params",
        "acp-1",
        {"clientCapabilities": {"fs": None, "plan": True}, "_meta": {"a": 1}},
        [],
    ),
    "logins": (
        "initialize result",
        "acp-1",
        {"authMethods": [{"id": "key", "name": "Key"}, {"id": "key", "type": "later"}, "key"]},
        [
            "/result/authMethods/1/name is missing",
            "/result/authMethods/2 should be an object, is a string",
        ],
    ),
}

UPDATES: dict[str, Case] = {
    "a chunk": ("session/update params", "acp-1", update("agent_message_chunk", content=TEXT), []),
    "content that is a text": (
        "session/update params",
        "acp-1",
        update("agent_message_chunk", content="Hello"),
        ["/params/update/content should be an object, is a string"],
    ),
    "a kind of content of its own": (
        "session/update params",
        "acp-1",
        update("agent_message_chunk", content={"type": "video"}),
        [
            '/params/update/content/type should be "text", "image", "audio", "resource_link" or "resource", '
            'is "video"'
        ],
    ),
    "which version 2 allows": (
        "session/update params",
        "acp-2",
        update("agent_message_chunk", messageId="m", content={"type": "video"}),
        [],
    ),
    "a resource": (
        "session/prompt params",
        "acp-1",
        {"sessionId": "s", "prompt": [{"type": "resource", "resource": {"uri": "a:b"}}]},
        ["/params/prompt/0/resource should be an object with text or blob, is one without"],
    ),
    "a status of its own": (
        "session/update params",
        "acp-1",
        update("tool_call", toolCallId="t", title="Build", status="done"),
        ['/params/update/status should be "pending", "in_progress", "completed" or "failed", is "done"'],
    ),
    "a kind of its own": ("session/update params", "acp-1", update("_mine", content=7), []),
    "a kind that is no text": (
        "session/update params",
        "acp-1",
        {"sessionId": "s", "update": {"sessionUpdate": None}},
        ["/params/update/sessionUpdate should be a string, is null"],
    ),
    "options in groups": (
        "session/update params",
        "acp-1",
        update(
            "config_option_update",
            configOptions=[
                {
                    "type": "select",
                    "id": "model",
                    "name": "Model",
                    "currentValue": "a",
                    "options": [{"group": "g", "name": "G", "options": [{"value": "a"}]}],
                }
            ],
        ),
        ["/params/update/configOptions/0/options/0/options/0/name is missing"],
    ),
}

OTHERS: dict[str, Case] = {
    "nothing": ("session/new params", "acp-1", ABSENT, ["/params is missing"]),
    "no object": ("session/new params", "acp-1", [], ["/params should be an object, is an array"]),
    "null for an answer with nothing in it": ("session/load result", "acp-1", None, []),
    "null for another": (
        "session/request_permission result",
        "acp-1",
        None,
        ["/result should be an object, is null"],
    ),
    "an outcome without its option": (
        "session/request_permission result",
        "acp-2",
        {"outcome": {"outcome": "selected", "option_id": "yes"}},
        ["/result/outcome/optionId is missing"],
    ),
    "an outcome of its own": (
        "session/request_permission result",
        "acp-2",
        {"outcome": {"outcome": "later"}},
        [],
    ),
    "a form": (
        "elicitation/create params",
        "acp-1",
        {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {"a": 1}}},
        ["/params/requestedSchema/properties/a should be an object, is a number"],
    ),
    "what a form was filled with": (
        "elicitation/create result",
        "acp-1",
        {"action": "accept", "content": {"a": ["x"], "b": 1.5, "c": {}}},
        ["/result/content/c should be a string, a number, a boolean or an array, is an object"],
    ),
    "a method of a draft": ("session/fork params", "acp-1", {"cwd": 7}, []),
    "a later version": ("session/new params", "acp-3", {"cwd": 7}, []),
}

CASES: Final = {**SERVERS, **CAPABILITIES, **UPDATES, **OTHERS}


@every(
    ("what", "version", "value", "expected"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_the_violations_of_a_message(what: str, version: str, value: Any, expected: list[str]) -> None:
    method, word = what.split()
    part: Part = "params" if word == "params" else "result"
    assert [f"{v.pointer} {v.clause}" for v in violations(value, (method, part), version)] == expected


def test_the_kinds_of_updates_are_those_of_the_version() -> None:
    assert {"tool_call", "plan", "notice"} <= variants("SessionUpdate", "acp-1")
    assert {"state_update", "plan_update", "notice"} <= variants("SessionUpdate", "acp-2")
    assert "tool_call" not in variants("SessionUpdate", "acp-2")
    assert "*" not in variants("SessionUpdate", "acp-1")
    assert variants("PlanEntry", "acp-1") == frozenset()


# The table itself.

TABLE: Final = read(ACP_MESSAGES + ACP_SETUP + ACP_WORK, ACP)
BLOCKS: Final = [block for blocks in TABLE.values() for block in blocks]


@every("block", BLOCKS, ids=lambda block: f"{block.name} {block.revisions[:1]}")
def test_every_row_of_a_block_applies_in_some_version(block: Block) -> None:
    assert block.revisions
    for row in block.rows:
        assert set(row.revisions) & set(block.revisions), row


def test_blocks_of_one_name_do_not_overlap() -> None:
    for name, blocks in TABLE.items():
        versions = [version for block in blocks for version in block.revisions]
        assert len(versions) == len(set(versions)), name


def test_every_message_block_belongs_to_a_method() -> None:
    for name in TABLE:
        method, _, part = name.partition(" ")
        assert part in ("params", "result", "")
        assert not part or acp.versions_with(method), name


def test_every_type_is_used() -> None:
    words = [block.word for block in BLOCKS] + [row.type for block in BLOCKS for row in block.rows]
    used = set(re.findall(r"\b[A-Z]\w+", " ".join(words)))
    assert used == {name for name in TABLE if " " not in name}


@pytest.mark.parametrize("version", ACP)
def test_every_message_of_a_version_has_a_shape(version: str) -> None:
    parts: tuple[Part, ...] = ("params", "result")
    for method in {name.partition(" ")[0] for name in TABLE}:
        for part in parts:
            list(violations({}, (method, part), version))
