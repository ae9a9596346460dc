"""Headers that repeat parts of the body of a stateless request: a server must refuse a mismatch.

Each request is valid apart from the changed header. Requests with a name are for something that only reads.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Final

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.mirrors import Mirrors, Path, argument
from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown
from mcpproxy.validate.connection import dumps
from mcpproxy.validate.errors import Skipped
from mcpproxy.validate.outcome import Conclusion
from mcpproxy.validate.probe import Probe, Run, passed
from mcpproxy.validate.probe_context import ProbeContext
from mcpproxy.validate.probes.walk import to_call
from mcpproxy.validate.raw_requests import (
    Headers,
    RawAnswer,
    ask,
    cited,
    speaks_both_eras,
    streamable,
    with_headers,
)
from mcpproxy.validate.sample import sample

MISMATCH: Final = -32020

_PAGE: Final = "2026-07-28/basic/transports/streamable-http"
_VERSION: Final = "MCP-Protocol-Version"
_RULES: Final = ("HDR-007",)

HeaderChange = Callable[[Headers], Headers]


async def _refused(context: ProbeContext, message: JSONObject, change: HeaderChange, what: str) -> Conclusion:
    """Send a request whose headers do not match its body; it must be refused."""
    wire = streamable(context)
    found = await ask(context, message, change(wire.headers(dumps(message))))
    if found.status == 400 and found.code == MISMATCH:
        return passed(found.outcome, found.frames)
    return _other_outcome(context, found, f"{what} was {found.outcome}, not refused with 400 and -32020")


def _other_outcome(context: ProbeContext, found: RawAnswer, text: str) -> Conclusion:
    broken = context.violation("HDR-007/R-236", text, found.frames)
    if found.is_served or found.code is None:
        return broken
    # The server may have refused it for another reason that it checks first.
    return Conclusion("warning", text, found.frames, broken.rule, broken.source)


async def _wrong_version(context: ProbeContext) -> Conclusion:
    what = f"a request of {context.revision} with {_VERSION}: {STATEFUL[-1]}"
    message = context.client.request_object("server/discover")
    return await _refused(
        context, message, lambda headers: _with_header(headers, _VERSION, STATEFUL[-1]), what
    )


async def _no_version(context: ProbeContext) -> Conclusion:
    is_dual = await speaks_both_eras(context)
    message = context.client.request_object("server/discover")
    headers = with_headers(streamable(context).headers(dumps(message)), _VERSION)
    found = await ask(context, message, headers)
    if found.status == 400 and found.code == MISMATCH:
        return passed(found.outcome, found.frames)
    if is_dual:
        return passed(f"{found.outcome}, which it may do for older clients", found.frames)
    return _other_outcome(
        context, found, f"a request without {_VERSION} was {found.outcome}, not refused with -32020"
    )


async def _wrong_method(context: ProbeContext) -> Conclusion:
    what = "server/discover with Mcp-Method: tools/list"
    message = context.client.request_object("server/discover")
    return await _refused(
        context, message, lambda headers: _with_header(headers, "Mcp-Method", "tools/list"), what
    )


async def _no_method(context: ProbeContext) -> Conclusion:
    message = context.client.request_object("server/discover")
    return await _refused(
        context, message, lambda headers: with_headers(headers, "Mcp-Method"), "a request without Mcp-Method"
    )


async def _wrong_name(context: ProbeContext) -> Conclusion:
    method, params = named_request(context)
    message = context.client.request_object(method, params)
    what = f"{method} of {shown(_requested_name(params))} with Mcp-Name: mcpproxy-other"
    return await _refused(
        context, message, lambda headers: _with_header(headers, "Mcp-Name", "mcpproxy-other"), what
    )


async def _no_name(context: ProbeContext) -> Conclusion:
    method, params = named_request(context)
    message = context.client.request_object(method, params)
    return await _refused(
        context, message, lambda headers: with_headers(headers, "Mcp-Name"), f"{method} without Mcp-Name"
    )


async def _encoded_name(context: ProbeContext) -> Conclusion:
    method, params = named_request(context)
    message = context.client.request_object(method, params)
    headers = streamable(context).headers(dumps(message))
    value = f"=?base64?{b64encode(str(_requested_name(params)).encode()).decode()}?="
    found = await ask(context, message, _with_header(headers, "Mcp-Name", value))
    if found.code != MISMATCH:
        return passed(found.outcome, found.frames)
    text = f"an Mcp-Name in base64 was {found.outcome}; it must be decoded before it is compared"
    return cited("failed", text, found.frames, f"{_PAGE}#value-encoding")


async def _case(context: ProbeContext) -> Conclusion:
    message = context.client.request_object("server/discover")
    headers = streamable(context).headers(dumps(message))
    found = await ask(context, message, [(name.swapcase(), value) for name, value in headers])
    if found.is_served:
        return passed(found.outcome, found.frames)
    text = f"headers with names like mCP-pROTOCOL-vERSION were {found.outcome}; case must not matter"
    return cited("failed", text, found.frames, f"{_PAGE}#case-sensitivity")


async def _no_param(context: ProbeContext) -> Conclusion:
    message, _, header = _mirrored_call(context)
    what = f"a call without Mcp-Param-{header}, which its tool asks for,"
    return await _refused(
        context, message, lambda headers: with_headers(headers, f"Mcp-Param-{header}"), what
    )


async def _wrong_param(context: ProbeContext) -> Conclusion:
    message, value, header = _mirrored_call(context)
    other = "true" if value is False else "4711"
    what = f"a call whose argument is {shown(value)} with Mcp-Param-{header}: {other}"
    return await _refused(
        context, message, lambda headers: _with_header(headers, f"Mcp-Param-{header}", other), what
    )


def named_request(context: ProbeContext) -> tuple[str, JSONObject]:
    """A harmless request that refers to something by its name.

    Raises:
        Skipped: the server has nothing of that kind.
    """
    for prompt in context.inventory.prompts:
        arguments = prompt.get("arguments")
        needs = [
            one
            for one in (arguments if isinstance(arguments, list) else ())
            if isinstance(one, dict) and one.get("required") is True
        ]
        if isinstance(prompt.get("name"), str) and not needs:
            return "prompts/get", {"name": prompt["name"]}
    for resource in context.inventory.resources:
        if isinstance(resource.get("uri"), str):
            return "resources/read", {"uri": resource["uri"]}
    for name, arguments in to_call(context):
        return "tools/call", {"name": name, "arguments": arguments}
    raise Skipped("there is no prompt, no resource and no tool that only reads")


def _mirrored_call(context: ProbeContext) -> tuple[JSONObject, JSON, str]:
    """A call of a tool that requires an argument in a header: request, argument, name of the header."""
    listed = streamable(context).server.mirrors
    for name, arguments in to_call(context):
        wanted = listed.get(name, Mirrors((), ()))
        if wanted.headers and not wanted.faults:
            path, header = wanted.headers[0]
            schema = next(
                (one.get("inputSchema") for one in context.inventory.tools if one.get("name") == name), None
            )
            value = argument(arguments, path)
            if value is None:
                value = sample(_schema_at(schema, path))
                _set_argument(arguments, path, value)
            message = context.client.request_object("tools/call", {"name": name, "arguments": arguments})
            return message, value, header
    raise Skipped("no tool that may be called wants an argument in a header")


def _schema_at(schema: JSON, path: Path) -> JSON:
    for name in path:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        schema = properties.get(name) if isinstance(properties, dict) else None
    return schema


def _set_argument(arguments: JSONObject, path: Path, value: JSON) -> None:
    for name in path[:-1]:
        inner = arguments.setdefault(name, {})
        arguments = inner if isinstance(inner, dict) else {}
    arguments[path[-1]] = value


def _with_header(headers: Headers, name: str, value: str) -> Headers:
    return [*with_headers(headers, name), (name, value)]


def _requested_name(params: JSONObject) -> JSON:
    return params.get("name", params.get("uri"))


def _row(name: str, what: str, run: Run) -> Probe:
    return Probe(name, "transport", what, run, rules=_RULES, revisions=STATELESS, transports=("http",))


PROBES: Final = (
    _row(
        "header-version-mismatch", "Another version in the header than in the body: -32020.", _wrong_version
    ),
    _row("header-version-missing", "No MCP-Protocol-Version: -32020.", _no_version),
    _row("header-method-mismatch", "Another Mcp-Method than the method: -32020.", _wrong_method),
    _row("header-method-missing", "No Mcp-Method: -32020.", _no_method),
    _row("header-name-mismatch", "Another Mcp-Name than the name asked for: -32020.", _wrong_name),
    _row("header-name-missing", "No Mcp-Name: -32020.", _no_name),
    _row("header-name-encoded", "A base64 Mcp-Name is decoded before it is compared.", _encoded_name),
    _row("header-name-case", "Header names may be written in any case.", _case),
    _row("header-param-missing", "An argument that belongs in a header is missing there: -32020.", _no_param),
    _row("header-param-mismatch", "Another argument in the header than in the body: -32020.", _wrong_param),
)
