"""Resolve URLs that a peer names, so that requests stay at the origin that the user named.

A server names URLs in an ``endpoint`` event, in ``Location`` and in ``WWW-Authenticate``. Code that requests
such a URL resolves it here. So a server cannot make mcpproxy send the user's credentials, or any request, to
another server or without TLS.

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
"""How many characters of a foreign text an error shows at most."""
_SHOWN_URL: Final = 500
"""How many characters of a URL a message shows at most."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_WRITABLE: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""Characters that a URL may contain besides letters and digits; all others are escaped."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""The usual names of this machine in URLs."""


class ForeignUrlError(McpProxyError):
    """A peer named a URL that mcpproxy does not request. The text is a clause whose subject is the peer."""


def resolved(base: str, named: str | bytes, *, loopback_is_one: bool = False) -> str:
    """Return the absolute form of ``named``, a URL from a peer, which may be relative to ``base``.

    ``base`` is the URL that the user named. The result has the authority of ``base`` exactly as it is
    written there, and its scheme in lower case. What comes from ``named`` is only ASCII, so that no library
    can read another host into it. The result has no fragment. A ``str`` is encoded as UTF-8. With
    ``loopback_is_one`` all names in ``_LOOPBACK`` count as one host; the result has the name in ``base``.

    Raises:
        ForeignUrlError: ``named`` has another origin than ``base``, has user information but not exactly the
            authority of ``base``, is longer than ``LONGEST_URL``, or is not a URL.
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
    if loopback_is_one and {origin[1], own_origin[1]} <= _LOOPBACK:
        origin = (origin[0], own_origin[1], origin[2])
    if origin != own_origin:
        downgrade = ", without TLS" if own_origin[0] == "https" and origin[0] == "http" else ""
        raise ForeignUrlError(f"names {_shown_origin(parts)}{downgrade}, another origin than its own")
    if "@" in parts.netloc and parts.netloc != own.netloc:
        raise ForeignUrlError("names a URL with user information in it")
    return urlunsplit((own.scheme, own.netloc, parts.path, parts.query, ""))


def other_origin(base: str, named: str) -> str:
    """Return ``named``, a URL from a peer at ``base``, for a message, if it has another origin than ``base``.

    The result is the absolute URL as ``without_query`` returns it. The names in ``_LOOPBACK`` count as one
    host. The result is empty if the origin is the same, the scheme is neither HTTP nor HTTPS, or ``named`` is
    not a URL.
    """
    try:
        parts = urlsplit(urljoin(base, quote(named.strip()[:LONGEST_URL], safe=_WRITABLE)))
        origin, own = _origin(parts), _origin(urlsplit(base))
    except ValueError:
        return ""
    if {origin[1], own[1]} <= _LOOPBACK:
        origin = (origin[0], own[1], origin[2])
    if origin == own or parts.scheme not in DEFAULT_PORTS:
        return ""
    return without_query(urlunsplit(parts))


def without_query(url: str) -> str:
    """Return a URL for a message, without user information, query and fragment, which may hold secrets.

    It is cut after ``_SHOWN_URL`` characters.

    Raises:
        ValueError: ``url`` is not a URL.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return visible(urlunsplit((parts.scheme, host, parts.path, "", ""))[:_SHOWN_URL])


def path_of(url: str) -> str:
    """Return the path of a URL or of a request target; ``/`` if it has none or is malformed."""
    try:
        return urlsplit(url).path or "/"
    except ValueError:
        return "/"


def host_and_port(url: str) -> tuple[str, int]:
    """Return the host and the port of an HTTP URL; the host is empty if the URL has none.

    Raises:
        ValueError: ``url`` is not a URL.
    """
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]


def host_advice(url: str) -> str:
    """Return advice, as a clause, for a server that does not serve the host in ``url`` (status 421).

    To prevent DNS rebinding, servers serve only certain host names. A server on this machine often serves
    only one of the machine's names.
    """
    parts = urlsplit(url)
    name = parts.hostname or ""
    if name not in _LOOPBACK:
        return f"the server has to allow the host {_shown(name)}"
    other = "127.0.0.1" if name == "localhost" else "localhost"
    port = f":{parts.port}" if parts.port else ""
    return f"perhaps it serves another name of this machine: try {parts.scheme}://{other}{port}{parts.path}"


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port in their canonical forms; without a port, that of the scheme, or else 0.

    Raises:
        ValueError: the host or the port is malformed.
    """
    port = DEFAULT_PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    return parts.scheme, _host(parts.hostname or ""), port


def _host(name: str) -> str:
    """Return a host in its canonical form: lower case, IDNA-encoded, an address in its shortest form.

    Percent encoding is resolved, and a dot at the end is left out.

    Raises:
        ValueError: the host is malformed.
    """
    name = unquote(name, errors="strict").removesuffix(".")
    with suppress(ValueError):
        return str(ip_address(name))
    return (name if name.isascii() else name.encode("idna").decode()).lower()


def _shown_origin(parts: SplitResult) -> str:
    """Return scheme, host and port of a URL, for a message."""
    host = parts.netloc.rpartition("@")[2]
    return _shown(f"{parts.scheme}://{host}" if host else f"{parts.scheme}:")


def _shown(text: str) -> str:
    return visible(text[:_SHOWN_CHARACTERS])
