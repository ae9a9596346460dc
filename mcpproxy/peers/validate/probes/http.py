"""Streamable HTTP itself: Accept headers, statuses, streams, resumption, origins; the endpoint of HTTP+SSE.

Some probes are about behaviour that the specification leaves open, but on which clients depend. These probes
accept any answer that a client can handle; another answer is an info.

Some probes only send something, and pass whatever the answer is. The judge checks the answer meanwhile: its
findings under the rules of a probe decide the result of that probe (see ``validate.probe_run``).

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcpproxy.base.authority import is_loopback
from mcpproxy.base.named_url import ForeignUrlError, resolved
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.errors import Skipped
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.raw_requests import (
    harmless_request,
    post,
    streamable,
    with_headers,
)
from mcpproxy.peers.validate.reaction import check_alive
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import STATEFUL, since, span
from mcpproxy.protocol.wording import shown

if TYPE_CHECKING:
    from mcpproxy.peers.validate.transports.exchange import ClientExchange

STREAMABLE: Final = span("2025-03-26", "2026-07-28")
"""The revisions with a handshake that have Streamable HTTP. ``span`` excludes its end."""

FOREIGN: Final = "http://mcpproxy-validate.invalid"
"""An origin that no server has a reason to allow: its host name cannot exist (RFC 2606, section 2)."""

_QUIET_S: Final = 0.5
"""How long to read a resumed stream, to see whether it brings events of another stream."""


async def _accept(context: ProbeContext) -> Conclusion:
    wire = streamable(context)
    outcomes: list[str] = []
    frames: list[int] = []
    for accept in ("application/json", "text/event-stream", "*/*", ""):
        raw = dumps(harmless_request(context.client))
        others = with_headers(wire.headers(raw), "Accept")  # removes it, because no value is given
        exchange = await post(context, raw, [*others, ("Accept", accept)] if accept else others)
        frames += exchange.evidence
        accepted = accept or "nothing"
        if exchange.status >= 500:
            return remarked(
                f"a POST that accepts {accepted} made the server fail with {exchange.status}; "
                "no revision says what is right, but 406 would tell the client why",
                exchange.evidence,
            )
        answer = exchange.media_type if exchange.status < 300 else str(exchange.status)
        outcomes.append(f"{accepted}: {answer or 'no type'}")
    return passed("; ".join(outcomes), tuple(frames))


async def _notification_status(context: ProbeContext) -> Conclusion:
    wire = streamable(context)
    client = context.client
    if client.is_stateless:
        params: JSONObject = {"requestId": "mcpproxy-nothing", "_meta": client.meta()}
        message: JSONObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    else:
        message = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    raw = dumps(message)
    exchange = await post(context, raw, wire.headers(raw))
    return passed(f"answered with {exchange.status}", exchange.evidence)


async def _response_status(context: ProbeContext) -> Conclusion:
    wire = streamable(context)
    raw = dumps({"jsonrpc": "2.0", "id": "mcpproxy-nothing", "result": {}})
    exchange = await post(context, raw, wire.headers(raw))
    return passed(f"answered with {exchange.status}", exchange.evidence)


async def _get_stream(context: ProbeContext) -> Conclusion:
    async with context.new_session("get-stream") as client:
        await client.initialize()
        await client.initialized()
        wire = streamable(context, client)
        exchange = await post(context, b"", wire.headers(), method="GET", until_head=True)
    if exchange.status < 300:
        if exchange.is_stream:
            return passed("it opens a stream", exchange.evidence)
        sent = shown(exchange.media_type) if exchange.media_type else "no Content-Type"
        text = f"a GET was answered with {exchange.status} and {sent}, neither a stream nor 405"
        return context.violation("HTTP-016/R-077", text, exchange.evidence)
    if exchange.status in (401, 403, 429):
        raise Skipped(f"a GET is refused with {exchange.status}")
    if exchange.status == 405:
        return passed("it declines with 405", exchange.evidence)
    text = f"a GET for a stream was refused with {exchange.status}; a server without streams answers 405"
    return context.violation("HTTP-016/R-077", text, exchange.evidence)


async def _foreign_origin(context: ProbeContext) -> Conclusion:
    wire = context.http_wire
    if wire.is_http_sse:
        headers = with_headers(wire.headers(), Origin=FOREIGN)
        exchange = await post(context, b"", headers, method="GET", until_head=True)
    else:
        raw = dumps(harmless_request(context.client))
        exchange = await post(context, raw, with_headers(wire.headers(raw), Origin=FOREIGN))
    if exchange.status == 403:
        return passed("refused with 403", exchange.evidence)
    if exchange.status < 400:
        text = f"a page of {FOREIGN} was served with {exchange.status}; any website could do the same"
        violation = context.violation("HTTP-019/R-087", text, exchange.evidence)
        if is_loopback(urlsplit(context.target.url).hostname or ""):
            return violation
        text = f"{text}, if it can reach the server"
        return Conclusion("warning", text, exchange.evidence, violation.rule, violation.source)
    if exchange.status in (401, 429) or context.revision not in since("2025-11-25"):
        return passed(f"refused with {exchange.status}", exchange.evidence)
    text = f"a page of {FOREIGN} was refused with {exchange.status}, not with 403"
    return context.violation("HTTP-019/R-087", text, exchange.evidence)


async def _resume_stream(context: ProbeContext) -> Conclusion:
    async with context.new_session("resume-stream") as client:
        await client.initialize()
        await client.initialized()
        wire = streamable(context, client)
        pings = [dumps(client.request_object("ping", id=f"mcpproxy-resume-{name}")) for name in "ab"]
        first, second = [await post(context, ping, wire.headers(ping)) for ping in pings]
        events = (frame.event for frame in first.frames)
        event_id = next((event.id for event in events if event is not None and event.id), None)
        if event_id is None:
            raise Skipped("the events of its streams have no ids")
        second_ids = _response_ids(second)
        resumed = await wire.server.read_stream(
            [*wire.headers(), ("Last-Event-ID", event_id)],
            lambda exchange: bool(second_ids & _response_ids(exchange)),
            _QUIET_S,
        )
    if second_ids & _response_ids(resumed):
        text = f"a stream that resumes after event {shown(event_id)} brought what belongs to another stream"
        return context.violation("SSE-003/R-082", text, (*second.evidence, *resumed.evidence))
    if resumed.status >= 300 or not resumed.is_stream:
        return passed(
            f"events have ids, but no stream resumes after one ({resumed.status})", resumed.evidence
        )
    total = len(resumed.answers)
    noun = "answer" if total == 1 else "answers"
    return passed(f"it resumes; {total} {noun} came again", resumed.evidence)


def _response_ids(exchange: "ClientExchange") -> set[object]:
    return {answer.id for answer in exchange.answers}


async def _dropped_connection(context: ProbeContext) -> Conclusion:
    wire = streamable(context)
    raw = dumps(harmless_request(context.client))
    exchange = await wire.server.post_and_drop(wire.headers(raw), raw)
    await check_alive(context.client, "a connection that broke off", *exchange.evidence)
    return passed("others are served as before", exchange.evidence)


async def _sse_endpoint(context: ProbeContext) -> Conclusion:
    wire = context.http_wire
    if wire.stream is None:
        raise Skipped("the server speaks Streamable HTTP")
    try:
        resolved(context.target.url, wire.stream.endpoint)
    except ForeignUrlError as fault:  # another name of this machine: see ``ClientSession.use_endpoint``
        text = (
            f"the endpoint event {fault}; no revision forbids it, but clients refuse to send messages there"
        )
        return remarked(text, wire.stream.evidence)
    return passed("messages go to the same origin", wire.stream.evidence)


PROBES: Final = (
    Probe(
        "accept",
        "transport",
        "A POST with another Accept is answered or refused.",
        _accept,
        rules=("HTTP-010", "HTTP-011"),
        revisions=since("2025-03-26"),
        transports=("http",),
    ),
    Probe(
        "notification-status",
        "transport",
        "A notification is answered with 202 and no body, or refused.",
        _notification_status,
        rules=("HTTP-008", "HTTP-009", "RPC-015"),
        revisions=since("2025-03-26"),
        transports=("http",),
    ),
    Probe(
        "response-status",
        "transport",
        "A response to nothing is answered with 202 and no body, or refused.",
        _response_status,
        rules=("HTTP-008", "HTTP-009"),
        revisions=STREAMABLE,
        transports=("http",),
    ),
    Probe(
        "get-stream",
        "transport",
        "GET opens a stream, or is declined with 405.",
        _get_stream,
        rules=("HTTP-016",),
        revisions=STREAMABLE,
        transports=("http",),
    ),
    Probe(
        "resume-stream",
        "transport",
        "With Last-Event-ID, a stream brings back only its own messages.",
        _resume_stream,
        rules=("SSE-001", "SSE-003", "HTTP-017"),
        revisions=STREAMABLE,
        transports=("http",),
    ),
    Probe(
        "sse-endpoint",
        "transport",
        "HTTP+SSE begins with an endpoint event of the same origin.",
        _sse_endpoint,
        rules=("HTTP-001",),
        revisions=STATEFUL,
        transports=("http",),
    ),
    Probe(
        "foreign-origin",
        "security",
        "A page of a foreign website is refused with 403.",
        _foreign_origin,
        rules=("HTTP-019",),
        transports=("http",),
    ),
    Probe(
        "dropped-connection",
        "robustness",
        "A client that disconnects before its answer does not affect others.",
        _dropped_connection,
        revisions=since("2025-03-26"),
        transports=("http",),
    ),
)
