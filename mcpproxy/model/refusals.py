"""Read why a service refused a request: the text of its error, and the tools that it means."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.turns import ModelRequest, NamedPlace, OfferedTool, ServiceRefusal
from mcpproxy.model.values import text_of
from mcpproxy.protocol.jsonrpc import JSON, Flaw, JSONObject, read
from mcpproxy.protocol.message_parts import as_object, member

_PLACE: Final = pattern(
    r"\btools(?:\.|\[)(?P<tool>\d{1,6})\]?"
    r"(?:\.(?P<group>function_?[dD]eclarations|tools)(?:\.|\[)(?P<member>\d{1,6})\]?)?"
    r"(?P<within>(?:\.\w+|\[[^\[\]]{1,200}\])*)"
)
"""A place in a tool: ``tools.7.custom.input_schema``, ``tools[7].function.name``, or
``tools[0].function_declarations[7].parameters.properties[tags].items``."""

_FUNCTION: Final = pattern(
    r"Invalid schema for function (?P<quote>['\"`])(?P<name>.{1,200}?)(?P=quote)"
    r"(?:: In context=\((?P<steps>[^()]{0,400})\))?"
)
"""``Invalid schema for function 'find': In context=('properties', 'tags'), array schema missing items``. The
context is absent if the error is at the top of the schema."""

_STEP: Final = pattern(r"'([^']+)'")
"""One step of the path in such a context: ``'properties'``."""

_MOST_KEPT: Final = 4000
_MOST_READ: Final = 64 << 10
"""How many characters of an error are kept, and how many searched: an error may name many tools."""

_MOST_PLACES: Final = 256
"""How many places are read from one error at most."""


@slotted(frozen=True)
class MeantTool:
    """A tool that a refusal means. ``within`` is the place inside it, as in ``NamedPlace``.

    ``tool`` is ``None`` if the request has no tool at the place that the service names. ``said`` is the text
    about the tool. ``is_placed`` is false if the text has only the tool's name.
    """

    tool: OfferedTool | None
    within: str
    said: str
    is_placed: bool


def read_refusal(body: JSON) -> ServiceRefusal | None:
    """Read the body of an error answer in any dialect; ``None`` if it has no error as text or as object."""
    holder = as_object(body[0] if isinstance(body, list) and body else body) or {}
    error = holder.get("error") or member(holder.get("response"), "error")
    if error is None and holder.get("type") == "error":
        error = holder
    if isinstance(error, str):
        return ServiceRefusal(error[:_MOST_KEPT])
    if (error_object := as_object(error)) is None:
        return None
    error_object = _passed_on_error(error_object) or error_object
    message, param = text_of(error_object, "message"), text_of(error_object, "param")
    function = _FUNCTION.search(message[:_MOST_READ])
    steps = ".".join(("parameters", *_STEP.findall(function["steps"] or ""))) if function else ""
    return ServiceRefusal(
        message[:_MOST_KEPT],
        _error_code(error_object),
        tuple(_named_places(param, message[:_MOST_READ], steps)),
        function["name"] if function else "",
        steps,
    )


def meant_tools(refusal: ServiceRefusal, request: ModelRequest) -> Iterator[MeantTool]:
    """Yield the tools of ``request`` that ``refusal`` means: all that it names by place.

    If it names no place, yield the tool with the longest name among those whose name its message has in
    quotes; if ``refusal.name`` is given, only a tool of that name. Yield nothing if there is none.
    """
    for place in refusal.places:
        tool = next((tool for tool in request.tools if _is_at(tool, place.tool)), None)
        yield MeantTool(tool, place.within, place.said, is_placed=True)
    if refusal.places:
        return
    by_length = sorted(request.tools, key=lambda tool: -len(tool.name))
    meant = [tool for tool in by_length if refusal.name in ("", tool.name)]
    named = next((tool for tool in meant if _has_quoted(refusal.message, tool.name)), None)
    if named is not None:
        yield MeantTool(named, refusal.within, refusal.message, is_placed=False)


def _passed_on_error(error: JSONObject) -> JSONObject | None:
    """Return the error of the service behind a gateway that passes it on as JSON text (OpenRouter).

    Return ``None`` if there is no such text, it is longer than ``_MOST_READ``, or it has no error object.
    """
    raw = text_of(as_object(error.get("metadata")) or {}, "raw")
    value = read(raw.encode("utf-8", "surrogatepass")) if 0 < len(raw) <= _MOST_READ else None
    return None if isinstance(value, Flaw) else as_object(member(value, "error"))


def _error_code(error: JSONObject) -> str:
    code = error.get("code")
    return text_of(error, "status", "type") if not isinstance(code, str) else code


def _named_places(param: str, message: str, steps: str) -> Iterator[NamedPlace]:
    """Yield the first place in each tool that an error names, in ``param`` or in a line of its message.

    ``steps`` is the place in a schema, if the error gives it apart from the place of the tool. At most
    ``_MOST_PLACES`` places are yielded.
    """
    known: set[str] = set()
    texts = ((param, message[:_MOST_KEPT]), *((line, line[:_MOST_KEPT]) for line in message.splitlines()))
    for match, said in ((match, said) for text, said in texts for match in _PLACE.finditer(text)):
        pointer = f"/tools/{match['tool']}"
        if match["group"]:
            group = "tools" if match["group"] == "tools" else "functionDeclarations"
            pointer += f"/{group}/{match['member']}"
        if pointer not in known and len(known) < _MOST_PLACES:
            known.add(pointer)
            within = match["within"].lstrip(".")
            if steps and within.endswith("parameters"):
                within = within.removesuffix("parameters") + steps
            yield NamedPlace(pointer, within, said)


def _is_at(tool: OfferedTool, place: str) -> bool:
    """Whether a tool is at ``place``, or in its member ``function``.

    Clients and services spell ``functionDeclarations``, the array that may hold the tool, differently.
    """
    pointer = tool.pointer.replace("function_declarations", "functionDeclarations")
    return pointer in (place, f"{place}/function")


def _has_quoted(text: str, name: str) -> bool:
    """Whether ``text`` has ``name`` in quotes."""
    return bool(name) and any(f"{quote}{name}{quote}" in text for quote in "'\"`")
