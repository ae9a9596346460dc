"""The addresses of remote servers, which a host reaches through ``mcpproxy http`` after a wrap.

``mcpproxy http`` gets the origin of the server and the path of its URL. It serves this path, and forwards to
the same path of the server. Path and query stay in the URL of the entry, so the host still replaces variables
in the query.
"""

import shlex
from urllib.parse import SplitResult, urlsplit, urlunsplit

_USUAL_ENDPOINT = "/mcp"
"""The path that ``mcpproxy http`` serves without ``--endpoint``."""


def address_of(url: str) -> SplitResult | None:
    """Return the parts of a URL; ``None`` if ``mcpproxy http`` cannot stand in for the server.

    It cannot if the URL is not one of HTTP with a host and a usable port. It cannot if there are variables
    before the query, because only the host can replace them, or if there is user information, because the
    host would send it to mcpproxy instead of the server.
    """
    try:
        split = urlsplit(url)
        is_port_usable = split.port != 0
    except ValueError:
        return None
    has_variables = any(sign in split.netloc + split.path for sign in "${")
    is_address = split.scheme in ("http", "https") and bool(split.hostname) and is_port_usable
    return split if is_address and split.username is None and not has_variables else None


def url_through(address: SplitResult, listen: str) -> str:
    """Return the URL by which the host reaches the server through a proxy at ``listen`` (host and port)."""
    return urlunsplit(("http", listen, address.path, address.query, ""))


def proxy_command(address: SplitResult, listen: str, label: str) -> str:
    """Return the shell command that must run while the entry is wrapped.

    The proxy listens at ``listen`` (host and port), and its recordings have the ``label``.
    """
    words = ["mcpproxy", "http", f"{address.scheme}://{address.netloc}", "--listen", listen, "--label", label]
    if (endpoint := address.path or "/") != _USUAL_ENDPOINT:
        words += ["--endpoint", endpoint]
    return shlex.join(words)
