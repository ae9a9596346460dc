"""The name and the attributes of a call's span.

The names are those of the semantic conventions for MCP, in the version of ``SCHEMA_URL``; our own names begin
with ``mcpproxy.``. A call between the peers of ACP has the attributes of JSON-RPC only.

Source: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

from opentelemetry.util.types import AttributeValue

from mcpproxy.judge.session.outcomes import error_code
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.record.trace.records import Header
from mcpproxy.send.otel.open_call import CarryingExchange, Ending, OpenCall
from mcpproxy.send.otel.texts import Texts

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

Attributes = dict[str, AttributeValue]

_TARGETS: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""Method -> the attribute with its target. Other targets are URIs."""


def of_call(
    call: OpenCall, texts: Texts, header: Header, *, revision: str, is_acp: bool, content: bool
) -> Attributes:
    """Return the attributes of a request. ``revision`` is the protocol revision, empty if unknown.

    ``is_acp`` is whether the peers speak ACP. With ``content``, the arguments of tools and prompts are added.
    """
    method = texts.short(call.request.method)
    if is_acp:
        values: Attributes = {"rpc.system.name": "jsonrpc", "rpc.method": method}
    else:
        values = {"mcp.method.name": method}
        if call.target is not None:
            values[_TARGETS.get(call.request.method, "mcp.resource.uri")] = texts.short(call.target)
        if call.request.method == "tools/call":
            values["gen_ai.operation.name"] = "execute_tool"
        if revision:
            values["mcp.protocol.version"] = texts.short(revision)
    if call.request.id is not None:
        values["jsonrpc.request.id"] = texts.short(str(call.request.id))
    values |= of_transport(header)
    if call.exchange is not None:
        values["network.protocol.version"] = call.exchange.request.version
    if call.sender == "client":
        values |= of_server(header)
    if content and not is_acp:
        values |= _content_of_request(call, texts)
    return values


def of_transport(header: Header) -> Attributes:
    """Return the attributes of the transport between the peers."""
    if header.transport == "http":
        return {"network.transport": "tcp", "network.protocol.name": "http"}
    return {"network.transport": "pipe"}


def of_server(header: Header) -> Attributes:
    """Return the address of the server, if it is reached over HTTP and the command named it, else nothing."""
    try:
        parts = urlsplit(header.upstream)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    if not host:
        return {}
    return {"server.address": host, "server.port": port or (443 if parts.scheme == "https" else 80)}


def of_ending(call: OpenCall, ending: Ending, texts: Texts, *, content: bool) -> Attributes:
    """Return the attributes of the answer, or of the reason why there is none.

    With ``content``, the result of a tool is added.
    """
    values: Attributes = {}
    if isinstance(ending.message, ErrorResponse) and (code := error_code_text(ending.message)):
        values["rpc.response.status_code"] = code
    if call.exchange is not None and (status := call.exchange.status) >= 400:
        values["http.response.status_code"] = status
    if ending.error:
        values["error.type"] = ending.error
    # The conventions have a name only for the result of a tool that did not fail.
    if (
        content
        and isinstance(ending.message, Response)
        and call.request.method == "tools/call"
        and not ending.error
    ):
        values["gen_ai.tool.call.result"] = texts.content(ending.message.result)
    return values


def of_recording(
    call: OpenCall, ending: Ending, session: str, request_bytes: int, answer_bytes: int
) -> Attributes:
    """Return the attributes that lead back to the recording, such as frame numbers and sizes in bytes.

    ``session`` is the name of the call's session, empty if it has none.
    """
    values: Attributes = {
        "mcpproxy.request.frame": call.seq,
        "mcpproxy.request.size": request_bytes,
        "mcpproxy.sender": call.sender,
        "mcpproxy.outcome": ending.outcome.value,
    }
    if session:
        values["mcpproxy.session"] = session
    if ending.seq is not None:
        values["mcpproxy.answer.frame"] = ending.seq
    if ending.message is not None:
        values["mcpproxy.answer.size"] = answer_bytes
    if ending.by_proxy:
        values["mcpproxy.answered_by_proxy"] = True
    if call.findings:
        values["mcpproxy.findings"] = call.findings
    return values


def name_of(call: OpenCall, texts: Texts) -> str:
    """Return the name of a span: the method, and the tool or prompt. A URI would make too many names."""
    method = texts.short(call.request.method)
    if call.target is not None and call.request.method in _TARGETS:
        return f"{method} {texts.short(call.target)}"
    return method


def error_code_text(message: ErrorResponse | Response, method: str = "") -> str:
    """Return the code of an error as a text, empty without a code.

    A result of ``method`` may carry an error, too.
    """
    code = error_code(message, method)
    return "" if code is None else str(code)


def error_text(message: ErrorResponse) -> str:
    """Return the message of an error; empty if it has none."""
    error = message.error
    text = member(error, "message")
    return text if isinstance(text, str) else ""


def resumes(exchange: CarryingExchange) -> bool:
    """Whether the request of an exchange resumes an earlier stream."""
    return "last-event-id" in exchange.fields


def _content_of_request(call: OpenCall, texts: Texts) -> Attributes:
    arguments: JSON = call.params.get("arguments")
    if call.request.method == "tools/call" and arguments is not None:
        return {"gen_ai.tool.call.arguments": texts.content(arguments)}
    if call.request.method == "prompts/get" and isinstance(arguments, dict):
        prompt_arguments = cast("Mapping[str, JSON]", arguments)
        return {
            f"gen_ai.prompt.variable.{texts.short(name)}": texts.value(name, value)
            for name, value in prompt_arguments.items()
        }
    return {}
