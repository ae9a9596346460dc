"""The HTTP proxy between mcpproxy and a server: which proxy the user has named, and the requests to it.

The start of ``mcpproxy http`` imports this module, so it imports next to nothing. Environment variables have
the same meaning as for curl, requests and httpx. One rule is Go's: servers on this machine are reached
without a proxy.

Source: RFC 9110, section 9.3.6 (CONNECT); RFC 9112, section 3.2.2 (absolute-form).
"""

from __future__ import annotations

import os

from mcpproxy.base.authority import is_loopback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from mcpproxy.base.upstream.settings import UpstreamSettings

NONE: Final = "none"
"""The value of ``--proxy`` that means no proxy."""

# Names of environment variables; that of the scheme is at the index ``is_tls``.
_SCHEME_VARIABLES: Final = ("http_proxy", "https_proxy")
_ALL_PROXY: Final = "all_proxy"
_NO_PROXY: Final = "no_proxy"


class HttpProxy:
    """An HTTP proxy. ``source`` is the variable or the option (``--proxy``) that names it.

    ``credentials`` are those of Basic authentication, in Base64; empty if there are none.
    """

    __slots__ = ("credentials", "host", "port", "source")

    def __init__(self, source: str, host: str, port: int, credentials: bytes = b"") -> None:
        self.source = source
        self.host = host  # without brackets
        self.port = port
        self.credentials = credentials

    @property
    def name(self) -> str:
        """The proxy's address and source, for a message."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"the proxy http://{host}:{self.port} of {self.source}"

    def connect_head(self, host: str, port: int) -> bytes:
        """Return the CONNECT request for a tunnel to the server at ``host`` and ``port``."""
        name = host.encode() if host.isascii() else host.encode("idna")  # this codec takes long to import
        address = (b"[%s]:%d" if b":" in name else b"%s:%d") % (name, port)
        return b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (address, address, self._authorization())

    def request(self, authority: bytes, head: bytes) -> bytes:
        """Return ``head``, the head of a request to the server ``authority``, as the proxy gets it.

        The target is then a whole URL, and the proxy's credentials are added, if there are any.
        """
        line, _, rest = head.partition(b"\r\n")
        method, target, version = line.split(b" ")
        target = b"http://" + authority + (b"" if target == b"*" else target)
        return b"%s %s %s\r\n%s%s" % (method, target, version, self._authorization(), rest)

    def refusal(self, status: int) -> str:
        """Explain ``status``, with which the proxy answers instead of the server."""
        if status in (401, 407) and self.credentials:  # some proxies know only 401
            return f"{self.name} does not accept the credentials that are there ({status})"
        if status == 407:
            return f"{self.name} wants credentials (407); write http://USER:PASSWORD@HOST:PORT there"
        return f"{self.name} makes no connection to the server (HTTP {status})"

    def _authorization(self) -> bytes:
        return b"Proxy-Authorization: Basic %s\r\n" % self.credentials if self.credentials else b""


def status_of(answer: bytes) -> int:
    """Return the status of the HTTP response that begins with ``answer``; 0 if it is not of HTTP/1."""
    status = answer[9:12]
    return int(status) if answer.startswith(b"HTTP/1.") and status.isdigit() else 0


def proxy_for(
    settings: UpstreamSettings,
    host: str,
    port: int,
    *,
    is_tls: bool,
    environ: Mapping[str, str] = os.environ,
) -> HttpProxy | None:
    """Return the proxy for the server at ``host`` (without brackets); ``None`` if it is reached directly.

    ``--proxy`` decides for every server. Without it, a server on this machine, or one that ``no_proxy``
    names, is reached directly. Any other server is reached through ``https_proxy`` or ``http_proxy`` (by its
    scheme), or else ``all_proxy``. The variables may be in capitals, except ``HTTP_PROXY`` in a CGI program,
    where clients can set it. ``is_tls`` says that the scheme is HTTPS; ``environ`` has the variables.

    Raises:
        UsageError: the named value is not the URL of an HTTP proxy.
    """
    if settings.proxy:
        return None if settings.proxy == NONE else _parsed_proxy("--proxy", settings.proxy)
    named = _variable(environ, _SCHEME_VARIABLES[is_tls]) or _variable(environ, _ALL_PROXY)
    if named is None or is_loopback(host):
        return None
    exempt = _variable(environ, _NO_PROXY)
    if exempt is not None and _is_exempt(exempt[1], host.lower().rstrip("."), port):
        return None
    return _parsed_proxy(*named)


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """Return the name and value of a variable, in small letters or else in capitals; ``None`` if not set.

    An empty variable counts as not set, and in small letters it hides the one in capitals. ``HTTP_PROXY``
    counts as not set in a CGI program.
    """
    capital = name.upper()
    if name in environ:
        capital = name
    elif name == _SCHEME_VARIABLES[0] and "REQUEST_METHOD" in environ:
        return None
    value = environ.get(capital, "").strip()
    return (capital, value) if value else None


def _is_exempt(names: str, host: str, port: int) -> bool:
    """Whether ``names``, the value of ``no_proxy``, has the server's name, domain, address or network.

    ``*`` stands for every server. An entry with a port applies to this port alone.
    """
    for entry in names.replace(",", " ").lower().split():
        if entry == "*":
            return True
        name, colon, number = entry.rpartition(":")
        if colon and number.isdigit() and (":" not in name or name.endswith("]")):
            if int(number) != port:
                continue
            entry = name
        entry = entry.strip("[]").removeprefix("*").strip(".")
        if entry and (host == entry or host.endswith(f".{entry}")):
            return True
        if "/" in entry and _is_within(host, entry):
            return True
    return False


def _is_within(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network  # slow to import, and few users name networks

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _parsed_proxy(source: str, text: str) -> HttpProxy:
    """Return the proxy with the URL ``text``. Errors show no more of it than its scheme and host.

    Raises:
        UsageError: it is not the URL of an HTTP proxy.
    """
    from urllib.parse import unquote, urlsplit

    from mcpproxy.errors import UsageError

    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if not host or not host.isascii() or not host.isprintable() or " " in host:
        raise UsageError(source, "it is not the URL of a proxy", "write http://HOST:PORT")
    if parts.scheme != "http":
        fact = f"{parts.scheme}://{host} is not a proxy that speaks plain HTTP, and no other is supported"
        raise UsageError(source, fact, "name another, or leave this server out with NO_PROXY or --proxy none")
    credentials = b""
    if parts.username is not None:
        from binascii import b2a_base64

        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = b2a_base64(pair.encode(), newline=False)
    return HttpProxy(source, host, port or 80, credentials)
