"""The Agent Client Protocol: handshake, declared capabilities, known methods and paths.

The client is an editor, the server of the connection an agent. Both declare their capabilities in the
handshake. ``protocol/acp.py`` lists the capability that each method needs in each version. If the handshake
was not seen, nothing is reported as undeclared.

Source: https://agentclientprotocol.com/protocol/v1/initialization
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.basic.capabilities import initialize_seq
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, Check, DispatchKey, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender, Severity, other
from mcpproxy.judge.session.history import History
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.revisions import ACP
from mcpproxy.protocol.wording import kind, shown

NAMES: Final[Mapping[Sender, str]] = MappingProxyType({CLIENT: "client", SERVER: "agent"})
"""The names of the two sides in the texts of findings."""


@slotted()
class Declarations:
    """The capabilities that both sides declared; ``None`` until the result of initialize has arrived.

    ``agent`` also has the agent's ``authMethods``. ``version`` is the protocol version.
    """

    client: JSONObject | None = None
    agent: JSONObject | None = None
    version: str = ""

    def of(self, sender: Sender) -> JSONObject | None:
        """Return what this side declared."""
        return self.client if sender == CLIENT else self.agent


def remember_declarations(context: MessageContext, history: History) -> None:
    """Record what both sides declared. The member that contains the capabilities differs by version."""
    result = as_object(context.message.result) if isinstance(context.message, Response) else None
    if context.answers is not history.initialize or result is None or history.negotiated not in ACP:
        return
    params = context.answers.params if context.answers else None
    is_first_version = history.negotiated == acp.FIRST
    declarations = history.of(Declarations)
    declarations.version = history.negotiated
    declarations.client = (
        as_object(member(params, "clientCapabilities" if is_first_version else "capabilities")) or {}
    )
    agent_capabilities = (
        as_object(member(result, "agentCapabilities" if is_first_version else "capabilities")) or {}
    )
    declarations.agent = {**agent_capabilities, "authMethods": result.get("authMethods")}


def _declarations(history: History) -> Declarations | None:
    """Return the declarations; ``None`` if they are unknown or may have changed in a gap."""
    declarations = history.of(Declarations)
    return None if history.has_gap or declarations.agent is None else declarations


# Undeclared features

_CAPABILITY_RULES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "loadSession": ("ACP-002", "A-005"),
        "sessionCapabilities.resume": ("ACP-002", "A-006"),
        "sessionCapabilities.close": ("ACP-002", "A-007"),
        "sessionCapabilities.list": ("ACP-002", "A-008"),
        "sessionCapabilities.delete": ("ACP-002", "A-009"),
        "session.delete": ("ACP-002", "A-009"),
        "session": ("ACP-002", "A-010"),
        "auth.logout": ("ACP-002", "A-011"),
        "authMethods": ("ACP-002", "A-012"),
        "fs.readTextFile": ("ACP-005", "A-015"),
        "fs.writeTextFile": ("ACP-005", "A-015"),
        "terminal": ("ACP-005", "A-016"),
        "elicitation.form": ("ACP-005", "A-017"),
        "elicitation.url": ("ACP-005", "A-017"),
    }
)
"""By capability: the rule and the requirement that a use without declaration breaks."""


def undeclared_method(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a request for a method that the other side did not declare (ACP-002, ACP-005)."""
    message, declarations = context.message, _declarations(history)
    if declarations is None:
        return
    definition = acp.method(message.method, declarations.version)
    capability = acp.needed_capability(message.method, declarations.version)
    if message.method == "elicitation/create":
        mode = member(message.params, "mode")
        capability = f"elicitation.{mode}" if mode in ("form", "url") else None
    receiver_capabilities = declarations.of(other(context.sender))
    if (
        capability is None
        or receiver_capabilities is None
        or definition is None
        or definition.sender != context.sender
    ):
        return
    if not acp.declares(receiver_capabilities, capability):
        receiver = NAMES[other(context.sender)]
        problem = (
            f"{NAMES[context.sender]} sent {message.method}, but the {receiver} never declared {capability}"
        )
        yield Violation(
            *_CAPABILITY_RULES[capability],
            problem,
            pointer=context.at + "/method",
            related=initialize_seq(history),
        )


def undeclared_transport(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report MCP servers on transports that the agent did not declare (ACP-001), once per transport."""
    message, declarations = context.message, _declarations(history)
    if context.sender != CLIENT or declarations is None or declarations.agent is None:
        return
    servers = member(message.params, "mcpServers")
    reported: set[str] = set()
    for index, server in enumerate(servers if isinstance(servers, list) else []):
        transport = server.get("type", "stdio") if isinstance(server, dict) else None
        if not isinstance(transport, str) or transport in reported:
            continue
        if (fault := _transport_fault(transport, declarations.version, declarations.agent)) is None:
            continue
        reported.add(transport)
        name = member(server, "name")
        broken_rule, reason = fault
        transport_label = transport if transport == "stdio" else shortened(transport.upper())
        server_label = f"MCP server {shown(name)}" if isinstance(name, str) else "an MCP server"
        yield Violation(
            *broken_rule,
            f"client gave the agent {server_label} over {transport_label}, {reason}",
            pointer=f"{context.at}/params/mcpServers/{index}",
            related=initialize_seq(history),
            # A warning only, because a later version may define an unknown transport. SSE was removed.
            at_most="warning" if broken_rule == _UNKNOWN_TRANSPORT and transport != "sse" else None,
            data={
                "requestedTransport": transport,
                "serverName": name,
                "declaredCapability": False,
                "supportedTransports": _transports(transport, declarations.version, declarations.agent),
            },
        )


_UNKNOWN_TRANSPORT: Final = ("ACP-001", "A-004")
"""The rule and the requirement that a transport unknown to the version breaks."""

_TRANSPORT_RULES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"http": ("ACP-001", "A-001"), "sse": ("ACP-001", "A-002"), "stdio": ("ACP-001", "A-003")}
)
"""By transport: the rule and the requirement that its use without declaration breaks."""


def _transport_fault(
    transport: str, version: str, agent_capabilities: JSONObject
) -> tuple[tuple[str, str], str] | None:
    """Return the rule and requirement that this transport breaks, and why; ``None`` if it is allowed."""
    capability = acp.TRANSPORTS[version].get(transport)
    if capability is not None:
        is_undeclared = not acp.declares(agent_capabilities, capability)
        return (
            (_TRANSPORT_RULES[transport], f"but the agent never declared {capability}")
            if is_undeclared
            else None
        )
    # Version 1 gives entries for stdio no type, and does not say what an entry with a type other than http
    # and sse means. So such an entry may be meant for stdio.
    if version == acp.FIRST or transport == "acp" or transport.startswith("_"):
        return None
    return _UNKNOWN_TRANSPORT, "a transport that version 2 does not have"


def _transports(refused: str, version: str, agent_capabilities: JSONObject) -> list[JSON]:
    """Return the transports that the agent declared, and stdio unless ``refused`` is stdio."""
    capabilities = acp.TRANSPORTS[version].items()
    declared_transports: list[JSON] = [
        name
        for name, capability in capabilities
        if name != "stdio" and acp.declares(agent_capabilities, capability)
    ]
    return declared_transports if refused == "stdio" else ["stdio", *declared_transports]


def undeclared_directories(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report additional directories although the agent did not declare that it takes them (ACP-003)."""
    message, declarations = context.message, _declarations(history)
    if context.sender != CLIENT or declarations is None or declarations.agent is None:
        return
    capability = acp.DIRECTORIES[declarations.version]
    if member(message.params, "additionalDirectories") and not acp.declares(declarations.agent, capability):
        sent = f"client sent {message.method} with additionalDirectories"
        problem = f"{sent}, but the agent never declared {capability}"
        pointer = context.at + "/params/additionalDirectories"
        yield Violation("ACP-003", "A-013", problem, pointer=pointer, related=initialize_seq(history))


def undeclared_content(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report the first content of a prompt whose type the agent did not declare (ACP-004)."""
    message, declarations = context.message, _declarations(history)
    if context.sender != CLIENT or declarations is None or declarations.agent is None:
        return
    capabilities = acp.CONTENT[declarations.version]
    for pointer, content_type in acp.values_at(member(message.params, "prompt"), "*/type"):
        capability = capabilities.get(content_type) if isinstance(content_type, str) else None
        if capability is not None and not acp.declares(declarations.agent, capability):
            problem = (
                f"client put {content_type} content into a prompt, but the agent never declared {capability}"
            )
            full_pointer = context.at + "/params/prompt" + pointer
            yield Violation(
                "ACP-004", "A-014", problem, pointer=full_pointer, related=initialize_seq(history)
            )
            return


# Methods


def foreign_method(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a method that the version does not have, or that comes from the wrong side or in the wrong kind
    of message (ACP-010).
    """
    message, sender = context.message, context.sender
    name, shown_method = message.method, shortened(message.method)
    # Methods with these prefixes are from drafts, except $/cancel_request.
    if name.startswith(acp.DRAFT_PREFIXES) and name != "$/cancel_request":
        return
    side, pointer = NAMES[sender], context.at + "/method"
    versions = acp.versions_with(name)
    if not versions:
        problem = (
            f"{side} sent {shown_method}, which ACP does not define; the names of extensions start with _"
        )
        yield Violation("ACP-010", "A-029", problem, pointer=pointer)
        return
    if (
        len(context.candidates) == 1
        and context.candidates[0] in ACP
        and context.candidates[0] not in versions
    ):
        version = context.candidates[0].removeprefix("acp-")
        problem = f"{side} sent {shown_method}, which version {version} of ACP does not have"
        yield Violation("ACP-010", "A-028", problem, pointer=pointer, related=initialize_seq(history))
        return
    definition = acp.method(name, versions[0])
    assert definition is not None
    if definition.sender not in (sender, "both"):
        problem = f"{side} sent {shown_method}, which only the {NAMES[other(sender)]} sends"
    elif definition.kind == "request" and isinstance(message, Notification):
        problem = f"{side} sent {shown_method} without an id, so it will never be answered"
    elif definition.kind == "notification" and isinstance(message, Request):
        problem = f"{side} sent {shown_method} with an id, although it is a notification"
    else:
        return
    yield Violation("ACP-010", "A-030", problem, pointer=pointer)


def _sender_may_send(dispatch_key: DispatchKey) -> bool:
    """Whether only one version can apply, and lets the sender send this method as this kind of message."""
    kind, name, sender, candidates = dispatch_key
    definition = acp.method(name, candidates[0]) if len(candidates) == 1 else None
    if definition is None or definition.sender not in (sender, "both"):
        return False
    return (kind is Request) == (definition.kind == "request")


# The version, names, and paths


def incomplete_opening(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report an initialize whose version is not an integer, or that does not name the client (ACP-011)."""
    message, pointer = context.message, context.at + "/params"
    if context.sender != CLIENT:
        return
    version = _version_in(message.params)
    if type(version) is not int:
        problem = f"client sent initialize {_version_fault(version)}; it must be the integer of its version"
        # To JSON Schema 1.0 is an integer; many parsers refuse it.
        at_most: Severity | None = "info" if isinstance(version, float) and version.is_integer() else None
        version_pointer = pointer + "/protocolVersion"
        yield Violation("ACP-011", "A-033", problem, pointer=version_pointer, at_most=at_most)
    else:
        yield from _unnamed_peer(message.params, "client", context.candidates[0], pointer)


def incomplete_answer(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report an initialize result whose version is not an integer, or without the agent's name (ACP-011)."""
    message, pointer = context.message, context.at + "/result"
    if context.answers is not history.initialize:
        return
    version = _version_in(message.result)
    if type(version) is not int:
        fault = _version_fault(version)
        problem = f"agent answered initialize {fault}; it must be the integer that the agent chose"
        yield Violation("ACP-011", "A-031", problem, pointer=pointer + "/protocolVersion")
    else:
        yield from _unnamed_peer(message.result, "agent", acp.possible_versions(version)[0], pointer)


def _version_in(container: "JSON | Absent") -> "JSON | Absent":
    """Return the ``protocolVersion`` in params or in a result."""
    return container.get("protocolVersion", ABSENT) if isinstance(container, dict) else ABSENT


def _version_fault(version: "JSON | Absent") -> str:
    """Return what is wrong with a ``protocolVersion`` that is not an integer, as a clause."""
    if isinstance(version, Absent):
        return "without protocolVersion"
    if isinstance(version, float):
        return f"with protocolVersion written as {shown(version)}"
    return f"with protocolVersion as {kind(version)}"


def _unnamed_peer(container: object, side: str, version: str, pointer: str) -> Iterator[Violation]:
    """Report implementation info without name or version (ACP-011).

    In version 1 this member is ``clientInfo`` or ``agentInfo``, in version 2 ``info``.
    """
    name = f"{side}Info" if version == acp.FIRST else "info"
    info = as_object(member(as_object(container), name))
    missing_key = next((key for key in ("name", "version") if not isinstance(member(info, key), str)), None)
    if missing_key is not None:
        missing_member = name if info is None else f"{name}.{missing_key}"
        missing_pointer = f"{pointer}/{name}" if info is None else f"{pointer}/{name}/{missing_key}"
        problem = f"{side} did not name itself: the handshake lacks {missing_member}"
        yield Violation("ACP-011", "A-032", problem, pointer=missing_pointer, candidates=(version,))


def relative_path(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a path that is not absolute (ACP-009)."""
    message = context.message
    for path in acp.PATHS[message.method]:
        for pointer, value in acp.values_at(as_object(message.params), path):
            if not isinstance(value, str) or acp.is_absolute(value):
                continue
            is_command = path.endswith("command")
            problem = (
                f"{NAMES[context.sender]} sent {message.method} with a path that is not absolute: "
                f"{shown(value)}"
            )
            yield Violation(
                *_PATH_RULES.get(path, _OTHER_PATH_RULE) if message.method in acp.SETUP else _OTHER_PATH_RULE,
                problem,
                pointer=f"{context.at}/params{pointer}",
                at_most="warning" if is_command else None,  # A bare program name may be looked up in PATH.
            )


_OTHER_PATH_RULE: Final = ("ACP-009", "A-027")
_PATH_RULES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"cwd": ("ACP-009", "A-025"), "additionalDirectories/*": ("ACP-009", "A-026")}
)
_SETUP: Final = acp.SETUP

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-001",), undeclared_transport, (Request,), _SETUP, ACP_ONLY),
        Check(("ACP-002", "ACP-005"), undeclared_method, (Request,), (), ACP_ONLY),
        Check(("ACP-003",), undeclared_directories, (Request,), _SETUP, ACP_ONLY),
        Check(("ACP-004",), undeclared_content, (Request,), ("session/prompt",), ACP_ONLY),
        Check(("ACP-009",), relative_path, (Request,), tuple(acp.PATHS), ACP_ONLY),
        Check(
            ("ACP-009",),
            relative_path,
            (Notification,),
            ("session/update",),
            ACP_ONLY,
            mentions=(b'"path"', b'"oldPath"', b'"cwd"'),
        ),
        Check(("ACP-010",), foreign_method, (Request,), (), ACP_ONLY, unless=_sender_may_send),
        Check(("ACP-010",), foreign_method, (Notification,), (), ACP_ONLY, unless=_sender_may_send),
        Check(("ACP-011",), incomplete_opening, (Request,), ("initialize",), ACP_ONLY),
        Check(("ACP-011",), incomplete_answer, (Response,), ("initialize",), ACP_ONLY),
    ),
    updates=(StateUpdate(remember_declarations, (Response,), ("initialize",), ACP_ONLY),),
)
