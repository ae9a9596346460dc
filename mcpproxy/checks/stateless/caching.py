"""Caching hints of 2026-07-28: how long a result stays fresh, and who may receive it.

The checks compare the results of different requests. Over HTTP they are remembered by server and
Authorization, because a request belongs to no session; on stdio there is one caller.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, member
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Response
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.shapes.nodes import is_integer
from mcpproxy.protocol.wording import shown
from mcpproxy.session.history import History, SentRequest, get_or_make, keep_latest

LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
CACHEABLE: Final = ("server/discover", *LISTS, "resources/read")
INTERIM: Final = ("tools/call", "prompts/get", "resources/read")
"""Requests that may be answered with input_required."""

SCOPES: Final = ("public", "private")
HINTS: Final = ("ttlMs", "cacheScope")

OF_ONE_RETRY: Final = ("_meta", "inputResponses", "requestState")

FRESH_MS: Final = 60_000
"""Results are compared for at most this long, because longer-lived ones may still change by themselves."""

MAX_REMEMBERED: Final = 4096
MAX_CALLERS: Final = 16
"""The number of cursors, of requests, and of callers of each that are remembered."""


@slotted(frozen=True)
class Shared:
    """A public result that one caller received: a hash of its content, its frame, and its expiry."""

    digest: int
    seq: int
    fresh_until_ns: float


@slotted()
class Caching:
    """The cache scopes of pages, and the public results.

    ``scopes`` maps caller, method and the cursor that a page gave to its scope (``None`` if pages differ) and
    its frame. ``shared`` has public results by server and request, then by Authorization.
    """

    scopes: dict[tuple[str, str, str], tuple[str | None, int]] = field(
        default_factory=dict[tuple[str, str, str], tuple[str | None, int]]
    )
    shared: dict[tuple[str, int], dict[str, Shared]] = field(
        default_factory=dict[tuple[str, int], dict[str, Shared]]
    )


def hints(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a complete result with missing or invalid caching hints (CACHE-001)."""
    asked, result = _answered(context)
    # A server of the other era may answer a stateless request; only "complete" shows that it knows this one.
    if asked is None or result.get("resultType") != "complete":
        return
    for name in HINTS:
        if fault := _fault(result, name):
            problem = f"{context.sender} sent a result of {asked.method} {fault}"
            yield Violation("CACHE-001", "R-263", problem, pointer=f"{context.at}/result/{name}")


def _fault(result: JSONObject, name: str) -> str:
    if name not in result:
        return f"without {name}"
    value = result[name]
    if name == "cacheScope":
        return "" if value in SCOPES else f"whose cacheScope is {shown(value)}, neither public nor private"
    if not isinstance(value, int | float) or not is_integer(value):
        return f"whose ttlMs is {shown(value)}, not an integer"
    return f"whose ttlMs is {shown(value)}, less than 0" if value < 0 else ""


def hints_too_early(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report caching hints in a result that asks for input (CACHE-002)."""
    asked, result = _answered(context) if context.stateless else (None, {})
    if asked is None or result.get("resultType") != "input_required":
        return ()
    given = [name for name in HINTS if name in result]
    if not given:
        return ()
    problem = f"{context.sender} asked for input to {asked.method} with {' and '.join(given)}"
    where = f"{context.at}/result/{given[0]}"
    return (Violation("CACHE-002", "R-264", f"{problem}; such a result is not cached", pointer=where),)


def scope_of_pages(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report pages of one list with different cache scopes (CACHE-003)."""
    asked, result = _answered(context)
    cursor, scope = member(asked.params, "cursor") if asked else None, result.get("cacheScope")
    if asked is None or not isinstance(cursor, str) or scope not in SCOPES:
        return ()
    before, seq = history.across_requests(Caching).scopes.get(
        (history.caller, asked.method, cursor), (None, 0)
    )
    if before is None or before == scope:
        return ()
    problem = f"{context.sender} declared a page of {asked.method} {scope}, and the page before it {before}"
    return (
        Violation("CACHE-003", "R-265", problem, pointer=context.at + "/result/cacheScope", related=(seq,)),
    )


def remember_scope(context: MessageContext, history: History) -> None:
    """Record the scope of the page that gave a cursor."""
    asked, result = _answered(context)
    cursor, scope = result.get("nextCursor"), result.get("cacheScope")
    if asked is None or not isinstance(cursor, str) or scope not in SCOPES:
        return
    scopes, key = history.across_requests(Caching).scopes, (history.caller, asked.method, cursor)
    before, _ = scopes.get(key, (scope, 0))
    keep_latest(scopes, key, (str(scope) if before == scope else None, context.seq), MAX_REMEMBERED)


def public_results(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a public result that differs between callers with different credentials (CACHE-004)."""
    asked, result = _answered(context)
    if (
        asked is None
        or history.stateless_memories is None
        or (mine := _shared(context, asked, result)) is None
    ):
        return ()
    server, _, authorization = history.caller.partition(" ")
    others = history.across_requests(Caching).shared.get((server, _request(asked)), {})
    own = others.get(authorization)
    for caller, seen in others.items():
        if caller == authorization or seen.digest == mine.digest:
            continue
        # This caller got the same result before and after the other's, so the value did not change over time.
        unchanged = own is not None and own.digest == mine.digest and own.seq < seen.seq
        if unchanged or context.frame.observed_at_ns < seen.fresh_until_ns:
            problem = (
                f"{context.sender} declared its result of {asked.method} public, "
                f"but gave another one to a caller with other credentials"
            )
            level = None if unchanged else "info"
            where = context.at + "/result/cacheScope"
            return (
                Violation("CACHE-004", "R-266", problem, pointer=where, related=(seen.seq,), at_most=level),
            )
    return ()


def remember_public(context: MessageContext, history: History) -> None:
    """Record the public results and who received them."""
    asked, result = _answered(context)
    if (
        asked is None
        or history.stateless_memories is None
        or (mine := _shared(context, asked, result)) is None
    ):
        return
    server, _, authorization = history.caller.partition(" ")
    memory, key = history.across_requests(Caching).shared, (server, _request(asked))
    keep_latest(get_or_make(memory, key, dict[str, Shared], MAX_REMEMBERED), authorization, mine, MAX_CALLERS)


def _answered(context: MessageContext) -> tuple[SentRequest | None, JSONObject]:
    """Return the stateless request and its result; ``None`` and an empty object if there are none."""
    message, asked = context.message, context.answers
    if asked is None or not context.stateless or not isinstance(message, Response):
        return None, {}
    return (asked, message.result) if isinstance(message.result, dict) else (None, {})


def _shared(context: MessageContext, asked: SentRequest, result: JSONObject) -> Shared | None:
    """Return a public result to compare; ``None`` if it is not public or depends on the client's input."""
    if result.get("cacheScope") != "public" or result.get("resultType") != "complete":
        return None
    if any(member(asked.params, name) is not None for name in OF_ONE_RETRY[1:]):
        return None
    digest = _digest({name: value for name, value in result.items() if name not in ("_meta", "ttlMs")})
    ttl_ms = result.get("ttlMs")
    fresh_ns = min(ttl_ms, FRESH_MS) * 1_000_000 if isinstance(ttl_ms, int | float) else 0
    return None if digest is None else Shared(digest, context.seq, context.frame.observed_at_ns + fresh_ns)


def _request(asked: SentRequest) -> int:
    """Return a hash of what a request asks for and of the client's version and capabilities."""
    params = asked.params if isinstance(asked.params, dict) else {}
    plain: JSONObject = {name: value for name, value in params.items() if name not in OF_ONE_RETRY}
    spoken: list[JSON] = [member(params, "_meta", name) for name in (VERSION_KEY, CAPABILITIES_KEY)]
    return hash((asked.method, _digest(plain), _digest(spoken)))


def _digest(value: JSON) -> int | None:
    """A hash of a value, independent of member order; ``None`` if the value cannot be serialized."""
    try:
        return hash(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    except orjson.JSONEncodeError:  # half a surrogate pair, a giant integer, a value nested too deep
        return None


FAMILY: Final = RuleFamily(
    checks=(
        Check(("CACHE-001",), hints, (Response,), CACHEABLE),
        Check(
            ("CACHE-002",),
            hints_too_early,
            (Response,),
            INTERIM,
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
