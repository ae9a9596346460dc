"""Settings for connections to MCP servers and models over HTTP; all commands that connect have these options.

This module imports nothing: ``mcpproxy http`` imports it at its start, and plain HTTP does not need ``ssl``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class UpstreamSettings:
    """Settings for connections to a server. The files are paths, empty if the user gave none.

    Attributes:
        cert: the certificate chain (PEM) that we send to a server that asks for one.
        key: its private key; empty if the key is in the file ``cert``.
        ca: the certificates (PEM) that we trust instead of the system's.
        is_insecure: whether we accept any certificate of the server.
        proxy: the URL of the HTTP proxy, or ``none``; empty if environment variables decide.
    """

    __slots__ = ("ca", "cert", "is_insecure", "key", "proxy")

    def __init__(
        self, cert: str = "", key: str = "", ca: str = "", *, is_insecure: bool = False, proxy: str = ""
    ) -> None:
        self.cert = cert
        self.key = key
        self.ca = ca
        self.is_insecure = is_insecure
        self.proxy = proxy


USUAL: Final = UpstreamSettings()
"""The settings if the user gives no option."""
