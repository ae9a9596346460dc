"""Stateless requests: their metadata and results, and the messages of the older era (with a handshake).

A stateless request belongs to no session, and names its revision itself.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from collections.abc import AsyncIterator
from typing import Final
from uuid import uuid4

from mcpproxy.base.style import count
from mcpproxy.peers.validate.answers import Answer
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.defaults import UNKNOWN_METHOD
from mcpproxy.peers.validate.errors import HttpStatusError, Skipped, ValidateError
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.jsonrpc import harmless_method, skip_if_always_refused
from mcpproxy.peers.validate.raw_requests import (
    RawAnswer,
    ask,
    cited,
    missing_method,
    post,
    raw_answer,
    speaks_both_eras,
    streamable,
)
from mcpproxy.protocol.error_message import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
)
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown

NO_VERSION: Final = "1900-01-01"
"""A date before the first revision, so no revision has it."""

_HTTP_PAGE: Final = "2026-07-28/basic/transports/streamable-http"
# Methods that only older revisions have, each with params.
_REMOVED_METHODS: Final[tuple[tuple[str, JSONObject], ...]] = (
    ("ping", {}),
    ("logging/setLevel", {"level": "info"}),
    ("resources/subscribe", {"uri": "mcpproxy-nowhere://nothing"}),
)
# A capability, and a list method of that capability.
_LISTS: Final = (
    ("tools", "tools/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
    ("prompts", "prompts/list"),
)


async def _discover(context: ProbeContext) -> Conclusion:
    reply = await ask(context, context.client.request_object("server/discover"))
    if not reply.is_served:
        return context.violation("DISC-001/R-221", f"server/discover was {reply.outcome}", reply.frames)
    versions = reply.result.get("supportedVersions")
    listed = ", ".join(map(str, versions)) if isinstance(versions, list) else "nothing"
    return passed(f"it lists {listed}", reply.frames)


async def _first_request(context: ProbeContext) -> Conclusion:
    method = harmless_method(context)
    async with context.new_session("first-request") as client:
        answer = await client.request(method)
    if answer.is_error:
        await skip_if_always_refused(context, method)
        text = f"{method} as the first message of all was refused with {shown(answer.code)}"
        return context.violation("STAT-009/R-228", text, answer.frames)
    return passed(f"{method} was answered before anything else was said", answer.frames)


async def _no_capabilities(context: ProbeContext) -> Conclusion:
    reply = await ask(context, _without_meta(context, CAPABILITIES_KEY))
    return _incomplete(context, reply, "a request without clientCapabilities")


async def _no_version(context: ProbeContext) -> Conclusion:
    reply = await ask(context, _without_meta(context, VERSION_KEY))
    is_unclear = not reply.status and not reply.is_served and reply.code != INVALID_PARAMS
    # On stdio a server of both eras can take such a request for a message of the older era. Over HTTP it
    # cannot, because a header names the era.
    if is_unclear and await speaks_both_eras(context):
        await context.close_session()  # the process may now be in the older era
        return passed(f"{reply.outcome}, as a message of the older era may be", reply.frames)
    if reply.status == 400 and reply.code == HEADER_MISMATCH:
        # Two sentences with MUST apply: the body lacks the version, and so it does not match the header.
        return passed(f"{reply.outcome}, as a header that does not match the body", reply.frames)
    return _incomplete(context, reply, "a request without protocolVersion")


def _without_meta(context: ProbeContext, key: str) -> JSONObject:
    message = context.client.request_object("server/discover")
    meta: JSONObject = {name: value for name, value in context.client.meta().items() if name != key}
    return {**message, "params": {"_meta": meta}}


def _incomplete(context: ProbeContext, reply: RawAnswer, what: str) -> Conclusion:
    """Return the conclusion on a request with incomplete metadata, which the server must refuse."""
    if reply.code == INVALID_PARAMS and reply.status in (0, 400):
        return passed(reply.outcome, reply.frames)
    expected = "400 and -32602" if reply.status else "-32602"
    text = f"{what} was {reply.instead_of(expected)}"
    return context.violation("STAT-002/R-211", text, reply.frames)


async def _unsupported(context: ProbeContext) -> Conclusion:
    message = context.client.request_object("server/discover", {"_meta": {VERSION_KEY: NO_VERSION}})
    reply = await ask(context, message)
    if reply.code == UNSUPPORTED_VERSION:
        return passed(reply.outcome, reply.frames)
    text = f"a request in version {NO_VERSION} was {reply.instead_of(str(UNSUPPORTED_VERSION))}"
    return context.violation("PROTO-008/R-219", text, reply.frames)


async def _unknown_status(context: ProbeContext) -> Conclusion:
    streamable(context)
    reply = await ask(context, context.client.request_object(UNKNOWN_METHOD))
    if reply.status == 404 and reply.code == METHOD_NOT_FOUND:
        return passed(reply.outcome, reply.frames)
    text = f"an unknown method was {reply.instead_of('404 and -32601')}"
    return context.violation("ERR-002/R-218", text, reply.frames)


async def _removed_methods(context: ProbeContext) -> Conclusion:
    outcomes: list[str] = []
    frames: list[int] = []
    for method, params in _REMOVED_METHODS:
        reply = await ask(context, context.client.request_object(method, params))
        frames += reply.frames
        outcomes.append(f"{method} {reply.outcome}")
        if not reply.is_served and reply.code != METHOD_NOT_FOUND:
            text = f"{method}, which {context.revision} does not have, was {reply.outcome}, not with -32601"
            return missing_method(context, text, reply.frames)
    return passed("; ".join(outcomes), tuple(frames))


async def _session_header(context: ProbeContext) -> Conclusion:
    wire = streamable(context)
    raw = dumps(context.client.request_object("server/discover"))
    headers = [*wire.headers(raw), ("Mcp-Session-Id", str(uuid4())), ("Last-Event-ID", "mcpproxy-1")]
    exchange = await post(context, raw, headers)
    if SESSION_ID in dict(exchange.headers):  # even an empty one
        text = "a stateless request was answered with a session id"
        return context.violation("PROTO-010/R-241", text, exchange.evidence)
    reply = raw_answer(exchange)
    if reply.is_served or await speaks_both_eras(context):
        return passed(reply.outcome, reply.frames)
    text = f"a request with a session id of older clients was {reply.outcome}; the id should be ignored"
    return cited("warning", text, reply.frames, f"{_HTTP_PAGE}#earlier-streamable-http-revisions")


async def _retired_http_methods(context: ProbeContext) -> Conclusion:
    wire = streamable(context)
    if await speaks_both_eras(context):
        raise Skipped("the server serves older clients, too")
    for method in ("GET", "DELETE"):
        exchange = await post(context, b"", wire.headers(), method=method, until_head=True)
        if exchange.status not in (405, 401, 403, 429):
            text = f"{method} was answered with {exchange.status}, not with 405"
            return context.violation("HTTP-020/R-240", text, exchange.evidence)
    return passed("GET and DELETE are declined")


async def _older_client(context: ProbeContext) -> Conclusion:
    async with context.new_session("older-client") as client:
        try:
            answer = await client.wait_for_answer(await client.begin_older_initialize())
        except HttpStatusError as fault:
            text = f"initialize was refused with HTTP status {fault.status}, without naming versions"
            return context.violation("ERA-003/R-276", text, fault.frames)
    if not answer.is_error:
        context.is_dual = True
        return passed(f"served: it speaks {shown(answer.members.get('protocolVersion'))}, too", answer.frames)
    if not _names_a_version(answer.error):
        text = "initialize was refused without naming the versions that are supported"
        return context.violation("ERA-003/R-276", text, answer.frames)
    return passed(f"refused with {shown(answer.code)}, naming versions", answer.frames)


def _names_a_version(error: JSONObject) -> bool:
    text = dumps(error).decode()
    return any(revision in text for revision in REVISIONS)


async def _both_eras(context: ProbeContext) -> Conclusion:
    if not await speaks_both_eras(context):
        raise Skipped("the server speaks one era")
    async with context.new_session("both-eras", connected=True, revision=STATEFUL[-1]) as older:
        reply = await ask(context, context.client.request_object("server/discover"))
        try:
            answer = await older.ping()
        except ValidateError as fault:
            text = f"a session of {older.revision} was lost beside a request of {context.revision}: {fault}"
            return Conclusion("failed", text, fault.frames)
    if not reply.is_served:
        text = f"a request of {context.revision} beside a session of {older.revision} was {reply.outcome}"
        return cited(
            "failed", text, reply.frames, f"{context.revision}/basic/versioning#compatibility-matrix"
        )
    return passed(f"{older.revision} and {context.revision} side by side", (*reply.frames, *answer.frames))


async def _result_type(context: ProbeContext) -> Conclusion:
    results = 0
    async for method, answer in _cacheable_results(context):
        if not isinstance(answer.members.get("resultType"), str):
            text = f"the result of {method} has no resultType"
            return context.violation("STAT-004/R-213", text, answer.frames)
        results += 1
    if not results:
        raise Skipped("because the server refuses all requests that this could be seen in")
    return passed(f"{count(results, 'result')} with a resultType")


async def _caching_hints(context: ProbeContext) -> Conclusion:
    results = 0
    async for method, answer in _cacheable_results(context):
        if answer.members.get("resultType", "complete") == "complete":
            results += 1
            if fault := _hint_fault(answer.members):
                text = f"the result of {method} has {fault}"
                return context.violation("CACHE-001/R-263", text, answer.frames)
    if not results:
        raise Skipped("because the server refuses all requests whose results could be cached")
    return passed(f"{count(results, 'result')} with ttlMs and cacheScope")


def _hint_fault(result: JSONObject) -> str:
    """Return which caching hint of a result is wrong; empty if both are right."""
    ttl_ms, scope = result.get("ttlMs"), result.get("cacheScope")
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int | float) or ttl_ms < 0 or ttl_ms != int(ttl_ms):
        return f"ttlMs {shown(ttl_ms)}" if "ttlMs" in result else "no ttlMs"
    if scope not in ("public", "private"):
        return f"cacheScope {shown(scope)}" if "cacheScope" in result else "no cacheScope"
    return ""


async def _cacheable_results(context: ProbeContext) -> AsyncIterator[tuple[str, Answer]]:
    """Send a request of every kind whose result can be cached; yield each method and its answer.

    Answers that are errors are left out.
    """
    requests: list[tuple[str, JSONObject]] = [("server/discover", {})]
    requests += [(method, {}) for capability, method in _LISTS if context.declares(capability)]
    if context.inventory.resources:
        requests.append(("resources/read", {"uri": context.inventory.resources[0].get("uri")}))
    for method, params in requests:
        answer = await context.client.request(method, params)
        if not answer.is_error:
            yield method, answer


_HTTP: Final = ("http",)

PROBES: Final = (
    Probe(
        "discover",
        "lifecycle",
        "server/discover lists the versions and capabilities.",
        _discover,
        rules=("DISC-001", "DISC-002"),
        revisions=STATELESS,
    ),
    Probe(
        "first-request",
        "lifecycle",
        "The first message of all may be any request.",
        _first_request,
        rules=("STAT-009",),
        revisions=STATELESS,
        transports=("stdio",),
    ),
    Probe(
        "request-without-capabilities",
        "errors",
        "A request that lacks clientCapabilities is refused with -32602.",
        _no_capabilities,
        rules=("STAT-002",),
        revisions=STATELESS,
    ),
    Probe(
        "request-without-version",
        "errors",
        "A request that lacks protocolVersion is refused with -32602.",
        _no_version,
        rules=("STAT-002",),
        revisions=STATELESS,
    ),
    Probe(
        "unsupported-version-request",
        "errors",
        "An unsupported version is refused with -32022 and the supported ones.",
        _unsupported,
        rules=("PROTO-008", "DISC-002"),  # a server that serves such a request breaks both
        revisions=STATELESS,
    ),
    Probe(
        "unknown-method-status",
        "errors",
        "An unknown method is refused with 404 and -32601.",
        _unknown_status,
        rules=("ERR-002",),
        revisions=STATELESS,
        transports=_HTTP,
    ),
    Probe(
        "removed-methods",
        "errors",
        "Methods of older revisions are refused as unknown.",
        _removed_methods,
        rules=("ERR-002",),
        revisions=STATELESS,
    ),
    Probe(
        "session-header",
        "transport",
        "A session id is ignored, and none is issued.",
        _session_header,
        rules=("PROTO-010",),
        revisions=STATELESS,
        transports=_HTTP,
    ),
    Probe(
        "retired-http-methods",
        "transport",
        "GET and DELETE are declined with 405 unless the server supports an older revision.",
        _retired_http_methods,
        rules=("HTTP-020",),
        revisions=STATELESS,
        transports=_HTTP,
    ),
    Probe(
        "older-client",
        "lifecycle",
        "initialize is served, or refused with the supported versions.",
        _older_client,
        rules=("ERA-003",),
        revisions=STATELESS,
    ),
    Probe(
        "both-eras",
        "lifecycle",
        "A session and a stateless request side by side.",
        _both_eras,
        rules=(),
        revisions=STATELESS,
        transports=_HTTP,
    ),
    Probe(
        "result-type",
        "schema",
        "Every result has a resultType.",
        _result_type,
        rules=("STAT-004", "STAT-005"),
        revisions=STATELESS,
    ),
    Probe(
        "caching-hints",
        "schema",
        "Results that can be cached have ttlMs and cacheScope.",
        _caching_hints,
        rules=("CACHE-001", "CACHE-003"),
        revisions=STATELESS,
    ),
)
