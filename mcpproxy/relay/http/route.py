"""Find where a request goes, and write its head for that server.

Each client connection has one upstream connection, so what a client says about its connection
(``Connection: close`` or ``keep-alive``, ``TE``, ``Upgrade``) holds upstream too and is forwarded. Only these
are changed:

- ``Host``, which must name upstream;
- the path of the endpoint, where upstream's has another name;
- a target that is a URL, of which upstream gets the path (RFC 9112, section 3.2.2);
- fields that ``Connection`` names beyond those above: they end here (RFC 9110, section 7.6.1);
- what a client says to a proxy (``Proxy-Authorization``, ``Proxy-Connection``): it is meant for us, and no
  server is to get the credentials of a proxy.

Everything else stays as it is: order, case, duplicates, white space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mcpproxy.relay.http.guard import Guard, Targets
from mcpproxy.relay.http.request_head import ParsedHead, Refusal, parse, split_authority

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_OURS_TOO: Final = frozenset((b"close", b"keep-alive", b"te", b"upgrade", b"http2-settings", b""))
"""Connection options that are forwarded."""

_NEVER_HOP_BY_HOP: Final = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"authorization", b"origin", b"mcp-session-id")
)
_TO_THE_PROXY: Final = frozenset((b"proxy-authorization", b"proxy-connection"))
_CACHED: Final = 256
_CACHED_BYTES: Final = 2 << 10


class Upstream:
    """A server: its address and the path of its endpoint."""

    __slots__ = ("authority", "host", "is_tls", "path", "port", "query")

    def __init__(self, host: str, port: int, is_tls: bool = False, path: str = "", query: str = "") -> None:
        self.host = host  # without brackets
        self.port = port
        self.is_tls = is_tls
        literal = f"[{host}]" if ":" in host else host
        self.authority = literal if port == (443 if is_tls else 80) else f"{literal}:{port}"
        self.path = path  # of the endpoint; empty if paths are the same on both sides
        self.query = query  # added to every request to the endpoint

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"

    @property
    def address(self) -> str:
        """``host:port``, always with the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Route:
    """Where one request goes. ``head`` is its head as it is forwarded. Equal requests share one object."""

    __slots__ = (
        "has_stream",
        "has_tunnel",
        "has_upgrade",
        "head",
        "is_last",
        "length",
        "note",
        "request",
        "upstream",
    )

    def __init__(self, request: ParsedHead, upstream: Upstream) -> None:
        self.request = request
        self.upstream = upstream
        self.head = b""
        self.length = request.length
        self.has_upgrade = b"upgrade" in request.options and request.value(b"upgrade") is not None
        self.has_tunnel = request.method == b"CONNECT"  # no head is forwarded, and what follows is not HTTP
        self.is_last = self.has_upgrade or self.has_tunnel  # what follows may not be HTTP
        self.has_stream = (  # it asks for an event stream as clients of the HTTP+SSE transport do
            request.method == b"GET"
            and b"text/event-stream" in (request.value(b"accept") or b"").lower()
            and request.value(b"mcp-session-id") is None
        )
        self.note = ""  # on an unusual change to the head

    def needs_new_connection(self, last: Route) -> bool:
        """Whether it cannot use the upstream connection of the request ``last``."""
        here, there = last.upstream, self.upstream
        return self.has_tunnel or (here is not there and here.address != there.address)


class Router(ABC):
    """Parses heads and finds their routes. Clients repeat their heads, so routes of short ones are cached."""

    def __init__(self) -> None:
        self._routes: dict[bytes, Route] = {}

    def route(self, raw: bytes) -> Route:
        """The route of the request with this head, which includes its blank line.

        Raises:
            Refusal: it is not to be forwarded.
        """
        route = self._routes.get(raw)
        if route is None:
            route = self.find(parse(raw))
            if len(raw) <= _CACHED_BYTES:
                if len(self._routes) >= _CACHED:
                    self._routes.clear()
                self._routes[raw] = route
        return route

    @abstractmethod
    def find(self, head: ParsedHead) -> Route:
        """The route of a request whose head is not in the cache.

        Raises:
            Refusal: it is not to be forwarded.
        """


class Reverse(Router):
    """All requests go to one server. Our path ``endpoint`` becomes the path of ``upstream`` there."""

    def __init__(self, upstream: Upstream, endpoint: str, guard: Guard) -> None:
        super().__init__()
        self._upstream = upstream
        self._endpoint = endpoint.encode("ascii")
        self._guard = guard

    def find(self, head: ParsedHead) -> Route:
        if head.method == b"CONNECT":
            raise Refusal(400, "CONNECT is for a forward proxy; start one with --forward")
        if head.authority is not None and head.authority.lower() != (head.host or head.authority).lower():
            raise Refusal(400, "the target and the Host field name different servers")
        self._guard.check(head)
        route = Route(head, self._upstream)
        _write(route, self._mapped(head.path))
        return route

    def _mapped(self, target: bytes) -> bytes:
        upstream = self._upstream
        path, mark, query = target.partition(b"?")
        if not upstream.path or path not in (self._endpoint, upstream.path.encode("ascii")):
            return target
        if path == self._endpoint:
            path = upstream.path.encode("ascii")
        if upstream.query:
            query = upstream.query.encode("ascii") + (b"&" + query if query else b"")
            mark = b"?"
        return path + mark + query


class Forward(Router):
    """Each request names its server itself, as for a forward proxy."""

    def __init__(self, targets: Targets, guard: Guard) -> None:
        super().__init__()
        self._targets = targets
        self._guard = guard

    def find(self, head: ParsedHead) -> Route:
        if head.authority is None:
            raise Refusal(
                400, "the target names no server; use this address as HTTP_PROXY, not as the server"
            )
        if head.target[:6].lower() == b"https:":
            raise Refusal(400, "a forward proxy reaches https:// by CONNECT only")
        try:
            host, port = split_authority(head.authority)
        except ValueError:
            raise Refusal(400, "the target names no server") from None
        if port is None:
            port = 80
        self._guard.check(head, host)
        self._targets.check(host, port)
        route = Route(head, Upstream(host, port))
        if not route.has_tunnel:
            _write(route, head.path, head.authority)
        return route


def _write(route: Route, target: bytes, authority: bytes | None = None) -> None:
    """Write the head that is forwarded."""
    head = route.request
    named = {option for option in head.options if option not in _OURS_TOO}
    if not named.isdisjoint(_NEVER_HOP_BY_HOP):
        raise Refusal(400, "Connection names a field that is meant for the server")
    lines = [b"%s %s HTTP/%s" % (head.method, target, head.version)]
    for name, value, line in head.fields:
        if name == b"host":
            lines.append(line[: len(name)] + b": " + (authority or route.upstream.authority.encode("ascii")))
        elif name in _TO_THE_PROXY or name in named:
            continue
        elif name == b"connection" and named:
            kept = [o for o in value.split(b",") if o.strip(b" \t").lower() not in named]
            if kept:
                lines.append(line[: len(name)] + b": " + b",".join(kept).strip(b" \t"))
        else:
            lines.append(line)
    if named:
        fields = b", ".join(sorted(named)).decode("latin-1")
        route.note = f"Connection names {fields}, which therefore goes no further"
    lines.append(b"\r\n")
    route.head = b"\r\n".join(lines)
