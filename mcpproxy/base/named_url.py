"""The URL that a peer names: requested with the credentials of a user only at the origin that the user named.

A server names URLs in an ``endpoint`` event, in ``Location``, in a challenge. Whoever requests one asks here,
so that no server can have credentials, or requests at all, sent to another server or without TLS.

Source: https://datatracker.ietf.org/doc/html/rfc6454 (origins).
"""

from contextlib import suppress
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError

LONGEST_URL: Final = 16 << 10
"""The longest URL that a peer may name, in bytes."""

_SHOWN_CHARACTERS: Final = 100
_SHOWN_URL: Final = 500
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_WRITABLE: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""What may stand in a URL besides letters and digits; the rest is escaped."""

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""The usual names of this machine in URLs."""


class ForeignUrlError(McpProxyError):
    """A peer named a URL that is not requested. The text is a clause about the peer."""


def resolved(base: str, named: str | bytes, *, loopback_is_one: bool = False) -> str:
    """Return the URL that a peer named, absolute or relative to ``base``, the URL that the user named.

    The result has the scheme and authority of ``base`` as they are written there, and ASCII alone, so that no
    library reads another host into it. It has no fragment. Text stands for its bytes in UTF-8. With
    ``loopback_is_one`` the names of this machine count as one host; requests still go to that of ``base``.

    Raises:
        ForeignUrlError: it has another origin than ``base``, or user information, or it is no URL.
    """
    raw = named.encode("utf-8", "surrogateescape") if isinstance(named, str) else named
    raw = raw.strip()
    if len(raw) > LONGEST_URL:
        raise ForeignUrlError(f"names a URL of more than {LONGEST_URL >> 10} KiB")
    own = urlsplit(base)
    try:
        parts = urlsplit(urljoin(base, quote(raw, safe=_WRITABLE)))
        origin = _origin(parts)
    except ValueError:
        raise ForeignUrlError(f"names {_shown(raw.decode('utf-8', 'replace'))}, which is no URL") from None
    own_origin = _origin(own)
    if loopback_is_one and {origin[1], own_origin[1]} <= LOOPBACK:
        origin = (origin[0], own_origin[1], origin[2])
    if origin != own_origin:
        downgrade = ", without TLS" if own_origin[0] == "https" and origin[0] == "http" else ""
        raise ForeignUrlError(f"names {_named(parts)}{downgrade}, another origin than its own")
    if "@" in parts.netloc and parts.netloc != own.netloc:
        raise ForeignUrlError("names a URL with user information in it")
    return urlunsplit((own.scheme, own.netloc, parts.path, parts.query, ""))


def other_origin(base: str, named: str) -> str:
    """Return the URL that a peer at ``base`` named, for a message, if it has another origin than ``base``.

    It is absolute, and has no query, which may hold a secret. The names of this machine count as one host.
    What has the same origin, or is no URL, gives an empty text.
    """
    try:
        parts = urlsplit(urljoin(base, quote(named.strip()[:LONGEST_URL], safe=_WRITABLE)))
        origin, own = _origin(parts), _origin(urlsplit(base))
    except ValueError:
        return ""
    if {origin[1], own[1]} <= LOOPBACK:
        origin = (origin[0], own[1], origin[2])
    if origin == own or parts.scheme not in _DEFAULT_PORTS:
        return ""
    return without_query(urlunsplit(parts))


def without_query(url: str) -> str:
    """Return a URL for a message, without what may hold a secret: user information, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return visible(urlunsplit((parts.scheme, host, parts.path, "", ""))[:_SHOWN_URL])


def path_of(url: str) -> str:
    """Return the path of a URL, or of a request target; ``/`` for none."""
    try:
        return urlsplit(url).path or "/"
    except ValueError:
        return "/"


def host_advice(url: str) -> str:
    """Return what to do where a server does not serve the name in ``url`` (421), as a clause.

    Servers guard themselves against DNS rebinding by the names that they serve; on this machine these are
    often one of its names alone.
    """
    parts = urlsplit(url)
    name = parts.hostname or ""
    if name not in LOOPBACK:
        return f"the server has to allow the host {_shown(name)}"
    other = "127.0.0.1" if name == "localhost" else "localhost"
    port = f":{parts.port}" if parts.port else ""
    return f"perhaps it serves another name of this machine: try {parts.scheme}://{other}{port}{parts.path}"


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port, each in one form.

    Raises:
        ValueError: the host or the port is malformed.
    """
    port = _DEFAULT_PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    return parts.scheme, _host(parts.hostname or ""), port


def _host(name: str) -> str:
    """Return a host in one form: lower case, in the letters of DNS, an address in its shortest form."""
    name = unquote(name, errors="strict").removesuffix(".")
    with suppress(ValueError):
        return str(ip_address(name))
    return (name if name.isascii() else name.encode("idna").decode()).lower()


def _named(parts: SplitResult) -> str:
    """Return scheme and host of a URL, for a message."""
    host = parts.netloc.rpartition("@")[2]
    return _shown(f"{parts.scheme}://{host}" if host else f"{parts.scheme}:")


def _shown(text: str) -> str:
    return visible(text[:_SHOWN_CHARACTERS])
