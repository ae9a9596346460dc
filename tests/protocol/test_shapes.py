"""Members and types of params and results: what is said, and what is lawful and passed over."""

import re
from typing import Any

import pytest

from mcpproxy.protocol.jsonrpc import ABSENT
from mcpproxy.protocol.methods import INPUT_REQUESTS, defined, revisions_with
from mcpproxy.protocol.revisions import REVISIONS, since
from mcpproxy.protocol.shapes.input_types import INPUT
from mcpproxy.protocol.shapes.lookup import LIMIT, Part, ShapeViolation, violations
from mcpproxy.protocol.shapes.messages import MESSAGES
from mcpproxy.protocol.shapes.notation import Block, ShapeRow, read
from mcpproxy.protocol.shapes.types import TYPES
from tests.every import every

# A case: method and part, revision, the value, and what is said of it ("pointer clause").
Case = tuple[str, str, Any, list[str]]

META: Any = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FRESH = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
TEXT = {"type": "text", "text": "hi"}
TASK = {"taskId": "t", "status": "working", "createdAt": "now", "lastUpdatedAt": "now", "ttl": None}
FORM: Any = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def form(**properties: Any) -> Any:
    return {"message": "?", "requestedSchema": {"type": "object", "properties": properties}}


def sampling(*contents: Any) -> Any:
    return {"maxTokens": 1, "messages": [{"role": "user", "content": content} for content in contents]}


MEMBERS: dict[str, Case] = {
    "all that is needed": ("tools/call params", "2025-06-18", {"name": "add"}, []),
    "a member too many": ("tools/call params", "2025-06-18", {"name": "add", "x": 1}, []),
    "a member too few": ("tools/call params", "2025-06-18", {"arguments": {}}, ["/params/name is missing"]),
    "another type": (
        "tools/call params",
        "2025-06-18",
        {"name": 7, "arguments": None},
        ["/params/name should be a string, is a number", "/params/arguments should be an object, is null"],
    ),
    "not an object": ("tools/call params", "2025-06-18", [], ["/params should be an object, is an array"]),
    "deep inside": (
        "tools/list result",
        "2025-06-18",
        {"tools": [{"name": "a", "inputSchema": {"type": "object"}}, {"inputSchema": {"type": "object"}}]},
        ["/result/tools/1/name is missing"],
    ),
    "no array": (
        "tools/list result",
        "2025-06-18",
        {"tools": {}},
        ["/result/tools should be an array, is an object"],
    ),
    "a map of strings": (
        "prompts/get params",
        "2025-06-18",
        {"name": "p", "arguments": {"a/b": 1, "c": "d"}},
        ["/params/arguments/a~1b should be a string, is a number"],
    ),
    "no map": (
        "prompts/get params",
        "2025-06-18",
        {"name": "p", "arguments": ["a"]},
        ["/params/arguments should be an object, is an array"],
    ),
    "a listed value": ("logging/setLevel params", "2025-06-18", {"level": "info"}, []),
    "a value not listed": (
        "prompts/get result",
        "2025-06-18",
        {"messages": [{"role": "system", "content": TEXT}]},
        ['/result/messages/0/role should be "user" or "assistant", is "system"'],
    ),
    "a pointer escapes what it must": (
        "tools/call params",
        "2026-07-28",
        {"name": "add", "_meta": {**META, "io.modelcontextprotocol/logLevel": 3}},
        [
            '/params/_meta/io.modelcontextprotocol~1logLevel should be "debug", "info", "notice", "warning", '
            '"error", "critical", "alert" or "emergency", is a number'
        ],
    ),
}

NUMBERS: dict[str, Case] = {
    "any number will do": (
        "notifications/progress params",
        "2025-06-18",
        {"progressToken": "t", "progress": 0.5, "total": 10},
        [],
    ),
    "true is no number": (
        "notifications/progress params",
        "2025-06-18",
        {"progressToken": True, "progress": True},
        [
            "/params/progressToken should be a string or an integer, is true",
            "/params/progress should be a number, is true",
        ],
    ),
    "1.0 is an integer": ("notifications/cancelled params", "2025-06-18", {"requestId": 1.0}, []),
    "1.5 is none": (
        "notifications/cancelled params",
        "2025-06-18",
        {"requestId": 1.5},
        ["/params/requestId should be an integer, is 1.5"],
    ),
    "a fraction where the prose asks for none": (
        "completion/complete result",
        "2025-06-18",
        {"completion": {"values": [], "total": 2.5}},
        [],
    ),
    "a lifetime may not be negative": (
        "tools/list result",
        "2026-07-28",
        {**FRESH, "tools": [], "ttlMs": -1},
        ["/result/ttlMs should be an integer of 0 or more, is -1"],
    ),
    "out of range": (
        "sampling/createMessage params",
        "2024-11-05",
        {"messages": [], "maxTokens": 9, "modelPreferences": {"costPriority": 1.2, "speedPriority": "1"}},
        [
            "/params/modelPreferences/costPriority should be a number from 0 to 1, is 1.2",
            "/params/modelPreferences/speedPriority should be a number from 0 to 1, is a string",
        ],
    ),
    "null, where it is a value": ("tasks/get result", "2025-11-25", TASK, []),
    "a number or null": (
        "tasks/get result",
        "2025-11-25",
        {**TASK, "ttl": "1"},
        ["/result/ttl should be a number or null, is a string"],
    ),
}

ABSENCE: dict[str, Case] = {
    "params that may be left out": ("tools/list params", "2025-11-25", ABSENT, []),
    "params that may not": ("tools/call params", "2025-11-25", ABSENT, ["/params is missing"]),
    "params that may not, all of them optional": (
        "notifications/cancelled params",
        "2025-11-25",
        ABSENT,
        ["/params is missing"],
    ),
    "the id of a cancelled request, in one revision": (
        "notifications/cancelled params",
        "2025-11-25",
        {},
        [],
    ),
    "one of several params": ("elicitation/create params", "2025-11-25", ABSENT, ["/params is missing"]),
    "every request of 2026-07-28 has params": (
        "tools/list params",
        "2026-07-28",
        ABSENT,
        ["/params is missing"],
    ),
    "they have metadata": ("tools/list params", "2026-07-28", {}, ["/params/_meta is missing"]),
    "and it says two things": (
        "tools/list params",
        "2026-07-28",
        {"_meta": {}},
        [
            "/params/_meta/io.modelcontextprotocol~1protocolVersion is missing",
            "/params/_meta/io.modelcontextprotocol~1clientCapabilities is missing",
        ],
    ),
    "metadata before": ("tools/list params", "2025-11-25", {"_meta": {"progressToken": 1, "x": 2}}, []),
    "metadata is an object": (
        "ping result",
        "2025-11-25",
        {"_meta": None},
        ["/result/_meta should be an object, is null"],
    ),
    "an empty result": ("ping result", "2025-11-25", {}, []),
    "every result of 2026-07-28 has a type": (
        "completion/complete result",
        "2026-07-28",
        {"completion": {"values": []}},
        ["/result/resultType is missing"],
    ),
    "a method nobody defines": ("tools/remove params", "2025-11-25", 7, []),
    "a method of another revision": ("server/discover result", "2025-11-25", {}, []),
    "a notification has no result": ("notifications/progress result", "2025-11-25", 7, []),
}

CONTENT: dict[str, Case] = {
    "one of each": (
        "tools/call result",
        "2025-06-18",
        {
            "content": [
                TEXT,
                {"type": "image", "data": "", "mimeType": "image/png"},
                {"type": "audio", "data": "", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "x:y", "name": "y"},
                {"type": "resource", "resource": {"uri": "x:y", "text": ""}},
            ]
        },
        [],
    ),
    "the variant tells what is missing": (
        "tools/call result",
        "2025-06-18",
        {"content": [{"type": "image", "data": ""}]},
        ["/result/content/0/mimeType is missing"],
    ),
    "no type": (
        "tools/call result",
        "2024-11-05",
        {"content": [{"text": "hi"}]},
        ["/result/content/0/type is missing"],
    ),
    "a type that is no string": (
        "tools/call result",
        "2024-11-05",
        {"content": [{"type": 1}]},
        ['/result/content/0/type should be "text", "image" or "resource", is a number'],
    ),
    "a type of a later revision": (
        "tools/call result",
        "2024-11-05",
        {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]},
        ['/result/content/0/type should be "text", "image" or "resource", is "audio"'],
    ),
    "no block": (
        "tools/call result",
        "2025-06-18",
        {"content": ["hi"]},
        ["/result/content/0 should be an object, is a string"],
    ),
    "text or blob": (
        "resources/read result",
        "2025-06-18",
        {"contents": [{"uri": "x:y", "text": ""}, {"uri": "x:y", "blob": ""}, {"uri": "x:y"}, 1]},
        [
            "/result/contents/2 should be an object with text or blob, is one without",
            "/result/contents/3 should be an object with text or blob, is a number",
        ],
    ),
    "text and blob, of which one will do": (
        "resources/read result",
        "2025-06-18",
        {"contents": [{"uri": "x:y", "text": 1, "blob": ""}]},
        [],
    ),
    "one block, before": (
        "sampling/createMessage result",
        "2025-06-18",
        {"role": "user", "model": "m", "content": [TEXT]},
        ["/result/content should be an object, is an array"],
    ),
    "one block or several, since": (
        "sampling/createMessage params",
        "2025-11-25",
        {
            "maxTokens": 1,
            "messages": [{"role": "user", "content": c} for c in (TEXT, [TEXT, {"type": "x"}], "hi")],
        },
        [
            "/params/messages/1/content/1/type should be "
            '"text", "image", "audio", "tool_use" or "tool_result", is "x"',
            "/params/messages/2/content should be an object or an array, is a string",
        ],
    ),
}

VARIANTS: dict[str, Case] = {
    "a task, when there are tasks": ("tools/call result", "2025-11-25", {"task": TASK}, []),
    "a broken task": (
        "tools/call result",
        "2025-11-25",
        {"task": {**TASK, "status": "done"}},
        [
            "/result/task/status should be "
            '"working", "input_required", "completed", "failed" or "cancelled", is "done"',
        ],
    ),
    "neither task nor content": ("tools/call result", "2025-11-25", {}, ["/result/content is missing"]),
    "a task, before there were any": (
        "tools/call result",
        "2025-06-18",
        {"task": TASK},
        ["/result/content is missing"],
    ),
    "an answer to sampling that is no object": (
        "sampling/createMessage result",
        "2025-11-25",
        "hi",
        ["/result should be an object, is a string"],
    ),
    "a form": ("elicitation/create params", "2025-11-25", FORM, []),
    "a page": (
        "elicitation/create params",
        "2025-11-25",
        {"mode": "url", "message": "?", "url": "https://x.y"},
        ["/params/elicitationId is missing"],
    ),
    "a page, later": (
        "elicitation/create params",
        "2026-07-28",
        {"mode": "url", "message": "?", "url": "https://x.y"},
        [],
    ),
    "another mode": (
        "elicitation/create params",
        "2025-11-25",
        {**FORM, "mode": "voice"},
        ['/params/mode should be "form" or "url", is "voice"'],
    ),
    "another mode, when there were none": (
        "elicitation/create params",
        "2025-06-18",
        {**FORM, "mode": "url"},
        [],
    ),
    "fields of a form": (
        "elicitation/create params",
        "2025-11-25",
        form(
            a={"type": "string", "format": "uri"},
            b={"type": "string", "enum": ["x"], "enumNames": 5},
            c={"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
            d={"type": "array", "items": {"type": "string", "enum": ["x"]}},
            e={"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
            f={"type": "integer", "default": 1},
        ),
        [],
    ),
    "broken fields of a form": (
        "elicitation/create params",
        "2025-06-18",
        form(a={"type": "object"}, b={"type": "string", "format": "ipv4"}, c={"type": "array"}),
        [
            "/params/requestedSchema/properties/a/type should be "
            '"string", "number", "integer" or "boolean", is "object"',
            "/params/requestedSchema/properties/b/format should be "
            '"email", "uri", "date" or "date-time", is "ipv4"',
            "/params/requestedSchema/properties/c/type should be "
            '"string", "number", "integer" or "boolean", is "array"',
        ],
    ),
    "what a form may be answered with": (
        "elicitation/create result",
        "2025-06-18",
        {"action": "accept", "content": {"a": 1, "b": True, "c": ["x"]}},
        ["/result/content/c should be a string, a number or a boolean, is an array"],
    ),
    "and since": (
        "elicitation/create result",
        "2025-11-25",
        {"action": "accept", "content": {"a": 1, "b": True, "c": ["x"], "d": [1]}},
        ["/result/content/d/0 should be a string, is a number"],
    ),
}

STATELESS: dict[str, Case] = {
    "a complete result": (
        "tools/call result",
        "2026-07-28",
        {"resultType": "complete", "content": [], "structuredContent": None},
        [],
    ),
    "without a type it is held to be complete": (
        "tools/call result",
        "2026-07-28",
        {},
        ["/result/resultType is missing", "/result/content is missing"],
    ),
    "a type that is no string": (
        "tools/call result",
        "2026-07-28",
        {"resultType": 1},
        ["/result/resultType should be a string, is a number"],
    ),
    "a type of an extension": ("tools/call result", "2026-07-28", {"resultType": "task", "taskId": "t"}, []),
    "input is required": (
        "resources/read result",
        "2026-07-28",
        {
            "resultType": "input_required",
            "requestState": 7,
            "inputRequests": {
                "a": {"method": "roots/list"},
                "b": {"method": "elicitation/create", "params": {"message": "?"}},
                "c": {"method": "tools/list"},
                "d": {"params": {}},
            },
        },
        [
            "/result/inputRequests/b/params/requestedSchema is missing",
            '/result/inputRequests/c/method should be "roots/list", "sampling/createMessage" or '
            '"elicitation/create", is "tools/list"',
            "/result/inputRequests/d/method is missing",
            "/result/requestState should be a string, is a number",
        ],
    ),
    "input is given": (
        "prompts/get params",
        "2026-07-28",
        {
            "name": "p",
            "_meta": META,
            "inputResponses": {
                "a": {"action": "decline"},
                "b": {"roots": [{"uri": 1}]},
                "c": {"result": {}},
                "d": {"role": "user", "content": TEXT, "model": "m"},
            },
        },
        [
            "/params/inputResponses/b/roots/0/uri should be a string, is a number",
            "/params/inputResponses/c should be an object with action, roots or model, is one without",
        ],
    ),
    "an input request has no metadata to speak of": (
        "sampling/createMessage params",
        "2026-07-28",
        {"messages": [], "maxTokens": 1, "_meta": 5},
        [],
    ),
    "nor has its answer a type": ("roots/list result", "2026-07-28", {"roots": []}, []),
    "an input request without a shape of its own": ("roots/list params", "2026-07-28", ABSENT, []),
    "a subscription ends with its id": (
        "subscriptions/listen result",
        "2026-07-28",
        {"resultType": "complete", "_meta": {}},
        ["/result/_meta/io.modelcontextprotocol~1subscriptionId is missing"],
    ),
}


@every(
    ("what", "revision", "value", "expected"),
    [
        pytest.param(*case, id=f"{family}: {name}")
        for family, cases in {
            "members": MEMBERS,
            "numbers": NUMBERS,
            "absence": ABSENCE,
            "content": CONTENT,
            "variants": VARIANTS,
            "stateless": STATELESS,
        }.items()
        for name, case in cases.items()
    ],
)
def test_the_violations_of_a_message(what: str, revision: str, value: Any, expected: list[str]) -> None:
    method, word = what.split()
    part: Part = "params" if word == "params" else "result"
    assert [f"{v.pointer} {v.clause}" for v in violations(value, (method, part), revision)] == expected


def test_a_shape_may_be_a_named_type() -> None:
    found = list(violations({"tools": {"listChanged": "yes"}}, "ServerCapabilities", "2025-11-25"))
    assert found == [ShapeViolation("/tools/listChanged", "a boolean", "a string", "mismatch")]
    with pytest.raises(LookupError, match="no type Thing in 2025-11-25"):
        violations({}, "Thing", "2025-11-25")


def test_the_kinds_of_violation() -> None:
    content: Any = [{"type": "video"}, {}, 3]
    found = violations({"content": content}, ("tools/call", "result"), "2025-06-18")
    assert [v.kind for v in found] == ["unknown-variant", "missing", "mismatch"]


def test_the_number_of_violations_is_limited() -> None:
    tools: list[Any] = [{}] * 1000
    assert len(list(violations({"tools": tools}, ("tools/list", "result"), "2025-06-18"))) == LIMIT


# The tables themselves.

EVERY_TYPE = TYPES + INPUT
BLOCKS = [block for text in (EVERY_TYPE, MESSAGES) for blocks in read(text).values() for block in blocks]


@every("block", BLOCKS, ids=lambda block: f"{block.name} {block.revisions[:1]}")
def test_every_row_of_a_block_applies_in_some_revision(block: Block) -> None:
    assert block.revisions
    for row in block.rows:
        assert set(row.revisions) & set(block.revisions), row


def test_blocks_of_one_name_do_not_overlap() -> None:
    for text in (EVERY_TYPE, MESSAGES):
        for name, blocks in read(text).items():
            revisions = [revision for block in blocks for revision in block.revisions]
            assert len(revisions) == len(set(revisions)), name


def test_every_message_block_belongs_to_a_method() -> None:
    for name in read(MESSAGES):
        method, _, part = name.partition(" ")
        assert part in ("params", "result")
        assert method in ("request", "notification") or revisions_with(method), name


def test_every_type_is_used() -> None:
    words = [block.word for block in BLOCKS] + [row.type for block in BLOCKS for row in block.rows]
    used = set(re.findall(r"\b[A-Z]\w+", " ".join(words)))
    assert used == set(read(EVERY_TYPE))


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_message_of_a_revision_has_a_shape(revision: str) -> None:
    methods = {name.partition(" ")[0] for name in read(MESSAGES)} | {"ping"}
    methods = {name for name in methods if defined(name, revision)} | {*INPUT_REQUESTS.get(revision, ())}
    parts: tuple[Part, ...] = ("params", "result")
    for method in methods:
        for part in parts:
            list(violations({}, (method, part), revision))


def test_the_notation() -> None:
    blocks = read(
        """
# A comment.
Name = string|number       2025-11-25
Choice by kind             -           2025-03-26
    a     Thing
Thing
    ...Other               2026-07-28
    b?    'x'|'y'          2025-06-18  2025-11-25
    c??   Name             2025-06-18  2025-11-25
do/it params!
"""
    )
    late, early, span = since("2026-07-28"), ("2024-11-05",), ("2025-06-18",)
    assert blocks == {
        "Name": (Block("Name", "alias", "string|number", (), since("2025-11-25")),),
        "Choice": (Block("Choice", "by", "kind", (ShapeRow("a", "Thing", False, REVISIONS),), early),),
        "Thing": (
            Block(
                "Thing",
                "object",
                "",
                (
                    ShapeRow("...", "Other", False, late),
                    ShapeRow("b", "'x'|'y'", True, span),
                    ShapeRow("c", "Name|null", True, span),
                ),
                REVISIONS,
            ),
        ),
        "do/it params": (Block("do/it params", "object", "", (), REVISIONS, mandatory=True),),
    }
