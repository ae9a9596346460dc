"""Validate one object of the protocol, such as a tool or a result, without a session.

These functions are for servers, gateways and registries that register tools or answer calls. ``extensions``
returns the members that the protocol does not define; the other functions return the object's problems. Of
these members, and of the differences of an object, or of an item in a result, from its schema, at most
``shapes.lookup.LIMIT`` are returned.

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
"""The revision that an object is compared with unless the caller names another."""

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
"""The kinds of object that ``extensions`` accepts, and the schema type of each."""

_SEMVER: Final = pattern(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z.-]+)?"
)
"""A version in the form of Semantic Versioning 2.0.0, https://semver.org."""


@slotted(frozen=True)
class Problem:
    """A problem of one member of an object, or of the object itself.

    ``pointer`` is the JSON Pointer of that member, empty for the object; ``message`` is a clause for people.
    An ``error`` breaks the protocol, an ``info`` does not.
    """

    severity: Literal["error", "info"]
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

    Each difference from the schema is an ``error``. If there is none, an empty name is an ``error``, and a
    version that does not follow Semantic Versioning is an ``info``.

    Raises:
        LookupError: ``revision`` is unknown.
    """
    problems = _shape_problems(info, "Implementation", revision)
    if problems or not isinstance(info, dict):
        return problems
    if not str(info["name"]).strip():
        problems.append(Problem("error", "/name", "the name is empty"))
    if not _SEMVER.fullmatch(str(info["version"])):
        text = f"the version {shown(info['version'])} is not of the form MAJOR.MINOR.PATCH"
        problems.append(Problem("info", "/version", text))
    return problems


def validate_tool_call(params: JSON) -> list[Problem]:
    """Return the problems of the params of a ``tools/call``: of their ``name`` and ``arguments``.

    ``arguments`` may be absent; if present, it must be an object.
    """
    if not isinstance(params, dict):
        return [Problem("error", "", f"the params are {kind(params)}, not an object")]
    problems: list[Problem] = []
    name = params.get("name")
    if not isinstance(name, str) or not name.strip():
        text = "the name is empty" if isinstance(name, str) else f"the name is {kind(name)}, not a string"
        problems.append(Problem("error", "/name", text if "name" in params else "the name is missing"))
    if "arguments" in params and not isinstance(params["arguments"], dict):
        text = f"the arguments are {kind(params['arguments'])}, not an object"
        problems.append(Problem("error", "/arguments", text))
    return problems


def validate_tool_result(result: JSON, revision: str = LATEST) -> list[Problem]:
    """Return the problems of a ``CallToolResult``: of ``content``, its items, and ``isError``.

    Raises:
        LookupError: ``revision`` is unknown, and there is an item to compare with it.
    """
    if not isinstance(result, dict):
        return [Problem("error", "", f"the result is {kind(result)}, not an object")]
    content = result.get("content")
    if not isinstance(content, list):
        text = "the content is missing" if "content" not in result else f"the content is {kind(content)}"
        return [Problem("error", "/content", f"{text}; it must be an array")]
    problems: list[Problem] = []
    for index, item in enumerate(content):
        pointer = f"/content/{index}"
        if not isinstance(item, dict):
            problems.append(Problem("error", pointer, f"the item is {kind(item)}, not an object"))
        elif not isinstance(item.get("type"), str):
            text = "has no type" if "type" not in item else f"has a type that is {kind(item['type'])}"
            problems.append(Problem("error", pointer + "/type", f"the item {text}; it must be a string"))
        else:
            problems += _shape_problems(item, "ContentBlock", revision, pointer)
    if "isError" in result and not isinstance(result["isError"], bool):
        problems.append(Problem("error", "/isError", f"isError is {kind(result['isError'])}, not a boolean"))
    return problems


def _shape_problems(value: JSON, shape: str, revision: str, pointer: str = "") -> list[Problem]:
    """Return a problem for each place in ``value`` that differs from the schema type ``shape``.

    ``pointer`` is the JSON Pointer of ``value`` in the object.
    """
    return [
        Problem(
            "error",
            pointer + violation.pointer,
            f"{violation.pointer.lstrip('/') or 'the object'} {violation.clause}",
        )
        for violation in violations(value, shape, revision)
    ]
