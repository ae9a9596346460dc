"""A server before which the proxy stands (upstream)."""

from __future__ import annotations


class Upstream:
    """A server: its address and the path of its endpoint."""

    __slots__ = ("authority", "host", "is_tls", "path", "port", "query")

    def __init__(self, host: str, port: int, is_tls: bool = False, path: str = "", query: str = "") -> None:
        self.host = host  # without brackets
        self.port = port
        self.is_tls = is_tls
        literal = f"[{host}]" if ":" in host else host
        self.authority = literal if port == (443 if is_tls else 80) else f"{literal}:{port}"
        self.path = path  # of the endpoint; empty if the proxy's endpoint has the same path
        self.query = query  # added to every request to the endpoint

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"

    @property
    def address(self) -> str:
        """``host:port``, always with the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
