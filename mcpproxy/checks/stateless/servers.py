"""What is remembered of a server without a handshake: that it speaks a stateless revision, and what it lists.

A server of the other era may also answer a stateless request, with an error or as if the request were one of
its own era. None of that is reported, so most of these rules wait until the server has shown its era.
``discovery.FAMILY`` has the rows that call the ``remember_*`` functions.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from collections.abc import Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, as_object, member
from mcpproxy.checks.engine.rows import DISCOVERED, INTRODUCED, UNPROVEN
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, JSONObject, Response
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATELESS, VERSION_KEY, stateless_of
from mcpproxy.session.history import History, get_or_make

SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"

RESULT_TYPES: Final = ("complete", "input_required")
"""The result types that the revision itself defines."""

MAX_CALLERS: Final = 1_024
"""The number of callers (servers, each with other credentials) that are remembered."""


@slotted()
class Discovered:
    """The content of a DiscoverResult: its frame, until when it is valid, and what it declares.

    ``lacks`` maps each method whose capability it does not declare to that capability.
    """

    seq: int
    fresh_until_ns: int
    versions: tuple[str, ...]
    capabilities: JSONObject
    lacks: Mapping[str, str]


@slotted()
class Introduced:
    """Whether a peer names itself: the first frame with its name, and whether a later one had none."""

    first: int = 0
    left_out: bool = False


@slotted()
class KnownServer:
    """What one server has shown of itself.

    ``modern`` is the first frame that only a server of a stateless revision sends. ``served`` is the first
    such answer to a request other than server/discover. Both are 0 while there is none. ``unknown`` is the
    frame in which it said that it does not know server/discover. ``refused`` is its latest refusal of a
    version: the frame and the versions it listed instead.
    """

    modern: int = 0
    served: int = 0
    unknown: int = 0
    listed: Discovered | None = None
    refused: tuple[int, tuple[str, ...]] | None = None
    name: Introduced = field(default_factory=Introduced)
    client: Introduced = field(default_factory=Introduced)  # its client, if there is exactly one


@slotted()
class Servers:
    """Each server, as one caller sees it."""

    known: dict[str, KnownServer] = field(default_factory=dict[str, KnownServer])


def server(history: History) -> KnownServer:
    """Return what is known of the server of this session, or of this stateless request."""
    return get_or_make(history.across_requests(Servers).known, history.caller, KnownServer, MAX_CALLERS)


def shows_itself(context: MessageContext) -> bool:
    """Whether this answer to a stateless request comes from a server that speaks such a revision."""
    message, asked = context.message, context.answers
    if asked is None or not asked.stateless:
        return False
    if isinstance(message, Response) and (result := as_object(message.result)) is not None:
        if asked.method == "server/discover":
            return any(version in STATELESS for version in texts(result.get("supportedVersions")))
        if result.get("resultType") in (*RESULT_TYPES, "task") or "ttlMs" in result:
            return True
        return member(result, "_meta", SERVER_INFO_KEY) is not None
    if isinstance(message, ErrorResponse):
        error = as_object(message.error)
        data = member(error, "data")
        match member(error, "code"):
            case -32021:
                return isinstance(member(data, "requiredCapabilities"), dict)
            case -32022:
                return any(version in STATELESS for version in texts(member(data, "supported")))
            case _:
                return False
    return False


def is_modern(context: MessageContext, history: History) -> bool:
    """Whether an earlier message or this answer shows that the server speaks a stateless revision."""
    return server(history).modern > 0 or shows_itself(context)


def texts(value: "JSON") -> tuple[str, ...]:
    """Return the strings among the items of ``value``, if it is an array."""
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def missing_meta(params: "JSON | Absent") -> str:
    """Return the required ``_meta`` member that a stateless request lacks, with its type; empty if none."""
    found = as_object(params.get("_meta") if isinstance(params, dict) else None) or {}
    if not isinstance(found.get(VERSION_KEY), str):
        return f"a string {VERSION_KEY}"
    if not isinstance(found.get(CAPABILITIES_KEY), dict):
        return f"an object {CAPABILITIES_KEY}"
    return ""


def names_this_era(params: "JSON | Absent") -> bool:
    """Whether a request is complete and names a known stateless revision, so that only this era applies."""
    return not missing_meta(params) and member(params, "_meta", VERSION_KEY) in STATELESS


# What is recorded


def remember_server(context: MessageContext, history: History) -> None:
    """Record the era that the server has shown, and whether it names itself."""
    asked, message = context.answers, context.message
    if not context.stateless or asked is None:
        return
    known = server(history)
    if known.modern and known.served:
        history.facts &= ~UNPROVEN
    elif shows_itself(context):
        known.modern = known.modern or context.seq
        if asked.method != "server/discover":
            known.served = known.served or context.seq
    if isinstance(message, Response):
        remember_name(known.name, says(message.result, SERVER_INFO_KEY), context.seq)
        if known.name.first:
            history.facts |= INTRODUCED


def remember_name(known: Introduced, named: bool, seq: int) -> None:
    """Record whether a message names its sender."""
    if named:
        known.first = known.first or seq
    elif known.first:
        known.left_out = True


def says(found: "JSON | Absent", key: str) -> bool:
    """Whether params or a result have ``key`` in their ``_meta``."""
    meta = found.get("_meta") if isinstance(found, dict) else None
    return isinstance(meta, dict) and key in meta


def remember_refusal(context: MessageContext, history: History) -> None:
    """Record the versions that a refusal lists, or that the server does not know server/discover."""
    asked, message = context.answers, context.message
    if not context.stateless or asked is None or not isinstance(message, ErrorResponse):
        return
    error = as_object(message.error)
    code, supported = member(error, "code"), texts(member(error, "data", "supported"))
    if code == -32022 and supported:
        server(history).refused = (context.seq, supported)
        history.familiar_meta = None  # It may name a version that is not in the list.
    elif code == -32601 and asked.method == "server/discover" and names_this_era(asked.params):
        server(history).unknown = server(history).unknown or context.seq


def remember_discovery(context: MessageContext[Response], history: History) -> None:
    """Record the content of a DiscoverResult."""
    message = context.message
    capabilities = as_object(member(message.result, "capabilities"))
    versions = texts(member(message.result, "supportedVersions"))
    if capabilities is None or not any(version in STATELESS for version in versions):
        return
    ttl_ms = member(message.result, "ttlMs")
    fresh_ns = int(ttl_ms * 1_000_000) if isinstance(ttl_ms, int | float) and 0 < ttl_ms < 1e12 else 0
    until_ns = context.frame.observed_at_ns + fresh_ns
    history.facts |= DISCOVERED
    history.familiar_meta = None  # It may name a version that is not in the list.
    server(history).listed = Discovered(
        context.seq, until_ns, versions, capabilities, _lacks(capabilities, context)
    )


def _lacks(capabilities: JSONObject, context: MessageContext) -> Mapping[str, str]:
    """Return the methods that a server with these capabilities lacks, and the capability each needs."""
    revision = stateless_of(context.candidates)[0]
    return {
        method: need.path
        for method in methods.names(revision)
        for need in methods.needs(method, revision)
        if need.declared_by == "server" and not methods.declares(capabilities, need.path)
    }
