"""Authorization over HTTP: if a server refuses a client without a token, does it say where to get a token?

These probes do not send the credentials that the user gave, and do not fetch anything from other hosts.

Sources: https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization, and RFC 9728.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from mcpproxy.base.named_url import ForeignUrlError, resolved
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.errors import Skipped
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.probe import Probe, passed
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.raw_requests import post, streamable
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.message_parts import object_in
from mcpproxy.protocol.oauth import RESOURCE_METADATA, challenge_parameters
from mcpproxy.protocol.revisions import since

if TYPE_CHECKING:
    from mcpproxy.peers.validate.transports.exchange import ClientExchange

_RFC: Final = "https://datatracker.ietf.org/doc/html/rfc9728#section-2"
"""Where RFC 9728 says what the metadata of a resource contain."""


async def _oauth_metadata(context: ProbeContext) -> Conclusion:
    refusal = await _refused_first_message(context)
    challenge = refusal.header("www-authenticate")
    metadata_url = challenge_parameters([challenge]).get("resource_metadata", "")
    try:
        urls = [resolved(context.target.url, metadata_url, loopback_is_one=True)] if metadata_url else None
    except ForeignUrlError:
        return passed("a 401 names metadata on another host, which is not fetched", refusal.evidence)
    for url in urls or _well_known(context.target.url):
        exchange = await post(
            context, b"", [("Accept", "application/json")], method="GET", url=url, is_anonymous=True
        )
        metadata = object_in(exchange.body) if exchange.status == 200 else None
        if metadata is not None:
            return _judge_metadata(context, metadata, (*refusal.evidence, *exchange.evidence))
    where = f"{metadata_url} has no metadata" if metadata_url else "the well-known addresses have no metadata"
    text = f"a request without token is refused with 401, but {where}"
    return context.violation("AUTH-002/R-100", text, refusal.evidence)


def _judge_metadata(context: ProbeContext, metadata: JSONObject, frames: tuple[int, ...]) -> Conclusion:
    servers = metadata.get("authorization_servers")
    if not isinstance(servers, list) or not servers:
        return context.violation("AUTH-007/R-105", "the metadata names no authorization server", frames)
    if not isinstance(metadata.get("resource"), str):
        return Conclusion("warning", "the metadata does not name its resource", frames, "", _RFC)
    return passed(f"a 401 leads to {', '.join(str(server) for server in servers[:3])}", frames)


async def _invalid_token(context: ProbeContext) -> Conclusion:
    await _refused_first_message(context)
    exchange = await _send_first_message(context, ("Authorization", "Bearer mcpproxy-no-token"))
    if exchange.status == 401:
        return passed("refused with 401", exchange.evidence)
    outcome = "accepted" if exchange.status < 300 else "refused"
    text = f"an invalid token was {outcome} with {exchange.status}, not with 401"
    return context.violation("AUTH-001/R-099", text, exchange.evidence)


async def _refused_first_message(context: ProbeContext) -> "ClientExchange":
    """Send the first message of a session without a token.

    Raises:
        Skipped: the server does not refuse it with 401.
    """
    exchange = await _send_first_message(context)
    if exchange.status != 401:
        raise Skipped("the server asks for no authorization")
    return exchange


async def _send_first_message(context: ProbeContext, *headers: tuple[str, str]) -> "ClientExchange":
    """Send the first message of a session with ``headers`` and no other credentials.

    If the response names a session, the session is closed.
    """
    client = context.new_client("authorization")
    wire = streamable(context, client)
    if client.is_stateless:
        message = client.request_object("server/discover")
    else:
        message = client.request_object("initialize", client.initialize_params())
    raw = dumps(message)
    exchange = await post(context, raw, [*wire.headers(raw), *headers], is_anonymous=True)
    if id := exchange.header(SESSION_ID):
        ending = [("Mcp-Session-Id", id), *headers]
        await post(context, b"", ending, method="DELETE", is_anonymous=True)
    return exchange


def _well_known(url: str) -> Iterator[str]:
    """Yield the possible URLs of the metadata: for the path, then for the host (RFC 9728, section 3.1)."""
    parts = urlsplit(url)
    for path in dict.fromkeys((RESOURCE_METADATA + parts.path.rstrip("/"), RESOURCE_METADATA)):
        yield urlunsplit((parts.scheme, parts.netloc, path, "", ""))


PROBES: Final = (
    Probe(
        "oauth-metadata",
        "security",
        "A 401 leads to the metadata of the resource and its authorization servers.",
        _oauth_metadata,
        rules=("AUTH-002", "AUTH-006", "AUTH-007"),
        revisions=since("2025-06-18"),
        transports=("http",),
        session=False,
    ),
    Probe(
        "invalid-token",
        "security",
        "An invalid token is refused with 401.",
        _invalid_token,
        rules=("AUTH-001",),
        revisions=since("2025-03-26"),
        transports=("http",),
        session=False,
    ),
)
