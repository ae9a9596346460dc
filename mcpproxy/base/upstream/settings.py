"""How a server over HTTP is reached: what the options of every command that connects to one say.

It imports nothing, because a proxy starts with it, and plain HTTP needs no module ssl.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class UpstreamSettings:
    """How a server is reached. Files are paths, empty where none is given.

    Attributes:
        cert: our certificate chain (PEM), for a server that asks for one.
        key: its private key; empty if it is in the same file.
        ca: the certificates (PEM) that are trusted instead of the system's.
        is_insecure: any certificate of the server is accepted.
        proxy: the URL of the HTTP proxy to it, ``none`` for none; empty if the environment says it.
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
"""Nothing is given."""
