"""A Streamable HTTP endpoint: it checks who may use it, and lets its subclass answer POST, GET and DELETE."""

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, Final

from mcpproxy.peers.session_server.http_messages import HttpRequest, HttpResponder, Send
from mcpproxy.peers.session_server.refused_request import METHODS, RefusedRequestError
from mcpproxy.peers.session_server.request_body import BodyRoom, Receive
from mcpproxy.record.relay.http.guard import Guard
from mcpproxy.record.relay.http.request_head import ParsedHead, Refusal


class SessionEndpoint(ABC):
    """An ASGI application that answers POST, GET and DELETE.

    ``paths`` are the paths of the endpoint, ``guard`` refuses requests of pages of other sites, and ``say``
    writes a line to stderr. ``origins`` are the origins, in lower case, whose pages may read the answers
    (``*``: all); their OPTIONS requests are answered, too. ``token`` is the bearer token that clients must
    send, empty for none.

    The methods ``answer_…`` raise ``RefusedRequestError`` to refuse a request.
    """

    def __init__(
        self,
        paths: Collection[str],
        guard: Guard,
        say: Callable[[str], None],
        *,
        origins: Collection[str] = (),
        token: str = "",
    ) -> None:
        self._paths: Final = frozenset(paths)
        self._guard: Final = guard
        self._say: Final = say
        self._origins: Final = origins
        self._token: Final = token
        self._room: Final = BodyRoom()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, self._room)
        respond = HttpResponder(send, self._cross_origin_fields(request))
        try:
            await self._answer_request(request, respond)
        except ConnectionError:
            pass  # the client has gone
        except RefusedRequestError as refused:
            await respond.refuse(refused, request.only_id())
        except Exception as fault:
            # No caller would report it. The effect is limited to this request.
            self._say(f"a fault of mcpproxy: {fault!r}; the server goes on, please report it")
            if not respond.has_begun:
                await respond.refuse(RefusedRequestError(500, "a fault of mcpproxy"), None)
        finally:
            request.release()

    @abstractmethod
    async def answer_post(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Answer the messages of a POST."""

    @abstractmethod
    async def answer_get(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Answer a GET with a stream."""

    @abstractmethod
    async def answer_delete(self, request: HttpRequest, respond: HttpResponder) -> None:
        """End a session."""

    async def answer_other(self, request: HttpRequest, respond: HttpResponder) -> None:
        """Answer a request with another method, which Streamable HTTP does not have.

        Raises:
            RefusedRequestError: always, unless a subclass answers.
        """
        del request, respond
        raise RefusedRequestError(405, "only POST, GET and DELETE are possible", fields=METHODS)

    async def answer_beside(self, request: HttpRequest, respond: HttpResponder) -> bool:
        """Answer a request that is not for the endpoint; return whether it was answered.

        Raises:
            RefusedRequestError: the request is for another path, which nothing answers.
        """
        del respond
        if request.path not in self._paths:
            raise RefusedRequestError(404, f"the endpoint is {' or '.join(sorted(self._paths))}")
        return False

    async def _answer_request(self, request: HttpRequest, respond: HttpResponder) -> None:
        self._check_site(request)
        if request.method == "OPTIONS" and self._may_read(request.fields.get("origin", "")):
            allowed = {
                "access-control-allow-methods": METHODS["allow"],
                "access-control-allow-headers": "*, Authorization",
            }
            await respond.send(204, fields=allowed)
            return
        self._check_token(request)
        if await self.answer_beside(request, respond):
            return
        await request.read_body()
        match request.method:
            case "POST":
                await self.answer_post(request, respond)
            case "GET":
                await self.answer_get(request, respond)
            case "DELETE":
                await self.answer_delete(request, respond)
            case _:
                await self.answer_other(request, respond)

    def _check_site(self, request: HttpRequest) -> None:
        head = ParsedHead(request.method.encode(), request.target, b"1.1")
        head.fields = [(name, value, b"") for name, value in request.header]
        head.host = request.fields.get("host", "").encode("latin-1") or None
        try:
            self._guard.check(head)
        except Refusal as refused:
            raise RefusedRequestError(refused.status, refused.why) from None
        except ValueError:
            raise RefusedRequestError(400, "the Host field is not a host") from None

    def _check_token(self, request: HttpRequest) -> None:
        if not self._token:
            return
        scheme, _, token = request.fields.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(
            token.strip().encode("latin-1", "replace"), self._token.encode("latin-1", "replace")
        )
        if scheme.lower() != "bearer" or not is_right:
            challenge = {"www-authenticate": "Bearer"}
            raise RefusedRequestError(401, "the token of --token is needed", fields=challenge)

    def _cross_origin_fields(self, request: HttpRequest) -> dict[str, str]:
        origin = request.fields.get("origin", "")
        if not self._may_read(origin):
            return {}
        return {
            "access-control-allow-origin": origin or "*",
            "access-control-expose-headers": "Mcp-Session-Id",
            "vary": "Origin",
        }

    def _may_read(self, origin: str) -> bool:
        """Whether pages of ``origin``, which is as the request wrote it, may read the answers."""
        return "*" in self._origins or origin.lower().rstrip("/") in self._origins
