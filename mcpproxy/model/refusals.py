"""Why a service refused a request: the text of its error, and the tool that it means."""

from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.model.turns import ModelRequest, OfferedTool, ServiceRefusal
from mcpproxy.model.values import text_of
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object, member

_PLACE: Final = pattern(
    r"\btools(?:\.|\[)(?P<tool>\d{1,6})\]?"
    r"(?:\.(?P<group>function_?[dD]eclarations|tools)(?:\.|\[)(?P<member>\d{1,6})\]?)?"
    r"(?P<within>(?:\.\w+|\[\w+\])*)"
)
"""``tools.7.custom.input_schema``, ``tools[7].function.name``, ``tools[0].function_declarations[7].name``."""

_CONTEXT: Final = pattern(r"Invalid schema for function .{1,200}?: In context=\((?P<steps>[^()]{0,400})\)")
"""``Invalid schema for function 'find': In context=('properties', 'tags'), array schema missing items``."""

_STEP: Final = pattern(r"'([^']+)'")

_LONGEST: Final = 4000


def read_refusal(body: JSON) -> ServiceRefusal | None:
    """Read the body of an error in any dialect; ``None`` if it has no error."""
    holder = as_object(body[0] if isinstance(body, list) and body else body) or {}
    error = holder.get("error") or member(holder.get("response"), "error")
    if error is None and holder.get("type") == "error":
        error = holder
    if isinstance(error, str):
        return ServiceRefusal(error[:_LONGEST])
    if (told := as_object(error)) is None:
        return None
    message = text_of(told, "message")[:_LONGEST]
    return ServiceRefusal(message, _code(told), *_named_place(text_of(told, "param"), message))


def refused_tool(refusal: ServiceRefusal, request: ModelRequest) -> OfferedTool | None:
    """Return the tool of ``request`` that ``refusal`` means: by its place, else by its name in the text."""
    if refusal.tool:
        return next((tool for tool in request.tools if _stands_at(tool, refusal.tool)), None)
    by_length = sorted(request.tools, key=lambda tool: -len(tool.name))
    return next((tool for tool in by_length if _names(refusal.message, tool.name)), None)


def _code(error: JSONObject) -> str:
    code = error.get("code")
    return text_of(error, "status", "type") if not isinstance(code, str) else code


def _named_place(*texts: str) -> tuple[str, str]:
    """Return the pointer to the tool that a text names by its place, and what follows; empty if none does.

    A place in a schema may be given apart from the tool, which then has only its name in the text.
    """
    context = next(filter(None, map(_CONTEXT.search, texts)), None)
    steps = ".".join(("parameters", *_STEP.findall(context["steps"]))) if context else ""
    for text in texts:
        if found := _PLACE.search(text):
            pointer = f"/tools/{found['tool']}"
            if found["group"]:
                group = "tools" if found["group"] == "tools" else "functionDeclarations"
                pointer += f"/{group}/{found['member']}"
            within = found["within"].lstrip(".")
            is_whole = within.endswith("parameters")
            return pointer, within.removesuffix("parameters") + steps if steps and is_whole else within
    return "", steps


def _stands_at(tool: OfferedTool, place: str) -> bool:
    """Whether a tool stands at a place. Clients and services do not write the name of the group alike."""
    pointer = tool.pointer.replace("function_declarations", "functionDeclarations")
    return pointer in (place, f"{place}/function")


def _names(text: str, name: str) -> bool:
    """Whether ``text`` has the name in quotes."""
    return bool(name) and any(f"{quote}{name}{quote}" in text for quote in "'\"`")
