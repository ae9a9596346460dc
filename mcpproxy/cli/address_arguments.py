"""Addresses, URLs and paths in the arguments of commands.

A client may wait until ``http`` listens, so this module imports next to nothing.
"""

from __future__ import annotations

from mcpproxy.cli.option_table import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from urllib.parse import SplitResult


def address(option: str, text: str) -> tuple[str, int]:
    """Return host and port of the address to listen on in ``text``, the value of ``option``.

    The default host is 127.0.0.1.

    Raises:
        UsageError: ``text`` has no valid port.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) < 6) or int(port) > 65535:
        refuse(option, f"{text} has no port", "write HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)


def split_listen(where: str, text: str, option: str = "--listen") -> tuple[str, int]:
    """Return host (without brackets) and port of the ``HOST:PORT`` in ``text``, the value of ``option``.

    Raises:
        UsageError: ``text`` does not have that form; the error names the command ``where``.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isdecimal() and port.isascii() and len(port) < 6 and int(port) < 65536):
        fact = f"{option} {text} is not HOST:PORT"
        refuse(where, fact, "for example 127.0.0.1:8765 or [::1]:8765")
    return host, int(port)


def split_url(where: str, text: str, example: str, credentials: str) -> SplitResult:
    """Return the parts of the URL of a server, for the command ``where``.

    ``example`` is a URL for error messages. ``credentials`` ends the advice about a URL with credentials: it
    says where to give them instead.

    Raises:
        UsageError: ``text`` is not a URL of HTTP, or has credentials, a fragment or a forbidden character.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 # raises if the port is not a number
    except ValueError as error:
        refuse(where, f"{text} is not a URL ({error})", f"for example {example}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        fact = f"{text} is not an http:// or https:// URL"
        rest = text.rpartition("://")[2].lstrip("/")
        refuse(where, fact, f"perhaps {example[: example.index('/')]}//{rest}")
    if parts.username is not None or parts.fragment:
        refuse(where, "the URL holds a user or a fragment", f"leave it out{credentials}")
    if not _is_plain(text):
        fact = f"{text} holds characters that are not allowed in a URL"
        refuse(where, fact, "write them as %XX")
    return parts


def endpoint(where: str, path: str) -> str:
    """Return the path of an MCP endpoint, for the command ``where``.

    Raises:
        UsageError: ``path`` does not begin with ``/``, or has a query, a fragment or a forbidden character.
    """
    if not path.startswith("/") or "?" in path or "#" in path or not _is_plain(path):
        refuse(where, f"--endpoint {path} is not a path", "for example /mcp")
    return path


def _is_plain(text: str) -> bool:
    """Whether ``text`` consists of visible ASCII characters, the only ones that a URL may have."""
    return text.isascii() and text.isprintable() and " " not in text
