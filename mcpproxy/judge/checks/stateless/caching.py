"""Caching hints of 2026-07-28: how long a result is fresh (``ttlMs``), and who may get it (``cacheScope``).

Some checks compare the results of different requests. Over HTTP, these requests have no session, so results
are remembered by *caller*: requests to one server with the same Authorization header have the same caller. On
stdio there is one caller.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.stateless.rounds import MAY_ASK_FOR_INPUT, RETRY_MEMBERS
from mcpproxy.judge.checks.stateless.servers import declared_settings
from mcpproxy.judge.session.history import History, SentRequest, get_or_make, keep_latest
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.methods import SKILLS
from mcpproxy.protocol.shapes.nodes import is_integer
from mcpproxy.protocol.wording import shown

LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list")
CACHEABLE: Final = ("server/discover", *LISTS, "resources/read", "skills/get")
"""The methods whose complete results have caching hints; ``LISTS`` are those with pages."""

SCOPES: Final = ("public", "private")
HINTS: Final = ("ttlMs", "cacheScope")

MAX_FRESH_MS: Final = 60_000
"""A result is compared for at most this long, even if its ``ttlMs`` is longer, because data may change."""

MAX_REMEMBERED: Final = 4096
"""The number of cursors, and the number of requests, that are remembered."""

MAX_CALLERS: Final = 16
"""The number of callers that are remembered for each request."""


@slotted(frozen=True)
class PublicResult:
    """A public result that one caller received: a hash of its content, its frame, and when it expires."""

    digest: int
    seq: int
    fresh_until_ns: float


@slotted()
class Caching:
    """The cache scopes of pages, and the public results.

    ``scopes`` maps the caller, the method and a page's ``nextCursor`` to the scope and the frame of that
    page. The scope is ``None`` if several pages gave the same cursor and differ in scope. ``public_results``
    maps the server and a hash of the request to the results by Authorization.
    """

    scopes: dict[tuple[str, str, str], tuple[str | None, int]] = field(
        default_factory=dict[tuple[str, str, str], tuple[str | None, int]]
    )
    public_results: dict[tuple[str, int], dict[str, PublicResult]] = field(
        default_factory=dict[tuple[str, int], dict[str, PublicResult]]
    )


def caching_hints(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a complete result with missing or invalid caching hints (CACHE-001)."""
    request, result = _stateless_result(context)
    # A server that only knows revisions with a handshake may answer too, but does not send "complete".
    if request is None or result.get("resultType") != "complete":
        return
    requirement = {"skills/list": "R-316", "skills/get": "R-318"}.get(request.method, "R-263")
    if requirement != "R-263" and declared_settings(SKILLS, context, history) is None:
        return  # The method may be that of another extension.
    for name in HINTS:
        if fault := _hint_fault(result, name):
            problem = f"{context.sender} sent a result of {request.method} {fault}"
            yield Violation(
                "CACHE-001",
                requirement,
                problem,
                pointer=f"{context.at}/result/{name}",
            )


def _hint_fault(result: JSONObject, name: str) -> str:
    """Return what is wrong with the hint ``name``, as a clause about the result; empty if it is correct."""
    if name not in result:
        return f"without {name}"
    value = result[name]
    if name == "cacheScope":
        return "" if value in SCOPES else f"whose cacheScope is {shown(value)}, neither public nor private"
    if not isinstance(value, int | float) or not is_integer(value):
        return f"whose ttlMs is {shown(value)}, not an integer"
    return f"whose ttlMs is {shown(value)}, less than 0" if value < 0 else ""


def hints_with_input_request(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report caching hints in a result that asks for input (CACHE-002)."""
    request, result = _stateless_result(context) if context.stateless else (None, {})
    if request is None or result.get("resultType") != "input_required":
        return ()
    names = [name for name in HINTS if name in result]
    if not names:
        return ()
    problem = f"{context.sender} asked for input to {request.method} with {' and '.join(names)}"
    pointer = f"{context.at}/result/{names[0]}"
    return (Violation("CACHE-002", "R-264", f"{problem}; such a result is not cached", pointer=pointer),)


def scope_of_pages(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a page whose cache scope differs from that of the page before it (CACHE-003)."""
    request, result = _stateless_result(context)
    cursor, scope = member(request.params, "cursor") if request else None, result.get("cacheScope")
    if request is None or not isinstance(cursor, str) or scope not in SCOPES:
        return ()
    scopes = history.across_requests(Caching).scopes
    previous_scope, seq = scopes.get((history.caller, request.method, cursor), (None, 0))
    if previous_scope is None or previous_scope == scope:
        return ()
    problem = (
        f"{context.sender} declared a page of {request.method} {scope}, "
        f"and the page before it {previous_scope}"
    )
    return (
        Violation("CACHE-003", "R-265", problem, pointer=context.at + "/result/cacheScope", related=(seq,)),
    )


def remember_scope(context: MessageContext, history: History) -> None:
    """Record the scope of a page, by the cursor of the next page."""
    request, result = _stateless_result(context)
    cursor, scope = result.get("nextCursor"), result.get("cacheScope")
    if request is None or not isinstance(cursor, str) or scope not in SCOPES:
        return
    scopes, key = history.across_requests(Caching).scopes, (history.caller, request.method, cursor)
    recorded_scope, _ = scopes.get(key, (scope, 0))
    keep_latest(scopes, key, (str(scope) if recorded_scope == scope else None, context.seq), MAX_REMEMBERED)


def public_results(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report, over HTTP, a public result that differs between callers with different credentials (CACHE-004).

    It is certain, and more than an info, only if one caller got the same result before and after the other.
    """
    request, result = _stateless_result(context)
    if request is None or history.stateless_memories is None:
        return ()  # On stdio there is only one caller.
    result_now = _public_result(context, request, result)
    if result_now is None:
        return ()
    server, authorization = _server_and_authorization(history)
    results = history.across_requests(Caching).public_results.get((server, _request_hash(request)), {})
    earlier = results.get(authorization)
    for other_authorization, other_result in results.items():
        if other_authorization == authorization or other_result.digest == result_now.digest:
            continue
        # This caller got the same result before and after the other caller got another one. So the result
        # depends on the caller and not on the time.
        is_certain = (
            earlier is not None and earlier.digest == result_now.digest and earlier.seq < other_result.seq
        )
        if is_certain or context.frame.observed_at_ns < other_result.fresh_until_ns:
            problem = (
                f"{context.sender} declared its result of {request.method} public, "
                f"but gave another one to a caller with other credentials"
            )
            return (
                Violation(
                    "CACHE-004",
                    "R-266",
                    problem,
                    pointer=context.at + "/result/cacheScope",
                    related=(other_result.seq,),
                    at_most=None if is_certain else "info",
                ),
            )
    return ()


def remember_public(context: MessageContext, history: History) -> None:
    """Record a public result and the caller that received it, over HTTP."""
    request, result = _stateless_result(context)
    if request is None or history.stateless_memories is None:
        return  # on stdio
    result_now = _public_result(context, request, result)
    if result_now is None:
        return
    server, authorization = _server_and_authorization(history)
    by_request, key = history.across_requests(Caching).public_results, (server, _request_hash(request))
    by_authorization = get_or_make(by_request, key, dict[str, PublicResult], MAX_REMEMBERED)
    keep_latest(by_authorization, authorization, result_now, MAX_CALLERS)


def _server_and_authorization(history: History) -> tuple[str, str]:
    """Return the two parts of ``History.caller`` over HTTP."""
    server, _, authorization = history.caller.partition(" ")
    return server, authorization


def _stateless_result(context: MessageContext) -> tuple[SentRequest | None, JSONObject]:
    """Return the stateless request and its result; ``None`` and an empty object if there are none."""
    message, request = context.message, context.answers
    if request is None or not context.stateless or not isinstance(message, Response):
        return None, {}
    return (request, message.result) if isinstance(message.result, dict) else (None, {})


def _public_result(context: MessageContext, request: SentRequest, result: JSONObject) -> PublicResult | None:
    """Return a result for comparison; ``None`` if it is not a complete public result, depends on the client's
    input, or cannot be hashed.
    """
    if result.get("cacheScope") != "public" or result.get("resultType") != "complete":
        return None
    if any(member(request.params, name) is not None for name in RETRY_MEMBERS):
        return None
    digest = _digest({name: value for name, value in result.items() if name not in ("_meta", "ttlMs")})
    if digest is None:
        return None
    ttl_ms = result.get("ttlMs")
    fresh_ns = min(ttl_ms, MAX_FRESH_MS) * 1_000_000 if isinstance(ttl_ms, int | float) else 0
    return PublicResult(digest, context.seq, context.frame.observed_at_ns + fresh_ns)


def _request_hash(request: SentRequest) -> int:
    """Return a hash of what a result depends on: the request, and the client's version and capabilities."""
    params = request.params if isinstance(request.params, dict) else {}
    relevant_params: JSONObject = {
        name: value for name, value in params.items() if name not in ("_meta", *RETRY_MEMBERS)
    }
    client: list[JSON] = [member(params, "_meta", name) for name in (VERSION_KEY, CAPABILITIES_KEY)]
    return hash((request.method, _digest(relevant_params), _digest(client)))


def _digest(value: JSON) -> int | None:
    """Return a hash of ``value`` for any order of members; ``None`` if it cannot be serialized."""
    try:
        return hash(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    except orjson.JSONEncodeError:  # half a surrogate pair, a giant integer, a value nested too deep
        return None


FAMILY: Final = RuleFamily(
    checks=(
        Check(("CACHE-001",), caching_hints, (Response,), CACHEABLE),
        Check(
            ("CACHE-002",),
            hints_with_input_request,
            (Response,),
            MAY_ASK_FOR_INPUT,
            members=("resultType",),
            mentions=(b'"input_required"',),
        ),
        Check(("CACHE-003",), scope_of_pages, (Response,), LISTS),
        Check(("CACHE-004",), public_results, (Response,), CACHEABLE),
    ),
    updates=(
        StateUpdate(remember_scope, (Response,), LISTS),
        StateUpdate(remember_public, (Response,), CACHEABLE),
    ),
)
