"""What somebody asks before a tool is registered or an answer leaves: pure questions about one object."""

import subprocess
import sys

import pytest

from mcpproxy import protocol
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.revisions import REVISIONS, since
from mcpproxy.protocol.single_objects import KINDS

TOOL: JSON = {
    "name": "add",
    "inputSchema": {"type": "object", "x-order": ["a"], "properties": {"a": {"type": "number"}}},
    "_meta": {"example.com/owner": "us"},
}


def test_a_tool_as_specified_has_no_extensions() -> None:
    assert protocol.extensions(TOOL, "tool", "2025-06-18") == []


@pytest.mark.parametrize(
    ("kind", "obj", "found"),
    [
        ("tool", {"name": "add", "inputSchema": {}, "x-cost": 3}, ["/x-cost"]),
        (
            "tool",
            {"name": "add", "inputSchema": {}, "annotations": {"hidden": True}},
            ["/annotations/hidden"],
        ),
        (
            "tool",
            {"name": "add", "icons": [{"src": "https://example.com/i.png", "alt": "i"}]},
            ["/icons/0/alt"],
        ),
        ("resource", {"uri": "file:///a", "name": "a", "a/b": 1}, ["/a~1b"]),
        ("prompt", {"name": "p", "arguments": [{"name": "x", "type": "string"}]}, ["/arguments/0/type"]),
        ("server info", {"name": "s", "version": "1.0.0", "vendor": "us"}, ["/vendor"]),
        ("server capabilities", {"tools": {"listChanged": True, "lazy": True}}, ["/tools/lazy"]),
        ("content", {"type": "text", "text": "hello", "lang": "en"}, ["/lang"]),
        (
            "content",
            {"type": "resource", "resource": {"uri": "a:b", "text": "t", "size": 1}},
            ["/resource/size"],
        ),
        ("ToolAnnotations", {"title": "t", "cost": 1}, ["/cost"]),
        ("tool", "no object", []),
    ],
)
def test_undefined_members_are_extensions(kind: str, obj: JSON, found: list[str]) -> None:
    assert protocol.extensions(obj, kind, "2025-11-25") == found


def test_a_member_that_selects_a_type_and_is_no_text_is_not_taken_for_an_absent_one() -> None:
    form: dict[str, JSON] = {
        "message": "m",
        "requestedSchema": {"type": "object", "properties": {}},
        "more": 1,
    }
    assert protocol.extensions(form, "ElicitParams", "2025-11-25") == ["/more"]
    assert protocol.extensions({**form, "mode": 5}, "ElicitParams", "2025-11-25") == []


def test_a_member_is_an_extension_until_a_revision_defines_it() -> None:
    tool: JSON = {"name": "add", "inputSchema": {}, "outputSchema": {}}
    verdicts = {revision: protocol.extensions(tool, "tool", revision) for revision in REVISIONS}
    defined = {revision: list[str]() for revision in since("2025-06-18")}
    assert verdicts == {"2024-11-05": ["/outputSchema"], "2025-03-26": ["/outputSchema"], **defined}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_type_today(kind: str) -> None:
    assert protocol.extensions({}, kind) == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(LookupError, match="gizmo"):
        protocol.extensions({}, "gizmo")


def said(problems: list[protocol.Problem]) -> list[tuple[str, str]]:
    return [(problem.severity, problem.pointer) for problem in problems]


@pytest.mark.parametrize(
    ("info", "problems"),
    [
        ({"name": "server", "version": "1.2.3-rc.1+build"}, []),
        ({"name": "server", "version": "2024-11"}, [("info", "/version")]),
        ({"name": " ", "version": "1.0.0"}, [("error", "/name")]),
        ({"version": "1.0.0"}, [("error", "/name")]),
        ({"name": "server", "version": 1}, [("error", "/version")]),
        (None, [("error", "")]),
    ],
)
def test_server_info(info: JSON, problems: list[tuple[str, str]]) -> None:
    assert said(protocol.validate_server_info(info)) == problems


@pytest.mark.parametrize(
    ("params", "problems"),
    [
        ({"name": "add"}, []),
        ({"name": "add", "arguments": {}}, []),
        ({"name": "add", "arguments": None}, [("error", "/arguments")]),
        ({"name": "add", "arguments": []}, [("error", "/arguments")]),
        ({"name": ""}, [("error", "/name")]),
        ({"arguments": {}}, [("error", "/name")]),
        ([], [("error", "")]),
    ],
)
def test_tool_call(params: JSON, problems: list[tuple[str, str]]) -> None:
    assert said(protocol.validate_tool_call(params)) == problems


@pytest.mark.parametrize(
    ("result", "problems"),
    [
        ({"content": []}, []),
        ({"content": [{"type": "text", "text": "3"}], "isError": False}, []),
        ({"content": [{"text": "3"}]}, [("error", "/content/0/type")]),
        ({"content": [{"type": 3}]}, [("error", "/content/0/type")]),
        ({"content": [{"type": "text"}]}, [("error", "/content/0/text")]),
        ({"content": "3"}, [("error", "/content")]),
        ({"content": [3], "isError": "no"}, [("error", "/content/0"), ("error", "/isError")]),
        ({}, [("error", "/content")]),
        (None, [("error", "")]),
    ],
)
def test_tool_result(result: JSON, problems: list[tuple[str, str]]) -> None:
    assert said(protocol.validate_tool_result(result)) == problems


def test_nothing_is_loaded_before_the_first_use() -> None:
    program = "import sys, mcpproxy.protocol; print('mcpproxy.protocol.single_objects' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
