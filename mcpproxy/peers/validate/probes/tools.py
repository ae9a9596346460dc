"""Calls that a server should refuse: of unknown tools, and with arguments that do not fit the schema.

Another probe compares two lists of tools. Of the listed tools, only those of ``walk.allowed_calls`` are
called.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
"""

from typing import Final

from mcpproxy.peers.validate.answers import Answer
from mcpproxy.peers.validate.errors import Skipped
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.walk import allowed_calls, ensure_tools_listed
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import shown

_UNKNOWN_NAME: Final = "mcpproxy-no-such-thing"

_WRONG_VALUES: Final[dict[str, JSON]] = {
    "string": {"no": "string"},
    "integer": "no integer",
    "number": "no number",
    "boolean": "no boolean",
    "array": "no array",
    "object": "no object",
}
"""By type of an argument: a value of another type, which lenient parsers do not accept either."""


async def _unknown_tool(context: ProbeContext) -> Conclusion:
    answer = await context.client.request("tools/call", {"name": _UNKNOWN_NAME, "arguments": {}})
    if answer.is_error:
        return passed(f"refused with {shown(answer.code)}", answer.frames)
    text = "with a tool execution error (isError)" if _has_failed(answer) else "as if it had worked"
    return context.violation(
        "TOOL-006/R-143", f"a call of a tool that does not exist was answered {text}", answer.frames
    )


async def _missing_argument(context: ProbeContext) -> Conclusion:
    await ensure_tools_listed(context)
    for name, arguments in allowed_calls(context):
        for left_out in _required_arguments(context, name):
            incomplete: JSONObject = {key: value for key, value in arguments.items() if key != left_out}
            text = f"{shown(name)} without its required argument {shown(left_out)}"
            return await _expect_refusal(context, name, incomplete, text)
    raise Skipped("no tool that may be called has a required argument")


async def _wrong_argument_type(context: ProbeContext) -> Conclusion:
    await ensure_tools_listed(context)
    for name, arguments in allowed_calls(context):
        for argument, schema in _properties(context, name).items():
            schema_type = member(schema, "type")
            if isinstance(schema_type, str) and schema_type in _WRONG_VALUES:
                wrong: JSONObject = {**arguments, argument: _WRONG_VALUES[schema_type]}
                text = f"{shown(name)} with {shown(argument)} that is no {schema_type}"
                return await _expect_refusal(context, name, wrong, text)
    raise Skipped("no tool that may be called has an argument of a plain type")


async def _expect_refusal(context: ProbeContext, name: str, arguments: JSONObject, text: str) -> Conclusion:
    """Call a tool with wrong arguments, which it should refuse; ``text`` describes the call for the user."""
    answer = await context.call(name, arguments)
    if answer.is_error:
        return passed(f"{text} was refused with {shown(answer.code)}", answer.frames)
    if _has_failed(answer):
        return passed(f"{text} failed (isError)", answer.frames)
    return context.violation("TOOL-008/R-145", f"{text} was called as if all were right", answer.frames)


async def _same_tools_again(context: ProbeContext) -> Conclusion:
    first = await context.client.request("tools/list")
    second = await context.client.request("tools/list")
    frames = (*first.frames, *second.frames)
    if first.is_error and second.is_error:
        raise Skipped(f"because tools/list is refused: {first.refusal}")
    if first.members.get("tools") == second.members.get("tools"):
        return passed("two lists are the same", frames)
    return remarked("tools/list says one thing, and another a moment later", frames)


def _required_arguments(context: ProbeContext, name: str) -> list[str]:
    required = _input_schema(context, name).get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _properties(context: ProbeContext, name: str) -> JSONObject:
    properties = _input_schema(context, name).get("properties")
    return properties if isinstance(properties, dict) else {}


def _input_schema(context: ProbeContext, name: str) -> JSONObject:
    tool = next((tool for tool in context.inventory.tools if tool.get("name") == name), None)
    schema = tool.get("inputSchema") if tool is not None else None
    return schema if isinstance(schema, dict) else {}


def _has_failed(answer: Answer) -> bool:
    return answer.members.get("isError") is True


PROBES: Final = (
    Probe(
        "unknown-tool",
        "tools",
        "A call of a tool that does not exist is refused with an error of JSON-RPC.",
        _unknown_tool,
        rules=("TOOL-006",),
        needs=("tools",),
    ),
    Probe(
        "missing-argument",
        "tools",
        "A call that lacks a required argument fails.",
        _missing_argument,
        rules=("TOOL-007", "TOOL-008"),
        needs=("tools",),
    ),
    Probe(
        "wrong-argument-type",
        "tools",
        "A call with an argument of another type than the schema says fails.",
        _wrong_argument_type,
        rules=("TOOL-007", "TOOL-008"),
        needs=("tools",),
    ),
    Probe(
        "same-tools-again",
        "tools",
        "tools/list says the same a second time.",
        _same_tools_again,
        rules=("TOOL-012", "TOOL-013"),
        needs=("tools",),
    ),
)
