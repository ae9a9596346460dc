"""JSON-RPC itself: malformed messages, unknown methods, batches, progress, and ids of every kind.

A server may refuse or ignore a malformed message. If it does not answer afterwards, that is a warning.

Sources: https://www.jsonrpc.org/specification, and the page "Overview" (``basic``) of each revision.
"""

from typing import Final

from mcpproxy.base.style import count
from mcpproxy.judge.session.frame import Frame
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.defaults import UNKNOWN_METHOD
from mcpproxy.peers.validate.errors import Skipped, ValidateError
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, ProbeFunction, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.walk import allowed_calls, ensure_tools_listed
from mcpproxy.peers.validate.raw_requests import missing_method
from mcpproxy.peers.validate.reaction import JSON_RPC, Reaction, check_alive, reaction
from mcpproxy.protocol.error_message import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from mcpproxy.protocol.jsonrpc import (
    JSON,
    JSONObject,
    Notification,
    RequestId,
    Response,
)
from mcpproxy.protocol.message_parts import TARGETS, answers_in
from mcpproxy.protocol.wording import shown

FEATURES: Final = ("tools", "resources", "prompts")
"""The capabilities with a list method of the same name, as in ``tools/list``."""

_BATCHING_PAGE: Final = "https://modelcontextprotocol.io/specification/2025-03-26/basic#batching"

_INCOMPLETE_PARAMS: Final[tuple[tuple[str, str, JSON], ...]] = (
    ("tools", "tools/call", {}),
    ("resources", "resources/read", {}),
    ("prompts", "prompts/get", {}),
    ("completions", "completion/complete", {}),
)
"""By row: a capability, a method that needs it, and params that lack a required member."""

# For each probe of an id: the probe's name, a description of the id, the id.
_IDS: Final[tuple[tuple[str, str, RequestId], ...]] = (
    ("id-zero", "the number 0", 0),
    ("id-negative", "a negative number", -42),
    ("id-large", "the largest number that doubles hold exactly", 2**53 - 1),
    ("id-string", "a string", "päge/1 \u2603"),
    ("id-digits", "a string of digits, not a number", "0815"),
    ("id-long", "a string of 4,096 characters", "long-" + "x" * 4091),
)


async def _unknown_method(context: ProbeContext) -> Conclusion:
    answer = await context.client.request(UNKNOWN_METHOD)
    if answer.is_error and answer.code == METHOD_NOT_FOUND:
        return passed("refused with -32601", answer.frames)
    text = f"an unknown method was {answer.outcome}, not with -32601"
    if context.is_stateless:
        return missing_method(context, text, answer.frames)
    return context.violation("RPC-020/R-023", text, answer.frames)


async def _unknown_notification(context: ProbeContext) -> Conclusion:
    what = "an unknown notification"
    raw = dumps({"jsonrpc": "2.0", "method": "notifications/mcpproxy/no-such-notification"})
    observed = await reaction(context, raw, what)
    if observed.status >= 400:
        return passed(f"refused with HTTP status {observed.status}", observed.frames)
    if observed.answers:
        return context.violation("RPC-015/R-017", f"{what} was {observed.outcome}", observed.frames)
    return passed("ignored", observed.frames)


async def _invalid_params(context: ProbeContext) -> Conclusion:
    row = next((row for row in _INCOMPLETE_PARAMS if context.declares(row[0])), None)
    if row is None:
        raise Skipped("the server declares no feature whose requests have params")
    _, method, params = row
    answer = await context.client.request(method, params)
    if answer.code == INVALID_PARAMS:
        return passed(f"{method} with empty params was refused with -32602", answer.frames)
    if answer.code == HEADER_MISMATCH and context.target.url and context.is_stateless and method in TARGETS:
        # A request that names nothing cannot have the header that repeats the name, and lacks both.
        return passed(f"{method} with empty params was refused with -32020: it lacks Mcp-Name", answer.frames)
    if answer.is_error:
        text = f"{method} with empty params was refused with {shown(answer.code)}; -32602 says what is wrong"
        return Conclusion("warning", text, answer.frames, source=JSON_RPC)
    answered = "a tool execution error (isError)" if answer.members.get("isError") is True else "a result"
    text = f"{method} with empty params was answered with {answered}, not with -32602"
    return Conclusion("warning", text, answer.frames, source=JSON_RPC)


async def _malformed_json(context: ProbeContext) -> Conclusion:
    try:
        observed = await reaction(context, b'{"jsonrpc":"2.0","id":4711,"method":"ping"', "malformed JSON")
    except ValidateError:
        context.stops_at_malformed_json = True
        raise
    if observed.has_result:
        return _conclude_served(context, "malformed JSON", 4711, observed, PARSE_ERROR)
    if unexpected_codes := [code for code in observed.codes if code != PARSE_ERROR]:
        text = f"malformed JSON was refused with {shown(_as_json(unexpected_codes[0]))}, not with -32700"
        return Conclusion("warning", text, observed.frames, source=JSON_RPC)
    return passed(observed.outcome, observed.frames)


async def _invalid_request(context: ProbeContext) -> Conclusion:
    id = context.client.new_id()
    forms: tuple[tuple[str, JSON], ...] = (
        ("a request whose method is a number", {"jsonrpc": "2.0", "id": id, "method": 42}),
        ("an object with an id alone", {"jsonrpc": "2.0", "id": context.client.new_id()}),
        ("a bare number", 42),
        ("an empty array", []),
    )
    outcomes: list[str] = []
    frames: list[int] = []
    for what, form in forms:
        observed = await reaction(context, dumps(form), what)
        frames += observed.frames
        if observed.has_result:
            own_id = form.get("id") if isinstance(form, dict) else None
            return _conclude_served(context, what, own_id, observed, INVALID_REQUEST)
        if unexpected_codes := [
            code for code in observed.codes if code not in (INVALID_REQUEST, PARSE_ERROR)
        ]:
            text = f"{what} was refused with {shown(_as_json(unexpected_codes[0]))}, not with -32600"
            return Conclusion("warning", text, observed.frames, source=JSON_RPC)
        outcomes.append(observed.outcome)
    return passed("; ".join(dict.fromkeys(outcomes)), tuple(frames))


def _conclude_served(context: ProbeContext, what: str, id: JSON, observed: Reaction, code: int) -> Conclusion:
    """Return the conclusion about a result in answer to something that is not a valid request.

    ``id`` is the id that was sent, and ``code`` the code of the error that should have come.
    """
    ids = [message.id for message, _ in observed.answers if isinstance(message, Response)]
    if other_ids := [other for other in ids if other != id]:
        text = f"{what} was answered with a result that has the id {shown(_as_json(other_ids[0]))}"
        return context.violation("PROTO-007/R-008", text, observed.frames)
    text = f"{what} was answered with a result, not with {code}"
    return Conclusion("warning", text, observed.frames, source=JSON_RPC)


async def _batch(context: ProbeContext) -> Conclusion:
    client = context.client
    ids = (client.new_id(), client.new_id())
    batch: list[JSON] = [client.request_object("ping", id=id) for id in ids]
    received_before = len(client.received)
    try:
        observed = await reaction(context, dumps(batch), "a batch of two pings")
    except ValidateError as fault:
        return _batch_failure(str(fault), fault.frames)
    answered = _answered_ids(client.received[received_before:], ids)
    if answered == set(ids):
        return passed("both requests in it were answered", observed.frames)
    outcome = f"of a batch of two pings {len(answered)} were answered ({observed.outcome})"
    text = f"{outcome}; batches must be received"
    return _batch_failure(text, observed.frames)


def _batch_failure(text: str, frames: tuple[int, ...]) -> Conclusion:
    return Conclusion("failed", text, frames, source=_BATCHING_PAGE)


def _answered_ids(frames: list[Frame], ids: tuple[int, ...]) -> set[int]:
    """Return the ``ids`` that responses in ``frames`` have."""
    answered = {answer.id for frame in frames for answer in answers_in(frame.message)}
    return {id for id in ids if id in answered}


def _with_id(name: str, id: RequestId) -> ProbeFunction:
    """Return the function of the probe ``name``, which sends a request with this id."""

    async def run(context: ProbeContext) -> Conclusion:
        method = await answered_method(context)
        answer = await context.client.request(method, id=id)
        if answer.is_error:
            text = f"a {method} was refused because of its id: {answer.refusal}"
            if name == "id-long":
                return remarked(f"{text}; no revision says how long an id may be", answer.frames)
            return context.violation("RPC-003/R-004", text, answer.frames)
        return passed("answered under the same id", answer.frames)

    return run


async def _progress(context: ProbeContext) -> Conclusion:
    client = context.client
    if context.declares("tools"):
        await ensure_tools_listed(context)
    calls = allowed_calls(context)
    method = "tools/call" if calls else harmless_method(context)
    params: JSONObject = {"name": calls[0][0], "arguments": calls[0][1]} if calls else {}
    unsolicited_before = len(client.unsolicited)
    meta: JSONObject = {"progressToken": "mcpproxy-progress"}
    answer = await (context.call(*calls[0], _meta=meta) if calls else client.request(method, {"_meta": meta}))
    await check_alive(client, f"{method} with a progress token", *answer.frames)
    if answer.is_error:
        if (plain_answer := await client.request(method, params)).is_error:
            raise Skipped(f"because {method} is refused without a token, too: {plain_answer.refusal}")
        text = f"{method} with a progress token was refused: {answer.refusal}"
        return remarked(f"{text}; progress is optional, but a token is lawful", answer.frames)
    progress = [frame.seq for frame in client.unsolicited[unsolicited_before:] if _is_progress(frame)]
    if not progress:
        return passed(f"{method} with a token was answered, without progress", answer.frames)
    noun = count(len(progress), "progress notification")
    return passed(f"{noun}, all for the token of {method}", (*answer.frames, *progress))


def harmless_method(context: ProbeContext) -> str:
    """Return a method that changes nothing: a list method of a declared feature that has not failed so far.

    Raises:
        Skipped: there is no such method.
    """
    declared = [f"{feature}/list" for feature in FEATURES if context.declares(feature)]
    for method in declared:
        if method not in context.inventory.failures:
            return method
    if declared:
        raise Skipped(f"because {context.inventory.failures[declared[0]]}")
    raise Skipped("the server declares nothing that could be listed")


async def answered_method(context: ProbeContext) -> str:
    """Return ``ping_method`` of the client if the server answers it with a result, else a list method.

    Raises:
        Skipped: there is no such list method.
        ValidateError: the ping gets no answer.
    """
    ping = context.client.ping_method
    if ping in context.inventory.failures or (await context.client.ping()).is_error:
        return harmless_method(context)
    return ping


async def skip_if_always_refused(context: ProbeContext, method: str) -> None:
    """After a refusal of ``method``, find out whether the server refuses it in an ordinary session, too.

    Raises:
        Skipped: the server always refuses it, so the refusal was not a reaction to what the probe sent.
        ValidateError: that session cannot be opened, or the request in it gets no answer.
    """
    async with context.new_session("comparison", connected=True) as client:
        answer = await client.request(method)
    if answer.is_error:
        raise Skipped(f"because {method} is refused in any session: {answer.refusal}")


def _is_progress(frame: Frame) -> bool:
    return isinstance(frame.message, Notification) and frame.message.method == "notifications/progress"


def _as_json(code: object) -> JSON:
    return code if isinstance(code, int | float | str) else None


PROBES: Final = (
    Probe(
        "unknown-method",
        "errors",
        "An unknown method is refused with -32601.",
        _unknown_method,
        rules=("RPC-020", "ERR-002"),
    ),
    Probe(
        "unknown-notification",
        "jsonrpc",
        "An unknown notification is ignored.",
        _unknown_notification,
        rules=("RPC-015",),
    ),
    Probe(
        "invalid-params",
        "errors",
        "A request without its required params is refused with -32602.",
        _invalid_params,
    ),
    Probe(
        "malformed-json",
        "jsonrpc",
        "Malformed JSON is refused with -32700 or ignored, and the server still answers afterwards.",
        _malformed_json,
        rules=("PROTO-007",),
        unlawful=True,
    ),
    Probe(
        "invalid-request",
        "jsonrpc",
        "JSON that is not a request is refused with -32600 or ignored.",
        _invalid_request,
        rules=("PROTO-007",),
        unlawful=True,
    ),
    Probe(
        "batch",
        "jsonrpc",
        "A batch is received, and each request in it answered.",
        _batch,
        revisions=("2025-03-26",),
    ),
    *(
        Probe(
            name,
            "jsonrpc",
            f"A request whose id is {what} is answered under that id.",
            _with_id(name, id),
            rules=("PROTO-007", "RPC-003", "RPC-012"),
        )
        for name, what, id in _IDS
    ),
    Probe(
        "progress-token",
        "sequence",
        "Progress notifications have the token of the request, increase, and end with its response.",
        _progress,
        rules=("PROG-001", "PROG-003", "PROG-004", "PROG-005", "PROG-006"),
    ),
)
