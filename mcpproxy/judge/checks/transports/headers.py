"""Stateless requests over HTTP: the headers that repeat values of the body, and the statuses of errors.

The ``data`` of two errors and the annotations of listed tools are checked here too, on any transport.

An intermediary acts on the headers and a server on the body, so headers and body must agree. A POST should
contain one message, so only the first request of an exchange is compared, or its first tool call.

Source:
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

from typing import Final

from mcpproxy.base.secret_names import names_secret
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, Violations, shortened
from mcpproxy.judge.checks.engine.http_facts import VERSIONS_DIFFER, WITH_FAULT
from mcpproxy.judge.checks.engine.rows import CONTENT, STATELESS, Check, HttpCheck, RuleFamily
from mcpproxy.judge.checks.stateless.era import shows_modern
from mcpproxy.judge.checks.stateless.servers import missing_meta
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.protocol import error_message
from mcpproxy.protocol.error_message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from mcpproxy.protocol.header_names import METHOD, NAME, PARAM_PREFIX, PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Response
from mcpproxy.protocol.message_parts import as_object, error_of, member, target_of, well_formed
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.mirrors import (
    Mirrors,
    decoded,
    encoding_fault,
    means_same,
    mirrored_arguments,
    read_mirrors,
)
from mcpproxy.protocol.request_headers import MCP_NAME_SOURCE, mcp_name
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.wording import token

# The client's headers


def protocol_version(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a version header that is missing (HDR-001) or differs from the body (PROTO-008 if both versions
    are known revisions, otherwise HDR-002).
    """
    for request in exchange.requests[:1]:
        body_version = member(request.params, "_meta", VERSION_KEY)
        header_version = exchange.fields.get(PROTOCOL_VERSION)
        if header_version is None:
            yield Violation("HDR-001", "R-230", "client sent a request without MCP-Protocol-Version")
        elif not isinstance(body_version, str) or header_version == body_version:
            continue  # STAT-001 reports a body without a version.
        else:
            problem = (
                f"client sent MCP-Protocol-Version: {shortened(header_version)} "
                f"with a request whose _meta says {shortened(body_version)}"
            )
            if header_version in REVISIONS and body_version in REVISIONS:
                yield Violation("PROTO-008", "R-231", problem, pointer="/params/_meta")
            else:
                yield Violation("HDR-002", "R-231", problem, pointer="/params/_meta")


def method_header(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report an Mcp-Method header that is missing, is there twice or differs from the body (HDR-003)."""
    for request in exchange.requests[:1]:
        header_values = exchange.fields.all(METHOD)
        if not header_values:
            problem = f"client sent {shortened(request.method)} without Mcp-Method"
        elif header_values != (request.method,):  # more than one header, or one with another method
            shown_values = shortened(", ".join(header_values))
            problem = f"client sent {shortened(request.method)} with Mcp-Method: {shown_values}"
        else:
            continue
        yield Violation("HDR-003", "R-232", problem, pointer="/method")


def name_header(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report an Mcp-Name header that is missing, is there twice, differs from the body or is badly encoded
    (HDR-004, HDR-006).
    """
    for request in exchange.requests[:1]:
        if (name := mcp_name(request.method, request.params)) is None:
            continue
        header, pointer = exchange.fields.get(NAME), f"/params/{MCP_NAME_SOURCE[request.method]}"
        if header is None:
            problem = f"client sent {request.method} without Mcp-Name: {shortened(name)}"
            yield Violation("HDR-004", "R-233", problem, pointer=pointer)
        elif len(exchange.fields.all(NAME)) > 1:
            yield Violation(
                "HDR-004", "R-233", f"client sent {request.method} with Mcp-Name twice", pointer=pointer
            )
        elif fault := encoding_fault(header):
            yield Violation("HDR-006", "R-235", f"client sent an Mcp-Name that {fault}", pointer=pointer)
        elif decoded(header) not in (name, name.strip(" \t")):
            problem = f"client sent {request.method} of {shortened(name)} with Mcp-Name: {shortened(header)}"
            yield Violation("HDR-004", "R-233", problem, pointer=pointer)


def parameter_headers(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report faults of the Mcp-Param headers of a tool call, which repeat some of its arguments (HDR-005,
    HDR-006, HDR-009, HDR-010).

    The tool's inputSchema says in annotations (x-mcp-header) which arguments are repeated. A call of a tool
    whose annotations are invalid is HDR-009. A call that repeats the headers for which it was refused, before
    the tools are listed again, is HDR-010.
    """
    request = next((r for r in exchange.requests if r.method == "tools/call"), None)
    if request is None:
        return
    name = target_of(request.method, request.params) or ""
    refused_call = history.header_mismatches.get((exchange.request.connection, name))
    if refused_call is not None and refused_call.headers == exchange.fields.starting(PARAM_PREFIX):
        problem = "client repeated a call that was refused for its headers, without listing the tools again"
        yield Violation("HDR-010", "R-239", problem, related=(refused_call.seq,))
    listed_headers = _required_headers(exchange, history, name)
    if listed_headers is None:
        return  # The recording has no list with this tool for this client.
    if listed_headers.faults:
        problem = f"client called {shortened(name)}, whose header annotations are invalid"
        yield Violation("HDR-009", "R-238", problem, pointer="/params/name")
        return
    arguments = member(request.params, "arguments")
    for path, header, value in mirrored_arguments(listed_headers, arguments):
        header_values = exchange.fields.all(PARAM_PREFIX + header.lower())
        pointer = "/params/arguments" + "".join(map(token, path))
        text = decoded(header_values[0]) if len(header_values) == 1 else None
        if len(header_values) == 1 and (fault := encoding_fault(header_values[0])):
            yield Violation(
                "HDR-006", "R-235", f"client sent an Mcp-Param-{header} that {fault}", pointer=pointer
            )
        elif value is None and header_values:
            problem = f"client sent Mcp-Param-{header} without the argument {'.'.join(path)}"
            yield Violation("HDR-005", "R-234", problem, pointer=pointer)
        elif value is not None and not header_values:
            problem = f"client sent the argument {'.'.join(path)} without Mcp-Param-{header}"
            yield Violation("HDR-005", "R-234", problem, pointer=pointer)
        elif value is not None and is_masked(header_values[0]) and names_secret(header):
            continue  # The recording masks the header, so it cannot be compared with the argument.
        elif value is not None and (text is None or not means_same(text, value)):
            problem = f"client sent Mcp-Param-{header} with another value than the argument {'.'.join(path)}"
            yield Violation("HDR-005", "R-234", problem, pointer=pointer)


def _required_headers(exchange: HttpExchange, history: HttpHistory, name: str) -> Mirrors | None:
    """Return the headers for the arguments of the tool ``name``, as listed to a client with this token.

    The result is ``None`` if no such list was seen.
    """
    key = (exchange.server, exchange.fields.get("authorization") or "")
    return history.mirrors.get(key, {}).get(name)


def unlisted_version(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a request with a version that the server did not list on this connection (PROTO-008)."""
    answer = history.modern_answers.get(exchange.request.connection)
    if answer is None or not answer.stateless_versions:
        return
    for request in exchange.requests[:1]:
        version = member(request.params, "_meta", VERSION_KEY)
        if (
            isinstance(version, str)
            and version not in answer.versions
            and request.method != "server/discover"
        ):
            version_list = shortened(", ".join(answer.versions))
            problem = (
                f"client requested version {shortened(version)}; frame {answer.seq} lists {version_list}"
            )
            requirement = "R-220" if answer.refused else "R-223"
            yield Violation(
                "PROTO-008", requirement, problem, related=(answer.seq,), candidates=answer.candidates
            )


# The server's answers


def accepted_mismatch(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a server that serves a request whose headers contradict its body (HDR-007).

    Only a *modern* server is judged: an answer has shown that it supports a stateless revision. A missing
    version header is reported only if the server supports no older revision, because other servers may treat
    the request as one of an older client.
    """
    head = exchange.response
    if head is None or not exchange.succeeded or "HDR-007" in exchange.broken_rules:
        return
    if exchange.server not in history.modern_servers and not shows_modern(exchange, frame):
        return
    related = (exchange.request.seq,)
    if _has_mismatch(exchange):
        problem = f"server served a request whose headers contradict its body, with {exchange.status}"
        yield Violation("HDR-007", "R-236", problem, related=related, frame=head.seq)
    elif "HDR-001" in exchange.broken_rules and exchange.server in history.modern_only:
        problem = f"server served a request without MCP-Protocol-Version, with {exchange.status}"
        related = (exchange.request.seq, history.modern_only[exchange.server])
        yield Violation("HDR-007", "R-236", problem, related=related, at_most="warning", frame=head.seq)


def refusal_with_other_code(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a refusal of contradicting headers with -32600, -32602 or -32603 instead of -32020 (HDR-007).

    As in ``accepted_mismatch``, only a modern server is judged.
    """
    if exchange.succeeded or not _has_mismatch(exchange) or exchange.server not in history.modern_servers:
        return
    if any(missing_meta(request.params) for request in exchange.requests):
        return  # The body is incomplete too, which the server may report with another code.
    for message in well_formed(frame.message):
        code = member(error_of(message), "code")
        if code in (INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR):
            problem = (
                f"server refused a request whose headers contradict its body with {code} instead of -32020"
            )
            yield Violation(
                "HDR-007",
                "R-236",
                problem,
                pointer="/error/code",
                related=(exchange.request.seq,),
                at_most="warning",
            )


def _has_mismatch(exchange: HttpExchange) -> bool:
    """Whether a header contradicts the body or is missing; a missing version header alone does not count."""
    if exchange.broken_rules & {"HDR-002", "HDR-003", "HDR-004", "HDR-005", "HDR-006"}:
        return True
    header = exchange.fields.get(PROTOCOL_VERSION)
    body_versions = [member(request.params, "_meta", VERSION_KEY) for request in exchange.requests[:1]]
    return header is not None and any(
        isinstance(version, str) and version != header for version in body_versions
    )


def error_status(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report an error whose HTTP status does not fit its code (ERR-002, PROTO-008, PROTO-009, HDR-007).

    The status of -32601 is judged only if a modern server sent it.
    """
    for message in well_formed(frame.message):
        if not isinstance(message, ErrorResponse):
            continue
        error, status = as_object(message.error), exchange.status
        problem = f"server sent error {member(error, 'code')} with status {status} instead of "
        match member(error, "code"):
            case error_message.METHOD_NOT_FOUND if (
                status != 404 and exchange.server in history.modern_servers
            ):
                yield Violation("ERR-002", "R-218", problem + "404", pointer="/error/code")
            case error_message.HEADER_MISMATCH if status != 400:
                yield Violation("HDR-007", "R-236", problem + "400", pointer="/error/code")
            case error_message.MISSING_CAPABILITY if status != 400:
                yield Violation("PROTO-009", "R-224", problem + "400", pointer="/error/code")
            case error_message.UNSUPPORTED_VERSION if status != 400:
                yield Violation("PROTO-008", "R-219", problem + "400", pointer="/error/code")
            case _:
                pass


def unsupported_version(context: MessageContext[ErrorResponse], history: History) -> Violations:
    """Report a refusal of a version whose ``data`` is missing or wrong (PROTO-008)."""
    message, request = context.message, context.answers
    error = as_object(message.error)
    if request is None or not request.stateless or member(error, "code") != UNSUPPORTED_VERSION:
        return
    version, data = member(request.params, "_meta", VERSION_KEY), member(error, "data")
    supported_versions, requested_version = member(data, "supported"), member(data, "requested")
    if not isinstance(supported_versions, list) or not isinstance(requested_version, str):
        problem = "server refused a version without saying which was requested and which are supported"
    elif isinstance(version, str) and requested_version != version:
        problem = (
            f"server refused version {shortened(requested_version)}; "
            f"the request asked for {shortened(version)}"
        )
    elif version in supported_versions:
        problem = f"server refused version {shortened(str(version))}, which it lists as supported"
    else:
        return
    yield Violation("PROTO-008", "R-219", problem, pointer=context.at + "/error/data", related=(request.seq,))


def missing_capability(context: MessageContext[ErrorResponse], history: History) -> Violations:
    """Report a refusal for a missing capability whose ``data`` is missing or wrong (PROTO-009)."""
    message, request = context.message, context.answers
    error = as_object(message.error)
    if request is None or not request.stateless or member(error, "code") != MISSING_CAPABILITY:
        return
    required_capabilities = member(error, "data", "requiredCapabilities")
    capabilities = as_object(member(request.params, "_meta", CAPABILITIES_KEY))
    if not isinstance(required_capabilities, dict):
        problem = "server refused because of missing capabilities without an object that names them"
    elif not required_capabilities:
        problem = "server refused because of missing capabilities and named none"
    elif capabilities is not None and _covers(capabilities, required_capabilities):
        problem = "server refused because of missing capabilities that the request declares"
    else:
        return
    yield Violation("PROTO-009", "R-224", problem, pointer=context.at + "/error/data", related=(request.seq,))


def _covers(declared: JSON, required: JSON) -> bool:
    """Whether ``declared`` contains all that ``required`` contains, at any depth."""
    if not isinstance(required, dict):
        return declared == required
    return isinstance(declared, dict) and all(
        name in declared and _covers(declared[name], value) for name, value in required.items()
    )


def header_annotations(context: MessageContext[Response], history: History) -> Violations:
    """Report a listed tool with an invalid x-mcp-header (HDR-008)."""
    message = context.message
    if context.answers is None or not context.answers.stateless or b"x-mcp-header" not in context.frame.raw:
        return
    tools = member(message.result, "tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        for pointer, fault in read_mirrors(member(tool, "inputSchema")).faults:
            name = shortened(str(member(tool, "name")))
            problem = f"server listed the tool {name} with an x-mcp-header that {fault}"
            yield Violation(
                "HDR-008", "R-237", problem, pointer=f"{context.at}/result/tools/{index}/inputSchema{pointer}"
            )


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-008",), unsupported_version, (ErrorResponse,)),
        Check(("PROTO-009",), missing_capability, (ErrorResponse,)),
        Check(("HDR-008",), header_annotations, (Response,), ("tools/list",)),
    ),
    http=(
        HttpCheck(("HDR-001", "HDR-002", "PROTO-008"), protocol_version, ("request",), STATELESS, ("POST",)),
        HttpCheck(("HDR-003",), method_header, ("request",), STATELESS, ("POST",)),
        HttpCheck(("HDR-004", "HDR-006"), name_header, ("request",), STATELESS, ("POST",)),
        HttpCheck(
            ("HDR-005", "HDR-006", "HDR-009", "HDR-010"),
            parameter_headers,
            ("request",),
            STATELESS,
            ("POST",),
        ),
        HttpCheck(("PROTO-008",), unlisted_version, ("request",), STATELESS, ("POST",)),
        HttpCheck(
            ("HDR-007",), accepted_mismatch, CONTENT, STATELESS, ("POST",), given=VERSIONS_DIFFER | WITH_FAULT
        ),
        HttpCheck(
            ("HDR-007",),
            refusal_with_other_code,
            ("body",),
            STATELESS,
            ("POST",),
            given=VERSIONS_DIFFER | WITH_FAULT,
        ),
        HttpCheck(
            ("ERR-002", "PROTO-008", "PROTO-009", "HDR-007"),
            error_status,
            CONTENT,
            STATELESS,
            ("POST",),
            given=WITH_FAULT,
        ),
    ),
)
