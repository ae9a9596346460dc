"""Access control: refuse requests that come neither from the page nor from a program of this machine.

A browser lets any page send requests to 127.0.0.1, and an attacker can let a host name resolve to that
address (DNS rebinding). So every request is checked, whatever its method:

1. Host has to be the name or address that the page is served under, with its port.
2. Origin, if the request has it, has to be the origin of the page. In a request that may change something,
   ``Sec-Fetch-Site``, if the browser sends it, has to be ``same-origin``.

Header fields of every answer forbid scripts and styles that are not files of the page, frames around the
page, and referrers; an answer is not stored unless it says otherwise. A ``blob:`` is an image or audio of a
recording, whose bytes the page already has. After these checks, a ``BearerLock`` decides who may have the
data.
"""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The Content-Security-Policy of every answer."""

_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_READ_METHODS: Final = ("GET", "HEAD")


class Access:
    """Wraps an application, and refuses every request that fails a check.

    Args:
        app: the application.
        names: host names and addresses, without brackets, that the page is served under.
        port: the port it listens on.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str], port: int) -> None:
        self._app: Final = app
        self._authorities: Final = frozenset(
            f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is refused; ``None`` if the request may pass."""
        headers = Headers(scope=scope)
        if [host.lower() for host in headers.getlist("host")] not in [[name] for name in self._authorities]:
            return PlainTextResponse("Host is not the address of this page (DNS rebinding?)\n", 403)
        origins = headers.getlist("origin")
        if origins and origins != [f"http://{headers['host']}"]:
            return PlainTextResponse("Origin is another site\n", 403)
        method: str = scope["method"]
        if method not in _READ_METHODS and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("Only the page itself may send this\n", 403)
        return None
