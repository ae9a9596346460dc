"""State about servers of stateless revisions: whether a server supports one, and what it declares.

The revisions form two eras: those with a handshake, and the stateless ones. A server that only knows
revisions with a handshake may answer a stateless request too: with an error, or as if the request belonged to
such a revision. That breaks no rule. So most checks of stateless servers report nothing before an answer has
shown that the server supports a stateless revision. Here, such a server is called *modern*.

``discovery.FAMILY`` has the rows that call the ``remember_*`` functions.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from collections.abc import Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.engine.rows import DISCOVERED, INTRODUCED, UNPROVEN
from mcpproxy.judge.session.history import History, get_or_make
from mcpproxy.protocol import error_message, methods
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND, UNSUPPORTED_VERSION
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, JSONObject, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, SERVER_INFO_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import STATELESS, stateless_of

RESULT_TYPES: Final = ("complete", "input_required")
"""The result types that the specification defines; extensions define others."""

MAX_CALLERS: Final = 1_024
"""The number of callers that are remembered.

Over HTTP, the requests to one server with the same credentials have the same caller.
"""


@slotted()
class Discovered:
    """The content of a DiscoverResult, the result of server/discover.

    ``seq`` is its frame, ``connection`` the number of the connection that it came on, and ``fresh_until_ns``
    the time until which it is valid. ``lacks`` maps each method that needs a capability which the server did
    not declare to that capability.
    """

    seq: int
    connection: int
    fresh_until_ns: int
    versions: tuple[str, ...]
    capabilities: JSONObject
    lacks: Mapping[str, str]


@slotted()
class NameUse:
    """Whether a peer names itself in its messages.

    ``first_seq`` is the first frame with the name, 0 if there is none. ``has_omitted`` says that a later
    message came without the name.
    """

    first_seq: int = 0
    has_omitted: bool = False


@slotted()
class KnownServer:
    """What the answers of one server have shown about it. Frame numbers are 0 while there is no such frame.

    ``modern_seq`` is the first answer that only a server of a stateless revision sends, and ``served_seq``
    the first such answer to a request other than server/discover. ``no_discovery_seq`` is the answer that
    server/discover is an unknown method. ``discovered`` is the latest DiscoverResult. ``version_refusal`` is
    the latest refusal of a version: its frame, and the supported versions that it lists. ``name`` is about
    the server's own name, ``client`` about the name of its only client on stdio.
    """

    modern_seq: int = 0
    served_seq: int = 0
    no_discovery_seq: int = 0
    discovered: Discovered | None = None
    version_refusal: tuple[int, tuple[str, ...]] | None = None
    name: NameUse = field(default_factory=NameUse)
    client: NameUse = field(default_factory=NameUse)


@slotted()
class Servers:
    """The known servers, by caller."""

    by_caller: dict[str, KnownServer] = field(default_factory=dict[str, KnownServer])


def server_of(history: History) -> KnownServer:
    """Return the state of the server of this session, or of this stateless request."""
    return get_or_make(history.across_requests(Servers).by_caller, history.caller, KnownServer, MAX_CALLERS)


def is_modern_answer(context: MessageContext) -> bool:
    """Whether only a server of a stateless revision sends this answer to a stateless request."""
    message, request = context.message, context.answers
    if request is None or not request.stateless:
        return False
    if isinstance(message, Response) and (result := as_object(message.result)) is not None:
        if request.method == "server/discover":
            return any(version in STATELESS for version in strings_in(result.get("supportedVersions")))
        if result.get("resultType") in (*RESULT_TYPES, "task") or "ttlMs" in result:
            return True
        return member(result, "_meta", SERVER_INFO_KEY) is not None
    if isinstance(message, ErrorResponse):
        error = as_object(message.error)
        data = member(error, "data")
        match member(error, "code"):
            case error_message.MISSING_CAPABILITY:
                return isinstance(member(data, "requiredCapabilities"), dict)
            case error_message.UNSUPPORTED_VERSION:
                return any(version in STATELESS for version in strings_in(member(data, "supported")))
            case _:
                return False
    return False


def is_modern(context: MessageContext, history: History) -> bool:
    """Whether an earlier message or this answer shows that the server supports a stateless revision."""
    return server_of(history).modern_seq > 0 or is_modern_answer(context)


def settings_of(extension: str, capabilities: JSONObject) -> JSONObject | None:
    """Return the settings with which a peer declares ``extension``; ``None`` if it does not declare it.

    ``false`` is no declaration. Other settings that are not an object are empty.
    """
    extensions = as_object(capabilities.get("extensions")) or {}
    settings = extensions.get(extension, False)
    return None if settings is False else as_object(settings) or {}


def declared_settings(extension: str, context: MessageContext, history: History) -> JSONObject | None:
    """Return the settings with which the server declared ``extension`` in its DiscoverResult.

    The result is ``None`` if it did not declare it, or if that is not known.
    """
    discovered = server_of(history).discovered if context.stateless else None
    return settings_of(extension, discovered.capabilities) if discovered is not None else None


def strings_in(value: "JSON") -> tuple[str, ...]:
    """Return the strings among the items of ``value``; empty if it is not an array."""
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def fresh_until_ns(context: MessageContext) -> int:
    """Return the time until which the result of a stateless request is valid, as its ``ttlMs`` says.

    If ``ttlMs`` is missing, not a number, not above 0, or 1e12 or more, that is the time of the result.
    """
    ttl_ms = member(context.message.value, "result", "ttlMs")
    fresh_ns = int(ttl_ms * 1_000_000) if isinstance(ttl_ms, int | float) and 0 < ttl_ms < 1e12 else 0
    return context.frame.observed_at_ns + fresh_ns


def missing_meta(params: "JSON | Absent") -> str:
    """Return the first required ``_meta`` member that a stateless request lacks, with its JSON type.

    The text is empty if the required members are present.
    """
    meta = as_object(member(params, "_meta")) or {}
    if not isinstance(meta.get(VERSION_KEY), str):
        return f"a string {VERSION_KEY}"
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        return f"an object {CAPABILITIES_KEY}"
    return ""


def is_certainly_stateless(params: "JSON | Absent") -> bool:
    """Whether a request has the required ``_meta`` members and names a known stateless revision."""
    return not missing_meta(params) and member(params, "_meta", VERSION_KEY) in STATELESS


# State updates


def remember_server(context: MessageContext, history: History) -> None:
    """Record whether this answer shows that the server is modern, and whether it names the server."""
    request, message = context.answers, context.message
    if not context.stateless or request is None:
        return
    known_server = server_of(history)
    if known_server.modern_seq and known_server.served_seq:
        history.facts &= ~UNPROVEN
    elif is_modern_answer(context):
        known_server.modern_seq = known_server.modern_seq or context.seq
        if request.method != "server/discover":
            known_server.served_seq = known_server.served_seq or context.seq
    if isinstance(message, Response):
        remember_name(known_server.name, has_meta_key(message.result, SERVER_INFO_KEY), context.seq)
        if known_server.name.first_seq:
            history.facts |= INTRODUCED


def remember_name(name: NameUse, is_named: bool, seq: int) -> None:
    """Record whether the message in frame ``seq`` names its sender."""
    if is_named:
        name.first_seq = name.first_seq or seq
    elif name.first_seq:
        name.has_omitted = True


def has_meta_key(contents: "JSON | Absent", key: str) -> bool:
    """Whether params or a result have ``key`` in their ``_meta``."""
    meta = member(contents, "_meta")
    return isinstance(meta, dict) and key in meta


def remember_refusal(context: MessageContext, history: History) -> None:
    """Record the supported versions in a refusal, or that the server does not know server/discover."""
    request, message = context.answers, context.message
    if not context.stateless or request is None or not isinstance(message, ErrorResponse):
        return
    error = as_object(message.error)
    code, supported = member(error, "code"), strings_in(member(error, "data", "supported"))
    if code == UNSUPPORTED_VERSION and supported:
        server_of(history).version_refusal = (context.seq, supported)
        history.familiar_meta = None  # The _meta found correct may name a version that is not listed now.
    elif (
        code == METHOD_NOT_FOUND
        and request.method == "server/discover"
        and is_certainly_stateless(request.params)
    ):
        server_of(history).no_discovery_seq = server_of(history).no_discovery_seq or context.seq


def remember_discovery(context: MessageContext[Response], history: History) -> None:
    """Record the content of a DiscoverResult that has capabilities and lists a stateless revision."""
    message = context.message
    capabilities = as_object(member(message.result, "capabilities"))
    versions = strings_in(member(message.result, "supportedVersions"))
    if capabilities is None or not any(version in STATELESS for version in versions):
        return
    history.facts |= DISCOVERED
    history.familiar_meta = None  # The _meta found correct may name a version that is not listed now.
    server_of(history).discovered = Discovered(
        context.seq,
        context.frame.connection,
        fresh_until_ns(context),
        versions,
        capabilities,
        _undeclared_needs(capabilities, context),
    )


def _undeclared_needs(capabilities: JSONObject, context: MessageContext) -> Mapping[str, str]:
    """Return the methods that need a capability which ``capabilities`` lacks, each with that capability."""
    revision = stateless_of(context.candidates)[0]
    return {
        method: need.path
        for method in methods.method_names(revision)
        for need in methods.needs(method, revision)
        if need.declared_by == "server" and not methods.declares(capabilities, need.path)
    }
