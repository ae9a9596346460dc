"""Finds out why there is no MCP server to test.

Nothing listens, TLS is used on one side only, the path is wrong, or the server refuses us.
Each reason is one sentence, often with a next step. Such a run gives no verdict, because no server was
tested.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.base.named_url import host_and_port
from mcpproxy.base.upstream.connecting import CONNECT_S, system_reason, tls_context
from mcpproxy.base.upstream.redirects import REDIRECTS
from mcpproxy.base.upstream.settings import USUAL, UpstreamSettings
from mcpproxy.base.upstream.tls_failures import alert, tls_reason
from mcpproxy.base.upstream.tunnels import ProxyError, open_streams, refusal
from mcpproxy.peers.validate.errors import CouldNotStartError, HttpStatusError, ValidateError
from mcpproxy.record.recorder.secret_arguments import shown

_NO_ENDPOINT: Final = (*REDIRECTS, 404, 405, 410, 421, 501)
"""HTTP statuses that mean that there is no MCP server at the path."""
_UNAUTHORIZED: Final = (401, 403, 407)
"""Statuses of a server, or a proxy, that wants credentials."""
_UNAVAILABLE: Final = (429, 502, 503, 504)
"""Statuses of a server that may answer later."""


async def check_reachable(url: str, upstream: UpstreamSettings = USUAL) -> None:
    """Check that a server listens at ``url``, and that it uses TLS if the scheme is ``https``.

    Raises:
        CouldNotStartError: no server can be reached, it does not use TLS, or its certificate is not trusted.
    """
    host, port = host_and_port(url)
    is_tls = urlsplit(url).scheme == "https"
    try:
        await _connect(host, port, tls_context(upstream) if is_tls else None, upstream)
    except (ssl.SSLError, ConnectionResetError) as fault:
        if isinstance(fault, ssl.SSLCertVerificationError) or (
            isinstance(fault, ssl.SSLError) and alert(fault)
        ):
            reason = tls_reason(fault, upstream)
        else:
            reason = f"the port does not speak TLS; try {_with_scheme(url, 'http')}"
        raise CouldNotStartError(f"{shown((url,))}: {reason}") from None
    except ProxyError as fault:
        raise CouldNotStartError(f"{shown((url,))}: cannot be reached: {fault}") from None
    except (OSError, TimeoutError) as fault:
        raise CouldNotStartError(f"{shown((url,))}: cannot be reached: {system_reason(fault)}") from None


async def why_no_server(url: str, fault: ValidateError, upstream: UpstreamSettings = USUAL) -> str:
    """Return why there is no MCP server at ``url``, or an empty text if there may be one.

    ``fault`` is the failure of the first request.
    """
    host, port = host_and_port(url)
    is_tls = urlsplit(url).scheme == "https"
    status = fault.status if isinstance(fault, HttpStatusError) else 0
    if not is_tls and status in (0, 400) and await _speaks_tls(host, port, upstream):
        return f"{shown((url,))}: the port speaks TLS; try {_with_scheme(url, 'https')}"
    if is_tls and not status and (reason := await refusal(host, port, upstream)):
        return f"{shown((url,))}: {reason}"
    if isinstance(fault, HttpStatusError) and fault.advice:
        return f"{shown((url,))}: {fault}; {fault.advice}"
    if status in _UNAUTHORIZED:
        return f"{shown((url,))}: {fault}; give credentials with --header 'Authorization: ...'"
    if status in _NO_ENDPOINT:
        return f"{shown((url,))}: {fault}; no MCP server seems to be at this path"
    if status in _UNAVAILABLE:
        return f"{shown((url,))}: {fault}; try again later"
    return "" if status else f"{shown((url,))}: {fault}"


async def _speaks_tls(host: str, port: int, upstream: UpstreamSettings) -> bool:
    try:
        await _connect(host, port, tls_context(upstream, accepts_any=True), upstream)
    except (OSError, TimeoutError, ProxyError):
        return False
    return True


async def _connect(host: str, port: int, context: ssl.SSLContext | None, upstream: UpstreamSettings) -> None:
    async with asyncio.timeout(CONNECT_S):
        _, writer = await open_streams(host, port, context, upstream)
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


def _with_scheme(url: str, scheme: str) -> str:
    return shown((urlsplit(url)._replace(scheme=scheme).geturl(),))
