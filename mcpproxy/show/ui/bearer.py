"""Access to the data: a request has to send a secret, as ``Authorization: Bearer SECRET``.

The secret is never a cookie. Cookies do not know ports: a browser sends those of 127.0.0.1 to every server
there, also to that of another user.

The address that the command prints has to contain a secret, and an address becomes an argument of the
browser, which every user of the machine can read. So this secret, the ticket, works once. The page
exchanges it for a key, which is never part of an address. The page itself makes the key, and keeps it before
it asks, so that it has the key even if it is reloaded before the answer comes.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy.base.patterns import pattern

KEY_PATH: Final = "/api/key"
"""Where the page exchanges a ticket for a key: ``POST``, with the ticket as the Bearer."""

KEY_FIELD: Final = "mcpproxy-key"
"""The field of that request with the key: 32 random bytes as base64url."""

_KEY: Final = pattern(r"[A-Za-z0-9_-]{43}")

NEEDED: Final = (
    "The address that the command printed is needed, and each works once. After one was used, mcpproxy ui "
    "prints the next; beside a session (--ui), run mcpproxy ui in another terminal. If it was not you who "
    "used it, end the command. Scripts send the token of an unused address as Bearer.\n"
)
"""The answer to a request without a secret, or with one that is not valid, such as a ticket that was used."""

_OPEN_FOLDER: Final = "/static/"
"""Only the document of the page and the files below this path are served without a secret: no data."""


class BearerLock:
    """Wraps an application, and refuses requests without a secret.

    Args:
        app: the application.
        admits: whether a text is a secret.
        refusal: the answer to a request without one.
    """

    def __init__(self, app: ASGIApp, admits: Callable[[str], bool], refusal: PlainTextResponse) -> None:
        self._app: Final = app
        self._admits: Final = admits
        self._refusal: Final = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_refused = scope["type"] == "http" and not self._admits(_bearer(Headers(scope=scope)))
        await (self._refusal if is_refused else self._app)(scope, receive, send)


def one_secret(app: ASGIApp, secret: str, status: int) -> BearerLock:
    """Return ``app`` behind a lock that ``secret`` opens. ``status`` is the HTTP status of a refusal."""
    digest = _digest(secret)
    refusal = PlainTextResponse("The token that the command printed is needed, as Bearer\n", status)
    return BearerLock(app, lambda text: _digest(text) == digest, refusal)


class PageKeys:
    """The tickets and the keys of one page."""

    def __init__(self) -> None:
        self._tickets: Final[dict[bytes, tuple[float, Callable[[], None]]]] = {}
        """Digest of a ticket -> until when it is valid (monotonic clock), and what to call at its use."""
        self._keys: Final[set[bytes]] = set()

    def new_ticket(self, when_used: Callable[[], None], seconds: float = float("inf")) -> str:
        """Return a new ticket that is valid for ``seconds``. ``when_used`` is called when it is used."""
        ticket = secrets.token_urlsafe(24)
        self._tickets[_digest(ticket)] = time.monotonic() + seconds, when_used
        return ticket

    def exchange(self, secret: str, key: str) -> bool:
        """Exchange the ticket ``secret`` for ``key``, and return whether that was done.

        With an empty ``key``, return whether ``secret`` is already a key.
        """
        if not key:
            return _digest(secret) in self._keys
        return _KEY.fullmatch(key) is not None and self._use_ticket(secret, key)

    def admits(self, secret: str) -> bool:
        """Whether ``secret`` is a key. A ticket that a script sends becomes its key."""
        self._use_ticket(secret, secret)
        return _digest(secret) in self._keys

    def _use_ticket(self, ticket: str, key: str) -> bool:
        """Make ``key`` a key if ``ticket`` is valid, and return whether it was. A ticket works only once."""
        until, when_used = self._tickets.pop(_digest(ticket), (0.0, None))
        if when_used is None or time.monotonic() >= until:
            return False
        self._keys.add(_digest(key))
        when_used()
        return True

    def lock(self, app: ASGIApp) -> ASGIApp:
        """Return ``app`` behind a lock: everything but the files of the page and ``KEY_PATH`` needs a key."""
        locked = BearerLock(app, self.admits, PlainTextResponse(NEEDED, 401))

        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope["path"] if scope["type"] == "http" else "/"
            if path == KEY_PATH:
                await self._answer_exchange(Request(scope))(scope, receive, send)
            else:
                is_open = path == "/" or path.startswith(_OPEN_FOLDER)
                await (app if is_open else locked)(scope, receive, send)

        return route

    def _answer_exchange(self, request: Request) -> Response:
        """Answer the request that exchanges a ticket for a key, or asks whether a key is valid."""
        if request.method != "POST":
            return PlainTextResponse("Only POST exchanges a ticket\n", 405)
        is_done = self.exchange(_bearer(request.headers), request.headers.get(KEY_FIELD, ""))
        return Response(status_code=204) if is_done else PlainTextResponse(NEEDED, 401)


def _digest(secret: str) -> bytes:
    """Return a digest to compare in place of a secret, so that no timing reveals the secret."""
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _bearer(headers: Headers) -> str:
    """Return the secret of a request; empty if it has none."""
    kind, _, secret = headers.get("authorization", "").partition(" ")
    return secret if kind.lower() == "bearer" else ""
