"""Find the place in a tool's definition that a model's service refused, and who wrote it.

A definition on the wire is as the server sent it; in the prompt it is as the host sent it to the model.
"""

from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import token
from mcpproxy.read.prompt.report import ToolWay

_STEP: Final = pattern(r"[^.\[\]]+")
# What services call a tool's schema, and the parts of a definition.
_SCHEMA_NAMES: Final = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema")
_PART_NAMES: Final = ("name", "description", *_SCHEMA_NAMES)
_SCHEMA_POINTER: Final = "/inputSchema"
_UNION: Final = pattern(r"\b(?:oneOf|anyOf|allOf)\b")


@slotted(frozen=True)
class RefusedPlace:
    """A place in a tool's definition on the wire.

    ``pointer`` is its JSON pointer in the definition. ``member`` is the pointer of the definition's member
    that holds it, such as ``/inputSchema``. ``did`` is a clause for what its author did, such as "wrote a
    schema". ``is_of_the_server`` is true if the prompt has the place as the server wrote it; a name always
    counts as the host's. ``is_sure`` is false if a host changed only something within the place, so that it
    is not known whether the service refused the server's part or the host's.
    """

    pointer: str
    member: str
    did: str
    is_of_the_server: bool
    is_sure: bool


def refused_place(within: str, said: str, tool: ToolWay) -> RefusedPlace | None:
    """Return the place that a service means by ``within``, such as ``custom.input_schema.properties.at``.

    If ``within`` is all of a schema, the place is the one top-level keyword that the service's message
    ``said`` does not allow, or else the schema. If the schema on the wire has only the beginning of the path,
    that beginning is the place. Return ``None`` if ``within`` is in no part of the definition.
    """
    steps = _STEP.findall(within)
    if steps and steps[0] not in _PART_NAMES:
        # The first step is the kind of tool: "custom", "function", or a service's own name for it.
        steps = steps[1:]
    match steps:
        case ["name", *_]:
            return RefusedPlace("/name", "/name", "made a name", False, True)
        case ["description", *_]:
            is_same = tool.description.way == "same"
            did = "wrote a description" if is_same else "changed the description"
            return RefusedPlace("/description", "/description", did, is_same, True)
        case [first, *rest] if first in _SCHEMA_NAMES:
            inner = _longest_present(tool.match.tool.schema, rest or _refused_top_keyword(said, tool))
            changed = [change.pointer for change in tool.schema]
            within_it = any(f"{pointer}/".startswith(f"{inner}/") for pointer in changed)
            around_it = any(f"{inner}/".startswith(f"{pointer}/") for pointer in changed)
            is_own = not within_it and not around_it
            did = "wrote a schema" if is_own else "made a schema"
            return RefusedPlace(_SCHEMA_POINTER + inner, _SCHEMA_POINTER, did, is_own, is_own or around_it)
        case _:
            return None


def _refused_top_keyword(said: str, tool: ToolWay) -> list[str]:
    """Return the union keyword that ``said`` does not allow at the top of the schema, as a path of one step.

    Return an empty path unless exactly one such keyword is there, on the wire and in the prompt.
    """
    offered = tool.match.offered.schema if tool.match.offered is not None else None
    present = [
        keyword
        for keyword in dict.fromkeys(_UNION.findall(said) if "top level" in said else ())
        if member(tool.match.tool.schema, keyword) is not None and member(offered, keyword) is not None
    ]
    return present if len(present) == 1 else []


def _longest_present(schema: JSON, steps: list[str]) -> str:
    """Return the pointer to the last of ``steps`` that leads to a value in ``schema``."""
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
