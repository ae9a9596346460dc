"""Where in the definition of a tool the place is that a service refused, and who wrote what is there."""

from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import token
from mcpproxy.read.prompt.report import ToolWay

_STEP: Final = pattern(r"[^.\[\]]+")
_SCHEMAS: Final = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema")
_PARTS: Final = ("name", "description", *_SCHEMAS)
_SCHEMA: Final = "/inputSchema"
_UNION: Final = pattern(r"\b(?:oneOf|anyOf|allOf)\b")


@slotted(frozen=True)
class RefusedPlace:
    """A place in a definition on the wire: ``pointer``, in its ``member``. ``did`` says what its author did.

    ``is_of_the_server`` is true for what is in the prompt as the server wrote it. ``is_sure`` is false if a
    host changed something in it and it is not known whether that was refused.
    """

    pointer: str
    member: str
    did: str
    is_of_the_server: bool
    is_sure: bool


def refused_place(within: str, said: str, tool: ToolWay) -> RefusedPlace | None:
    """Return the place that a service means by ``within``, as ``custom.input_schema.properties.at``.

    If that is a whole schema, the place is the keyword at its top that is not allowed there by the words
    ``said``. Where the schema ends before the place does, it is the last one that is there. ``None`` for one
    that is no part of a definition.
    """
    steps = _STEP.findall(within)
    if steps and steps[0] not in _PARTS:
        # The kind of the tool: "custom", "function", or a service's own name for it.
        steps = steps[1:]
    match steps:
        case ["name", *_]:
            return RefusedPlace("/name", "/name", "made a name", False, True)
        case ["description", *_]:
            is_same = tool.description.way == "same"
            did = "wrote a description" if is_same else "changed the description"
            return RefusedPlace("/description", "/description", did, is_same, True)
        case [first, *rest] if first in _SCHEMAS:
            inner = _as_far_as_there(tool.match.tool.schema, rest or _at_the_top(said, tool))
            changed = [change.pointer for change in tool.schema]
            within_it = any(f"{pointer}/".startswith(f"{inner}/") for pointer in changed)
            around_it = any(f"{inner}/".startswith(f"{pointer}/") for pointer in changed)
            is_own = not within_it and not around_it
            did = "wrote a schema" if is_own else "made a schema"
            return RefusedPlace(_SCHEMA + inner, _SCHEMA, did, is_own, is_own or around_it)
        case _:
            return None


def _at_the_top(said: str, tool: ToolWay) -> list[str]:
    """Return the one keyword at the top of a schema, on the wire and in the prompt, that is not allowed
    there."""
    offered = tool.match.offered.schema if tool.match.offered is not None else None
    there = [
        keyword
        for keyword in dict.fromkeys(_UNION.findall(said) if "top level" in said else ())
        if member(tool.match.tool.schema, keyword) is not None and member(offered, keyword) is not None
    ]
    return there if len(there) == 1 else []


def _as_far_as_there(schema: JSON, steps: list[str]) -> str:
    pointer, value = "", schema
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            break
        pointer += token(step)
    return pointer
