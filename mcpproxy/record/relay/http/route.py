"""Find the server (upstream) that a request goes to, and rewrite the request's head for that server.

Each client connection has one upstream connection. So the fields about the client's connection (``Connection:
close`` or ``keep-alive``, ``TE``, ``Upgrade``) also apply to the upstream connection and are forwarded. Only
these parts are changed:

- ``Host``, which must name upstream;
- the path of the endpoint, if upstream's endpoint has another path or a query;
- a target that is a URL: upstream gets its path (RFC 9112, section 3.2.2), but an HTTP proxy in
  front of upstream that makes no tunnel gets a URL, and the credentials that the user gave for it;
- fields for one connection only, or for a proxy: they are removed (see ``connection_fields``), and so are the
  fields in ``Reverse.left_out``.

Everything else stays unchanged: order, case, duplicates, white space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mcpproxy.base.authority import split_authority
from mcpproxy.record.relay.http.connection_fields import HopByHop
from mcpproxy.record.relay.http.guard import Guard, Targets
from mcpproxy.record.relay.http.request_head import ParsedHead, Refusal, parse
from mcpproxy.record.relay.http.resolve import Upstream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.base.upstream.http_proxy import HttpProxy

    ProxyOf = Callable[[str, int, bool], HttpProxy | None]
    """Chooses the HTTP proxy through which a host and port are reached, ``None`` for none. The ``bool`` says
    whether the proxy is asked for a tunnel."""

_CACHED_ROUTES: Final = 256
_CACHED_BYTES: Final = 2 << 10
"""How many routes are cached, and how many bytes the head of a cached route may have."""


class Route:
    """The server of one request, and the ``head`` that is forwarded. Requests with equal heads may share one
    object."""

    __slots__ = (
        "head",
        "is_last",
        "length",
        "note",
        "request",
        "upstream",
        "wants_stream",
        "wants_tunnel",
        "wants_upgrade",
    )

    def __init__(self, request: ParsedHead, upstream: Upstream) -> None:
        self.request = request
        self.upstream = upstream
        self.head = b""
        self.length = request.length  # of the body in bytes, or ``CHUNKED``
        self.wants_upgrade = b"upgrade" in request.options and request.value(b"upgrade") is not None
        # The head of a CONNECT is not forwarded, and the bytes after it are not HTTP.
        self.wants_tunnel = request.method == b"CONNECT"
        self.is_last = self.wants_upgrade or self.wants_tunnel  # perhaps no HTTP request follows
        self.wants_stream = (  # the request asks for an event stream as clients of HTTP+SSE do
            request.method == b"GET"
            and b"text/event-stream" in (request.value(b"accept") or b"").lower()
            and request.value(b"mcp-session-id") is None
        )
        self.note = ""  # describes an unusual change to the head

    def needs_new_connection(self, previous: Route) -> bool:
        """Whether this request cannot use the upstream connection of the request ``previous``."""
        old, new = previous.upstream, self.upstream
        return self.wants_tunnel or (old is not new and old.address != new.address)


class Router(ABC):
    """Parses heads and finds their routes. Clients repeat their heads, so the routes of short heads are
    cached."""

    def __init__(self) -> None:
        self._routes: dict[bytes, Route] = {}
        self.left_out: frozenset[bytes] = frozenset()
        """The names, in lower case, of further fields that `Reverse` removes; set before the first
        request."""

    def route(self, raw: bytes) -> Route:
        """Find the route of the request with this head, which includes its blank line.

        Raises:
            Refusal: the request must not be forwarded.
        """
        route = self._routes.get(raw)
        if route is None:
            route = self.find(parse(raw))
            if len(raw) <= _CACHED_BYTES:
                if len(self._routes) >= _CACHED_ROUTES:
                    self._routes.clear()
                self._routes[raw] = route
        return route

    @abstractmethod
    def find(self, head: ParsedHead) -> Route:
        """Find the route of a request whose head is not in the cache.

        Raises:
            Refusal: the request must not be forwarded.
        """


class Reverse(Router):
    """Routes all requests to ``upstream``, and replaces the path ``endpoint`` by the path of upstream's
    endpoint."""

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
        _set_head(route, self._map_target(head.path), left_out=self.left_out)
        return route

    def _map_target(self, target: bytes) -> bytes:
        """Return the target for upstream: if the path is that of the proxy's or of upstream's endpoint, the
        path of upstream's endpoint, with the endpoint's query added; otherwise ``target`` itself."""
        upstream = self._upstream
        path, question_mark, query = target.partition(b"?")
        if not upstream.path or path not in (self._endpoint, upstream.path.encode("ascii")):
            return target
        if path == self._endpoint:
            path = upstream.path.encode("ascii")
        if upstream.query:
            query = upstream.query.encode("ascii") + (b"&" + query if query else b"")
            question_mark = b"?"
        return path + question_mark + query


def _no_proxy(host: str, port: int, by_connect: bool) -> None:  # as ProxyOf
    """Reach every server directly."""


class Forward(Router):
    """Routes each request to the server that it names, as a forward proxy does.

    ``proxy_of`` chooses the HTTP proxy through which that server is reached.
    """

    def __init__(self, targets: Targets, guard: Guard, proxy_of: ProxyOf = _no_proxy) -> None:
        super().__init__()
        self._proxy_of = proxy_of
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
        route.upstream.by_connect = route.wants_tunnel
        route.upstream.proxy = self._proxy_of(host, port, route.wants_tunnel)
        if not route.wants_tunnel:
            _set_head(route, head.path, head.authority)
        return route


def _set_head(
    route: Route, target: bytes, authority: bytes | None = None, left_out: frozenset[bytes] = frozenset()
) -> None:
    """Set the head of ``route``: the client's head with another target, and with ``authority`` as its Host.

    Without ``authority``, the Host is upstream's. The fields whose names are ``left_out`` are removed.

    Raises:
        Refusal: ``Connection`` names a field that is meant for the server.
    """
    head = route.request
    hops = HopByHop(head.options)
    if hops.end_to_end:
        raise Refusal(400, "Connection names a field that is meant for the server")
    lines = [b"%s %s HTTP/%s" % (head.method, target, head.version)]
    for name, value, line in head.fields:
        if name == b"host":
            lines.append(line[: len(name)] + b": " + (authority or route.upstream.authority.encode("ascii")))
        elif name not in left_out and (kept := hops.kept(name, value, line)) is not None:
            lines.append(kept)
    route.note = hops.note
    lines.append(b"\r\n")
    route.head = b"\r\n".join(lines)
    upstream = route.upstream
    if upstream.proxy is not None and not upstream.by_connect:
        route.head = upstream.proxy.request(authority or upstream.authority.encode("ascii"), route.head)
