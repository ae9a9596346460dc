"""Validate an object before a tool is registered or a call is answered.

Pure functions over one object, for servers, gateways and registries that have no session. ``extensions``
lists members that the protocol does not define; the other functions list problems.

Source: https://modelcontextprotocol.io/specification/2025-11-25/schema
"""

from collections.abc import Mapping
from typing import Final, Literal

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.shapes.lookup import extras, violations
from mcpproxy.protocol.wording import kind, shown

LATEST: Final = REVISIONS[-1]

KINDS: Final[Mapping[str, str]] = {
    "tool": "Tool",
    "resource": "Resource",
    "resource template": "ResourceTemplate",
    "prompt": "Prompt",
    "prompt argument": "PromptArgument",
    "server info": "Implementation",
    "client info": "Implementation",
    "server capabilities": "ServerCapabilities",
    "client capabilities": "ClientCapabilities",
    "content": "ContentBlock",
    "icon": "Icon",
    "root": "Root",
}
"""The accepted kinds of object, and the schema type of each."""

SEMVER: Final = pattern(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z.-]+)?"
)


@slotted(frozen=True)
class Problem:
    """One problem of an object: its severity, its place (a JSON Pointer) and its description."""

    severity: Literal["error", "warning", "info"]
    pointer: str
    message: str


def extensions(obj: JSON, kind: str, revision: str = LATEST) -> list[str]:
    """Return JSON Pointers of the members of ``obj`` that ``revision`` does not define for its ``kind``.

    ``kind`` is one of ``KINDS`` or the name of a type in the schema (``ToolAnnotations``). ``_meta`` and JSON
    Schemas may have any members, so they contain no extensions.

    Raises:
        LookupError: this revision has no such kind.
    """
    return list(extras(obj, KINDS.get(kind, kind), revision))


def validate_server_info(info: JSON, revision: str = LATEST) -> list[Problem]:
    """Return the problems of a ``serverInfo`` (or ``clientInfo``) object.

    An empty name is an error; a version that does not follow Semantic Versioning is an ``info``.
    """
    found = _shape_problems(info, "Implementation", revision)
    if found or not isinstance(info, dict):
        return found
    if not str(info["name"]).strip():
        found.append(Problem("error", "/name", "the name is empty"))
    if not SEMVER.fullmatch(str(info["version"])):
        text = f"the version {shown(info['version'])} is not of the form MAJOR.MINOR.PATCH"
        found.append(Problem("info", "/version", text))
    return found


def validate_tool_call(params: JSON) -> list[Problem]:
    """Return the problems of the params of a ``tools/call``: of their ``name`` and ``arguments``.

    ``arguments`` may be absent; if present, it must be an object.
    """
    if not isinstance(params, dict):
        return [Problem("error", "", f"the params are {kind(params)}, not an object")]
    found: list[Problem] = []
    name = params.get("name")
    if not isinstance(name, str) or not name.strip():
        text = "the name is empty" if isinstance(name, str) else f"the name is {kind(name)}, not a string"
        found.append(Problem("error", "/name", text if "name" in params else "the name is missing"))
    if "arguments" in params and not isinstance(params["arguments"], dict):
        text = f"the arguments are {kind(params['arguments'])}, not an object"
        found.append(Problem("error", "/arguments", text))
    return found


def validate_tool_result(result: JSON, revision: str = LATEST) -> list[Problem]:
    """Return the problems of a ``CallToolResult``: of its content items and of ``isError``."""
    if not isinstance(result, dict):
        return [Problem("error", "", f"the result is {kind(result)}, not an object")]
    content = result.get("content")
    if not isinstance(content, list):
        text = "the content is missing" if "content" not in result else f"the content is {kind(content)}"
        return [Problem("error", "/content", f"{text}; it is an array")]
    found: list[Problem] = []
    for index, item in enumerate(content):
        where = f"/content/{index}"
        if not isinstance(item, dict):
            found.append(Problem("error", where, f"the item is {kind(item)}, not an object"))
        elif not isinstance(item.get("type"), str):
            text = "has no type" if "type" not in item else f"has a type that is {kind(item['type'])}"
            found.append(Problem("error", where + "/type", f"the item {text}; it is a string"))
        else:
            found += _shape_problems(item, "ContentBlock", revision, where)
    if "isError" in result and not isinstance(result["isError"], bool):
        found.append(Problem("error", "/isError", f"isError is {kind(result['isError'])}, not a boolean"))
    return found


def _shape_problems(value: JSON, shape: str, revision: str, at: str = "") -> list[Problem]:
    return [
        Problem("error", at + v.pointer, f"{v.pointer.lstrip('/') or 'the object'} {v.clause}")
        for v in violations(value, shape, revision)
    ]
