"""Headers that repeat parts of the body of a stateless request: a server must refuse a mismatch.

A stateless request belongs to no session, and names its revision itself. Each request is valid except for the
changed header; two probes check that valid variants are accepted. The probes send ``server/discover``, ask
for a prompt or a resource, or call a tool that may be called (``walk.allowed_calls``).

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Final

from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.errors import Skipped
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, ProbeFunction, passed
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.walk import allowed_calls
from mcpproxy.peers.validate.raw_requests import (
    Headers,
    RawAnswer,
    ask,
    cited,
    speaks_both_eras,
    streamable,
    with_headers,
)
from mcpproxy.peers.validate.sample import sample
from mcpproxy.protocol.error_message import HEADER_MISMATCH
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member, target_of
from mcpproxy.protocol.mirrors import Mirrors, Path
from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown

_PAGE: Final = "2026-07-28/basic/transports/streamable-http"
_VERSION_HEADER: Final = "MCP-Protocol-Version"
_RULES: Final = ("HDR-007",)

HeaderChange = Callable[[Headers], Headers]


async def _expect_refusal(
    context: ProbeContext, message: JSONObject, change: HeaderChange, what: str
) -> Conclusion:
    """Send a request with changed headers, which do not match its body; the server must refuse it.

    ``what`` describes the request for the user.
    """
    wire = streamable(context)
    reply = await ask(context, message, change(wire.headers(dumps(message))))
    if reply.status == 400 and reply.code == HEADER_MISMATCH:
        return passed(reply.outcome, reply.frames)
    return _other_outcome(context, reply, f"{what} was {reply.instead_of('400 and -32020')}")


def _other_outcome(context: ProbeContext, reply: RawAnswer, text: str) -> Conclusion:
    """Return the conclusion on an answer that is not the required refusal."""
    violation = context.violation("HDR-007/R-236", text, reply.frames)
    if reply.is_served or reply.code is None:
        return violation
    # The server may have refused the request for another reason, which it checks first.
    return Conclusion("warning", text, reply.frames, violation.rule, violation.source)


async def _wrong_version(context: ProbeContext) -> Conclusion:
    what = f"a request of {context.revision} with {_VERSION_HEADER}: {STATEFUL[-1]}"
    message = context.client.request_object("server/discover")
    return await _expect_refusal(
        context, message, lambda headers: _with_header(headers, _VERSION_HEADER, STATEFUL[-1]), what
    )


async def _no_version(context: ProbeContext) -> Conclusion:
    is_dual = await speaks_both_eras(context)
    message = context.client.request_object("server/discover")
    headers = _without_header(streamable(context).headers(dumps(message)), _VERSION_HEADER)
    reply = await ask(context, message, headers)
    if reply.status == 400 and reply.code == HEADER_MISMATCH:
        return passed(reply.outcome, reply.frames)
    if is_dual:
        return passed(f"{reply.outcome}, which a server of both eras may do", reply.frames)
    return _other_outcome(
        context, reply, f"a request without {_VERSION_HEADER} was {reply.instead_of('-32020')}"
    )


async def _wrong_method(context: ProbeContext) -> Conclusion:
    what = "server/discover with Mcp-Method: tools/list"
    message = context.client.request_object("server/discover")
    return await _expect_refusal(
        context, message, lambda headers: _with_header(headers, "Mcp-Method", "tools/list"), what
    )


async def _no_method(context: ProbeContext) -> Conclusion:
    what = "a request without Mcp-Method"
    message = context.client.request_object("server/discover")
    return await _expect_refusal(
        context, message, lambda headers: _without_header(headers, "Mcp-Method"), what
    )


async def _wrong_name(context: ProbeContext) -> Conclusion:
    method, params = named_request(context)
    message = context.client.request_object(method, params)
    what = f"{method} of {shown(target_of(method, params))} with Mcp-Name: mcpproxy-other"
    return await _expect_refusal(
        context, message, lambda headers: _with_header(headers, "Mcp-Name", "mcpproxy-other"), what
    )


async def _no_name(context: ProbeContext) -> Conclusion:
    method, params = named_request(context)
    message = context.client.request_object(method, params)
    return await _expect_refusal(
        context, message, lambda headers: _without_header(headers, "Mcp-Name"), f"{method} without Mcp-Name"
    )


async def _encoded_name(context: ProbeContext) -> Conclusion:
    method, params = named_request(context)
    message = context.client.request_object(method, params)
    headers = streamable(context).headers(dumps(message))
    value = f"=?base64?{b64encode(str(target_of(method, params)).encode()).decode()}?="
    reply = await ask(context, message, _with_header(headers, "Mcp-Name", value))
    if reply.code != HEADER_MISMATCH:
        return passed(reply.outcome, reply.frames)
    text = f"an Mcp-Name in base64 was {reply.outcome}; it must be decoded before it is compared"
    return cited("failed", text, reply.frames, f"{_PAGE}#value-encoding")


async def _name_case(context: ProbeContext) -> Conclusion:
    message = context.client.request_object("server/discover")
    headers = streamable(context).headers(dumps(message))
    reply = await ask(context, message, [(name.swapcase(), value) for name, value in headers])
    if reply.is_served:
        return passed(reply.outcome, reply.frames)
    text = f"headers with names like mCP-pROTOCOL-vERSION were {reply.outcome}; case must not matter"
    return cited("failed", text, reply.frames, f"{_PAGE}#case-sensitivity")


async def _no_param(context: ProbeContext) -> Conclusion:
    message, _, header = _mirrored_call(context)
    what = f"a call without Mcp-Param-{header}, which its tool asks for,"
    return await _expect_refusal(
        context, message, lambda headers: _without_header(headers, f"Mcp-Param-{header}"), what
    )


async def _wrong_param(context: ProbeContext) -> Conclusion:
    message, value, header = _mirrored_call(context)
    other = "true" if value is False else "4711"
    what = f"a call whose argument is {shown(value)} with Mcp-Param-{header}: {other}"
    return await _expect_refusal(
        context, message, lambda headers: _with_header(headers, f"Mcp-Param-{header}", other), what
    )


def named_request(context: ProbeContext) -> tuple[str, JSONObject]:
    """Return the method and the params of a request that names a prompt, a resource or a tool.

    Raises:
        Skipped: the server has nothing that may be read or called.
    """
    for prompt in context.inventory.prompts:
        arguments = prompt.get("arguments")
        needs_arguments = any(
            member(argument, "required") is True
            for argument in (arguments if isinstance(arguments, list) else ())
        )
        if isinstance(prompt.get("name"), str) and not needs_arguments:
            return "prompts/get", {"name": prompt["name"]}
    for resource in context.inventory.resources:
        if isinstance(resource.get("uri"), str):
            return "resources/read", {"uri": resource["uri"]}
    for name, arguments in allowed_calls(context):
        return "tools/call", {"name": name, "arguments": arguments}
    raise Skipped("there is no prompt, no resource and no tool that only reads")


def _mirrored_call(context: ProbeContext) -> tuple[JSONObject, JSON, str]:
    """Return a call of a tool that requires an argument in a header.

    The result is the request, the value of that argument, and the name of the header without ``Mcp-Param-``.

    Raises:
        Skipped: there is no such tool that may be called, or the transport is not Streamable HTTP.
    """
    mirrors_of_tools = streamable(context).mirrors
    for name, arguments in allowed_calls(context):
        mirrors = mirrors_of_tools.get(name, Mirrors((), ()))
        if mirrors.headers and not mirrors.faults:
            path, header = mirrors.headers[0]
            tools = context.inventory.tools
            schema = next((tool.get("inputSchema") for tool in tools if tool.get("name") == name), None)
            value = member(arguments, *path)
            if value is None:
                value = sample(_schema_at(schema, path))
                _set_argument(arguments, path, value)
            message = context.client.request_object("tools/call", {"name": name, "arguments": arguments})
            return message, value, header
    raise Skipped("no tool that may be called wants an argument in a header")


def _schema_at(schema: JSON, path: Path) -> JSON:
    """Return the schema of the property at ``path``."""
    for name in path:
        schema = member(schema, "properties", name)
    return schema


def _set_argument(arguments: JSONObject, path: Path, value: JSON) -> None:
    for name in path[:-1]:
        inner = arguments.setdefault(name, {})
        arguments = inner if isinstance(inner, dict) else {}
    arguments[path[-1]] = value


def _with_header(headers: Headers, name: str, value: str) -> Headers:
    return [*_without_header(headers, name), (name, value)]


def _without_header(headers: Headers, name: str) -> Headers:
    return with_headers(headers, name)  # removes a header that is given without a value


def _row(name: str, what: str, run: ProbeFunction) -> Probe:
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
    _row("header-name-case", "Header names may be written in any case.", _name_case),
    _row("header-param-missing", "An argument that belongs in a header is missing there: -32020.", _no_param),
    _row("header-param-mismatch", "Another argument in the header than in the body: -32020.", _wrong_param),
)
