"""Connect our clients to servers, through an HTTP proxy if there is one, and find out why servers refuse."""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final

from mcpproxy.base.upstream.connecting import system_reason, tls_context
from mcpproxy.base.upstream.http_proxy import HttpProxy, proxy_for, status_of
from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.base.upstream.tls_failures import alert, tls_reason
from mcpproxy.errors import McpProxyError

REFUSAL_S: Final = 2.0
"""The seconds for one more connection, its handshake, and the server's refusal after it."""

_LONGEST_HEAD: Final = 64 << 10
"""The size limit, in bytes, of the proxy's answer to a CONNECT request."""


class ProxyError(McpProxyError):
    """There is no connection to the server through a proxy. The text is a clause about the proxy."""


async def open_streams(
    host: str, port: int, tls: ssl.SSLContext | None, settings: UpstreamSettings
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a server, through the proxy that ``proxy_for`` returns for it, if any.

    ``tls`` is ``None`` for plain HTTP.

    Raises:
        OSError: the connection failed.
        ProxyError: it failed because of the proxy.
        UsageError: what the user named is not the URL of an HTTP proxy.
    """
    proxy = proxy_for(settings, host, port, is_tls=tls is not None)
    if proxy is None:
        return await asyncio.open_connection(host, port, ssl=tls)
    sock = await proxied_socket(proxy, host, port, is_tls=tls is not None)
    return await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=host if tls else None)


async def proxied_socket(proxy: HttpProxy, host: str, port: int, *, is_tls: bool) -> socket.socket:
    """Return a socket that is connected to a proxy; with ``is_tls``, through a tunnel to ``host``.

    Raises:
        ProxyError: the proxy cannot be reached, breaks off, or refuses the tunnel.
    """
    try:
        sock = await _connected_socket(proxy)
    except OSError as fault:
        raise ProxyError(f"{proxy.name} cannot be reached: {system_reason(fault)}") from None
    try:
        if is_tls:
            await _ask_for_tunnel(proxy, sock, proxy.connect_head(host, port))
    except BaseException as fault:
        sock.close()
        if isinstance(fault, OSError):
            raise ProxyError(f"{proxy.name} broke off: {system_reason(fault)}") from None
        raise
    return sock


async def _connected_socket(proxy: HttpProxy) -> socket.socket:
    """Return a socket connected to a proxy, at the first of its addresses that accepts.

    Raises:
        OSError: the host has no address, or none accepts; the error is then that of the last address.
    """
    loop = asyncio.get_running_loop()
    last = OSError(0, "no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        proxy.host, proxy.port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as fault:
            sock.close()
            last = fault
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise last


async def _ask_for_tunnel(proxy: HttpProxy, sock: socket.socket, head: bytes) -> None:
    """Send the CONNECT request ``head``, and wait for the proxy's answer.

    Raises:
        OSError: the connection broke.
        ProxyError: the proxy refuses the tunnel, or does not speak HTTP.
    """
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, head)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):  # byte by byte: later bytes come from the server
        byte = await loop.sock_recv(sock, 1)
        if not byte or len(answer) > _LONGEST_HEAD:
            raise ProxyError(f"{proxy.name} does not answer as a proxy")
        answer += byte
    status = status_of(answer)
    if not 200 <= status < 300:
        raise ProxyError(proxy.refusal(status) if status else f"{proxy.name} does not answer as a proxy")


async def refusal(host: str, port: int, settings: UpstreamSettings) -> str:
    """Connect again, and return why the server refuses our TLS client; empty if no TLS alert says so.

    If a request crosses the server's alert on the way, the system reports a reset and the alert is lost. So
    this connection sends nothing after the handshake.

    Raises:
        UsageError: what the user named is not the URL of an HTTP proxy.
    """
    writer: asyncio.StreamWriter | None = None
    try:
        context = tls_context(settings, accepts_any=True)
        async with asyncio.timeout(REFUSAL_S):
            reader, writer = await open_streams(host, port, context, settings)
            await reader.read(1)
    except ssl.SSLError as fault:
        return tls_reason(fault, settings) if alert(fault) else ""
    except (OSError, TimeoutError, ProxyError):
        pass
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
    return ""
