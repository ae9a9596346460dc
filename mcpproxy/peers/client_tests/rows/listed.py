"""Servers that offer more than a client needs to know: tasks, skills, apps, and content of each kind."""

from typing import Final

from mcpproxy.peers.client_tests.peer import TOOL, PeerRequest, ScriptedServer
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import Era, since

_BOTH: Final[tuple[Era, ...]] = ("stateful", "stateless")

_PAGE: Final = "ui://echo/page"
_PAGE_TYPE: Final = "text/html;profile=mcp-app"
"""The URI and the media type of a page of MCP Apps, which a host shows for its tool."""
_SKILL: Final = "skill://greeting/SKILL.md"
_PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""A PNG image of one pixel, in base64."""


def _task_tools(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_result(request, {"tools": [{**TOOL, "execution": {"taskSupport": "optional"}}]})


def _app_tools(peer: ScriptedServer, request: PeerRequest) -> None:
    page: JSONObject = {"resourceUri": _PAGE, "visibility": ["model", "app"]}
    peer.send_result(request, {"tools": [{**TOOL, "_meta": {"ui": page}}]})


def _app_pages(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_result(request, {"resources": [{"uri": _PAGE, "name": "page", "mimeType": _PAGE_TYPE}]})


def _app_page(peer: ScriptedServer, request: PeerRequest) -> None:
    if request.target == _PAGE:
        page: JSONObject = {"uri": _PAGE, "mimeType": _PAGE_TYPE, "text": "<!doctype html><p>echo</p>"}
        peer.send_result(request, {"contents": [page]})
    else:
        peer.refuse(request, -32602, "Resource not found")


def _skill_files(peer: ScriptedServer, request: PeerRequest) -> None:
    file: JSONObject = {"uri": _SKILL, "name": "greeting", "mimeType": "text/markdown"}
    peer.send_result(request, {"resources": [file]})


def _skill_file(peer: ScriptedServer, request: PeerRequest) -> None:
    if request.target == _SKILL:
        text = "---\nname: greeting\ndescription: How to greet\n---\n\nSay hello.\n"
        peer.send_result(request, {"contents": [{"uri": _SKILL, "mimeType": "text/markdown", "text": text}]})
    else:
        peer.refuse(request, -32602, "Resource not found")


def _no_skills(peer: ScriptedServer, request: PeerRequest) -> None:
    peer.send_result(request, {"skills": [], "ttlMs": 0, "cacheScope": "private"})


def _unknown_tool_members(peer: ScriptedServer, request: PeerRequest) -> None:
    odd: JSONObject = {
        "title": "Echo",
        "x-colour": "green",
        "annotations": {"readOnlyHint": True, "x-mood": ["calm"]},
        "icons": [{"src": f"data:image/png;base64,{_PIXEL}", "x-shape": None}],
        "_meta": {"example.com/a": {"b": [1]}},
    }
    peer.send_result(request, {"tools": [{**TOOL, **odd}], "x-more": [[]], "_meta": {"example.com/c": None}})


def _each_content(peer: ScriptedServer, request: PeerRequest) -> None:
    uri = "file:///srv/note.txt"
    notes: JSONObject = {"audience": ["user"], "priority": 0.5}
    newer: dict[str, list[JSONObject]] = {
        "2025-03-26": [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}],
        "2025-06-18": [{"type": "resource_link", "uri": uri, "name": "note"}],
    }
    contents: list[JSONObject] = [
        {"type": "text", "text": "done", "annotations": notes},
        {"type": "image", "data": _PIXEL, "mimeType": "image/png"},
        *(item for first, items in newer.items() if peer.revision in since(first) for item in items),
        {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": "a note"}},
        {"type": "resource", "resource": {"uri": uri, "mimeType": "image/png", "blob": _PIXEL}},
    ]
    peer.send_result(request, {"content": [*contents]})


LISTED: Final = (
    Scenario(
        "tasks-offered",
        "tools",
        "the server and its tool offer tasks",
        "tools/call",
        {"tools/list": _task_tools},
        capabilities={
            "tools": {},
            "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
        },
    ),
    Scenario(
        "app-offered",
        "tools",
        "the tool has a page of MCP Apps",
        "tools/call",
        {"tools/list": _app_tools, "resources/list": _app_pages, "resources/read": _app_page},
        capabilities={
            "tools": {},
            "resources": {},
            "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [_PAGE_TYPE]}},
        },
        eras=_BOTH,
    ),
    Scenario(
        "skills-offered",
        "tools",
        "the server offers skills, which are resources",
        "tools/call",
        {"resources/list": _skill_files, "resources/read": _skill_file, "skills/list": _no_skills},
        capabilities={
            "tools": {},
            "resources": {},
            "extensions": {"io.modelcontextprotocol/skills": {}},
        },
        eras=_BOTH,
    ),
    Scenario(
        "unknown-offers",
        "tools",
        "capabilities, the list and its tool have unknown members",
        "tools/call",
        {"tools/list": _unknown_tool_members},
        capabilities={"tools": {"x-speed": 3}, "x-more": {}, "experimental": {"example.com/a": {}}},
        eras=_BOTH,
    ),
    Scenario(
        "each-content",
        "tools",
        "a result has content of each kind",
        "tools/call",
        {"tools/call": _each_content},
        eras=_BOTH,
    ),
)
"""Servers that keep the protocol."""
