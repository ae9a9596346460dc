"""Sessions over Streamable HTTP: their ids, the protocol version header of each request, their end.

Servers need not issue session ids; if they do, clients rely on certain statuses.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.errors import Skipped
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, ProbeFunction, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.raw_requests import (
    cited,
    harmless_request,
    post,
    raw_answer,
    streamable,
    with_headers,
)
from mcpproxy.protocol.revisions import STATEFUL

if TYPE_CHECKING:
    from mcpproxy.peers.validate.transports.exchange import ClientExchange
    from mcpproxy.peers.validate.transports.http_wire import HttpWire

_SESSION_ID: Final = "Mcp-Session-Id"
_VERSION_HEADER: Final = "MCP-Protocol-Version"
_INVALID_VERSION: Final = "mcpproxy-no-version"
"""A value that cannot be a revision."""

_OTHER_REFUSALS: Final = (401, 403, 429)
"""Statuses with which a server may refuse any request, for a reason that is not the session."""
_PAGE: Final = "basic/transports#protocol-version-header"


async def _session_id(context: ProbeContext) -> Conclusion:
    async with (
        context.new_session("first", connected=True) as first,
        context.new_session("second", connected=True) as second,
    ):
        ids = [streamable(context, client).session_id for client in (first, second)]
    if not all(ids):
        raise Skipped("the server has no session ids")
    if ids[0] == ids[1]:
        return context.violation("PROTO-010/R-090", "two sessions got the same session id")
    return passed(f"{len(ids[0])} characters, a different id for each session")


async def _session_id_missing(context: ProbeContext) -> Conclusion:
    exchange = await _request_with(context, context.client, id=None)
    if exchange.status < 300:
        return passed("served without a session id", exchange.evidence)
    if exchange.status in (400, *_OTHER_REFUSALS):
        return passed(f"refused with {exchange.status}", exchange.evidence)
    text = f"a request without session id was refused with {exchange.status}, not with 400"
    return context.violation("PROTO-010/R-092", text, exchange.evidence)


async def _session_id_unknown(context: ProbeContext) -> Conclusion:
    exchange = await _request_with(context, context.client, id=str(uuid4()))
    if exchange.status == 404 or exchange.status in _OTHER_REFUSALS:
        return passed(f"refused with {exchange.status}", exchange.evidence)
    if exchange.status < 300:
        return remarked(
            f"a session id that was never issued was served with {exchange.status}; no revision forbids it, "
            "but a client can make one up",
            exchange.evidence,
        )
    return remarked(
        f"a session id that is not known was refused with {exchange.status}; no revision forbids it, but "
        "only 404 tells a client to start anew after a restart of the server has ended its session",
        exchange.evidence,
    )


async def _session_deleted(context: ProbeContext) -> Conclusion:
    async with context.new_session("session-deleted", connected=True) as client:
        wire = _wire_with_session_id(context, client)
        deletion = await post(context, b"", wire.headers(), method="DELETE")
        # A client that has no session id sends no DELETE when it is closed.
        if deletion.status >= 300:
            wire.session_id = "" if deletion.status == 404 else wire.session_id
            raise Skipped(f"clients cannot end sessions ({deletion.status})")
        later_request = await _request_with(context, client)
        wire.session_id = ""
    if later_request.status == 404:
        return passed("its id gets 404 afterwards", later_request.evidence)
    text = f"a request in a deleted session was {raw_answer(later_request).instead_of('404')}"
    return context.violation("PROTO-010/R-093", text, (*deletion.evidence, *later_request.evidence))


async def _version_invalid(context: ProbeContext) -> Conclusion:
    exchange = await _request_with(context, context.client, version=_INVALID_VERSION)
    if exchange.status == 400 or exchange.status in _OTHER_REFUSALS:
        return passed(f"refused with {exchange.status}", exchange.evidence)
    text = f"{_VERSION_HEADER}: {_INVALID_VERSION} was {raw_answer(exchange).instead_of('400')}"
    return context.violation("PROTO-008/R-098", text, exchange.evidence)


async def _version_missing(context: ProbeContext) -> Conclusion:
    exchange = await _request_with(context, context.client, version=None)
    if exchange.status < 300 or exchange.status in _OTHER_REFUSALS:
        return passed(f"answered with {exchange.status}", exchange.evidence)
    refused = f"a request without {_VERSION_HEADER} was refused with {exchange.status}"
    text = f"{refused}; it should be taken as 2025-03-26"
    return cited("warning", text, exchange.evidence, f"{context.revision}/{_PAGE}")


async def _request_with(
    context: ProbeContext, client: Client, *, id: str | None = "", version: str | None = ""
) -> "ClientExchange":
    """Send a harmless request with another session id or version.

    ``None`` leaves out the header; an empty text leaves the header as it is.

    Raises:
        Skipped: the session has no id that could be changed, or the transport is not Streamable HTTP.
        UnansweredError: there was no answer.
    """
    wire = streamable(context, client) if id == "" else _wire_with_session_id(context, client)
    raw = dumps(harmless_request(client))
    headers = wire.headers(raw)
    for name, value in ((_SESSION_ID, id), (_VERSION_HEADER, version)):
        if value != "":
            # ``with_headers`` removes a header that is given without a value.
            headers = [*with_headers(headers, name), *([(name, value)] if value is not None else [])]
    return await post(context, raw, headers)


def _wire_with_session_id(context: ProbeContext, client: Client) -> "HttpWire":
    """Return the connection of ``client``.

    Raises:
        Skipped: its session has no id, or the transport is not Streamable HTTP.
    """
    wire = streamable(context, client)
    if not wire.session_id:
        raise Skipped("the server has no session ids")
    return wire


def _row(
    name: str, what: str, run: ProbeFunction, rules: tuple[str, ...], since: str = "2025-03-26"
) -> Probe:
    """Return the row of a probe that runs in the revisions with a handshake from ``since`` on."""
    revisions = STATEFUL[STATEFUL.index(since) :]
    return Probe(name, "transport", what, run, rules=rules, revisions=revisions, transports=("http",))


_SESSION_RULES: Final = ("PROTO-010",)

PROBES: Final = (
    replace(
        _row(
            "session-id",
            "Session ids are visible ASCII, and no two are the same.",
            _session_id,
            _SESSION_RULES,
        ),
        disruptive=True,  # if all sessions share one id, the end of its sessions ends the shared one, too
    ),
    _row(
        "session-id-missing",
        "A request without its session id is refused with 400.",
        _session_id_missing,
        _SESSION_RULES,
    ),
    _row("session-id-unknown", "An unknown session id is refused with 404.", _session_id_unknown, ()),
    _row("session-deleted", "A session that was deleted is over: 404.", _session_deleted, _SESSION_RULES),
    _row(
        "version-header-invalid",
        "An invalid MCP-Protocol-Version is refused with 400.",
        _version_invalid,
        ("PROTO-008",),
        "2025-06-18",
    ),
    _row(
        "version-header-missing",
        "A request without MCP-Protocol-Version is served.",
        _version_missing,
        (),
        "2025-06-18",
    ),
)
