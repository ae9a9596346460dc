"""The Agent Client Protocol: handshake, declared capabilities, known methods and paths.

The client is an editor, and the server of the connection is an agent. ``protocol/acp.py`` lists the
capability that each method needs in each version. Nothing is reported as undeclared until the handshake has
shown the declarations.

Source: https://agentclientprotocol.com/protocol/v1/initialization
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import ACP_ONLY, Check, RuleFamily, StateUpdate
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, Request, Response
from mcpproxy.protocol.revisions import ACP
from mcpproxy.protocol.wording import kind, shown
from mcpproxy.session.frame import CLIENT, SERVER, Sender, other
from mcpproxy.session.history import History

NAMES: Final[Mapping[Sender, str]] = MappingProxyType({CLIENT: "client", SERVER: "agent"})


@slotted()
class Offers:
    """What both sides declared in the handshake; ``None`` until its result has arrived."""

    client: JSONObject | None = None
    agent: JSONObject | None = None
    version: str = ""

    def of(self, sender: Sender) -> JSONObject | None:
        return self.client if sender == CLIENT else self.agent


def remember_offers(context: MessageContext, history: History) -> None:
    """Record the declarations, whose members differ by version. Only an object declares something."""
    result = as_object(context.message.result) if isinstance(context.message, Response) else None
    if context.answers is not history.initialize or result is None or history.negotiated not in ACP:
        return
    params = context.answers.params if context.answers else None
    first = history.negotiated == acp.FIRST
    offers = history.of(Offers)
    offers.version = history.negotiated
    offers.client = as_object(member(params, "clientCapabilities" if first else "capabilities")) or {}
    agent = as_object(member(result, "agentCapabilities" if first else "capabilities")) or {}
    offers.agent = {**agent, "authMethods": result.get("authMethods")}


def _offers(history: History) -> Offers | None:
    """Return the declarations; ``None`` if they are not known, or if messages are missing."""
    offers = history.of(Offers)
    return None if history.has_gap or offers.agent is None else offers


def _handshake(history: History) -> tuple[int, ...]:
    return (history.initialize.seq,) if history.initialize else ()


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
"""By capability, the rule and the requirement that its undeclared use breaks."""


def undeclared_method(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a request for a method that the other side did not declare (ACP-002, ACP-005)."""
    message, offers = context.message, _offers(history)
    if offers is None:
        return
    definition = acp.method(message.method, offers.version)
    path = acp.needed_capability(message.method, offers.version)
    if message.method == "elicitation/create":
        mode = member(message.params, "mode")
        path = f"elicitation.{mode}" if mode in ("form", "url") else None
    declared = offers.of(other(context.sender))
    if path is None or declared is None or definition is None or definition.sender != context.sender:
        return
    if not acp.declares(declared, path):
        receiver = NAMES[other(context.sender)]
        problem = f"{NAMES[context.sender]} sent {message.method}, but the {receiver} never declared {path}"
        yield Violation(
            *_CAPABILITY_RULES[path], problem, pointer=context.at + "/method", related=_handshake(history)
        )


def undeclared_transport(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report MCP servers on transports that the agent did not declare (ACP-001), once per transport."""
    message, offers = context.message, _offers(history)
    if context.sender != CLIENT or offers is None or offers.agent is None:
        return
    servers = member(message.params, "mcpServers")
    reported: set[str] = set()
    for index, server in enumerate(servers if isinstance(servers, list) else []):
        transport = server.get("type", "stdio") if isinstance(server, dict) else None
        if not isinstance(transport, str) or transport in reported:
            continue
        if (fault := _transport_fault(transport, offers.version, offers.agent)) is None:
            continue
        reported.add(transport)
        name = member(server, "name")
        broken, why = fault
        label = transport if transport == "stdio" else shortened(transport.upper())
        which = f"MCP server {shown(name)}" if isinstance(name, str) else "an MCP server"
        yield Violation(
            *broken,
            f"client gave the agent {which} over {label}, {why}",
            pointer=f"{context.at}/params/mcpServers/{index}",
            related=_handshake(history),
            # A later protocol may define an unknown transport, but SSE was removed.
            at_most="warning" if broken == _UNKNOWN_TRANSPORT and transport != "sse" else None,
            data={
                "requestedTransport": transport,
                "serverName": name,
                "declaredCapability": False,
                "supportedTransports": _supported(transport, offers.version, offers.agent),
            },
        )


_UNKNOWN_TRANSPORT: Final = ("ACP-001", "A-004")
_TRANSPORT_RULES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"http": ("ACP-001", "A-001"), "sse": ("ACP-001", "A-002"), "stdio": ("ACP-001", "A-003")}
)


def _transport_fault(
    transport: str, version: str, declared: JSONObject
) -> tuple[tuple[str, str], str] | None:
    """Return the requirement that this transport breaks, and why; ``None`` if it is allowed."""
    path = acp.TRANSPORTS[version].get(transport)
    if path is not None:
        lacking = not acp.declares(declared, path)
        return (_TRANSPORT_RULES[transport], f"but the agent never declared {path}") if lacking else None
    # Version 1 does not say what an entry with an unknown type is: it may be meant for stdio.
    if version == acp.FIRST or transport == "acp" or transport.startswith("_"):
        return None
    return _UNKNOWN_TRANSPORT, "a transport that version 2 does not have"


def _supported(refused: str, version: str, declared: JSONObject) -> list[JSON]:
    """Return the transports that the agent supports: stdio, unless it was refused, and those declared."""
    needs = acp.TRANSPORTS[version].items()
    offered: list[JSON] = [name for name, path in needs if name != "stdio" and acp.declares(declared, path)]
    return offered if refused == "stdio" else ["stdio", *offered]


def undeclared_directories(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report additional directories that the agent did not declare (ACP-003)."""
    message, offers = context.message, _offers(history)
    if context.sender != CLIENT or offers is None or offers.agent is None:
        return
    path = acp.DIRECTORIES[offers.version]
    if member(message.params, "additionalDirectories") and not acp.declares(offers.agent, path):
        problem = (
            f"client sent {message.method} with additionalDirectories, but the agent never declared {path}"
        )
        at = context.at + "/params/additionalDirectories"
        yield Violation("ACP-003", "A-013", problem, pointer=at, related=_handshake(history))


def undeclared_content(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report content in a prompt that the agent did not declare (ACP-004)."""
    message, offers = context.message, _offers(history)
    if context.sender != CLIENT or offers is None or offers.agent is None:
        return
    needs = acp.CONTENT[offers.version]
    for pointer, type_ in acp.values_at(member(message.params, "prompt"), "*/type"):
        path = needs.get(type_) if isinstance(type_, str) else None
        if path is not None and not acp.declares(offers.agent, path):
            problem = f"client put {type_} content into a prompt, but the agent never declared {path}"
            at = context.at + "/params/prompt" + pointer
            yield Violation("ACP-004", "A-014", problem, pointer=at, related=_handshake(history))
            return


# Methods


def foreign_method(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a method that the version does not have, or not in this form or direction (ACP-010)."""
    message, sender = context.message, context.sender
    name, called = message.method, shortened(message.method)
    # Of the methods with these prefixes, ACP defines only this one.
    if name.startswith(acp.DRAFT_PREFIXES) and name != "$/cancel_request":
        return
    who, at = NAMES[sender], context.at + "/method"
    versions = acp.versions_with(name)
    if not versions:
        problem = f"{who} sent {called}, which ACP does not define; the names of extensions start with _"
        yield Violation("ACP-010", "A-029", problem, pointer=at)
        return
    if (
        len(context.candidates) == 1
        and context.candidates[0] in ACP
        and context.candidates[0] not in versions
    ):
        version = context.candidates[0].removeprefix("acp-")
        problem = f"{who} sent {called}, which version {version} of ACP does not have"
        yield Violation("ACP-010", "A-028", problem, pointer=at, related=_handshake(history))
        return
    definition = acp.method(name, versions[0])
    assert definition is not None
    if definition.sender not in (sender, "both"):
        problem = f"{who} sent {called}, which only the {NAMES[other(sender)]} sends"
    elif definition.kind == "request" and isinstance(message, Notification):
        problem = f"{who} sent {called} without an id, so it will never be answered"
    elif definition.kind == "notification" and isinstance(message, Request):
        problem = f"{who} sent {called} with an id, although it is a notification"
    else:
        return
    yield Violation("ACP-010", "A-030", problem, pointer=at)


# Required members, and paths


def incomplete_opening(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a client that does not name itself in initialize (ACP-011)."""
    message = context.message
    if context.sender == CLIENT and len(context.candidates) == 1:
        yield from _info(message.params, "client", context.candidates[0], context.at + "/params")


def incomplete_answer(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report an agent that does not name itself or the version it chose (ACP-011)."""
    message, at = context.message, context.at + "/result"
    if context.answers is not history.initialize:
        return
    version = member(message.result, "protocolVersion")
    if type(version) is not int:
        fault = "without protocolVersion" if version is None else f"with protocolVersion as {kind(version)}"
        problem = f"agent answered initialize {fault}; it must be the integer that the agent chose"
        yield Violation("ACP-011", "A-031", problem, pointer=at + "/protocolVersion")
    else:
        yield from _info(message.result, "agent", acp.named(version)[0], at)


def _info(found: object, who: str, version: str, at: str) -> Iterator[Violation]:
    """Report implementation info without name or version.

    In version 1 the member is named after its owner (``clientInfo``, ``agentInfo``), in version 2 ``info``.
    """
    name = f"{who}Info" if version == acp.FIRST else "info"
    info = as_object(member(as_object(found), name))
    missing = next((key for key in ("name", "version") if not isinstance(member(info, key), str)), None)
    if missing is not None:
        lacks = name if info is None else f"{name}.{missing}"
        pointer = f"{at}/{name}" if info is None else f"{at}/{name}/{missing}"
        problem = f"{who} did not name itself: the handshake lacks {lacks}"
        yield Violation("ACP-011", "A-032", problem, pointer=pointer, candidates=(version,))


def incomplete_request(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a request about a session without the members that it needs (ACP-011)."""
    message = context.message
    if context.sender != CLIENT or len(context.candidates) != 1:
        return
    for name in acp.REQUIRED.get((context.candidates[0], message.method), ()):
        if member(message.params, name) is None:
            problem = f"client sent {message.method} without {name}"
            yield Violation("ACP-011", "A-033", problem, pointer=f"{context.at}/params/{name}")
    servers = member(message.params, "mcpServers") if context.candidates[0] == acp.SECOND else None
    for index, server in enumerate(servers if isinstance(servers, list) else []):
        if isinstance(server, dict) and "type" not in server:
            problem = "client described an MCP server without its type, which version 2 requires"
            yield Violation(
                "ACP-011", "A-033", problem, pointer=f"{context.at}/params/mcpServers/{index}/type"
            )
            return


def nameless_session(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a new session without an id (ACP-011)."""
    message = context.message
    if context.sender == SERVER and not isinstance(member(message.result, "sessionId"), str):
        problem = "agent answered session/new without a sessionId"
        yield Violation("ACP-011", "A-034", problem, pointer=context.at + "/result/sessionId")


def relative_path(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a path that is not absolute (ACP-009)."""
    message = context.message
    for path in acp.PATHS[message.method]:
        for pointer, found in acp.values_at(as_object(message.params), path):
            if not isinstance(found, str) or acp.is_absolute(found):
                continue
            command = path.endswith("command")
            problem = (
                f"{NAMES[context.sender]} sent {message.method} with a path that is not absolute: "
                f"{shown(found)}"
            )
            yield Violation(
                *_PATH_RULES.get(path, _OTHER_PATH_RULE) if message.method in acp.SETUP else _OTHER_PATH_RULE,
                problem,
                pointer=f"{context.at}/params{pointer}",
                at_most="warning" if command else None,  # The other side may look up a bare program name.
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
        Check(("ACP-009",), relative_path, (Notification,), ("session/update",), ACP_ONLY),
        Check(("ACP-010",), foreign_method, (Request,), (), ACP_ONLY),
        Check(("ACP-010",), foreign_method, (Notification,), (), ACP_ONLY),
        Check(("ACP-011",), incomplete_opening, (Request,), ("initialize",), ACP_ONLY),
        Check(("ACP-011",), incomplete_answer, (Response,), ("initialize",), ACP_ONLY),
        Check(("ACP-011",), incomplete_request, (Request,), (*_SETUP, "session/prompt"), ACP_ONLY),
        Check(("ACP-011",), nameless_session, (Response,), ("session/new",), ACP_ONLY),
    ),
    updates=(StateUpdate(remember_offers, (Response,), ("initialize",), ACP_ONLY),),
)
