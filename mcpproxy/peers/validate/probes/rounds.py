"""Stateless requests that take several rounds or get several messages: requests for input, and subscriptions.

A stateless request belongs to no session. A server can answer a request with a request for input; the client
then repeats its request with the input. Only tools that may be called are called (``walk.allowed_calls``).
Requests for input are answered as by a host without a user; forms are filled in with samples of their
schema.

Sources: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr and
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mcpproxy.judge.session.frame import Frame
from mcpproxy.peers.validate.answers import Answer, Pending
from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.errors import Skipped, TimedOutError
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.jsonrpc import FEATURES
from mcpproxy.peers.validate.probes.walk import allowed_calls
from mcpproxy.peers.validate.raw_requests import cited
from mcpproxy.peers.validate.sample import sample
from mcpproxy.protocol.error_message import INVALID_PARAMS, MISSING_CAPABILITY
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, RequestId
from mcpproxy.protocol.message_parts import member, target_of
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import ACKNOWLEDGED, LISTEN
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import shown

_MAX_ROUNDS: Final = 5
"""How often a request is repeated with the input that its answer asks for."""
_PAGE: Final = "2026-07-28/basic/patterns/mrtr"


async def _requests_needing_input(context: ProbeContext) -> AsyncIterator[tuple[str, JSONObject, Answer]]:
    """Yield every request that the server answers with a request for input: method, params, answer.

    Raises:
        Skipped: there is no such request.
    """
    has_any = False
    async for method, params, answer in _harmless_answers(context):
        if answer.members.get("resultType") == "input_required":
            has_any = True
            yield method, params, answer
    if not has_any:
        raise Skipped("nothing that may be called asks for input; name such a tool with --call NAME=JSON")


async def _harmless_answers(context: ProbeContext) -> AsyncIterator[tuple[str, JSONObject, Answer]]:
    """Call the tools that may be called, and read the first resources: yield method, params, answer."""
    for name, arguments in allowed_calls(context):
        answer = await context.call(name, arguments)
        yield "tools/call", {"name": name, "arguments": arguments}, answer
    for resource in context.inventory.resources[:2]:
        params: JSONObject = {"uri": resource.get("uri")}
        yield "resources/read", params, await context.client.request("resources/read", params)


async def _complete_with_input(context: ProbeContext) -> Conclusion:
    outcomes: list[str] = []
    frames: list[int] = []
    async for method, params, answer in _requests_needing_input(context):
        frames += answer.frames
        last_answer, rounds = answer, 0
        while last_answer.members.get("resultType") == "input_required" and rounds < _MAX_ROUNDS:
            rounds += 1
            last_answer = await context.client.request(
                method, {**params, **_with_input(context.client, last_answer)}
            )
            frames += last_answer.frames
        name = shown(target_of(method, params))
        if last_answer.is_error:
            return remarked(
                f"{name} asked for input and refused it with {shown(last_answer.code)}; "
                "no revision forbids it, but input that fits the form should be accepted",
                last_answer.frames,
            )
        after = f"after {rounds} {'round' if rounds == 1 else 'rounds'}"
        if last_answer.members.get("resultType") == "input_required":
            return remarked(f"{name} still asks for input {after}", last_answer.frames)
        outcomes.append(f"{name} {after}")
    return passed(f"completed: {', '.join(outcomes)}", tuple(frames))


def _with_input(client: Client, answer: Answer) -> JSONObject:
    """Return the members to add to the repeated request: the requested input, and the request state."""
    input_requests = answer.members.get("inputRequests")
    members: JSONObject = {}
    if isinstance(input_requests, dict):
        members["inputResponses"] = {key: _reply(client, request) for key, request in input_requests.items()}
    if "requestState" in answer.members:
        members["requestState"] = answer.members["requestState"]
    return members


def _reply(client: Client, request: JSON) -> JSON:
    """Return our input for one request for input."""
    method = member(request, "method")
    schema = member(request, "params", "requestedSchema")
    if method == "elicitation/create" and isinstance(schema, dict):
        return {"action": "accept", "content": sample(schema)}
    return client.replies.get(str(method), {})


async def _without_capabilities(context: ProbeContext) -> Conclusion:
    outcomes: list[str] = []
    frames: list[int] = []
    no_capabilities: JSONObject = {CAPABILITIES_KEY: {}}
    async for method, params, first in _requests_needing_input(context):
        if not _has_input_requests(first):
            continue
        answer = await context.client.request(method, {**params, "_meta": no_capabilities})
        frames += answer.frames
        name = shown(target_of(method, params))
        if _has_input_requests(answer):
            text = f"{name} asked for input of a kind that the request does not declare"
            return context.violation("MRTR-004/R-256", text, answer.frames)
        if answer.is_error and answer.code != MISSING_CAPABILITY:
            text = f"{name} was refused with {shown(answer.code)} for want of a capability, not with -32021"
            return context.violation("PROTO-009/R-224", text, answer.frames)
        outcomes.append(f"{name} {'refused with -32021' if answer.is_error else 'asked for nothing'}")
    if not outcomes:
        raise Skipped("nothing that may be called asks a client for anything")
    return passed(", ".join(outcomes), tuple(frames))


async def _without_input(context: ProbeContext) -> Conclusion:
    outcomes: list[str] = []
    async for method, params, first in _requests_needing_input(context):
        if not _has_input_requests(first):
            continue
        without_input = {**_with_input(context.client, first), "inputResponses": {}}
        answer = await context.client.request(method, {**params, **without_input})
        name = shown(target_of(method, params))
        if answer.is_error:
            text = f"{name} without its input was refused with {shown(answer.code)}; it should ask again"
            return cited("warning", text, answer.frames, f"{_PAGE}#error-handling")
        needs_input = answer.members.get("resultType") == "input_required"
        outcomes.append(f"{name} {'asked again' if needs_input else 'needed no input'}")
    if not outcomes:
        raise Skipped("nothing that may be called asks a client for anything")
    return passed(", ".join(outcomes))


def _has_input_requests(answer: Answer) -> bool:
    """Whether the server asks for input; with ``requestState`` alone it only wants the request repeated."""
    requests = answer.members.get("inputRequests")
    return isinstance(requests, dict) and bool(requests)


# Subscriptions


async def _subscription(context: ProbeContext) -> Conclusion:
    client = context.client
    async with _open_subscription(context, client.new_id()) as (pending, acknowledgement):
        if isinstance(acknowledgement, Answer):
            return _conclusion_without_subscription(context, acknowledgement)
        if acknowledgement is None:
            text = f"a subscription was not acknowledged within {client.timeout_s:g} s"
            return context.violation("SUB-003/R-245", text, (pending.seq,))
    await client.ping()
    return passed(f"acknowledged: {_granted(acknowledgement)}", (pending.seq, acknowledgement.seq))


async def _two_subscriptions(context: ProbeContext) -> Conclusion:
    async with _open_subscription(context, context.client.new_id()) as (first, acknowledgement):
        if isinstance(acknowledgement, Answer):
            raise Skipped("the server opens no subscription")  # the check of one says so
        async with _open_subscription(context, "mcpproxy-subscription") as (second, later):
            if acknowledgement is None or not isinstance(later, Frame):
                text = "of two subscriptions at once, one was not acknowledged under its id"
                return context.violation("SUB-003/R-245", text, (first.seq, second.seq))
    await context.client.ping()
    frames = (first.seq, acknowledgement.seq, second.seq, later.seq)
    return passed("two side by side, each acknowledged under its id", frames)


def _conclusion_without_subscription(context: ProbeContext, answer: Answer) -> Conclusion:
    """Return the conclusion on a response to ``subscriptions/listen``: it means there is no subscription."""
    if not answer.is_error:
        text = "subscriptions/listen was answered at once, without an acknowledgement"
        return context.violation("SUB-003/R-245", text, answer.frames)
    refused = f"but refused a subscription: {shown(answer.code)}"
    if context.declares("resources.subscribe") and answer.code != INVALID_PARAMS:
        return context.violation("SUB-003/R-245", f"the server declares subscribe, {refused}", answer.frames)
    if any(context.declares(f"{feature}.listChanged") for feature in FEATURES):
        text = f"the server declares listChanged, {refused}; so it can announce no change"
        return context.violation("TOOL-011/R-148", text, answer.frames)
    raise Skipped(f"the server has no subscriptions ({shown(answer.code)})")


@asynccontextmanager
async def _open_subscription(
    context: ProbeContext, id: RequestId
) -> AsyncGenerator[tuple[Pending, Answer | Frame | None]]:
    """Open a subscription, and cancel it at the end.

    Yield the request, with its response or the frame that acknowledges it; with ``None`` if neither arrives.
    """
    client = context.client
    changes = _changes_to_ask_for(context)
    frames_before = len(client.unsolicited)
    pending = await client.begin(LISTEN, {"notifications": changes}, id=id)
    exchange = context.http_wire.last if client.wire.transport == "http" else None
    answering = asyncio.create_task(client.wait_for_answer(pending))
    acknowledging = asyncio.create_task(_acknowledgement(client, pending, frames_before))
    try:
        await asyncio.wait((answering, acknowledging), return_when=asyncio.FIRST_COMPLETED)
        frame = acknowledging.result() if acknowledging.done() else None
        if frame is None and answering.done() and not isinstance(answering.exception(), TimedOutError):
            yield pending, answering.result()
        else:
            yield pending, frame
    finally:
        for task in (answering, acknowledging):
            task.cancel()
        await asyncio.gather(answering, acknowledging, return_exceptions=True)
        if exchange is not None:
            context.http_wire.abandon(exchange)
        elif not client.gone:
            params: JSONObject = {"requestId": id, "_meta": client.meta()}
            await client.notify("notifications/cancelled", params)


def _changes_to_ask_for(context: ProbeContext) -> JSONObject:
    """Return the changes to subscribe to: lists that the server declares, or else a resource, or else tools.

    Lists are preferred, because a server may refuse the subscription to the first resource.
    """
    lists = [f"{feature}ListChanged" for feature in FEATURES if context.declares(f"{feature}.listChanged")]
    uri = next((resource.get("uri") for resource in context.inventory.resources), None)
    if not lists and context.declares("resources.subscribe") and isinstance(uri, str):
        return {"resourceSubscriptions": [uri]}
    return dict.fromkeys(lists or ["toolsListChanged"], True)


async def _acknowledgement(client: Client, pending: Pending, index: int) -> Frame | None:
    """Return the first unsolicited frame from ``index`` on that acknowledges a subscription, or ``None``."""
    while frame := await client.next_unsolicited(client.timeout_s, index):
        if _acknowledges(frame, pending):
            return frame
        index += 1
    return None


def _acknowledges(frame: Frame, pending: Pending) -> bool:
    """Whether a frame acknowledges this subscription; over HTTP the id may be missing."""
    message = frame.message
    if not isinstance(message, Notification) or message.method != ACKNOWLEDGED:
        return False
    params = message.params if isinstance(message.params, dict) else {}
    meta = params.get("_meta")
    id = member(meta, SUBSCRIPTION_ID_KEY)
    return id == pending.id or (bool(frame.exchange) and id is None)


def _granted(frame: Frame) -> str:
    """Return the names of the changes that an acknowledgement grants."""
    params = frame.message.params if isinstance(frame.message, Notification) else None
    granted = member(params, "notifications")
    names = [name for name, value in granted.items() if value] if isinstance(granted, dict) else []
    return ", ".join(names) or "nothing"


PROBES: Final = (
    Probe(
        "input-required",
        "sequence",
        "A request that needs input completes when the input is sent.",
        _complete_with_input,
        rules=("MRTR-001", "MRTR-002", "MRTR-003"),
        revisions=STATELESS,
    ),
    Probe(
        "input-undeclared",
        "sequence",
        "Input is asked for only in ways that the request declares.",
        _without_capabilities,
        rules=("MRTR-004", "PROTO-009"),
        revisions=STATELESS,
    ),
    Probe(
        "input-left-out",
        "sequence",
        "If the input is left out, the server asks for it again.",
        _without_input,
        rules=(),
        revisions=STATELESS,
    ),
    Probe(
        "subscription",
        "sequence",
        "A subscription is acknowledged, and ends when it is cancelled.",
        _subscription,
        rules=("SUB-002", "SUB-003", "SUB-004", "SUB-005", "SUB-006", "SUB-008", "TOOL-011"),
        revisions=STATELESS,
    ),
    Probe(
        "two-subscriptions",
        "sequence",
        "Two subscriptions at once, each under its id.",
        _two_subscriptions,
        rules=("SUB-002", "SUB-003", "SUB-006"),
        revisions=STATELESS,
    ),
)
