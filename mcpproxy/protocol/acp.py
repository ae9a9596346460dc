"""The Agent Client Protocol (ACP) as data: its handshake, its methods, the capability each method needs.

ACP is another protocol with JSON-RPC over stdio: an editor (the client) starts an agent (here: the server)
and gives it a list of MCP servers. Version 1 is stable, version 2 is a draft. Draft methods are listed here
too, so that they are not reported as unknown.

Source: https://agentclientprotocol.com/protocol/v1/overview
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, cast

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.mcp_in_acp import CARRIERS, SUCCESSOR
from mcpproxy.protocol.methods import table_rows
from mcpproxy.protocol.revisions import ACP

Kind = Literal["request", "notification"]

FIRST, SECOND = ACP

_LONGEST_SESSION: Final = 256
"""The longest session id that is read, in characters."""

# The columns 1 and 2 are the versions: "yes" if the version has the method, "-" if not, "draft" if only a
# draft of the version has it.
_METHODS: Final = """
method                      sender  kind          1      2

initialize                  client  request       yes    yes
authenticate                client  request       yes    -
logout                      client  request       yes    -
auth/login                  client  request       -      yes
auth/logout                 client  request       -      yes
session/new                 client  request       yes    yes
session/load                client  request       yes    -
session/resume              client  request       yes    yes
session/close               client  request       yes    yes
session/list                client  request       yes    yes
session/delete              client  request       yes    yes
session/fork                client  request       draft  draft
session/archive             client  request       draft  draft
session/unarchive           client  request       draft  draft
session/set_title           client  request       draft  draft
session/status              client  request       draft  draft
auth/status                 client  request       draft  draft
tool_call/cancel            client  request       -      yes
terminal/cancel             client  request       -      yes
session/prompt              client  request       yes    yes
session/cancel              client  notification  yes    yes
session/set_mode            client  request       yes    -
session/set_model           client  request       draft  draft
session/set_config_option   client  request       yes    yes

session/update              server  notification  yes    yes
session/request_permission  server  request       yes    yes
fs/read_text_file           server  request       yes    -
fs/write_text_file          server  request       yes    -
terminal/create             server  request       yes    -
terminal/output             server  request       yes    -
terminal/release            server  request       yes    -
terminal/wait_for_exit      server  request       yes    -
terminal/kill               server  request       yes    -
elicitation/create          server  request       yes    yes
elicitation/complete        server  notification  yes    yes

auth/status_update          server  notification  draft  draft
$/cancel_request            both    notification  yes    yes
"""

INITIALIZE: Final = frozenset({"initialize", "_proxy/initialize", "proxy/initialize"})
"""The requests that open a connection. They have the same params.

A conductor, which starts a chain of ACP proxies, sends a proxy one of the two whose names have
``proxy``: ``_proxy/initialize`` is the name in the SDK, ``proxy/initialize`` the name in the RFD (the
proposal).
Source: https://agentclientprotocol.com/rfds/proxy-chains
"""

_ONLY_IN_ACP: Final = CARRIERS.union(INITIALIZE - {"initialize"}, SUCCESSOR)
"""Methods of proxies and for carrying MCP messages, from either side. MCP has none of them."""

DRAFT_PREFIXES: Final = ("providers/", "nes/", "document/", "mcp/", "proxy/", "_", "$/")
"""Methods with these prefixes are not reported as unknown: drafts, extensions, optional notifications."""

# Methods that need a capability of the receiver, with the path of that capability.
_NEEDS: Final = """
method                  1                            2

session/load            loadSession                  -
session/resume          sessionCapabilities.resume   session
session/close           sessionCapabilities.close    session
session/list            sessionCapabilities.list     session
session/delete          sessionCapabilities.delete   session.delete
session/new             -                            session
session/prompt          -                            session
logout                  auth.logout                  -
auth/login              -                            authMethods
auth/logout             -                            authMethods

fs/read_text_file       fs.readTextFile              -
fs/write_text_file      fs.writeTextFile             -
terminal/create         terminal                     -
terminal/output         terminal                     -
terminal/release        terminal                     -
terminal/wait_for_exit  terminal                     -
terminal/kill           terminal                     -
"""

_FLAGS: Final = frozenset(
    {
        "loadSession",
        "mcpCapabilities.http",
        "mcpCapabilities.sse",
        "promptCapabilities.image",
        "promptCapabilities.audio",
        "promptCapabilities.embeddedContext",
        "fs.readTextFile",
        "fs.writeTextFile",
        "terminal",
    }
)
"""Capabilities that are declared as ``true``.

``authMethods`` is declared as a list that is not empty, every other capability as an object, perhaps empty.
"""

TRANSPORTS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        FIRST: {"http": "mcpCapabilities.http", "sse": "mcpCapabilities.sse"},
        SECOND: {"stdio": "session.mcp.stdio", "http": "session.mcp.http"},
    }
)
"""By version and transport to an MCP server: the capability that the agent must declare.

In version 1 stdio needs no capability. Version 2 has no SSE.
"""

CONTENT: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        FIRST: {
            "image": "promptCapabilities.image",
            "audio": "promptCapabilities.audio",
            "resource": "promptCapabilities.embeddedContext",
        },
        SECOND: {
            "image": "session.prompt.image",
            "audio": "session.prompt.audio",
            "resource": "session.prompt.embeddedContext",
        },
    }
)
"""By version and type of a content block in a prompt: the capability that the agent must declare."""

DIRECTORIES: Final[Mapping[str, str]] = MappingProxyType(
    {FIRST: "sessionCapabilities.additionalDirectories", SECOND: "session.additionalDirectories"}
)
"""By version: the capability that the agent must declare for ``additionalDirectories``."""

SETUP: Final = ("session/new", "session/load", "session/resume")
"""The requests that open a session. Their params may contain MCP servers and directories."""

ABOUT_SERVERS: Final = CARRIERS.union(SETUP, ("session/fork",))
"""The methods whose messages name MCP servers of the type ``acp`` (``mcp_in_acp``), or carry messages to and
from them."""

USES_SESSION: Final = (
    "session/prompt",
    "session/cancel",
    "session/set_mode",
    "session/set_config_option",
    "session/close",
)
"""Messages that a client may send only for an open session."""

STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""The reasons for which a turn, the agent's work on a prompt, may end."""

PATHS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "session/new": ("cwd", "additionalDirectories/*", "mcpServers/*/command"),
        "session/load": ("cwd", "additionalDirectories/*", "mcpServers/*/command"),
        "session/resume": ("cwd", "additionalDirectories/*", "mcpServers/*/command"),
        "session/list": ("cwd",),
        "session/request_permission": ("toolCall/locations/*/path", "toolCall/content/*/path", "subject/cwd"),
        "fs/read_text_file": ("path",),
        "fs/write_text_file": ("path",),
        "terminal/create": ("cwd",),
        "session/update": (
            "update/locations/*/path",
            "update/content/*/path",
            "update/content/*/changes/*/path",
            "update/content/*/changes/*/oldPath",
            "update/cwd",
        ),
    }
)
"""Paths in the params of a method whose values are file or folder names; ``*`` is each element of a list."""

LINES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "fs/read_text_file": ("line",),
        "session/request_permission": ("toolCall/locations/*/line",),
        "session/update": ("update/locations/*/line",),
    }
)
"""Paths in the params of a method whose values are line numbers."""


class AcpMethod(NamedTuple):
    """The sender of a method and the kind of message."""

    sender: str  # "client", "server" or "both"
    kind: Kind


def session_in(params: object) -> str:
    """Return the session id in the params of a message; empty if there is none, or it is too long."""
    session = cast("JSONObject", params).get("sessionId") if isinstance(params, dict) else None
    return session if isinstance(session, str) and len(session) <= _LONGEST_SESSION else ""


def is_initialize(params: object) -> bool:
    """Whether the params of ``initialize`` are those of ACP, by the version or by the other members.

    In ACP the version is a small integer, in MCP a date. MCP requires ``capabilities`` and ``clientInfo``;
    version 1 of ACP has ``clientCapabilities``, version 2 has ``info``. The integer 1 means ACP whatever the
    other members are, because version 1 lets a client omit them all and add others. Any other number from 0
    to 65535 means ACP unless both members of MCP are there and neither of ACP. A string of digits means ACP
    if there are no ``capabilities``, or ``info`` and no ``clientInfo``. With any other version it is ACP if
    there are ``clientCapabilities`` and no ``capabilities``.
    """
    if not isinstance(params, dict):
        return False
    members = cast("JSONObject", params)
    version = members.get("protocolVersion")
    has_number = isinstance(version, int | float) and type(version) is not bool and 0 <= version <= 0xFFFF
    if type(version) is int and version == 1:
        return True
    if looks_like_mcp(members):
        return has_number and ("clientCapabilities" in members or "info" in members)
    if isinstance(version, str) and version.isdecimal():
        has_number = "capabilities" not in members or "info" in members
    return has_number or ("clientCapabilities" in members and "capabilities" not in members)


def looks_like_mcp(params: object) -> bool:
    """Whether the params of ``initialize`` have the members that MCP requires besides the version."""
    return isinstance(params, dict) and "capabilities" in params and "clientInfo" in params


def is_initialize_result(result: object) -> bool:
    """Whether a result of ``initialize`` is one of ACP: it has an integer version, and no ``serverInfo``."""
    if not isinstance(result, dict):
        return False
    members = cast("JSONObject", result)
    return type(members.get("protocolVersion")) is int and "serverInfo" not in members


def is_acp_method(method: str, sender: str) -> bool:
    """Whether ``method`` from ``sender`` shows that a session uses ACP.

    It does if ACP defines it for this sender and it begins with ``session/``. So do, from either side, the
    methods of proxies and those that carry messages of MCP. MCP has none of them.
    """
    if method in _ONLY_IN_ACP:
        return True
    definition = _methods().get((method, FIRST)) or _methods().get((method, SECOND))
    return method.startswith("session/") and definition is not None and definition.sender == sender


def possible_versions(version: JSON) -> tuple[str, ...]:
    """Return the versions that ``protocolVersion`` may mean: the named one, or all if it is not an integer.

    The result may be a version that is not in ``ACP``; no requirement applies to such a version.
    """
    return (f"acp-{version}",) if type(version) is int else ACP


def method(name: str, version: str) -> AcpMethod | None:
    """Return a method as ``version`` defines it, drafts included; ``None`` if it does not exist there."""
    return _methods().get((name, version))


def versions_with(name: str) -> tuple[str, ...]:
    """Return the versions that define the method ``name``, drafts included."""
    return tuple(version for version in ACP if (name, version) in _methods())


def is_defined(name: str) -> bool:
    """Whether a version or a draft of ACP defines the method ``name``."""
    return name in _method_names()


def needed_capability(name: str, version: str) -> str | None:
    """Return the path of the capability that the receiver of method ``name`` must have declared.

    ``None`` means that it needs none.
    """
    return _needed_capabilities().get((name, version))


def declares(capabilities: JSONObject, path: str) -> bool:
    """Whether ``capabilities`` has the capability at ``path``, with a value of the right type."""
    value: JSON = capabilities
    for name in path.split("."):
        if not isinstance(value, dict):
            return False
        value = value.get(name)
    if path == "authMethods":
        return isinstance(value, list) and bool(value)
    return value is True if path in _FLAGS else isinstance(value, dict)


def values_at(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    """Yield each value at ``path`` with its JSON Pointer relative to ``value``.

    ``path`` has ``/`` between its names; ``*`` is each element of a list.
    """
    name, _, inner_path = path.partition("/")
    if name == "*":
        children = list(enumerate(value)) if isinstance(value, list) else []
    else:
        children = [(name, value[name])] if isinstance(value, dict) and name in value else []
    for key, child in children:
        if not inner_path:
            yield f"/{key}", child
        else:
            yield from ((f"/{key}{pointer}", leaf) for pointer, leaf in values_at(child, inner_path))


def is_absolute(path: str) -> bool:
    """Whether ``path`` is absolute on Unix or on Windows; the peer's system is unknown."""
    has_drive = len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "\\/"
    return path.startswith(("/", "\\\\")) or has_drive


@cache
def _methods() -> Mapping[tuple[str, str], AcpMethod]:
    return {
        (row["method"], version): AcpMethod(row["sender"], cast("Kind", row["kind"]))
        for row in table_rows(_METHODS)
        for version, column in ((FIRST, "1"), (SECOND, "2"))
        if row[column] != "-"
    }


@cache
def _needed_capabilities() -> Mapping[tuple[str, str], str]:
    return {
        (row["method"], version): row[column]
        for row in table_rows(_NEEDS)
        for version, column in ((FIRST, "1"), (SECOND, "2"))
        if row[column] != "-"
    }


@cache
def _method_names() -> frozenset[str]:
    return frozenset(name for name, _ in _methods())
