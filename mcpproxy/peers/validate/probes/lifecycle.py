"""The handshake in the wrong order: requests before or during it, a second handshake, unknown versions.

The specification says what clients must not do here, but rarely how servers must react. So most of these
probes accept any answer, and object only if the session does not work afterwards.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

import re
from typing import Final

from mcpproxy.peers.validate.answers import Answer, Pending
from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.errors import HttpStatusError, Skipped, UnansweredError
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.jsonrpc import harmless_method, skip_if_always_refused
from mcpproxy.peers.validate.reaction import check_alive, response_frame
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.wording import shown

_FUTURE_REVISION: Final = "2099-12-31"
"""A revision that no server can support: its date is in the future."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


async def _early_request(context: ProbeContext) -> Conclusion:
    method = harmless_method(context)
    what = f"a {method} before initialize"
    async with context.new_session("early-request") as client:
        early_request = await client.begin(method)
        opened = await client.request("initialize", client.initialize_params())
        if opened.is_error:
            text = f"after {what} the session cannot be opened: {opened.refusal}"
            return remarked(f"{text}; no revision forbids it", (early_request.seq, *opened.frames))
        await client.initialized()
        ping_frame = await check_alive(client, what, early_request.seq)
        return _outcome_of_early(client, early_request, (opened.frame.seq, ping_frame))


async def _early_ping(context: ProbeContext) -> Conclusion:
    if failure := context.inventory.failures.get("ping"):
        raise Skipped(f"because {failure}")
    async with context.new_session("early-ping") as client:
        try:
            answer = await client.ping()
        except UnansweredError as fault:
            return context.violation("LIFE-004/R-040", f"before initialize: {fault}", fault.frames)
        if answer.is_error:
            text = f"a ping before initialize was refused: {answer.refusal}"
            return context.violation("LIFE-004/R-040", text, answer.frames)
        return passed("answered", answer.frames)


async def _second_initialize(context: ProbeContext) -> Conclusion:
    client = context.client
    try:
        answer = await client.request("initialize", client.initialize_params())
    except HttpStatusError as fault:
        return passed(f"refused with HTTP status {fault.status}", fault.frames)
    await client.initialized()
    await check_alive(client, "a second initialize", *answer.frames)
    return passed(answer.outcome, answer.frames)


async def _uninitialized(context: ProbeContext) -> Conclusion:
    method = harmless_method(context)
    what = f"a {method} before notifications/initialized"
    async with context.new_session("uninitialized") as client:
        await client.initialize()
        early_request = await client.begin(method)
        await check_alive(client, what, early_request.seq)
        initialized_frame = await client.initialized()
        await check_alive(client, what, early_request.seq, initialized_frame)
        later_answer = await client.request(method)
        if later_answer.is_error:
            await skip_if_always_refused(context, method)
            text = f"{method} is refused even after notifications/initialized: {later_answer.refusal}"
            source = context.spec_url("basic/lifecycle#operation")
            return Conclusion(
                "failed", text, (early_request.seq, initialized_frame, *later_answer.frames), source=source
            )
        return _outcome_of_early(client, early_request, (initialized_frame, *later_answer.frames))


async def _unsupported_version(context: ProbeContext) -> Conclusion:
    async with context.new_session("unsupported-version") as client:
        try:
            answer = await client.request("initialize", client.initialize_params(_FUTURE_REVISION))
        except HttpStatusError as fault:
            return passed(f"refused with HTTP status {fault.status}", fault.frames)
        if answer.is_error:
            return passed(f"refused with {shown(answer.code)}", answer.frames)
        offered = answer.members.get("protocolVersion")
        if offered == _FUTURE_REVISION:
            text = (
                f"the server agrees to {_FUTURE_REVISION}, a revision that does not exist, "
                "and offers none that it has"
            )
            source = context.spec_url("basic/lifecycle#version-negotiation")
            return Conclusion("failed", text, answer.frames, source=source)
        if not isinstance(offered, str) or not _DATE.fullmatch(offered):
            text = f"asked for {_FUTURE_REVISION}, the server offers {shown(offered)}, which is not a date"
            return context.violation("PROTO-008/R-042", text, answer.frames)
        return passed(f"the server offers {offered} instead", answer.frames)


def _outcome_of_early(client: Client, early_request: Pending, frames: tuple[int, ...]) -> Conclusion:
    """Return the conclusion on a request that came too early; ``frames`` show that the session continued."""
    frame = response_frame(client, early_request)
    if frame is None:
        return passed("not answered", (early_request.seq, *frames))
    event = early_request.events.get_nowait()
    outcome = event.outcome if isinstance(event, Answer) else "not answered"
    return passed(outcome, (early_request.seq, frame.seq, *frames))


PROBES: Final = (
    Probe(
        "second-initialize",
        "lifecycle",
        "A second initialize is answered, and the session continues.",
        _second_initialize,
        revisions=STATEFUL,
        disruptive=True,
        unlawful=True,
    ),
    Probe(
        "ping-before-initialize",
        "lifecycle",
        "A ping is answered before there is a session.",
        _early_ping,
        rules=("LIFE-004", "RPC-008"),
        revisions=STATEFUL,
        transports=("stdio",),
        session=False,
    ),
    Probe(
        "request-before-initialize",
        "lifecycle",
        "After a request that comes too early, the session can be opened.",
        _early_request,
        revisions=STATEFUL,
        transports=("stdio",),
        session=False,
        unlawful=True,
    ),
    Probe(
        "uninitialized-operation",
        "lifecycle",
        "After a request before notifications/initialized, the session continues.",
        _uninitialized,
        rules=("PROTO-005", "SEQ-003"),
        revisions=STATEFUL,
        session=False,
        unlawful=True,  # the judge reports the early request of our client
    ),
    Probe(
        "unsupported-version",
        "lifecycle",
        "A revision that does not exist is refused, or answered with one that the server has.",
        _unsupported_version,
        rules=("PROTO-008",),
        revisions=STATEFUL,
        session=False,
    ),
)
