"""Access control: only a person who can read the address that the command printed may use the page.

A browser lets any page send requests to 127.0.0.1, and an attacker can let a host name resolve to that
address (DNS rebinding). So every request is checked, whatever its method:

1. Host has to be the name or address that the page is served under, with its port.
2. Origin, if the request has it, has to be the origin of the page. In a request that may change something,
   ``Sec-Fetch-Site``, if the browser sends it, has to be ``same-origin``.
3. The request needs the token of the printed address, in the query or as a Bearer credential, or the cookie
   that the server gives for a token in the query. With the cookie the server redirects to the address without
   the token, so that the token does not stay in the history of the browser.

Header fields of every answer forbid scripts and styles that are not files of the page, frames around the
page, and referrers.
"""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
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
    """Wraps the application of the page and refuses every request that fails a check.

    Args:
        app: the application.
        names: host names and addresses, without brackets, that the page is served under.
        port: the port it listens on.
        token: the secret of the printed address.
        refusal: the status of the answer to a request without the token.
    """

    def __init__(
        self, app: ASGIApp, names: frozenset[str], port: int, token: str, refusal: int = 401
    ) -> None:
        self._app: Final = app
        self._authorities: Final = frozenset(
            f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names
        )
        self._token: Final = token.encode()
        self._refusal_status: Final = refusal
        self._cookie: Final = f"mcpproxy-{port}"
        """The name of the cookie. It contains the port, because the ports of a host share cookies."""
        self._secret: Final = secrets.token_urlsafe(32)

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
        """Return the answer to a request that is refused or redirected; ``None`` if the request may pass."""
        headers = Headers(scope=scope)
        if [host.lower() for host in headers.getlist("host")] not in [[name] for name in self._authorities]:
            return PlainTextResponse("Host is not the address of this page (DNS rebinding?)\n", 403)
        origins = headers.getlist("origin")
        if origins and origins != [f"http://{headers['host']}"]:
            return PlainTextResponse("Origin is another site\n", 403)
        method: str = scope["method"]
        if method not in _READ_METHODS and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("Only the page itself may send this\n", 403)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for name, value in query if name == "token"), None)
        if token is not None and method in _READ_METHODS and self._is_token(token):
            return self._redirect_with_cookie(scope["path"], [pair for pair in query if pair[0] != "token"])
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if (kind.lower() == "bearer" and self._is_token(bearer)) or self._has_cookie(headers):
            return None
        needed = "The token that the command printed is needed: open its address, or send it as Bearer\n"
        return PlainTextResponse(needed, self._refusal_status)

    def _redirect_with_cookie(self, path: str, query: list[tuple[str, str]]) -> Response:
        """Return a redirect to the same address without its token. It also sets the cookie."""
        path = "/" + path.lstrip("/")  # "//host" would lead to another site
        answer = RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return answer

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token)

    def _has_cookie(self, headers: Headers) -> bool:
        for line in headers.getlist("cookie"):
            try:
                cookie = SimpleCookie(line).get(self._cookie)
            except CookieError:
                continue
            if cookie and hmac.compare_digest(cookie.value.encode(), self._secret.encode()):
                return True
        return False
