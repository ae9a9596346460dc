"""The tools a server lists, and the schemas it gives them.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, member
from mcpproxy.checks.table import Decider, Family
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request, Response
from mcpproxy.protocol.jsonschema import FlawKind, flaws
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.session.frame import Severity
from mcpproxy.session.history import History

OUTPUT_SCHEMA: Final = since("2025-06-18")
"""The revisions in which a tool may have an outputSchema."""

INPUT: Final[Mapping[FlawKind, tuple[str, str]]] = {
    "not-an-object": ("PROTO-004", "R-128"),
    "missing-root-type": ("SCHEMA-001", "R-129"),
    "root-type-not-object": ("SCHEMA-002", "R-130"),
    "bad-type-name": ("SCHEMA-002", "R-131"),
    "properties-not-object": ("PROTO-004", "R-133"),
    "property-not-schema": ("PROTO-004", "R-133"),
    "boolean-property": ("PROTO-004", "R-133"),
    "required-not-strings": ("SCHEMA-004", "R-134"),
    "required-unknown-property": ("SCHEMA-005", "R-135"),
    "required-forbidden-property": ("SCHEMA-005", "R-135"),
    "no-properties": ("SCHEMA-003", "R-132"),
    "dialect": ("PROTO-004", "R-136"),
}
"""The rule and requirement that each kind of flaw breaks in an inputSchema."""

OUTPUT: Final[Mapping[FlawKind, tuple[str, str]]] = {
    **INPUT,
    "not-an-object": ("PROTO-004", "R-137"),
    "missing-root-type": ("PROTO-004", "R-137"),
    "root-type-not-object": ("PROTO-004", "R-137"),
}

DIALECTS: Final = since("2025-11-25")
"""The revisions that hold a tool's schemas to JSON Schema throughout; before, only the root is MCP's."""


def tool_name(passing: Passing, history: History) -> Iterator[Breach]:
    """PROTO-003"""
    for pointer, tool in _tools(passing):
        if not isinstance(tool, dict):
            said = f"{passing.sender} listed a tool that is {kind(tool)}, not an object"
        elif "name" not in tool:
            said = f"{passing.sender} listed a tool without a name"
        elif not isinstance(tool["name"], str):
            said = f"{passing.sender} listed a tool whose name is {kind(tool['name'])}, not a string"
        else:
            continue
        yield Breach("PROTO-003", "R-127", said, pointer if not isinstance(tool, dict) else pointer + "/name")


def tool_schemas(passing: Passing, history: History) -> Iterator[Breach]:
    """PROTO-004, SCHEMA-001, SCHEMA-002, SCHEMA-003, SCHEMA-004, SCHEMA-005"""
    for pointer, tool in _tools(passing):
        if isinstance(tool, dict):
            yield from _schema(passing, tool, "inputSchema", pointer)
            if "outputSchema" in tool and all(r in OUTPUT_SCHEMA for r in passing.candidates):
                yield from _schema(passing, tool, "outputSchema", pointer)


def _schema(passing: Passing, tool: JSONObject, name: str, at: str) -> Iterator[Breach]:
    of = f"the {name} of tool {shown(tool.get('name'))}"
    if name not in tool:
        yield Breach(
            "PROTO-004",
            "R-128",
            f"{passing.sender} listed tool {shown(tool.get('name'))} without an {name}",
            at,
        )
        return
    stateless = passing.candidates == ("2026-07-28",)
    table = INPUT if name == "inputSchema" else OUTPUT
    for flaw in flaws(tool[name], object_root=name == "inputSchema" or not stateless):
        if flaw.kind == "boolean-property" and stateless:
            continue
        where = (
            f"{flaw.pointer.removeprefix('/')} "
            if flaw.pointer
            else (f"{flaw.keyword} " if flaw.keyword else "")
        )
        said = f"in {of}, {where}{flaw.what}" if where else f"{of} {flaw.what}"
        at_most: Severity | None = None
        deep = flaw.pointer.count("/") > (2 if flaw.kind == "property-not-schema" else 1)
        nested = deep and not all(r in DIALECTS for r in passing.candidates)
        if flaw.kind == "boolean-property" or nested:
            at_most = "warning"
        yield Breach(*table[flaw.kind], said, f"{at}/{name}{flaw.pointer}", at_most=at_most)


def _tools(passing: Passing) -> Iterator[tuple[str, JSON]]:
    """Each tool of a tools/list result or a sampling request, with its JSON Pointer."""
    match passing.message:
        case Response(result=dict() as result):
            listed, part = result.get("tools"), "result"
        case Request(params=dict() as params):
            listed, part = member(params, "tools"), "params"
        case _:
            return
    if isinstance(listed, list):
        for index, tool in enumerate(listed):
            yield f"{passing.at}/{part}/tools/{index}", tool


FAMILY: Final = Family(
    checks=(
        Decider(("PROTO-003",), tool_name, ("response",), ("tools/list",)),
        Decider(("PROTO-003",), tool_name, ("request",), ("sampling/createMessage",)),
        Decider(
            ("PROTO-004", "SCHEMA-001", "SCHEMA-002", "SCHEMA-003", "SCHEMA-004", "SCHEMA-005"),
            tool_schemas,
            ("response",),
            ("tools/list",),
        ),
    ),
)
